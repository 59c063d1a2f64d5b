/*
 * fuzz_reports.c — what judge and simulator report about hostile code, as far as the result that
 * the server gets.
 *
 * The first line says how the processes ended, byte by byte; then come three lines of JSON: what
 * the judge said, what the simulator said, and its last line.
 */
#include "tests/fuzz/fuzz.h"
#include "worker/verdict.h"

#include <assert.h>
#include <string.h>

enum { LINES = 3 };

static uint8_t at(const uint8_t *bytes, size_t size_bytes, size_t index)
{
    return index < size_bytes ? bytes[index] : 0;
}

static struct ending ending_of(uint8_t byte)
{
    return (struct ending){.has_ended = byte & 1, .wait_status = byte >> 1 << (byte & 2 ? 8 : 0)};
}

static void set_endings(struct evidence *evidence, const uint8_t *line, size_t size_bytes)
{
    evidence->world = 1 + at(line, size_bytes, 0) % WORLD_MAX;
    evidence->stop = at(line, size_bytes, 1) % (STOP_WALL + 1);
    evidence->stop_rank = at(line, size_bytes, 2) % evidence->world;
    evidence->crashed_first = at(line, size_bytes, 3) & 1;
    evidence->is_keeper_lost = at(line, size_bytes, 3) & 2;
    evidence->judge_ending = ending_of(at(line, size_bytes, 4));
    evidence->device_ending = ending_of(at(line, size_bytes, 5));
    for (int rank = 0; rank < evidence->world; rank++) {
        size_t from = 6 + 3 * (size_t)rank;
        evidence->rank[rank] = ending_of(at(line, size_bytes, from));
        evidence->status.phase[rank] = at(line, size_bytes, from + 1) % RANK_PHASES;
        evidence->status.in_barrier[rank] = at(line, size_bytes, from + 2) & 1;
        evidence->status.call[rank] = at(line, size_bytes, from + 2) >> 1;
    }
}

/* The result is one that can be written, and read again. */
static void check(const struct result *result)
{
    struct buffer json = {0};
    struct result again = {0};
    struct error err = {0};

    result_write(result, &json);
    assert(json.size_bytes <= RESULT_JSON_MAX_BYTES);
    enum status status = result_read(&again, json.data, json.size_bytes, &err);
    assert(status == OK);
    assert(again.verdict == result->verdict);
    result_release(&again);
    buffer_release(&json);
}

void fuzz_reports(const uint8_t *data, size_t size_bytes)
{
    struct evidence evidence = {0};
    const struct result **of[LINES] = {&evidence.judge, &evidence.device, &evidence.device_end};
    struct result reports[LINES] = {0};
    struct result result = {.rank = -1};
    struct error err = {0};
    const uint8_t *end = memchr(data, '\n', size_bytes);

    if (end == NULL) {
        return;
    }
    set_endings(&evidence, data, (size_t)(end - data));
    for (int i = 0; i < LINES && end != NULL; i++) {
        const uint8_t *line = end + 1;
        size_t left = size_bytes - (size_t)(line - data);
        end = memchr(line, '\n', left);
        size_t length = end == NULL ? left : (size_t)(end - line);
        if (result_read(&reports[i], (const char *)line, length, &err) == OK &&
            (i == 0 || (reports[i].verdict == VERDICT_ACCEPTED) == (i == 2))) {
            *of[i] = &reports[i]; /* trouble comes before the last line, as running.c has it */
        }
    }
    verdict_decide(&evidence, &result);
    assert(result.verdict != VERDICT_ACCEPTED ||
           (evidence.judge != NULL && evidence.judge->verdict == VERDICT_ACCEPTED));
    check(&result);
    result_release(&result);
    for (int i = 0; i < LINES; i++) {
        result_release(&reports[i]);
    }
}
