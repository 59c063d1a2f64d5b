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
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* "act pid port calls", written over by the driver: one of its processes, a port to which it
 * listens, and how many of many calls have to work. */
extern "C" __attribute__((visibility("default"))) volatile char chosen[64];
volatile char chosen[64] = "PKB-ATTACK-CHOSEN";

struct act {
    const char *name;
    int (*run)(void);
    int is_last; /* nothing comes after it in this process */
    struct act *next;
};

static struct act *acts;

static int act_add(struct act *act)
{
    act->next = acts;
    acts = act;
    return 0;
}

#define ADD(name, is_last)                                                                         \
    static int act_##name(void);                                                                   \
    static struct act entry_##name = {#name, act_##name, is_last, NULL};                           \
    static const int added_##name = act_add(&entry_##name);                                        \
    static int act_##name(void)

/* One that is refused, and one that ends the job. */
#define ACT(name) ADD(name, 0)
#define LAST_ACT(name) ADD(name, 1)

enum argument { PID, PORT, CALLS };

static long argument(enum argument which)
{
    const char *at = strchr((const char *)chosen, ' ');

    for (int i = 0; i < (int)which && at != NULL; i++) {
        at = strchr(at + 1, ' ');
    }
    return at == NULL ? 0 : strtol(at + 1, NULL, 10);
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
