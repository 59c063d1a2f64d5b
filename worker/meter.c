#include "worker/meter.h"

#include "common/clock.h"
#include "common/mem.h"
#include "worker/kernels.h"
#include "worker/layout.h"

#include <assert.h>
#include <cuda.h>
#include <stdlib.h>
#include <sys/mman.h>

struct meter {
    struct meter_options options;
    struct kernels *kernels;
    struct kernels_scratch *scratch; /* device memory */
    struct reveal_page *page;        /* as the GPU sees it */
    uint64_t inputs;                 /* a second mapping, writable */
    cudaEvent_t start, end;
};

static enum status cuda_failed(struct error *err, cudaError_t error, const char *call)
{
    return error_set(err, ERR_IO, "%s: %s", call, cudaGetErrorName(error));
}

/* The pages stay mapped and pinned until this process ends. */
static enum status map_page(struct meter *meter, struct error *err)
{
    void *page = mmap(NULL, REVEAL_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                      meter->options.page_fd, 0);

    if (page == MAP_FAILED) {
        return error_set(err, ERR_IO, "cannot map the clock's page: %m");
    }
    cudaError_t error = cudaHostRegister(page, REVEAL_PAGE_BYTES, cudaHostRegisterMapped);
    if (error != cudaSuccess) {
        return cuda_failed(err, error, "cudaHostRegister");
    }
    error = cudaHostGetDevicePointer((void **)&meter->page, page, 0);
    return error == cudaSuccess ? OK : cuda_failed(err, error, "cudaHostGetDevicePointer");
}

static enum status map_inputs(struct meter *meter, struct error *err)
{
    CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = meter->options.device},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr address = 0;
    size_t size_bytes = meter->options.inputs_bytes;
    const char *call = "cuMemImportFromShareableHandle";

    CUresult result =
        cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)meter->options.inputs_fd,
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result == CUDA_SUCCESS) {
        call = "cuMemAddressReserve";
        result = cuMemAddressReserve(&address, size_bytes, 0, 0, 0);
    }
    if (result == CUDA_SUCCESS) {
        call = "cuMemMap";
        result = cuMemMap(address, size_bytes, 0, handle, 0);
    }
    if (result == CUDA_SUCCESS) {
        call = "cuMemSetAccess";
        result = cuMemSetAccess(address, size_bytes, &access, 1);
    }
    if (result != CUDA_SUCCESS) {
        const char *name = NULL;
        (void)cuGetErrorName(result, &name);
        return error_set(err, ERR_IO, "%s of the inputs: %s", call, name == NULL ? "?" : name);
    }
    meter->inputs = address;
    return OK;
}

static enum status make_events(struct meter *meter, struct error *err)
{
    cudaError_t error = cudaEventCreate(&meter->start);

    if (error == cudaSuccess) {
        error = cudaEventCreate(&meter->end);
    }
    if (error == cudaSuccess) {
        error = cudaMalloc((void **)&meter->scratch, sizeof *meter->scratch);
    }
    if (error == cudaSuccess) {
        error = cudaMemset(meter->scratch, 0, sizeof *meter->scratch);
    }
    return error == cudaSuccess ? OK : cuda_failed(err, error, "what the clock needs");
}

/* What a failure leaves behind ends with the process, which cannot go on then. */
enum status meter_open(struct meter **meter, const struct meter_options *options, struct error *err)
{
    struct meter *made = xcalloc(1, sizeof *made);

    made->options = *options;
    enum status status = kernels_load(&made->kernels, err);
    if (status == OK) {
        status = map_page(made, err);
    }
    if (status == OK) {
        status = map_inputs(made, err);
    }
    if (status == OK) {
        status = make_events(made, err);
    }
    if (status != OK) {
        free(made);
        return status;
    }
    *meter = made;
    return OK;
}

static enum status tell(const struct meter *meter, enum message_kind kind,
                        const struct progress_body *body, struct error *err)
{
    struct message_parts parts = {.kind = kind, .body = body, .size_bytes = sizeof *body};

    return channel_send(meter->options.judge, &parts, err);
}

static enum status begin(struct meter *meter, const struct iteration_body *body, struct error *err)
{
    cudaStream_t stream = meter->options.stream;
    enum status status =
        kernels_gate(meter->kernels, stream, &meter->page->key, body->round, meter->scratch, err);

    for (int i = 0; i < body->calls.count && status == OK; i++) {
        uint64_t slot = (uint64_t)body->calls.slots[i];
        struct masking masking = {.to = meter->inputs + slot * body->input_slot_bytes,
                                  .from = meter->inputs + slot * body->input_slot_bytes,
                                  .size_bytes = body->input_slot_bytes,
                                  .key = (uint64_t)(uintptr_t)meter->scratch->words,
                                  .stream = (uint64_t)meter->options.rank * CHANNEL_SLOTS + slot};
        status = kernels_mask(meter->kernels, stream, &masking, err);
    }
    if (status == OK && cudaEventRecord(meter->start, stream) != cudaSuccess) {
        status = error_set(err, ERR_IO, "the start cannot be recorded");
    }
    return status;
}

static enum status call(struct meter *meter, struct caller *caller,
                        const struct iteration_body *body, struct error *err)
{
    enum status status = OK;

    for (int i = 0; i < body->calls.count && status == OK; i++) {
        int number = body->calls.first_call + i;
        if (body->is_empty == 0) {
            status = caller_call(caller, number, body->calls.slots[i], meter->end, err);
            continue;
        }
        status = tell(meter, MESSAGE_ENTERED, &(struct progress_body){.call = number}, err);
        if (status == OK && cudaEventRecord(meter->end, meter->options.stream) != cudaSuccess) {
            status = error_set(err, ERR_IO, "the end cannot be recorded");
        }
        if (status == OK) {
            status = tell(meter, MESSAGE_RETURNED, &(struct progress_body){.call = number}, err);
        }
    }
    return status;
}

static enum status prove(struct meter *meter, const struct iteration_body *body, struct error *err)
{
    struct answering answering = {.words = body->output_slot_bytes / sizeof(uint32_t),
                                  .sample = REVEAL_SAMPLE_WORDS,
                                  .regions = (uint32_t)body->calls.count,
                                  .round = body->round,
                                  .rank = (uint32_t)meter->options.rank};

    static_assert((int)KERNELS_REGIONS_MAX == (int)CHANNEL_SLOTS, "one for each call");
    for (int i = 0; i < body->calls.count; i++) {
        uint64_t offset = (uint64_t)body->calls.slots[i] * body->output_slot_bytes;
        answering.from[i] = window_address(meter->options.rank, WINDOW_OUTPUTS + offset);
    }
    return kernels_answer(meter->kernels, meter->options.stream, &answering, meter->page,
                          meter->scratch, err);
}

/* Waits for the stream, and tells how it ended. */
static enum status finish(struct meter *meter, const struct iteration_body *body, struct error *err)
{
    cudaError_t error = cudaSuccess;
    float elapsed_ms = 0;
    enum status status = OK;

    int64_t since_ms = clock_monotonic_ms();
    while ((error = cudaStreamQuery(meter->options.stream)) == cudaErrorNotReady) {
        caller_pause(since_ms);
        /* A query that says so is also kept as the last error. */
        (void)cudaGetLastError();
    }
    if (error == cudaSuccess) {
        error = cudaEventElapsedTime(&elapsed_ms, meter->start, meter->end);
    }
    for (int i = 0; i < body->calls.count && status == OK; i++) {
        struct progress_body finished = {.call = body->calls.first_call + i,
                                         .cuda_error = (int32_t)error,
                                         .event_ns = (int64_t)((double)elapsed_ms * 1e6)};
        status = tell(meter, MESSAGE_FINISHED, &finished, err);
    }
    return status;
}

enum status meter_iterate(struct meter *meter, struct caller *caller,
                          const struct iteration_body *body, struct error *err)
{
    if (body->calls.count < 1 || body->calls.count > CHANNEL_SLOTS) {
        return error_set(err, ERR_PROTOCOL, "an iteration of %d calls", body->calls.count);
    }
    for (int i = 0; i < body->calls.count; i++) {
        if (body->calls.slots[i] < 0 || body->calls.slots[i] >= CHANNEL_SLOTS) {
            return error_set(err, ERR_PROTOCOL, "no slot %d", body->calls.slots[i]);
        }
    }
    enum status status = begin(meter, body, err);
    if (status == OK) {
        status = call(meter, caller, body, err);
    }
    if (status == OK) {
        status = prove(meter, body, err);
        cudaError_t error = cudaStreamQuery(meter->options.stream);
        if (status != OK && error != cudaSuccess && error != cudaErrorNotReady) {
            status = OK; /* the submission's error, which finish tells of */
        }
    }
    return status == OK ? finish(meter, body, err) : status;
}
