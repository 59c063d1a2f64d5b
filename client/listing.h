/*
 * listing.h — tasks and boards as the server lists them: read for a person, shown as text. Keys
 * that this client does not know are passed over.
 */
#pragma once

#include "common/buffer.h"
#include "common/error.h"

#include <stddef.h>

/* Each appends what the server's answer says. ERR_PROTOCOL: it cannot be read. */
enum status listing_tasks(const char *json, size_t size_bytes, struct buffer *text,
                          struct error *err);
enum status listing_task(const char *json, size_t size_bytes, struct buffer *text,
                         struct error *err);
enum status listing_board(const char *json, size_t size_bytes, struct buffer *text,
                          struct error *err);
