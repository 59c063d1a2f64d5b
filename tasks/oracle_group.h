/*
 * oracle_group.h — stable grouping by owner: what belongs to rank 0 first, then to rank 1, and so
 * on, in the order of the requests within an owner.
 */
#pragma once

#include <stdint.h>

/* order[i]: which of the `count` requests stands at place i. Owners are in [0, owners). */
void group_by_owner(const int64_t *owner, int64_t count, int64_t owners, int64_t *order);
