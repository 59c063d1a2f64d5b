/* json_scan.h — looks at JSON text before it is parsed: what the parser does not check or say. */
#pragma once

#include "common/error.h"

#include <stddef.h>

/* ERR_INVALID: empty, not UTF-8 (err->field: the key whose value it is), or nested too deep. */
enum status json_check(const char *text, size_t size_bytes, struct error *err);

/* The innermost key whose value is at `position`; "" where there is none. */
void json_key_at(const char *text, size_t position, char key[static ERROR_FIELD_MAX]);
