/* tasks_api.h — handlers: tasks and their boards. */
#pragma once

#include "server/calls.h"

enum status tasks_list(struct call *call, struct error *err);
enum status tasks_get(struct call *call, struct error *err);
enum status tasks_header(struct call *call, struct error *err);
enum status tasks_board(struct call *call, struct error *err);
