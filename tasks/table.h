/* table.h — what the build makes of the task folders (table.sh); see tasks[] in task.h. */
#pragma once

/* README.md and baseline.cu of each task, in the order of tasks[]; and the text of solution.h. */
extern const char *const task_statements[];
extern const char *const task_baselines[];
extern const char solution_header[];
