#include "worker/turns.h"

#include <assert.h>
#include <stddef.h>

static struct turn *turns; /* the first has it */
static struct beside *besides;
static bool is_alone;

void turns_ask(struct turn *turn)
{
    struct turn **last = &turns;

    assert(!turn->is_asked);
    while (*last != NULL) {
        last = &(*last)->next;
    }
    turn->is_asked = true;
    turn->next = NULL;
    *last = turn;
    if (turns == turn) {
        turn->begin(turn->context);
    }
}

void turns_leave(struct turn *turn)
{
    struct turn **at = &turns;
    bool had_it = turns == turn;

    if (!turn->is_asked) {
        return;
    }
    while (*at != turn) {
        at = &(*at)->next;
    }
    *at = turn->next;
    turn->next = NULL;
    turn->is_asked = false;
    if (had_it) {
        turns_set_alone(false);
        if (turns != NULL) {
            turns->begin(turns->context);
        }
    }
}

void turns_stand_beside(struct beside *beside)
{
    assert(!beside->is_there);
    beside->is_there = true;
    beside->next = besides;
    besides = beside;
    if (is_alone) {
        beside->rest(beside->context, true);
    }
}

void turns_go(struct beside *beside)
{
    struct beside **at = &besides;

    if (!beside->is_there) {
        return;
    }
    while (*at != beside) {
        at = &(*at)->next;
    }
    *at = beside->next;
    beside->next = NULL;
    beside->is_there = false;
}

void turns_set_alone(bool wanted)
{
    struct beside *next = NULL;

    if (wanted == is_alone) {
        return;
    }
    is_alone = wanted;
    for (struct beside *beside = besides; beside != NULL; beside = next) {
        next = beside->next; /* it may go */
        beside->rest(beside->context, wanted);
    }
}
