/* table.h — what the build makes of the task folders (table.sh); see tasks[] in task.h. */
#pragma once

/* The README.md of each task, in the order of tasks[]; and the text of solution.h. */
extern const char *const task_statements[];
extern const char solution_header[];
