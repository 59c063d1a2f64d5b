/* boards_api.h — handlers: boards of tasks, their history, and models over all tasks. */
#pragma once

#include "server/calls.h"

enum status boards_task(struct call *call, struct error *err);
enum status boards_history(struct call *call, struct error *err);
enum status boards_models(struct call *call, struct error *err);
