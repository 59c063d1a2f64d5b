/*
 * What a submission might do to get out, to look around, or to bring the node down. The driver,
 * tests/test_attacks.c, builds all of these files as one submission and writes the name of one act
 * and its argument over `chosen`; expected.tsv says what has to become of it.
 *
 * An act returns 1 where it worked and 0 where it was refused. All of them have bounds, because
 * each is also done outside, where it has to work.
 */
#include "pkb_task.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* "act argument", written over by the driver. */
extern "C" __attribute__((visibility("default"))) volatile char chosen[64];
volatile char chosen[64] = "PKB-ATTACK-CHOSEN";

struct act {
    const char *name;
    int (*run)(void);
    struct act *next;
};

static struct act *acts;

static int act_add(struct act *act)
{
    act->next = acts;
    acts = act;
    return 0;
}

#define ACT(name)                                                                                  \
    static int act_##name(void);                                                                   \
    static struct act entry_##name = {#name, act_##name, NULL};                                    \
    static const int added_##name = act_add(&entry_##name);                                        \
    static int act_##name(void)

static long argument(void)
{
    const char *space = strchr((const char *)chosen, ' ');

    return space == NULL ? 0 : strtol(space + 1, NULL, 10);
}

/* A call that succeeds, or fails for another reason than that it is forbidden. */
static int was_done(long result)
{
    return result >= 0 ||
           (errno != EPERM && errno != ENOSYS && errno != EAFNOSUPPORT && errno != EACCES);
}

static int can_open(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);

    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}
