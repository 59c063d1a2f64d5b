/*
 * handles.h — numbers by which a client names what simd made for it.
 *
 * Starts as {0}. A number is never used twice, so a stale one is found out. What a number names is
 * borrowed; handles_release frees the table only.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { HANDLES_MAX = 1 << 22 };
enum handle_kind {
    HANDLE_NONE,
    HANDLE_STREAM,
    HANDLE_EVENT,
    HANDLE_MEMORY,
    HANDLE_PROGRAM,
    HANDLE_FUNCTION,
};

struct handle {
    enum handle_kind kind;
    void *thing;
};
struct handles {
    struct handle *rows;
    size_t count, capacity;
};

/* The new number, or 0 where HANDLES_MAX were made. */
uint64_t handles_add(struct handles *handles, enum handle_kind kind, void *thing);
/* What `id` names, or NULL where it names nothing of this kind. */
void *handles_find(const struct handles *handles, uint64_t id, enum handle_kind kind);
void handles_remove(struct handles *handles, uint64_t id);
void handles_release(struct handles *handles);
