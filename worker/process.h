/* process.h — what the system says about a process. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* CPU time of all its threads so far, user and system; 0 where there is no such process. */
int64_t process_cpu_ms(pid_t pid);
