#include "common/json_scan.h"

#include "common/json.h"
#include "common/utf8.h"

#include <stdio.h>

/* Where a scan of a text stands: the last string, and the key of the value at each depth. */
struct span {
    size_t start, size_bytes;
};

struct scan {
    size_t depth;
    struct span last;
    struct span keys[JSON_DEPTH_MAX + 1];
};

/* Follows the nesting of `text` up to `end`; returns where it became too deep, or `end`. */
static size_t scan_text(struct scan *scan, const char *text, size_t end)
{
    bool in_string = false;

    for (size_t i = 0; i < end; i++) {
        if (in_string) {
            if (text[i] == '\\') {
                i++;
            } else if (text[i] == '"') {
                in_string = false;
                scan->last.size_bytes = i - scan->last.start;
            }
            continue;
        }
        switch (text[i]) {
        case '"':
            in_string = true;
            scan->last.start = i + 1;
            break;
        case ':':
            scan->keys[scan->depth] = scan->last;
            break;
        case '{':
        case '[':
            if (scan->depth == JSON_DEPTH_MAX) {
                return i;
            }
            scan->depth++;
            scan->keys[scan->depth].size_bytes = 0;
            break;
        case '}':
        case ']':
            scan->depth -= scan->depth > 0;
            break;
        default:
            break;
        }
    }
    return end;
}

void json_key_at(const char *text, size_t position, char key[static ERROR_FIELD_MAX])
{
    struct scan scan = {0};

    scan_text(&scan, text, position);
    while (scan.depth > 0 && scan.keys[scan.depth].size_bytes == 0) {
        scan.depth--;
    }
    (void)snprintf(key, ERROR_FIELD_MAX, "%.*s", (int)scan.keys[scan.depth].size_bytes,
                   text + scan.keys[scan.depth].start);
}

enum status json_check(const char *text, size_t size_bytes, struct error *err)
{
    char key[ERROR_FIELD_MAX] = "";
    struct scan scan = {0};

    if (size_bytes == 0) {
        return error_set(err, ERR_INVALID, "empty, expected a JSON object");
    }
    size_t valid_bytes = utf8_valid_bytes(text, size_bytes);
    if (valid_bytes < size_bytes) {
        json_key_at(text, valid_bytes, key);
        return error_field(err, ERR_INVALID, key, "byte 0x%02x at offset %zu is not UTF-8 text",
                           (unsigned char)text[valid_bytes], valid_bytes);
    }
    if (scan_text(&scan, text, size_bytes) < size_bytes) {
        return error_set(err, ERR_INVALID, "nested deeper than %d levels", JSON_DEPTH_MAX);
    }
    return OK;
}
