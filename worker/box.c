#include "worker/box.h"

#include "common/mem.h"
#include "worker/keeper.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct box {
    int control; /* SOCK_SEQPACKET to the keeper: events in, numbers of programs to kill out */
    pid_t keeper;
};

enum status box_start(struct box **box, const struct box_program *programs, int count,
                      struct error *err)
{
    int pair[2] = {-1, -1};

    assert(count > 0);
    assert(count <= BOX_PROGRAMS_MAX);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return error_set(err, ERR_IO, "cannot make a pair of sockets: %m");
    }
    pid_t keeper = fork();
    if (keeper == 0) {
        close(pair[0]);
        keeper_run(pair[1], programs, count);
    }
    close(pair[1]);
    if (keeper < 0) {
        close(pair[0]);
        return error_set(err, ERR_IO, "cannot start a process: %m");
    }
    struct box *made = xcalloc(1, sizeof *made);
    made->control = pair[0];
    made->keeper = keeper;
    *box = made;
    return OK;
}

int box_fd(const struct box *box)
{
    return box->control;
}

enum status box_next(struct box *box, struct box_event *event, struct error *err)
{
    struct box_event got = {0};
    ssize_t size = recv(box->control, &got, sizeof got, MSG_DONTWAIT);

    if (size == sizeof got) {
        *event = got;
        return OK;
    }
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return error_set(err, ERR_NOT_FOUND, "nothing happened");
    }
    return error_set(err, ERR_UNAVAILABLE, "all processes have ended");
}

static void order(const struct box *box, int program)
{
    /* A keeper that is gone has killed everything already. */
    (void)!send(box->control, &program, sizeof program, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void box_kill_program(struct box *box, int program)
{
    order(box, program);
}

void box_kill(struct box *box)
{
    order(box, KEEPER_KILL_ALL);
}

void box_close(struct box *box)
{
    if (box == NULL) {
        return;
    }
    close(box->control);
    while (waitpid(box->keeper, NULL, 0) < 0 && errno == EINTR) {
    }
    free(box);
}
