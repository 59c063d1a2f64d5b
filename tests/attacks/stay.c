/*
 * A program that wants to outlive its kill: says "ready" when all of these are there, which have
 * each left its session, ignore every signal that can be ignored, and wait:
 *
 * a grandchild whose parent is gone; one that is stopped; one whose parent waits in vfork, where
 * only a kill reaches it; and as many that fork without an end as the box lets live.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BOMBS = 8 };

static void wait_forever(void)
{
    for (;;) {
        pause();
    }
}

static void leave_session(void)
{
    setsid();
    for (int number = 1; number < NSIG; number++) {
        (void)signal(number, SIG_IGN);
    }
}

static void be_orphan(void)
{
    if (fork() == 0) {
        leave_session();
        wait_forever();
    }
    _exit(0);
}

static void be_stopped(void)
{
    leave_session();
    (void)kill(getpid(), SIGSTOP);
    wait_forever();
}

/* Its parent sleeps in the kernel until the child is gone. */
static void be_in_vfork(void)
{
    leave_session();
    if (vfork() == 0) { /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */
        pause();        /* NOLINT(clang-analyzer-unix.Vfork): that is the point */
        _exit(0);
    }
    wait_forever();
}

static void be_bomb(void)
{
    leave_session();
    for (;;) {
        if (fork() > 0) {
            (void)waitpid(-1, NULL, WNOHANG);
        }
    }
}

static void start(void (*be)(void))
{
    if (fork() == 0) {
        be();
    }
}

int main(void)
{
    start(be_orphan);
    (void)wait(NULL);
    start(be_stopped);
    start(be_in_vfork);
    for (int i = 0; i < BOMBS; i++) {
        start(be_bomb);
    }
    if (puts("ready") < 0 || fflush(stdout) != 0) {
        return 1;
    }
    wait_forever();
}
