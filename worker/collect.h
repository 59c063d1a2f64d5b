/*
 * collect.h — takes a file out of a directory that hostile programs could write to.
 *
 * Links, other devices, pipes and files with a second name are refused, nothing is waited for, and
 * what comes out is a copy that nobody can change any more.
 */
#pragma once

#include "common/error.h"

#include <stddef.h>

/*
 * *fd is a sealed memory file. ERR_NOT_FOUND: there is no such name. ERR_INVALID: what is there is
 * no plain file of this directory. ERR_TOO_LARGE.
 */
enum status collect_file(int directory, const char *name, size_t bytes_max, int *fd,
                         struct error *err);
/* A sealed memory file of these bytes. */
enum status collect_bytes(const void *data, size_t size_bytes, int *fd, struct error *err);
