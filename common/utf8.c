#include "common/utf8.h"

#include <stdint.h>

size_t utf8_length(const char *text, size_t size_bytes)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t first = size_bytes > 0 ? (unsigned char)text[0] : 0;
    size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;

    if (first < 0x80) {
        return first != 0;
    }
    if (first < 0xc0 || first >= 0xf8 || length > size_bytes) {
        return 0;
    }
    uint32_t code = first & (0x7fU >> length);
    for (size_t i = 1; i < length; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | ((unsigned char)text[i] & 0x3f);
    }
    if (code < smallest[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
        return 0;
    }
    return length;
}

size_t utf8_valid_bytes(const char *text, size_t size_bytes)
{
    size_t valid = 0;

    while (valid < size_bytes) {
        size_t length = utf8_length(text + valid, size_bytes - valid);
        if (length == 0) {
            break;
        }
        valid += length;
    }
    return valid;
}
