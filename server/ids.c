#include "server/ids.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";

enum { TIME_BYTES = 6, ID_BYTES = TIME_BYTES + 10, ID_DIGITS = 26, PREFIX_MAX = 8 };

/* The next random part of the same millisecond; false when there is none. */
static bool count_up(unsigned char *random, int size)
{
    for (int i = size - 1; i >= 0; i--) {
        if (++random[i] != 0) {
            return true;
        }
    }
    return false;
}

void id_make(struct id_maker *maker, const char *prefix, int64_t now_ms, char id[static ID_MAX])
{
    unsigned char bytes[ID_BYTES];
    size_t used = strlen(prefix);

    assert(used <= PREFIX_MAX);
    if (now_ms > maker->last_ms || !count_up(maker->random, sizeof maker->random)) {
        maker->last_ms = now_ms > maker->last_ms ? now_ms : maker->last_ms + 1;
        randombytes_buf(maker->random, sizeof maker->random);
    }
    for (int i = 0; i < TIME_BYTES; i++) {
        bytes[i] = (unsigned char)(maker->last_ms >> (8 * (TIME_BYTES - 1 - i)));
    }
    memcpy(bytes + TIME_BYTES, maker->random, sizeof maker->random);

    memcpy(id, prefix, used);
    id[used++] = '_';
    /* 128 bits in 26 digits of 5; the first digit holds the 3 bits that are left over. */
    for (int digit = 0; digit < ID_DIGITS; digit++) {
        unsigned value = 0;
        for (int bit = digit * 5 - 2; bit < digit * 5 + 3; bit++) {
            unsigned set = bit < 0 ? 0 : bytes[bit / 8] >> (7 - bit % 8) & 1;
            value = value << 1 | set;
        }
        id[used++] = digits[value];
    }
    id[used] = 0;
}

bool id_is_valid(const char *prefix, const char *text)
{
    size_t used = strlen(prefix);

    return strncmp(text, prefix, used) == 0 && text[used] == '_' &&
           strlen(text + used + 1) == ID_DIGITS && strspn(text + used + 1, digits) == ID_DIGITS;
}
