/*
 * loop.h — the worker's one event loop: descriptors, timers and signals, each with a callback.
 *
 * A handle lives until it is closed, which may happen inside any callback; its callback is not
 * called after that. The descriptor is closed by its owner, after its watch.
 */
#pragma once

#include <stdint.h>

enum loop_events { LOOP_READ = 1, LOOP_WRITE = 2 };

struct loop_watch;
struct loop_timer;
struct loop_signal;

/* `ready` gets the events that there are; 0: an error on the descriptor. */
struct loop_watch *loop_watch_open(int fd, unsigned events,
                                   void (*ready)(void *context, unsigned events), void *context);
void loop_watch_set(struct loop_watch *watch, unsigned events);
void loop_watch_close(struct loop_watch *watch); /* NULL: nothing */

/* Fires after `first_ms`, then every `repeat_ms`; 0: never again. */
struct loop_timer *loop_timer_open(int64_t first_ms, int64_t repeat_ms, void (*fire)(void *context),
                                   void *context);
void loop_timer_close(struct loop_timer *timer);

/* A signal that was blocked until now is caught if it came. */
struct loop_signal *loop_signal_open(int number, void (*caught)(void *context), void *context);
void loop_signal_close(struct loop_signal *signal);

/* Returns after loop_stop. */
void loop_run(void);
void loop_stop(void);
