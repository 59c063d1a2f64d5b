#include "worker/loop.h"

#include "common/mem.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <uv.h>

struct loop_watch {
    uv_poll_t poll;
    void (*ready)(void *context, unsigned events);
    void *context;
};

struct loop_timer {
    uv_timer_t timer;
    void (*fire)(void *context);
    void *context;
};

struct loop_signal {
    uv_signal_t handle;
    void (*caught)(void *context);
    void *context;
};

static void free_handle(uv_handle_t *handle)
{
    free(handle); /* the first member of each struct */
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct loop_watch *watch = (struct loop_watch *)poll;
    unsigned got = 0;

    if (status == 0) {
        got |= (events & (UV_READABLE | UV_DISCONNECT)) != 0 ? LOOP_READ : 0;
        got |= (events & UV_WRITABLE) != 0 ? LOOP_WRITE : 0;
    }
    watch->ready(watch->context, got);
}

struct loop_watch *loop_watch_open(int fd, unsigned events,
                                   void (*ready)(void *context, unsigned events), void *context)
{
    struct loop_watch *watch = xcalloc(1, sizeof *watch);

    watch->ready = ready;
    watch->context = context;
    int failed = uv_poll_init(uv_default_loop(), &watch->poll, fd);
    assert(failed == 0);
    loop_watch_set(watch, events);
    return watch;
}

void loop_watch_set(struct loop_watch *watch, unsigned events)
{
    int wanted = 0;

    wanted |= (events & LOOP_READ) != 0 ? UV_READABLE | UV_DISCONNECT : 0;
    wanted |= (events & LOOP_WRITE) != 0 ? UV_WRITABLE : 0;
    int failed =
        wanted == 0 ? uv_poll_stop(&watch->poll) : uv_poll_start(&watch->poll, wanted, on_ready);
    assert(failed == 0);
}

void loop_watch_close(struct loop_watch *watch)
{
    if (watch != NULL) {
        uv_poll_stop(&watch->poll);
        uv_close((uv_handle_t *)&watch->poll, free_handle);
    }
}

static void on_fire(uv_timer_t *handle)
{
    struct loop_timer *timer = (struct loop_timer *)handle;

    timer->fire(timer->context);
}

struct loop_timer *loop_timer_open(int64_t first_ms, int64_t repeat_ms, void (*fire)(void *context),
                                   void *context)
{
    struct loop_timer *timer = xcalloc(1, sizeof *timer);

    timer->fire = fire;
    timer->context = context;
    uv_update_time(uv_default_loop());
    uv_timer_init(uv_default_loop(), &timer->timer);
    uv_timer_start(&timer->timer, on_fire, (uint64_t)first_ms, (uint64_t)repeat_ms);
    return timer;
}

void loop_timer_close(struct loop_timer *timer)
{
    if (timer != NULL) {
        uv_timer_stop(&timer->timer);
        uv_close((uv_handle_t *)&timer->timer, free_handle);
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct loop_signal *caught = (struct loop_signal *)handle;

    (void)number;
    caught->caught(caught->context);
}

struct loop_signal *loop_signal_open(int number, void (*caught)(void *context), void *context)
{
    struct loop_signal *made = xcalloc(1, sizeof *made);
    sigset_t unblocked;

    made->caught = caught;
    made->context = context;
    uv_signal_init(uv_default_loop(), &made->handle);
    int failed = uv_signal_start(&made->handle, on_signal, number);
    assert(failed == 0);
    sigemptyset(&unblocked);
    sigaddset(&unblocked, number);
    sigprocmask(SIG_UNBLOCK, &unblocked, NULL);
    return made;
}

void loop_signal_close(struct loop_signal *handle)
{
    if (handle != NULL) {
        uv_signal_stop(&handle->handle);
        uv_close((uv_handle_t *)&handle->handle, free_handle);
    }
}

void loop_run(void)
{
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}

void loop_stop(void)
{
    uv_stop(uv_default_loop());
}
