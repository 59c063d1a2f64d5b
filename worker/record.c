#include "worker/record.h"

#include "common/mem.h"
#include "worker/layout.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

/* What a finished call's inputs are overwritten with: NaN in every floating-point type. */
enum { OVERWRITE_BYTE = 0xff };

enum { FAR_PIECE_BYTES = 1 << 20 }; /* that is copied at once */

/* One call: images of its slot, per rank. */
struct call {
    uint8_t poison;
    uint8_t *inputs[WORLD_MAX];  /* as they were given */
    uint8_t *outputs[WORLD_MAX]; /* as they were when the rank was done; NULL: not done */
    bool is_changed[WORLD_MAX];  /* the inputs were not what was given */
    bool is_late[WORLD_MAX];     /* the outputs changed after the rank was done */
    struct tensor in[WORLD_MAX][PLAN_TENSORS_MAX];
};

struct record {
    struct record_options options;
    struct call *calls;
    int armed[WORLD_MAX];       /* calls: the later ones have no slot yet */
    uint8_t *images[WORLD_MAX]; /* near outputs, as they may be while no call is running */
    uint8_t *scratch;           /* a slot of inputs, all near outputs, or a piece of what is far */
    void *stash;                /* a slot of inputs, on a device */
    /* The first memory that was written and that no call may write. */
    int trespassed; /* rank; -1: none */
    bool is_slot_unused;
    struct trespass trespass;
};

static uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    value = (value ^ (value >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return value ^ (value >> 32);
}

static uint64_t near_key(const struct record *record, int rank)
{
    return red_zone_key(record->options.seed, (uint64_t)rank);
}

static uint64_t far_key(const struct record *record, int rank)
{
    return red_zone_key(record->options.far_seed, (uint64_t)WORLD_MAX + (uint64_t)rank);
}

static uint64_t larger(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

static enum status copy(void *to, const void *from, uint64_t size_bytes, struct error *err)
{
    cudaError_t error = cudaMemcpy(to, from, size_bytes, cudaMemcpyDefault);

    return error == cudaSuccess ? OK
                                : error_set(err, ERR_IO, "cudaMemcpy: %s", cudaGetErrorName(error));
}

/* Makes inputs useless. */
static enum status overwrite(void *inputs, uint64_t size_bytes, struct error *err)
{
    cudaError_t error = cudaMemset(inputs, OVERWRITE_BYTE, size_bytes);

    return error == cudaSuccess ? OK
                                : error_set(err, ERR_IO, "cudaMemset: %s", cudaGetErrorName(error));
}

/* Until the device has done it: a fill, and a short copy to it, return before. */
static enum status settle(struct error *err)
{
    return cudaStreamSynchronize(NULL) == cudaSuccess
               ? OK
               : error_set(err, ERR_IO, "the judge's device has failed");
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
    record->trespassed = -1;
    record->scratch =
        xmalloc(larger(FAR_PIECE_BYTES, larger(layouts->inputs.slot_bytes, options->near_bytes)));
    for (int number = 0; number < options->calls; number++) {
        struct call *call = &record->calls[number];
        struct tensor *in[WORLD_MAX] = {0};
        /* Neither 0 nor 255, which an untouched or a cleared page would hold. */
        call->poison = (uint8_t)(1 + mix(options->seed ^ (uint64_t)number << 8) % 254);
        for (int rank = 0; rank < world; rank++) {
            call->inputs[rank] = xmalloc(layouts->inputs.slot_bytes);
            red_zone_write(call->inputs[rank], slot_of(&layouts->inputs, number),
                           layouts->inputs.slot_bytes, near_key(record, rank));
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
        }
    }
    for (int rank = 0; rank < WORLD_MAX; rank++) {
        free(record->images[rank]);
    }
    free(record->calls);
    free(record->scratch);
    (void)cudaFree(record->stash);
    free(record);
}

/* What lies far in an arena, in pieces. False: that was the last one. */
static bool next_piece(const struct record *record, struct red_zone *piece)
{
    uint64_t end = record->options.outputs_bytes;

    piece->offset = larger(piece->offset + piece->size_bytes, record->options.near_bytes);
    piece->size_bytes =
        end - piece->offset < FAR_PIECE_BYTES ? end - piece->offset : FAR_PIECE_BYTES;
    return piece->size_bytes > 0;
}

enum status record_prepare_far(struct record *record, struct error *err)
{
    enum status status = OK;

    for (int rank = 0; rank < run_world(record->options.run); rank++) {
        struct red_zone piece = {.bytes = record->scratch, .key = far_key(record, rank)};
        while (status == OK && next_piece(record, &piece)) {
            red_zone_write(record->scratch, piece.offset, piece.size_bytes, piece.key);
            status = copy(device_address(rank, WINDOW_OUTPUTS + piece.offset), record->scratch,
                          piece.size_bytes, err);
        }
    }
    return status;
}

static enum status audit_far(struct record *record, int rank, struct error *err)
{
    struct red_zone piece = {.bytes = record->scratch, .key = far_key(record, rank)};
    enum status status = OK;

    while (status == OK && record->trespassed < 0 && next_piece(record, &piece)) {
        status = copy(record->scratch, device_address(rank, WINDOW_OUTPUTS + piece.offset),
                      piece.size_bytes, err);
        if (status == OK &&
            layout_find_trespass_behind(&record->options.layouts->outputs,
                                        run_plan(record->options.run, rank)->outputs, &piece,
                                        &record->trespass)) {
            record->trespassed = rank;
        }
    }
    return status;
}

enum status record_prepare(struct record *record, struct error *err)
{
    uint64_t size_bytes = record->options.near_bytes;
    cudaError_t error = cudaMalloc(&record->stash, record->options.layouts->inputs.slot_bytes);
    enum status status = error == cudaSuccess ? OK
                                              : error_set(err, ERR_LIMIT, "memory for inputs: %s",
                                                          cudaGetErrorName(error));

    for (int rank = 0; rank < run_world(record->options.run) && status == OK; rank++) {
        assert(record->images[rank] == NULL);
        record->images[rank] = xmalloc(size_bytes);
        red_zone_write(record->images[rank], 0, size_bytes, near_key(record, rank));
        status = copy(device_address(rank, WINDOW_OUTPUTS), record->images[rank], size_bytes, err);
    }
    return status;
}

static enum status arm_call(struct record *record, int number, int rank, struct error *err)
{
    const struct layout *inputs = &record->options.layouts->inputs;
    const struct layout *outputs = &record->options.layouts->outputs;
    const struct call *call = &record->calls[number];
    uint64_t offset = slot_of(outputs, number);
    uint8_t *image = record->images[rank] + offset;

    enum status status = copy(device_address(rank, WINDOW_INPUTS + slot_of(inputs, number)),
                              call->inputs[rank], inputs->slot_bytes, err);
    if (status != OK) {
        return status;
    }
    red_zone_write(image, offset, outputs->slot_bytes, near_key(record, rank));
    layout_poison(outputs, run_plan(record->options.run, rank)->outputs, image, call->poison);
    return copy(device_address(rank, WINDOW_OUTPUTS + offset), image, outputs->slot_bytes, err);
}

enum status record_withhold(struct record *record, int rank, int first_call, int count,
                            struct error *err)
{
    const struct layout *inputs = &record->options.layouts->inputs;

    for (int call = first_call; call < first_call + count; call++) {
        enum status status = overwrite(device_address(rank, WINDOW_INPUTS + slot_of(inputs, call)),
                                       inputs->slot_bytes, err);
        if (status != OK) {
            return status;
        }
    }
    return settle(err);
}

enum status record_arm(struct record *record, int rank, int first_call, int count,
                       struct error *err)
{
    assert(first_call + count <= record->options.calls);
    for (int call = first_call; call < first_call + count; call++) {
        enum status status = arm_call(record, call, rank, err);
        if (status != OK) {
            return status;
        }
    }
    record->armed[rank] = first_call + count;
    return settle(err);
}

/* From now on the outputs of the call have to stay as they are. Its red zones had to all along. */
static void keep_outputs(struct record *record, int number, int rank)
{
    const struct layout *outputs = &record->options.layouts->outputs;
    const struct tensor_spec *specs = run_plan(record->options.run, rank)->outputs;
    uint8_t *image = record->images[rank] + slot_of(outputs, number);

    for (int i = 0; i < outputs->count; i++) {
        memcpy(image + outputs->offsets[i],
               record->calls[number].outputs[rank] + outputs->offsets[i], specs[i].size_bytes);
    }
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
    /* First of all, and without a wait in between: the inputs are gone as soon as they may be. */
    enum status status = copy(record->stash, in, inputs->slot_bytes, err);
    if (status == OK) {
        status = overwrite(in, inputs->slot_bytes, err);
    }
    if (status == OK) {
        status = copy(call->outputs[rank],
                      device_address(rank, WINDOW_OUTPUTS + slot_of(outputs, number)),
                      outputs->slot_bytes, err);
    }
    if (status == OK) {
        status = copy(record->scratch, record->stash, inputs->slot_bytes, err);
    }
    if (status != OK) {
        return status;
    }
    keep_outputs(record, number, rank);
    call->is_changed[rank] = memcmp(record->scratch, call->inputs[rank], inputs->slot_bytes) != 0;
    return OK;
}

/* The last call that was given the slot; -1: none yet. */
static int call_in_slot(const struct record *record, int rank, int slot)
{
    int number = record->armed[rank] - 1;

    while (number >= 0 && number % CHANNEL_SLOTS != slot) {
        number--;
    }
    return number;
}

/* Compares the tensors of a slot in `arena` with what they have to be. */
static void audit_slot(struct record *record, int rank, int slot, const uint8_t *arena)
{
    const struct layout *outputs = &record->options.layouts->outputs;
    const struct tensor_spec *specs = run_plan(record->options.run, rank)->outputs;
    int number = call_in_slot(record, rank, slot);

    for (int i = 0; i < outputs->count; i++) {
        uint64_t offset = layout_slot(outputs, slot) + outputs->offsets[i];
        if (memcmp(arena + offset, record->images[rank] + offset, specs[i].size_bytes) == 0) {
            continue;
        }
        if (number >= 0) {
            record->calls[number].is_late[rank] = true;
        } else if (record->trespassed < 0) {
            record->trespassed = rank;
            record->is_slot_unused = true;
            record->trespass = (struct trespass){.slot = slot, .tensor = i};
        }
    }
}

enum status record_audit(struct record *record, int rank, struct error *err)
{
    const struct plan *plan = run_plan(record->options.run, rank);
    uint64_t size_bytes = record->options.near_bytes;

    enum status status =
        copy(record->scratch, device_address(rank, WINDOW_OUTPUTS), size_bytes, err);
    if (status != OK) {
        return status;
    }
    if (record->trespassed < 0 &&
        layout_find_trespass(&record->options.layouts->outputs, plan->outputs, record->scratch,
                             size_bytes, near_key(record, rank), &record->trespass)) {
        record->trespassed = rank;
    }
    for (int slot = 0; slot < CHANNEL_SLOTS; slot++) {
        audit_slot(record, rank, slot, record->scratch);
    }
    return OK;
}

enum status record_resume(struct record *record, int rank, struct error *err)
{
    const struct layout *outputs = &record->options.layouts->outputs;
    const struct tensor_spec *specs = run_plan(record->options.run, rank)->outputs;
    enum status status = copy(record->scratch, device_address(rank, WINDOW_OUTPUTS),
                              record->options.near_bytes, err);

    for (int i = 0; i < CHANNEL_SLOTS * outputs->count && status == OK; i++) {
        int tensor = i % outputs->count;
        uint64_t offset = layout_slot(outputs, i / outputs->count) + outputs->offsets[tensor];
        memcpy(record->images[rank] + offset, record->scratch + offset, specs[tensor].size_bytes);
    }
    return status;
}

static uint64_t digest_bytes(uint64_t digest, const uint8_t *bytes, uint64_t size_bytes)
{
    for (uint64_t at = 0; at < size_bytes; at += sizeof digest) {
        uint64_t word = 0;
        uint64_t left = size_bytes - at;
        memcpy(&word, bytes + at, left < sizeof word ? left : sizeof word);
        digest = mix(digest + word + UINT64_C(0x9e3779b97f4a7c15));
    }
    return digest;
}

uint64_t record_digest(const struct record *record, int calls, uint64_t digest)
{
    const struct layout *outputs = &record->options.layouts->outputs;
    const struct run *run = record->options.run;

    for (int number = 0; number < calls; number++) {
        for (int rank = 0; rank < run_world(run); rank++) {
            const struct tensor_spec *specs = run_plan(run, rank)->outputs;
            const uint8_t *slot = record->calls[number].outputs[rank];
            for (int i = 0; i < outputs->count; i++) {
                digest = digest_bytes(digest, slot + outputs->offsets[i], specs[i].size_bytes);
            }
        }
    }
    return digest;
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
    if (call->is_late[detail.rank]) {
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
    struct place place = {.stage = "check", .run = record->options.run, .call = -1};

    if (record->trespassed < 0) {
        return false;
    }
    if (record->is_slot_unused) {
        report_verdict(result, &place, VERDICT_CONTRACT_VIOLATION, "red_zone",
                       "memory of rank %d was written that is for outputs of a later call",
                       record->trespassed);
        result->rank = record->trespassed;
    } else {
        report_trespass(result, &place, record->trespassed, &record->trespass);
    }
    return true;
}

/* Of calls that were right when they were done. */
static bool find_late_write(const struct record *record, struct result *result)
{
    for (int number = 0; number < record->options.calls; number++) {
        for (int rank = 0; rank < run_world(record->options.run); rank++) {
            struct place place = {.stage = "check", .run = record->options.run, .call = number};
            if (record->calls[number].is_late[rank]) {
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
    for (int rank = 0; rank < run_world(record->options.run); rank++) {
        enum status status = record_audit(record, rank, err);
        if (status == OK) {
            status = audit_far(record, rank, err);
        }
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
