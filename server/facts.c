#include "server/facts.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char *const mechanism_names[MECHANISMS_MAX] = {
    "bulk", "copy_engine", "multimem_load", "multimem_store",
    "nccl", "sm_atomic",   "sm_load",       "sm_store",
};

static const char *const outcome_names[OUTCOMES] = {
    [OUTCOME_PENDING] = "pending",
    [OUTCOME_CORRECT] = "correct",
    [OUTCOME_COMPILE] = "compile",
    [OUTCOME_API] = "api",
    [OUTCOME_SHAPE] = "shape",
    [OUTCOME_CRASH] = "crash",
    [OUTCOME_VALUES] = "values",
    [OUTCOME_DEADLOCK] = "deadlock",
    [OUTCOME_LIMIT] = "limit",
    [OUTCOME_SUSPECT] = "suspect",
    [OUTCOME_NOT_SIMULABLE] = "not_simulable",
    [OUTCOME_OURS] = "not_judged",
};

const char *facts_mechanism(int i)
{
    assert(i < MECHANISMS_MAX);
    return mechanism_names[i];
}

const char *outcome_name(enum outcome outcome)
{
    assert(outcome < OUTCOMES);
    return outcome_names[outcome];
}

static unsigned mechanism_bit(const char *name, size_t name_bytes)
{
    for (unsigned i = 0; i < MECHANISMS_MAX; i++) {
        if (strlen(mechanism_names[i]) == name_bytes &&
            memcmp(mechanism_names[i], name, name_bytes) == 0) {
            return 1U << i;
        }
    }
    return 0;
}

void mechanisms_write(unsigned mechanisms, char text[static MECHANISMS_TEXT_MAX])
{
    size_t used = 0;

    text[0] = 0;
    for (int i = 0; i < MECHANISMS_MAX; i++) {
        if ((mechanisms >> i & 1) != 0) {
            used += (size_t)snprintf(text + used, MECHANISMS_TEXT_MAX - used, "%s%s",
                                     used > 0 ? " " : "", mechanism_names[i]);
        }
    }
}

unsigned mechanisms_read(const char *text)
{
    unsigned mechanisms = 0;

    while (*text != 0) {
        size_t length = strcspn(text, " ");
        mechanisms |= mechanism_bit(text, length);
        text += length + strspn(text + length, " ");
    }
    return mechanisms;
}

static void take_traffic(struct facts *facts, const struct result *result)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < result->traffic_count; i++) {
        const struct traffic *traffic = &result->traffic[i];
        if (traffic->source == traffic->owner) {
            continue;
        }
        facts->mechanisms |= mechanism_bit(traffic->mechanism, strlen(traffic->mechanism));
        if (traffic->bytes < INT64_MAX - sum) {
            sum += traffic->bytes;
        }
    }
    facts->peer_bytes = (int64_t)sum;
}

static void take_times(struct facts *facts, const struct result *result)
{
    for (size_t i = 0; i < result->timing_count; i++) {
        const struct timing *timing = &result->timings[i];
        if (timing->case_name == NULL || strcmp(timing->case_name, "bench") != 0) {
            continue;
        }
        facts->median_us = timing->latency.median_us;
        facts->low_us = timing->latency.low_us;
        facts->high_us = timing->latency.high_us;
        facts->baseline_us = timing->baseline_us;
        facts->speedup = timing->speedup;
        facts->is_faster = timing->is_faster;
        facts->target_percent = timing->target_percent;
        return;
    }
}

void facts_take(struct facts *facts, const struct result *result)
{
    static const char insecure[] = "insecure:";

    *facts = (struct facts){.verdict = result->verdict};
    (void)snprintf(facts->reason, sizeof facts->reason, "%s",
                   result->reason == NULL ? "" : result->reason);
    (void)snprintf(facts->stage, sizeof facts->stage, "%s",
                   result->stage == NULL ? "" : result->stage);
    if (result->gpu != NULL && result->gpu->name != NULL) {
        (void)snprintf(facts->gpu, sizeof facts->gpu, "%s", result->gpu->name);
    }
    for (size_t i = 0; i < result->flag_count; i++) {
        facts->is_insecure =
            facts->is_insecure || strncmp(result->flags[i], insecure, sizeof insecure - 1) == 0;
    }
    take_traffic(facts, result);
    take_times(facts, result);
}

static bool is_shape(const char *reason)
{
    return strcmp(reason, "tail") == 0 || strcmp(reason, "red_zone") == 0 ||
           strcmp(reason, "unwritten") == 0;
}

enum outcome outcome_of(enum verdict verdict, const char *reason, const char *stage)
{
    static const enum outcome outcomes[VERDICTS] = {
        [VERDICT_ACCEPTED] = OUTCOME_CORRECT,
        [VERDICT_COMPILE_ERROR] = OUTCOME_COMPILE,
        [VERDICT_LINK_ERROR] = OUTCOME_API,
        [VERDICT_WRONG_ANSWER] = OUTCOME_VALUES,
        [VERDICT_NONDETERMINISTIC] = OUTCOME_VALUES,
        [VERDICT_CONTRACT_VIOLATION] = OUTCOME_VALUES,
        [VERDICT_RUNTIME_ERROR] = OUTCOME_CRASH,
        [VERDICT_OUT_OF_MEMORY] = OUTCOME_CRASH,
        [VERDICT_DEADLOCK] = OUTCOME_DEADLOCK,
        [VERDICT_TIMEOUT] = OUTCOME_DEADLOCK,
        [VERDICT_LIMIT_EXCEEDED] = OUTCOME_LIMIT,
        [VERDICT_SUSPECT] = OUTCOME_SUSPECT,
        [VERDICT_NOT_SIMULABLE] = OUTCOME_NOT_SIMULABLE,
        [VERDICT_INTERNAL_ERROR] = OUTCOME_OURS,
    };

    if (verdict == VERDICT_CONTRACT_VIOLATION && is_shape(reason)) {
        return OUTCOME_SHAPE;
    }
    if (verdict == VERDICT_RUNTIME_ERROR && strcmp(stage, "setup") == 0) {
        return OUTCOME_API;
    }
    return outcomes[verdict];
}
