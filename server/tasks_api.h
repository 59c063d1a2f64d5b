/* tasks_api.h — handlers: tasks. */
#pragma once

#include "server/calls.h"

struct task;

enum status tasks_list(struct call *call, struct error *err);
enum status tasks_get(struct call *call, struct error *err);
enum status tasks_header(struct call *call, struct error *err);

/* The task call->id. */
enum status tasks_find(const struct call *call, const struct task **task, struct error *err);
/* The query's dtype, or bf16; it must be one of the task's. */
enum status tasks_read_dtype(const struct call *call, const struct task *task, enum dtype *dtype,
                             struct error *err);
