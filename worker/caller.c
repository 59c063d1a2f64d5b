#include "worker/caller.h"

#include "common/clock.h"
#include "common/mem.h"
#include "worker/layout.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EAGER_MS = 500, PAUSE_MS = 1 };

struct caller {
    struct caller_options options;
    int (*setup)(struct pkb_ctx *, const struct pkb_params *);
    int (*run)(struct pkb_ctx *, const struct pkb_params *, const struct pkb_inputs *,
               const struct pkb_outputs *);
    void (*teardown)(struct pkb_ctx *);
    void (*call_ends)(void); /* tells the simulator so; NULL: it is none */
    cudaEvent_t done[CHANNEL_CALLS_MAX];
    struct pkb_ctx ctx; /* of the run */
    void *inputs[CHANNEL_SLOTS][PLAN_TENSORS_MAX + 1];
    void *outputs[CHANNEL_SLOTS][PLAN_TENSORS_MAX + 1];
    _Alignas(16) uint8_t params[RUN_PARAMS_MAX];
};

static enum status cuda_failed(struct error *err, cudaError_t error, const char *call)
{
    return error_set(err, ERR_IO, "%s: %s", call, cudaGetErrorName(error));
}

enum status caller_open(struct caller **caller, const struct caller_options *options,
                        struct error *err)
{
    struct caller *made = xcalloc(1, sizeof *made);

    made->options = *options;
    *(void **)&made->call_ends = dlsym(RTLD_DEFAULT, "pkb_sim_call_ends");
    for (int i = 0; i < CHANNEL_CALLS_MAX; i++) {
        cudaError_t error = cudaEventCreateWithFlags(&made->done[i], cudaEventDisableTiming);
        if (error != cudaSuccess) {
            free(made);
            return cuda_failed(err, error, "cudaEventCreateWithFlags");
        }
    }
    void *library = dlopen(options->library, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        free(made);
        return error_set(err, ERR_INVALID, "%s", dlerror());
    }
    *(void **)&made->setup = dlsym(library, "pkb_setup");
    *(void **)&made->run = dlsym(library, "pkb_run");
    *(void **)&made->teardown = dlsym(library, "pkb_teardown");
    if (made->run == NULL) {
        dlclose(library);
        free(made);
        return error_set(err, ERR_INVALID, "'pkb_run' is missing");
    }
    *caller = made;
    return OK;
}

bool caller_is_simulated(void)
{
    return getenv("PKB_SIM_FD") != NULL;
}

void caller_pause(int64_t since_ms)
{
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};

    if (!caller_is_simulated() && clock_monotonic_ms() - since_ms > EAGER_MS) {
        (void)nanosleep(&pause, NULL);
    }
}

static enum status take_addresses(const struct caller *caller, void **to, const uint64_t *offsets,
                                  int count, struct error *err)
{
    if (count < 0 || count > PLAN_TENSORS_MAX) {
        return error_set(err, ERR_PROTOCOL, "a run with %d tensors", count);
    }
    for (int i = 0; i < count; i++) {
        to[i] = offsets[i] == UINT64_MAX
                    ? NULL
                    : (void *)(uintptr_t)window_address(caller->options.rank, offsets[i]);
    }
    return OK;
}

enum status caller_begin_run(struct caller *caller, struct symm *symm, const struct run_body *run,
                             struct progress_body *ready, struct error *err)
{
    const struct caller_options *options = &caller->options;
    enum status status = OK;

    for (int slot = 0; slot < CHANNEL_SLOTS && status == OK; slot++) {
        status =
            take_addresses(caller, caller->inputs[slot], run->inputs[slot], run->input_count, err);
        if (status == OK) {
            status = take_addresses(caller, caller->outputs[slot], run->outputs[slot],
                                    run->output_count, err);
        }
    }
    if (status != OK) {
        return status;
    }
    memcpy(caller->params, run->params, sizeof caller->params);
    caller->ctx = (struct pkb_ctx){.abi = PKB_ABI,
                                   .rank = options->rank,
                                   .world = options->world,
                                   .device = options->device,
                                   .stream = options->stream,
                                   .peer_stride_bytes = (int64_t)WINDOW_STRIDE};
    symm_begin_run(symm, &caller->ctx);
    *ready = (struct progress_body){0};
    if (caller->setup != NULL) {
        ready->code = caller->setup(&caller->ctx, (const struct pkb_params *)caller->params);
        ready->last_error = cudaGetLastError();
    }
    if (ready->code == 0) {
        ready->cuda_error = cudaDeviceSynchronize();
    }
    symm_end_setup(symm);
    return OK;
}

static enum status tell(const struct caller *caller, enum message_kind kind,
                        const struct progress_body *body, struct error *err)
{
    struct message_parts parts = {.kind = kind, .body = body, .size_bytes = sizeof *body};

    return channel_send(caller->options.judge, &parts, err);
}

/* Tells of the calls whose work on the stream has ended, in their order. Of all that have returned,
 * a simulator is asked to say when. */
static enum status tell_finished(const struct caller *caller, const struct calls_body *calls,
                                 int returned, int *finished, struct error *err)
{
    bool blocks = returned == calls->count && caller_is_simulated();
    enum status status = OK;

    while (*finished < returned && status == OK) {
        cudaEvent_t done = caller->done[*finished];
        cudaError_t error = blocks ? cudaEventSynchronize(done) : cudaEventQuery(done);
        if (error == cudaErrorNotReady) {
            /* A query that says so is also kept as the last error. */
            (void)cudaGetLastError();
            return OK;
        }
        struct progress_body body = {.call = calls->first_call + *finished, .cuda_error = error};
        status = tell(caller, MESSAGE_FINISHED, &body, err);
        (*finished)++;
    }
    return status;
}

enum status caller_call(struct caller *caller, int call, int slot, cudaEvent_t done,
                        struct error *err)
{
    struct progress_body body = {.call = call};

    enum status status = tell(caller, MESSAGE_ENTERED, &body, err);
    if (status != OK) {
        return status;
    }
    body.code = caller->run(&caller->ctx, (const struct pkb_params *)caller->params,
                            (const struct pkb_inputs *)caller->inputs[slot],
                            (const struct pkb_outputs *)caller->outputs[slot]);
    body.last_error = cudaGetLastError();
    if (caller->call_ends != NULL) {
        caller->call_ends();
    }
    body.cuda_error = cudaEventRecord(done, caller->options.stream);
    return tell(caller, MESSAGE_RETURNED, &body, err);
}

enum status caller_calls(struct caller *caller, const struct calls_body *calls, struct error *err)
{
    enum status status = OK;
    int finished = 0;

    if (calls->count < 0 || calls->count > CHANNEL_CALLS_MAX) {
        return error_set(err, ERR_PROTOCOL, "%d calls at once", calls->count);
    }
    for (int i = 0; i < calls->count && status == OK; i++) {
        if (calls->slots[i] < 0 || calls->slots[i] >= CHANNEL_SLOTS) {
            return error_set(err, ERR_PROTOCOL, "no slot %d", calls->slots[i]);
        }
        status = caller_call(caller, calls->first_call + i, calls->slots[i], caller->done[i], err);
        if (status == OK) {
            status = tell_finished(caller, calls, i + 1, &finished, err);
        }
    }
    int64_t since_ms = clock_monotonic_ms();
    while (status == OK && finished < calls->count) {
        caller_pause(since_ms);
        status = tell_finished(caller, calls, calls->count, &finished, err);
    }
    return status;
}

void caller_end_run(struct caller *caller, struct symm *symm, struct progress_body *ended)
{
    *ended = (struct progress_body){0};
    ended->cuda_error = cudaDeviceSynchronize();
    if (caller->teardown != NULL) {
        caller->teardown(&caller->ctx);
        ended->last_error = cudaGetLastError();
        cudaError_t error = cudaDeviceSynchronize();
        ended->cuda_error = ended->cuda_error != 0 ? ended->cuda_error : (int32_t)error;
    }
    symm_end_run(symm);
}
