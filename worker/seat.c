#include "worker/seat.h"

#include "common/mem.h"
#include "worker/channel.h"
#include "worker/kernels.h"
#include "worker/statistics.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    CANARY_TURNS = 20000, /* some 100 us */
    BUSY_CANARIES = 9,
    CANARIES_MAX = 1024,
    QUIET_CANARIES = 50,
    QUIET_SKIPPED = 10, /* until the clocks are up */
    GAPS = 25,
};

/* Who takes turns with us makes us wait: that shows by the wall's clock, which is coarse. */
#define DISTURBED_SHARE 1.3
#define DISTURBED_LEAST_US 30.0
/* Who sits on a place makes all of it take longer than a block of it, at whatever clocks. */
#define SPREAD_SHARE 1.03
#define SPREAD_LEAST_US 5.0
#define SLOW_SHARE 1.03

/* One look at the GPU. */
struct look {
    double wall_us;
    double block_us; /* the fastest block */
    double spread;   /* all blocks together, in fastest blocks */
};

struct staging {
    void *memory;
    uint64_t size_bytes;
};

struct seat {
    int device;
    cudaStream_t stream;
    struct kernels *kernels;
    struct kernels_scratch *scratch; /* device memory */
    struct staging staging[WORLD_MAX][CHANNEL_SLOTS];
    void *flush;
    size_t flush_bytes;
    struct kernels_span *span; /* device memory */
    cudaEvent_t start, end;
    struct look quiet;               /* medians */
    struct look looks[CANARIES_MAX]; /* the last ones, in a ring */
    size_t look_count;               /* since seat_watch */
};

static enum status check(cudaError_t error, const char *call, struct error *err)
{
    if (error == cudaSuccess) {
        return OK;
    }
    return error_set(err, error == cudaErrorMemoryAllocation ? ERR_LIMIT : ERR_IO, "%s: %s", call,
                     cudaGetErrorName(error));
}

static enum status enter(const struct seat *seat, struct error *err)
{
    return check(cudaSetDevice(seat->device), "cudaSetDevice", err);
}

/*
 * Takes the whole GPU for a moment: a kernel of another process that shares the GPU keeps a place
 * of it, and one that takes turns with us makes us wait for ours.
 */
static enum status look(struct seat *seat, struct error *err)
{
    static const struct kernels_span none = {.first = UINT64_MAX, .least = UINT64_MAX};
    struct kernels_span span = none;
    struct timespec before;
    struct timespec after;

    enum status status =
        check(cudaMemcpyAsync(seat->span, &none, sizeof none, cudaMemcpyHostToDevice, seat->stream),
              "cudaMemcpyAsync", err);
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    if (status == OK) {
        status = kernels_canary(seat->kernels, seat->stream, CANARY_TURNS, seat->span, err);
    }
    if (status == OK) {
        status = check(cudaStreamSynchronize(seat->stream), "cudaStreamSynchronize", err);
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    if (status == OK) {
        status = seat_copy_out(seat, (uint8_t *)&span, (uint64_t)(uintptr_t)seat->span, sizeof span,
                               err);
    }
    seat->looks[seat->look_count++ % CANARIES_MAX] =
        (struct look){.wall_us = (double)(after.tv_sec - before.tv_sec) * 1e6 +
                                 (double)(after.tv_nsec - before.tv_nsec) / 1e3,
                      .block_us = (double)span.least / 1e3,
                      .spread = (double)(span.last - span.first) / (double)span.least};
    return status;
}

static struct look medians(const struct seat *seat, size_t first)
{
    size_t count = seat->look_count < CANARIES_MAX ? seat->look_count : CANARIES_MAX;
    double walls[CANARIES_MAX];
    double blocks[CANARIES_MAX];
    double spreads[CANARIES_MAX];

    assert(first < count);
    for (size_t i = first; i < count; i++) {
        walls[i] = seat->looks[i].wall_us;
        blocks[i] = seat->looks[i].block_us;
        spreads[i] = seat->looks[i].spread;
    }
    return (struct look){.wall_us = statistics_median(walls + first, count - first),
                         .block_us = statistics_median(blocks + first, count - first),
                         .spread = statistics_median(spreads + first, count - first)};
}

static enum status measure_quiet(struct seat *seat, struct error *err)
{
    enum status status = OK;

    for (int i = 0; i < QUIET_SKIPPED + QUIET_CANARIES && status == OK; i++) {
        status = look(seat, err);
    }
    if (status == OK) {
        seat->quiet = medians(seat, QUIET_SKIPPED);
        seat_watch(seat);
        /* The compiler must have left its turns in. */
        if (seat->quiet.block_us < SPREAD_LEAST_US) {
            status = error_set(err, ERR_IO, "the canary takes %.2f us and shows nothing",
                               seat->quiet.block_us);
        }
    }
    return status;
}

static enum status make(struct seat *seat, struct error *err)
{
    int cache_bytes = 0;
    enum status status = enter(seat, err);

    if (status == OK) {
        status = check(cudaStreamCreateWithFlags(&seat->stream, cudaStreamNonBlocking),
                       "cudaStreamCreateWithFlags", err);
    }
    if (status == OK) {
        status = kernels_load(&seat->kernels, err);
    }
    if (status == OK) {
        status =
            check(cudaMalloc((void **)&seat->scratch, sizeof *seat->scratch), "cudaMalloc", err);
    }
    if (status == OK) {
        status = check(cudaMalloc((void **)&seat->span, sizeof *seat->span), "cudaMalloc", err);
    }
    if (status == OK) {
        status = check(cudaEventCreate(&seat->start), "cudaEventCreate", err);
    }
    if (status == OK) {
        status = check(cudaEventCreate(&seat->end), "cudaEventCreate", err);
    }
    if (status == OK) {
        status = check(cudaDeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, seat->device),
                       "cudaDeviceGetAttribute", err);
        seat->flush_bytes = 2 * (size_t)cache_bytes;
    }
    if (status == OK) {
        status = check(cudaMalloc(&seat->flush, seat->flush_bytes), "cudaMalloc", err);
    }
    return status == OK ? measure_quiet(seat, err) : status;
}

enum status seat_open(struct seat **seat, int device, struct error *err)
{
    struct seat *made = xcalloc(1, sizeof *made);

    made->device = device;
    enum status status = make(made, err);
    if (status != OK) {
        seat_close(made);
        return status;
    }
    *seat = made;
    return OK;
}

void seat_close(struct seat *seat)
{
    if (seat == NULL) {
        return;
    }
    for (int rank = 0; rank < WORLD_MAX; rank++) {
        for (int call = 0; call < CHANNEL_SLOTS; call++) {
            (void)cudaFree(seat->staging[rank][call].memory);
        }
    }
    (void)cudaFree(seat->flush);
    (void)cudaFree(seat->span);
    (void)cudaFree(seat->scratch);
    kernels_unload(seat->kernels);
    free(seat);
}

enum status seat_begin(struct seat *seat, const uint32_t *key, struct error *err)
{
    enum status status = enter(seat, err);

    if (status != OK) {
        return status;
    }
    return check(cudaMemcpyAsync(seat->scratch->words, key, REVEAL_WORDS * sizeof *key,
                                 cudaMemcpyHostToDevice, seat->stream),
                 "cudaMemcpyAsync", err);
}

static enum status grow(struct staging *staging, uint64_t size_bytes, struct error *err)
{
    if (staging->size_bytes >= size_bytes) {
        return OK;
    }
    (void)cudaFree(staging->memory);
    *staging = (struct staging){0};
    enum status status = check(cudaMalloc(&staging->memory, size_bytes), "cudaMalloc", err);
    staging->size_bytes = status == OK ? size_bytes : 0;
    return status;
}

enum status seat_hide(struct seat *seat, const struct hiding *hiding, struct error *err)
{
    struct staging *staging = &seat->staging[hiding->rank][hiding->call];
    enum status status = enter(seat, err);

    if (status == OK) {
        status = grow(staging, hiding->size_bytes, err);
    }
    if (status == OK) {
        status = check(cudaMemcpyAsync(staging->memory, hiding->image, hiding->size_bytes,
                                       cudaMemcpyHostToDevice, seat->stream),
                       "cudaMemcpyAsync", err);
    }
    if (status != OK) {
        return status;
    }
    struct masking masking = {.to = hiding->to,
                              .from = (uint64_t)(uintptr_t)staging->memory,
                              .size_bytes = hiding->size_bytes,
                              .key = (uint64_t)(uintptr_t)seat->scratch->words,
                              .stream = hiding->stream};
    return kernels_mask(seat->kernels, seat->stream, &masking, err);
}

uint64_t seat_image(const struct seat *seat, int rank, int call)
{
    return (uint64_t)(uintptr_t)seat->staging[rank][call].memory;
}

enum status seat_poison(struct seat *seat, uint64_t to, uint64_t size_bytes, uint8_t poison,
                        struct error *err)
{
    enum status status = enter(seat, err);

    if (status != OK || size_bytes == 0) {
        return status;
    }
    return check(cudaMemsetAsync((void *)(uintptr_t)to, poison, size_bytes, seat->stream),
                 "cudaMemsetAsync", err);
}

enum status seat_leave(struct seat *seat, struct error *err)
{
    enum status status = enter(seat, err);

    if (status == OK) {
        status = check(cudaStreamSynchronize(seat->stream), "cudaStreamSynchronize", err);
    }
    if (status == OK) {
        status = look(seat, err);
    }
    if (status == OK) {
        status = check(cudaMemsetAsync(seat->flush, 0, seat->flush_bytes, seat->stream),
                       "cudaMemsetAsync", err);
    }
    if (status == OK) {
        status = check(cudaStreamSynchronize(seat->stream), "cudaStreamSynchronize", err);
    }
    cudaError_t error = status == OK ? cudaCtxResetPersistingL2Cache() : cudaSuccess;
    if (error == cudaErrorNotSupported) { /* then no line persists */
        (void)cudaGetLastError();
        error = cudaSuccess;
    }
    return status == OK ? check(error, "cudaCtxResetPersistingL2Cache", err) : status;
}

enum status seat_sum(struct seat *seat, const struct summing *summing, uint64_t *sum,
                     struct error *err)
{
    struct kernels_scratch start = {0};
    struct proving proving = {.from = summing->from,
                              .words = summing->size_bytes / sizeof(uint32_t),
                              .first = summing->first,
                              .sample = summing->sample,
                              .scratch = seat->scratch};
    uint64_t added = 0;
    enum status status = enter(seat, err);

    memcpy(start.words, summing->nonce, sizeof start.words);
    if (status == OK) {
        status = check(cudaMemcpyAsync(seat->scratch, &start, sizeof start, cudaMemcpyHostToDevice,
                                       seat->stream),
                       "cudaMemcpyAsync", err);
    }
    if (status == OK) {
        status = kernels_prove(seat->kernels, seat->stream, &proving, err);
    }
    if (status == OK) {
        status = seat_copy_out(seat, (uint8_t *)&added, (uint64_t)(uintptr_t)&seat->scratch->sum,
                               sizeof added, err);
    }
    *sum += status == OK ? added : 0;
    return status;
}

enum status seat_copy_out(struct seat *seat, uint8_t *to, uint64_t from, uint64_t size_bytes,
                          struct error *err)
{
    enum status status = enter(seat, err);

    if (status == OK) {
        status = check(cudaMemcpyAsync(to, (const void *)(uintptr_t)from, size_bytes,
                                       cudaMemcpyDeviceToHost, seat->stream),
                       "cudaMemcpyAsync", err);
    }
    return status == OK ? check(cudaStreamSynchronize(seat->stream), "cudaStreamSynchronize", err)
                        : status;
}

enum status seat_gap(struct seat *seat, int records, double *gap_us, struct error *err)
{
    double gaps_us[GAPS];
    enum status status = enter(seat, err);

    for (int i = 0; i < GAPS && status == OK; i++) {
        float elapsed_ms = 0;
        /* So that both are there before the GPU comes to the first. */
        status = kernels_canary(seat->kernels, seat->stream, CANARY_TURNS, seat->span, err);
        if (status == OK) {
            status = check(cudaEventRecord(seat->start, seat->stream), "cudaEventRecord", err);
        }
        for (int record = 0; record < records && status == OK; record++) {
            status = check(cudaEventRecord(seat->end, seat->stream), "cudaEventRecord", err);
        }
        if (status == OK) {
            status = check(cudaStreamSynchronize(seat->stream), "cudaStreamSynchronize", err);
        }
        if (status == OK) {
            status = check(cudaEventElapsedTime(&elapsed_ms, seat->start, seat->end),
                           "cudaEventElapsedTime", err);
        }
        gaps_us[i] = (double)elapsed_ms * 1e3;
    }
    if (status == OK) {
        *gap_us = statistics_median(gaps_us, GAPS);
    }
    return status;
}

void seat_watch(struct seat *seat)
{
    seat->look_count = 0;
}

bool seat_is_disturbed(const struct seat *seat, double *now_us, double *quiet_us)
{
    if (seat->look_count == 0) {
        return false;
    }
    struct look now = medians(seat, 0);
    bool is_sat_on = now.spread > SPREAD_SHARE * seat->quiet.spread &&
                     (now.spread - seat->quiet.spread) * seat->quiet.block_us > SPREAD_LEAST_US;
    *now_us = is_sat_on ? now.spread * seat->quiet.block_us : now.wall_us;
    *quiet_us = is_sat_on ? seat->quiet.spread * seat->quiet.block_us : seat->quiet.wall_us;
    return is_sat_on || now.wall_us > DISTURBED_SHARE * seat->quiet.wall_us + DISTURBED_LEAST_US;
}

bool seat_is_slow(const struct seat *seat)
{
    return seat->look_count > 0 && medians(seat, 0).block_us > SLOW_SHARE * seat->quiet.block_us;
}

bool seat_is_busy(struct seat *seat)
{
    struct error err = {0};
    double now_us = 0;
    double quiet_us = 0;

    seat_watch(seat);
    for (int i = 0; i < BUSY_CANARIES; i++) {
        if (enter(seat, &err) != OK || look(seat, &err) != OK) {
            return true; /* a GPU that does not even do this */
        }
    }
    return seat_is_disturbed(seat, &now_us, &quiet_us);
}
