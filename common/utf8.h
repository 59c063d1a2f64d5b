/* utf8.h — which bytes are UTF-8 text (RFC 3629). A zero byte is none. */
#pragma once

#include <stddef.h>

/* The length of the character that starts here, 1..4; 0: these bytes are none. */
size_t utf8_length(const char *text, size_t size_bytes);

/* How many bytes from the start are whole characters; `size_bytes` if all are. */
size_t utf8_valid_bytes(const char *text, size_t size_bytes);
