/*
 * reveal.h — the page of host memory that the judge and every rank's GPU share while a call is
 * timed.
 *
 * For each round the judge writes words and then the round's number: first the key, which lets all
 * ranks begin, then the nonce, which asks for the proof. A rank's GPU answers with the round's
 * number in `done`, and with its proof and then the number in `proved`. Ranks may write anything
 * into it: that only hurts themselves.
 */
#pragma once

#include "worker/keystream.h"

#include <stdint.h>

enum {
    REVEAL_LINE_BYTES = 128,
    REVEAL_RANKS_MAX = 8,
    REVEAL_PAGE_BYTES = 4096,
    REVEAL_PASSES =
        KEYSTREAM_KEY_WORDS, /* the word behind a key: how many keystreams hide a word */
    REVEAL_WORDS,
    REVEAL_SAMPLE_WORDS = 1 << 18, /* of a call's outputs that are proved, where there are more */
};

struct reveal_line {
    volatile uint32_t words[REVEAL_WORDS];
    volatile uint32_t round;
    uint8_t gap[REVEAL_LINE_BYTES - 4 * (REVEAL_WORDS + 1)];
};

struct reveal_answer {
    volatile uint32_t done;
    uint8_t gap[REVEAL_LINE_BYTES - 4];
    volatile uint64_t proof;
    volatile uint32_t proved;
    uint8_t end[REVEAL_LINE_BYTES - 12];
};

struct reveal_page {
    struct reveal_line key, nonce;
    struct reveal_answer answers[REVEAL_RANKS_MAX];
};
