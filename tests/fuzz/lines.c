#include "tests/fuzz/lines.h"

#include "common/mem.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct part {
    size_t start, end;
};

static uint64_t draw(uint64_t *random, uint64_t limit)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return limit > 0 ? (*random >> 33) % limit : 0;
}

/* The line around `at`, with its end. */
static struct part line_at(const uint8_t *data, size_t size_bytes, size_t at)
{
    struct part line = {at, at};

    while (line.start > 0 && data[line.start - 1] != '\n') {
        line.start--;
    }
    while (line.end < size_bytes && data[line.end] != '\n') {
        line.end++;
    }
    line.end += line.end < size_bytes;
    return line;
}

static bool is_word(uint8_t c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' ||
           c == '$' || c == '%';
}

/* The word behind `at`, with a dot before it; empty where there is none. */
static struct part word_at(const uint8_t *data, size_t size_bytes, size_t at)
{
    struct part word = {at, at};

    while (word.start < size_bytes && !is_word(data[word.start])) {
        word.start++;
    }
    word.end = word.start;
    while (word.end < size_bytes && is_word(data[word.end])) {
        word.end++;
    }
    word.start -= word.start > 0 && data[word.start - 1] == '.';
    return word;
}

/* Puts `text` in the place of `hole`, where there is room. */
static size_t replace(uint8_t *data, size_t size_bytes, size_t max_bytes, struct part hole,
                      struct part text)
{
    size_t length = text.end - text.start;
    size_t changed = size_bytes - (hole.end - hole.start) + length;

    if (changed > max_bytes) {
        return size_bytes;
    }
    uint8_t *copy = xmalloc(length);
    memcpy(copy, data + text.start, length);
    memmove(data + hole.start + length, data + hole.end, size_bytes - hole.end);
    memcpy(data + hole.start, copy, length);
    free(copy);
    return changed;
}

size_t lines_mutate(uint8_t *data, size_t size_bytes, size_t max_bytes, unsigned seed)
{
    uint64_t random = seed;
    uint64_t kind = draw(&random, 5);
    size_t at = draw(&random, size_bytes), from = draw(&random, size_bytes);
    struct part hole = kind < 3 ? line_at(data, size_bytes, at) : word_at(data, size_bytes, at);
    struct part text = kind < 3 ? line_at(data, size_bytes, from) : word_at(data, size_bytes, from);

    if (kind == 0) { /* one line fewer */
        text.end = text.start;
    } else if (kind == 1) { /* one more */
        hole.end = hole.start;
    }
    return replace(data, size_bytes, max_bytes, hole, text);
}
