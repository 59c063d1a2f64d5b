/* submissions_api.h — handlers: submissions. */
#pragma once

#include "server/calls.h"

enum status submissions_post(struct call *call, struct error *err);
enum status submissions_list(struct call *call, struct error *err);
enum status submissions_get(struct call *call, struct error *err);
enum status submissions_jobs(struct call *call, struct error *err);
