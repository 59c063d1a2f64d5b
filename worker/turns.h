/*
 * turns.h — the order in which jobs have the GPUs of this node: one at a time, as they asked.
 *
 * A turn is asked for, begins, and is left; whoever builds meanwhile says so, and rests while the
 * job whose turn it is is timed: it then has the node alone. All on the loop.
 */
#pragma once

#include <stdbool.h>

/* Zeroed: neither waits nor has it. The owner keeps it where it is until it is left. */
struct turn {
    void (*begin)(void *context);
    void *context;
    struct turn *next;
    bool is_asked;
};

/* Calls `begin` when all earlier ones have left; at once where there are none. */
void turns_ask(struct turn *turn);
/* Ends it, whether it has begun or not, and begins the next one. Of one not asked for: nothing. */
void turns_leave(struct turn *turn);

/* What goes on beside the turns. Zeroed: does not. */
struct beside {
    void (*rest)(void *context, bool is_resting);
    void *context;
    struct beside *next;
    bool is_there;
};

/* `rest` is called with true at once, if the node is somebody's alone now, and whenever it changes.
 */
void turns_stand_beside(struct beside *beside);
void turns_go(struct beside *beside);

/* The node is the turn's alone, or no more. */
void turns_set_alone(bool is_alone);
