#include "worker/record.h"

#include "common/mem.h"
#include "worker/layout.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

/* What a finished call's inputs are overwritten with: NaN in every floating-point type. */
enum { OVERWRITE_BYTE = 0xff };

/* One call: images of its slot, per rank. */
struct call {
    uint8_t poison;
    uint8_t *inputs[WORLD_MAX];  /* as they were given */
    uint8_t *outputs[WORLD_MAX]; /* as they were when the rank was done; NULL: not done */
    uint8_t *ends[WORLD_MAX];    /* as they were when the slot went to a later call; NULL: never */
    bool is_changed[WORLD_MAX];  /* the inputs were not what was given */
    struct tensor in[WORLD_MAX][PLAN_TENSORS_MAX];
};

struct record {
    struct record_options options;
    struct call *calls;
    uint8_t *arenas[WORLD_MAX]; /* all outputs as they were at the end */
    uint8_t *scratch;           /* one slot, the larger of both layouts */
};

static uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    value = (value ^ (value >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return value ^ (value >> 32);
}

static uint64_t red_zone_key(const struct record *record, int rank)
{
    return mix(record->options.seed + (uint64_t)rank + 1);
}

static enum status copy(void *to, const void *from, uint64_t size_bytes, struct error *err)
{
    cudaError_t error = cudaMemcpy(to, from, size_bytes, cudaMemcpyDefault);

    return error == cudaSuccess ? OK
                                : error_set(err, ERR_IO, "cudaMemcpy: %s", cudaGetErrorName(error));
}

static void *device_address(int rank, uint64_t offset)
{
    return (void *)(uintptr_t)window_address(rank, offset);
}

static uint64_t slot_of(const struct layout *layout, int call)
{
    return layout_slot(layout, call % CHANNEL_SLOTS);
}

struct record *record_open(const struct record_options *options)
{
    const struct layouts *layouts = options->layouts;
    struct record *record = xcalloc(1, sizeof *record);
    int world = run_world(options->run);

    record->options = *options;
    record->calls = xcalloc((size_t)options->calls, sizeof *record->calls);
    record->scratch = xmalloc(layouts->inputs.slot_bytes > layouts->outputs.slot_bytes
                                  ? layouts->inputs.slot_bytes
                                  : layouts->outputs.slot_bytes);
    for (int number = 0; number < options->calls; number++) {
        struct call *call = &record->calls[number];
        struct tensor *in[WORLD_MAX] = {0};
        /* Neither 0 nor 255, which an untouched or a cleared page would hold. */
        call->poison = (uint8_t)(1 + mix(options->seed ^ (uint64_t)number << 8) % 254);
        for (int rank = 0; rank < world; rank++) {
            call->inputs[rank] = xmalloc(layouts->inputs.slot_bytes);
            red_zone_write(call->inputs[rank], slot_of(&layouts->inputs, number),
                           layouts->inputs.slot_bytes, red_zone_key(record, rank));
            layout_tensors(&layouts->inputs, run_plan(options->run, rank)->inputs,
                           call->inputs[rank], call->in[rank]);
            in[rank] = call->in[rank];
        }
        run_fill(options->run, options->seed, number, in);
    }
    return record;
}

void record_close(struct record *record)
{
    if (record == NULL) {
        return;
    }
    for (int number = 0; number < record->options.calls; number++) {
        for (int rank = 0; rank < WORLD_MAX; rank++) {
            free(record->calls[number].inputs[rank]);
            free(record->calls[number].outputs[rank]);
            free(record->calls[number].ends[rank]);
        }
    }
    for (int rank = 0; rank < WORLD_MAX; rank++) {
        free(record->arenas[rank]);
    }
    free(record->calls);
    free(record->scratch);
    free(record);
}

enum status record_prepare(struct record *record, struct error *err)
{
    uint64_t size_bytes = record->options.outputs_bytes;
    uint8_t *image = xmalloc(size_bytes);
    enum status status = OK;

    for (int rank = 0; rank < run_world(record->options.run) && status == OK; rank++) {
        red_zone_write(image, 0, size_bytes, red_zone_key(record, rank));
        status = copy(device_address(rank, WINDOW_OUTPUTS), image, size_bytes, err);
    }
    free(image);
    return status;
}

static enum status arm_call(struct record *record, int number, int rank, struct error *err)
{
    const struct layout *inputs = &record->options.layouts->inputs;
    const struct layout *outputs = &record->options.layouts->outputs;
    const struct call *call = &record->calls[number];
    uint64_t offset = slot_of(outputs, number);

    if (number >= CHANNEL_SLOTS) {
        struct call *before = &record->calls[number - CHANNEL_SLOTS];
        before->ends[rank] = xmalloc(outputs->slot_bytes);
        enum status read = copy(before->ends[rank], device_address(rank, WINDOW_OUTPUTS + offset),
                                outputs->slot_bytes, err);
        if (read != OK) {
            return read;
        }
    }
    enum status status = copy(device_address(rank, WINDOW_INPUTS + slot_of(inputs, number)),
                              call->inputs[rank], inputs->slot_bytes, err);
    if (status != OK) {
        return status;
    }
    red_zone_write(record->scratch, offset, outputs->slot_bytes, red_zone_key(record, rank));
    layout_poison(outputs, run_plan(record->options.run, rank)->outputs, record->scratch,
                  call->poison);
    return copy(device_address(rank, WINDOW_OUTPUTS + offset), record->scratch, outputs->slot_bytes,
                err);
}

enum status record_arm(struct record *record, int first_call, int count, struct error *err)
{
    enum status status = OK;

    assert(first_call + count <= record->options.calls);
    for (int call = first_call; call < first_call + count; call++) {
        for (int rank = 0; rank < run_world(record->options.run) && status == OK; rank++) {
            status = arm_call(record, call, rank, err);
        }
    }
    return status;
}

enum status record_finish(struct record *record, int rank, int number, struct error *err)
{
    const struct layout *inputs = &record->options.layouts->inputs;
    const struct layout *outputs = &record->options.layouts->outputs;
    struct call *call = &record->calls[number];
    void *in = device_address(rank, WINDOW_INPUTS + slot_of(inputs, number));

    assert(number < record->options.calls);
    assert(call->outputs[rank] == NULL);
    call->outputs[rank] = xmalloc(outputs->slot_bytes);
    enum status status =
        copy(call->outputs[rank], device_address(rank, WINDOW_OUTPUTS + slot_of(outputs, number)),
             outputs->slot_bytes, err);
    if (status == OK) {
        status = copy(record->scratch, in, inputs->slot_bytes, err);
    }
    if (status != OK) {
        return status;
    }
    call->is_changed[rank] = memcmp(record->scratch, call->inputs[rank], inputs->slot_bytes) != 0;
    cudaError_t error = cudaMemset(in, OVERWRITE_BYTE, inputs->slot_bytes);
    return error == cudaSuccess ? OK
                                : error_set(err, ERR_IO, "cudaMemset: %s", cudaGetErrorName(error));
}

/* Did anything write to the outputs of the call after this rank was done with it? */
static bool is_late(const struct record *record, int number, int rank)
{
    const struct layout *outputs = &record->options.layouts->outputs;
    const struct tensor_spec *specs = run_plan(record->options.run, rank)->outputs;
    const struct call *call = &record->calls[number];

    const uint8_t *end = call->ends[rank] != NULL ? call->ends[rank]
                                                  : record->arenas[rank] + slot_of(outputs, number);
    for (int i = 0; i < outputs->count; i++) {
        if (memcmp(call->outputs[rank] + outputs->offsets[i], end + outputs->offsets[i],
                   specs[i].size_bytes) != 0) {
            return true;
        }
    }
    return false;
}

static void report_late(struct result *result, const struct place *place, int rank)
{
    report_verdict(result, place, VERDICT_CONTRACT_VIOLATION, "late_write",
                   "outputs of rank %d changed after its work of call %d was done", rank,
                   place->call);
    result->rank = rank;
}

static bool judge_call(const struct record *record, int number, struct result *result)
{
    const struct run *run = record->options.run;
    const struct layout *outputs = &record->options.layouts->outputs;
    const struct call *call = &record->calls[number];
    struct place place = {.stage = "check", .run = run, .call = number};
    struct tensor out[WORLD_MAX][PLAN_TENSORS_MAX];
    struct tensor *out_of[WORLD_MAX] = {0};
    struct tensor *in_of[WORLD_MAX] = {0};
    struct verdict_detail detail = {0};

    for (int rank = 0; rank < run_world(run); rank++) {
        in_of[rank] = (struct tensor *)call->in[rank];
        out_of[rank] = out[rank];
        layout_tensors(outputs, run_plan(run, rank)->outputs, call->outputs[rank], out[rank]);
    }
    struct expectation *expectation = run_expect(run, in_of);
    enum judgement judgement = run_judge(run, expectation, out_of, call->poison, &detail);
    expectation_close(expectation);
    if (judgement == JUDGED_RIGHT) {
        return false;
    }
    if (is_late(record, number, detail.rank)) {
        report_late(result, &place, detail.rank);
    } else {
        report_judgement(result, &place, &detail);
    }
    return true;
}

static bool find_changed_input(const struct record *record, struct result *result)
{
    for (int number = 0; number < record->options.calls; number++) {
        for (int rank = 0; rank < run_world(record->options.run); rank++) {
            struct place place = {.stage = "check", .run = record->options.run, .call = number};
            if (record->calls[number].is_changed[rank]) {
                report_verdict(result, &place, VERDICT_CONTRACT_VIOLATION, "input_overwritten",
                               "inputs of rank %d were changed in call %d", rank, number);
                result->rank = rank;
                return true;
            }
        }
    }
    return false;
}

static bool find_trespass(const struct record *record, struct result *result)
{
    const struct run *run = record->options.run;
    struct place place = {.stage = "check", .run = run, .call = -1};
    struct trespass trespass = {0};

    for (int rank = 0; rank < run_world(run); rank++) {
        if (layout_find_trespass(&record->options.layouts->outputs, run_plan(run, rank)->outputs,
                                 record->arenas[rank], record->options.outputs_bytes,
                                 red_zone_key(record, rank), &trespass)) {
            report_trespass(result, &place, rank, &trespass);
            return true;
        }
    }
    return false;
}

/* Of calls that were right when they were done. */
static bool find_late_write(const struct record *record, struct result *result)
{
    for (int number = 0; number < record->options.calls; number++) {
        for (int rank = 0; rank < run_world(record->options.run); rank++) {
            struct place place = {.stage = "check", .run = record->options.run, .call = number};
            if (is_late(record, number, rank)) {
                report_late(result, &place, rank);
                return true;
            }
        }
    }
    return false;
}

enum status record_judge(struct record *record, struct result *result, bool *is_wrong,
                         struct error *err)
{
    uint64_t size_bytes = record->options.outputs_bytes;

    for (int rank = 0; rank < run_world(record->options.run); rank++) {
        record->arenas[rank] = xmalloc(size_bytes);
        enum status status =
            copy(record->arenas[rank], device_address(rank, WINDOW_OUTPUTS), size_bytes, err);
        if (status != OK) {
            return status;
        }
    }
    bool found = find_changed_input(record, result) || find_trespass(record, result);
    for (int number = 0; number < record->options.calls && !found; number++) {
        found = judge_call(record, number, result);
    }
    *is_wrong = found || find_late_write(record, result);
    return OK;
}
