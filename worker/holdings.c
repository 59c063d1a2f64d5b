#include "worker/holdings.h"

#include "worker/layout.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

/* Behind the last slot so much more is looked at whenever the slots are. */
enum { SIGNAL_BYTES = 65536, MARGIN_BYTES = 65536 };

static bool is_of_class(const char *name, const char *class_name)
{
    size_t length = strlen(class_name);

    return strncmp(name, class_name, length) == 0 && (name[length] == 0 || name[length] == '/');
}

static enum status open_class(struct holdings *holdings, const struct job_body *job,
                              const struct task *task, const char *class_name, struct error *err)
{
    enum status status = OK;

    for (int i = 0; i < task_case_count(task); i++) {
        if (!is_of_class(task_case_name(task, i), class_name) ||
            !task_case_allows_world(task, i, holdings->world)) {
            continue;
        }
        for (int variant = 0; variant < task_variant_count(task, i) && status == OK; variant++) {
            struct run_choice choice = {.case_index = i,
                                        .variant = variant,
                                        .world = holdings->world,
                                        .dtype = (enum dtype)job->dtype};
            if (holdings->run_count == HOLDINGS_RUNS_MAX) {
                return error_set(err, ERR_INTERNAL, "over %d runs", HOLDINGS_RUNS_MAX);
            }
            status = run_open(&holdings->runs[holdings->run_count], task, &choice, err);
            holdings->run_count += status == OK;
        }
    }
    return status;
}

enum status holdings_open_runs(struct holdings *holdings, const struct job_body *job,
                               struct error *err)
{
    char number[16];

    (void)snprintf(number, sizeof number, "%d", job->task_number);
    const struct task *task = task_find(number);
    if (task == NULL) {
        return error_set(err, ERR_INTERNAL, "no task %s", number);
    }
    holdings->world = job->world;
    enum status status = open_class(holdings, job, task, "check", err);
    if (status == OK && holdings->run_count == 0) {
        status = error_set(err, ERR_INTERNAL, "no check case for a world of %d", job->world);
    }
    int checked = holdings->run_count;
    if (status == OK && job->passes > 0) {
        status = open_class(holdings, job, task, "bench", err);
    }
    holdings->timed_count = holdings->run_count - checked;
    return status;
}

static enum status make_arenas(const struct holdings *holdings, struct arena *arenas,
                               uint64_t offset, uint64_t size_bytes, struct error *err)
{
    enum status status = OK;

    for (int rank = 0; rank < holdings->world && status == OK; rank++) {
        struct arena_place place = {.address = window_address(rank, offset),
                                    .size_bytes = size_bytes,
                                    .device_count = arena_device_count(holdings->world)};
        status = arena_make(&arenas[rank], arena_device(rank), &place, err);
    }
    return status;
}

enum status holdings_make(struct holdings *holdings, struct error *err)
{
    struct symmetric_place signals = {.offset = WINDOW_SYMM,
                                      .size_bytes = SIGNAL_BYTES,
                                      .world = holdings->world,
                                      .has_multicast = holdings->has_multicast};
    enum status status = symmetric_round(&signals, err);

    holdings->signal_bytes = signals.size_bytes;
    for (int i = 0; i < holdings->run_count; i++) {
        struct layouts layouts;
        layouts_make(&layouts, holdings->runs[i]);
        if (layouts.inputs.arena_bytes > holdings->inputs_bytes) {
            holdings->inputs_bytes = layouts.inputs.arena_bytes;
        }
        if (layouts.outputs.arena_bytes > holdings->outputs_bytes) {
            holdings->outputs_bytes = layouts.outputs.arena_bytes;
        }
    }
    holdings->near_bytes = holdings->outputs_bytes + MARGIN_BYTES;
    uint64_t *sizes[] = {&holdings->inputs_bytes, &holdings->outputs_bytes};
    for (int i = 0; i < 2 && status == OK; i++) {
        status = arena_round(sizes[i], 0, err);
    }
    if (holdings->near_bytes > holdings->outputs_bytes) {
        holdings->near_bytes = holdings->outputs_bytes;
    }
    if (status == OK) {
        status =
            make_arenas(holdings, holdings->inputs, WINDOW_INPUTS, holdings->inputs_bytes, err);
    }
    if (status == OK) {
        status =
            make_arenas(holdings, holdings->outputs, WINDOW_OUTPUTS, holdings->outputs_bytes, err);
    }
    if (status == OK) {
        status = symmetric_make(&holdings->signals, &signals, err);
    }
    return status;
}

void holdings_attach(const struct holdings *holdings, struct peers *peers)
{
    int world = holdings->world;
    struct attach_body body = {.world = world,
                               .inputs_bytes = holdings->inputs_bytes,
                               .outputs_bytes = holdings->outputs_bytes,
                               .signal_bytes = holdings->signal_bytes};
    int fds[2 * WORLD_MAX + SYMMETRIC_FDS_MAX];

    for (int rank = 0; rank < world; rank++) {
        fds[rank] = holdings->inputs[rank].fd;
        fds[world + rank] = holdings->outputs[rank].fd;
    }
    int fd_count = 2 * world + symmetric_fds(&holdings->signals, fds + (ptrdiff_t)2 * world);
    for (int rank = 0; rank < world; rank++) {
        body.rank = rank;
        peers_send(peers, rank,
                   &(struct message_parts){.kind = MESSAGE_ATTACH,
                                           .body = &body,
                                           .size_bytes = sizeof body,
                                           .fds = fds,
                                           .fd_count = fd_count},
                   RANK_LOADING);
    }
}

enum status holdings_clear_signals(const struct holdings *holdings, struct error *err)
{
    for (int rank = 0; rank < holdings->world; rank++) {
        if (cudaMemset((void *)(uintptr_t)holdings->signals.arenas[rank].address, 0,
                       SIGNAL_BYTES) != cudaSuccess) {
            return error_set(err, ERR_IO, "cannot clear a signal pad");
        }
    }
    return cudaStreamSynchronize(NULL) == cudaSuccess
               ? OK
               : error_set(err, ERR_IO, "cannot clear the signal pads");
}

void holdings_release(struct holdings *holdings)
{
    for (int i = 0; i < holdings->run_count; i++) {
        run_close(holdings->runs[i]);
    }
    for (int rank = 0; rank < WORLD_MAX; rank++) {
        arena_release(&holdings->inputs[rank]);
        arena_release(&holdings->outputs[rank]);
    }
    symmetric_release(&holdings->signals);
    *holdings = (struct holdings){0};
}
