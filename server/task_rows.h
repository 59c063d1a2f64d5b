/* task_rows.h — the table of tasks: their names, kept with the results when a task is gone. */
#pragma once

#include "server/db.h"

/* Stores the tasks that this program has. */
enum status task_rows_store(struct db *db, struct error *err);
