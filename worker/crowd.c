#include "worker/crowd.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILDREN_MAX = 16, WAIT_MS = 5 };

static size_t children_for(size_t items)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t children = processors < 1 ? 1 : (size_t)processors;

    children = children > CHILDREN_MAX ? CHILDREN_MAX : children;
    return children > items ? items : children;
}

static void be_child(const struct crowd_work *work, size_t first, size_t step)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t item = first; item < work->items; item += step) {
        work->one(work->context, item);
    }
    _exit(0);
}

/* Waits for one child; false: it did not end well. */
static bool await(const struct crowd_work *work, pid_t child)
{
    const struct timespec pause = {.tv_nsec = WAIT_MS * 1000000L};
    int wait_status = 0;
    pid_t ended = 0;

    while ((ended = waitpid(child, &wait_status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        if (work->alive != NULL) {
            work->alive(work->context);
        }
        (void)nanosleep(&pause, NULL);
    }
    return ended == child && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
}

enum status crowd_run(const struct crowd_work *work, struct error *err)
{
    pid_t children[CHILDREN_MAX];
    size_t count = children_for(work->items);
    size_t started = 0;
    bool is_well = true;

    while (started < count && is_well) {
        children[started] = fork();
        if (children[started] == 0) {
            be_child(work, started, count);
        }
        is_well = children[started] > 0;
        started += is_well;
    }
    for (size_t i = 0; i < started; i++) {
        is_well = await(work, children[i]) && is_well;
    }
    return is_well ? OK : error_set(err, ERR_INTERNAL, "a helper of the judge did not end well");
}

enum status crowd_memory(void **memory, size_t size_bytes, struct error *err)
{
    void *mapped =
        mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (mapped == MAP_FAILED) {
        return error_set(err, ERR_LIMIT, "no %zu bytes of memory: %m", size_bytes);
    }
    *memory = mapped;
    return OK;
}

void crowd_forget(void *memory, size_t size_bytes)
{
    if (memory != NULL) {
        (void)munmap(memory, size_bytes);
    }
}
