/* process.h — what the system says about a process. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * How long its living threads have run or waited for a processor so far: what they would have used
 * on an idle machine, so that a loaded one does not make them look asleep. Only differences over
 * short times mean something. 0 where there is no such process.
 */
int64_t process_active_ns(pid_t pid);

/* Whose it is, as a real user of this machine, also of one in a namespace. False: none such
 * lives. */
bool process_uid(pid_t pid, uid_t *uid);

/* Sends a signal to every process of a user that only one sandbox has. */
void process_signal_all(uid_t user, int number);
