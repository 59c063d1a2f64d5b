#include "tasks/oracle_group.h"

#include <assert.h>

void group_by_owner(const int64_t *owner, int64_t count, int64_t owners, int64_t *order)
{
    int64_t placed = 0;

    for (int64_t group = 0; group < owners; group++) {
        for (int64_t i = 0; i < count; i++) {
            if (owner[i] == group) {
                order[placed++] = i;
            }
        }
    }
    assert(placed == count);
}
