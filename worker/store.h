/*
 * store.h — what earlier builds made, so that the same source is not built again.
 *
 * A directory of files, each named by the hash of all that its build depended on. Only this
 * worker's user may write there; a file holds its own name and a hash of its content, and one that
 * does not is removed and counts as missing. Files appear whole, by rename, so that several workers
 * and their ends do no harm. When all together are larger than the limit, those not used for
 * longest go.
 */
#pragma once

#include "common/result.h"

#include <limits.h>

enum { STORE_NAME_MAX = 65 }; /* SHA-256 in hex */

struct store {
    char directory[PATH_MAX];
    uint64_t bytes_max;
};

/* Makes the directory. ERR_DENIED: others may write to it. */
enum status store_init(struct store *store, const char *directory, uint64_t bytes_max,
                       struct error *err);

/* Adds the verdict of a build, its log, message and flags to `result`, and gives its library, a
 * sealed memory file; -1: the build made none. ERR_NOT_FOUND: nothing of that name. */
enum status store_load(const struct store *store, const char *name, struct result *result,
                       int *library, struct error *err);
/* ERR_IO: it is not kept, which does no harm. */
enum status store_save(const struct store *store, const char *name, const struct result *result,
                       int library, struct error *err);

/* Is it a verdict that another build of the same source would reach, too? */
bool store_keeps(const struct result *result);
