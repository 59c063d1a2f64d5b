#include "worker/sets.h"

#include "common/clock.h"
#include "common/mem.h"
#include "worker/crowd.h"
#include "worker/keystream.h"

#include <assert.h>
#include <stdlib.h>

enum { JUDGE_BATCH = 16 }; /* as many as work at once */

/* What a child finds out about one call. */
struct finding_of_call {
    enum judgement judgement;
    struct verdict_detail detail;
};

struct kept {
    int set;
    uint8_t poison;
    bool is_judged;
};

struct sets {
    struct sets_options options;
    int count, kept_max, kept_count;
    uint64_t asked;                 /* for a place, ever */
    uint64_t set_bytes, kept_bytes; /* of one, all ranks */
    uint8_t *inputs, *outputs;
    struct finding_of_call *findings;
    struct kept *kept;
    int *order; /* in which they are judged */
    int judged; /* so many of them already */
};

static int at_most(int wanted, uint64_t memory_bytes, uint64_t each_bytes)
{
    uint64_t room = memory_bytes / each_bytes;

    return room < 1 ? 1 : room < (uint64_t)wanted ? (int)room : wanted;
}

static uint8_t *image(const struct sets *sets, int set, int rank)
{
    return sets->inputs + (uint64_t)set * sets->set_bytes +
           (uint64_t)rank * sets->options.layouts->inputs.slot_bytes;
}

/* The tensors of all ranks in one set. */
static void describe(const struct sets *sets, int set, struct tensor in[][PLAN_TENSORS_MAX],
                     struct tensor **in_of)
{
    for (int rank = 0; rank < run_world(sets->options.run); rank++) {
        layout_tensors(&sets->options.layouts->inputs, run_plan(sets->options.run, rank)->inputs,
                       image(sets, set, rank), in[rank]);
        in_of[rank] = in[rank];
    }
}

static void fill_one(void *context, size_t item)
{
    const struct sets *sets = context;
    const struct sets_options *options = &sets->options;
    uint64_t slot_bytes = options->layouts->inputs.slot_bytes;
    struct tensor in[WORLD_MAX][PLAN_TENSORS_MAX];
    struct tensor *in_of[WORLD_MAX] = {0};

    for (int rank = 0; rank < run_world(options->run); rank++) {
        red_zone_write(image(sets, (int)item, rank), 0, slot_bytes,
                       red_zone_key(options->seed, item));
    }
    describe(sets, (int)item, in, in_of);
    run_fill(options->run, options->seed, (int)item, in_of);
}

static void alive(void *context)
{
    const struct sets *sets = context;

    if (sets->options.alive != NULL) {
        sets->options.alive(sets->options.context);
    }
}

enum status sets_open(struct sets **sets, const struct sets_options *options, struct error *err)
{
    struct sets *made = xcalloc(1, sizeof *made);
    uint64_t world = (uint64_t)run_world(options->run);

    made->options = *options;
    made->set_bytes = options->layouts->inputs.slot_bytes * world;
    made->kept_bytes = options->layouts->outputs.slot_bytes * world;
    made->count = at_most(options->count, options->memory_bytes, made->set_bytes);
    made->kept_max = at_most(options->kept_max, options->memory_bytes, made->kept_bytes);
    made->kept = xcalloc((size_t)made->kept_max, sizeof *made->kept);
    made->order = xcalloc((size_t)made->kept_max, sizeof *made->order);
    enum status status =
        crowd_memory((void **)&made->inputs, made->set_bytes * (uint64_t)made->count, err);
    if (status == OK) {
        status =
            crowd_memory((void **)&made->outputs, made->kept_bytes * (uint64_t)made->kept_max, err);
    }
    if (status == OK) {
        status = crowd_memory((void **)&made->findings,
                              sizeof *made->findings * (size_t)made->kept_max, err);
    }
    if (status == OK) {
        struct crowd_work work = {
            .items = (size_t)made->count, .one = fill_one, .alive = alive, .context = made};
        status = crowd_run(&work, err);
    }
    if (status != OK) {
        sets_close(made);
        return status;
    }
    *sets = made;
    return OK;
}

void sets_close(struct sets *sets)
{
    if (sets == NULL) {
        return;
    }
    crowd_forget(sets->inputs, sets->set_bytes * (uint64_t)sets->count);
    crowd_forget(sets->outputs, sets->kept_bytes * (uint64_t)sets->kept_max);
    crowd_forget(sets->findings, sizeof *sets->findings * (size_t)sets->kept_max);
    free(sets->kept);
    free(sets->order);
    free(sets);
}

int sets_count(const struct sets *sets)
{
    return sets->count;
}

int sets_kept(const struct sets *sets)
{
    return sets->kept_count;
}

const uint8_t *sets_inputs(const struct sets *sets, int set, int rank)
{
    assert(set >= 0);
    assert(set < sets->count);
    return image(sets, set, rank);
}

/* Where there is room for a part only, which calls are kept is as good as random: a submission
 * cannot know which of its calls nobody looks at. */
static bool is_drawn(struct sets *sets)
{
    uint32_t key[KEYSTREAM_KEY_WORDS] = {(uint32_t)sets->options.seed,
                                         (uint32_t)(sets->options.seed >> 32)};
    uint32_t block[KEYSTREAM_BLOCK_WORDS];

    keystream_block(key, UINT64_MAX, sets->asked++, block);
    return (uint64_t)block[0] * (uint64_t)sets->options.kept_max >> 32 < (uint64_t)sets->kept_max;
}

uint8_t *sets_keep(struct sets *sets, int set, uint8_t poison)
{
    if (!is_drawn(sets) || sets->kept_count == sets->kept_max) {
        return NULL;
    }
    sets->kept[sets->kept_count] = (struct kept){.set = set, .poison = poison};
    return sets->outputs + (uint64_t)sets->kept_count++ * sets->kept_bytes;
}

void sets_drop(struct sets *sets, int kept)
{
    assert(kept <= sets->kept_count);
    assert(sets->judged == 0);
    sets->kept_count = kept;
}

static void judge_one(void *context, size_t number)
{
    const struct sets *sets = context;
    size_t item = (size_t)sets->order[(size_t)sets->judged + number];
    const struct run *run = sets->options.run;
    const struct layout *outputs = &sets->options.layouts->outputs;
    struct tensor in[WORLD_MAX][PLAN_TENSORS_MAX];
    struct tensor out[WORLD_MAX][PLAN_TENSORS_MAX];
    struct tensor *in_of[WORLD_MAX] = {0};
    struct tensor *out_of[WORLD_MAX] = {0};
    struct finding_of_call *finding = &sets->findings[item];

    describe(sets, sets->kept[item].set, in, in_of);
    for (int rank = 0; rank < run_world(run); rank++) {
        layout_tensors(outputs, run_plan(run, rank)->outputs,
                       sets->outputs + item * sets->kept_bytes +
                           (uint64_t)rank * outputs->slot_bytes,
                       out[rank]);
        out_of[rank] = out[rank];
    }
    struct expectation *expectation = run_expect(run, in_of);
    finding->judgement =
        run_judge(run, expectation, out_of, sets->kept[item].poison, &finding->detail);
    expectation_close(expectation);
}

/* An order that nobody knows who does not know the seed. */
static void shuffle(struct sets *sets)
{
    uint64_t state = sets->options.seed;

    for (int i = 0; i < sets->kept_count; i++) {
        state = (state ^ (state >> 30)) * UINT64_C(0xbf58476d1ce4e5b9) + 1;
        int other = (int)((state >> 33) % (uint64_t)(i + 1));
        sets->order[i] = sets->order[other];
        sets->order[other] = i;
    }
}

enum status sets_judge(struct sets *sets, int *wrong, struct verdict_detail *detail,
                       struct error *err)
{
    int64_t started_ms = clock_monotonic_ms();
    enum status status = OK;

    shuffle(sets);
    for (sets->judged = 0; sets->judged < sets->kept_count && status == OK;) {
        int left = sets->kept_count - sets->judged;
        struct crowd_work work = {.items = (size_t)(left < JUDGE_BATCH ? left : JUDGE_BATCH),
                                  .one = judge_one,
                                  .alive = alive,
                                  .context = sets};
        status = crowd_run(&work, err);
        for (size_t i = 0; i < work.items; i++) {
            sets->kept[sets->order[(size_t)sets->judged + i]].is_judged = true;
        }
        sets->judged += (int)work.items;
        if (clock_monotonic_ms() - started_ms > sets->options.judge_ms) {
            break;
        }
    }
    *wrong = -1;
    for (int i = 0; i < sets->kept_count && *wrong < 0 && status == OK; i++) {
        if (sets->kept[i].is_judged && sets->findings[i].judgement != JUDGED_RIGHT) {
            *wrong = i;
            *detail = sets->findings[i].detail;
        }
    }
    return status;
}
