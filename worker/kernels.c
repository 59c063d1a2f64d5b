#include "worker/kernels.h"

#include "common/mem.h"

#include <cuda.h>
#include <stddef.h>
#include <stdlib.h>

/* Made by the build from kernels.cu. */
extern const unsigned char kernels_image[];

enum { GATE, MASK, ANSWER, PROVE, CANARY, KERNELS };
enum { THREADS = 256, CTAS_A_SM = 8 };

struct kernels {
    CUmodule module;
    CUfunction functions[KERNELS];
    int sms;
};

static enum status failed(struct error *err, CUresult result, const char *call)
{
    const char *name = NULL;

    if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL) {
        name = "an unknown error";
    }
    return error_set(err, ERR_IO, "%s: %s", call, name);
}

enum status kernels_load(struct kernels **kernels, struct error *err)
{
    static const char *const names[KERNELS] = {[GATE] = "pkb_gate",
                                               [MASK] = "pkb_mask",
                                               [ANSWER] = "pkb_answer",
                                               [PROVE] = "pkb_prove",
                                               [CANARY] = "pkb_canary"};
    struct kernels *made = xcalloc(1, sizeof *made);
    CUdevice device = 0;

    CUresult result = cuModuleLoadData(&made->module, kernels_image);
    if (result != CUDA_SUCCESS) {
        free(made);
        return failed(err, result, "cuModuleLoadData");
    }
    for (int i = 0; i < KERNELS && result == CUDA_SUCCESS; i++) {
        result = cuModuleGetFunction(&made->functions[i], made->module, names[i]);
    }
    if (result == CUDA_SUCCESS) {
        result = cuCtxGetDevice(&device);
    }
    if (result == CUDA_SUCCESS) {
        result = cuDeviceGetAttribute(&made->sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    }
    if (result != CUDA_SUCCESS) {
        kernels_unload(made);
        return failed(err, result, "our kernels");
    }
    *kernels = made;
    return OK;
}

void kernels_unload(struct kernels *kernels)
{
    if (kernels == NULL) {
        return;
    }
    (void)cuModuleUnload(kernels->module);
    free(kernels);
}

struct shape {
    int kernel;
    unsigned ctas, threads;
};

static enum status launch(const struct kernels *kernels, cudaStream_t stream, struct shape shape,
                          void **arguments, struct error *err)
{
    CUresult result = cuLaunchKernel(kernels->functions[shape.kernel], shape.ctas, 1, 1,
                                     shape.threads, 1, 1, 0, stream, arguments, NULL);

    return result == CUDA_SUCCESS ? OK : failed(err, result, "cuLaunchKernel");
}

/* Enough to fill the GPU, and no more than there is work for. */
static unsigned ctas_for(const struct kernels *kernels, uint64_t items)
{
    uint64_t wanted = (items + THREADS - 1) / THREADS;
    uint64_t most = (uint64_t)kernels->sms * CTAS_A_SM;

    return (unsigned)(wanted == 0 ? 1 : wanted < most ? wanted : most);
}

enum status kernels_gate(const struct kernels *kernels, cudaStream_t stream,
                         const struct reveal_line *line, uint32_t round,
                         struct kernels_scratch *scratch, struct error *err)
{
    void *arguments[] = {&line, &round, &scratch};

    return launch(kernels, stream, (struct shape){GATE, 1, 1}, arguments, err);
}

enum status kernels_mask(const struct kernels *kernels, cudaStream_t stream,
                         const struct masking *masking, struct error *err)
{
    struct masking copy = *masking;
    uint64_t blocks = masking->size_bytes / KEYSTREAM_BLOCK_BYTES;
    void *arguments[] = {&copy.to, &copy.from, &blocks, &copy.key, &copy.stream};

    return launch(kernels, stream, (struct shape){MASK, ctas_for(kernels, blocks), THREADS},
                  arguments, err);
}

static uint64_t at_most(uint64_t count, uint64_t most)
{
    return count < most ? count : most;
}

enum status kernels_answer(const struct kernels *kernels, cudaStream_t stream,
                           const struct answering *answering, struct reveal_page *page,
                           struct kernels_scratch *scratch, struct error *err)
{
    struct answering copy = *answering;
    uint64_t count = at_most(copy.words, copy.sample) * copy.regions;
    void *arguments[] = {&copy, &page, &scratch};

    return launch(kernels, stream, (struct shape){ANSWER, ctas_for(kernels, count), THREADS},
                  arguments, err);
}

enum status kernels_prove(const struct kernels *kernels, cudaStream_t stream,
                          const struct proving *proving, struct error *err)
{
    struct proving copy = *proving;
    void *arguments[] = {&copy};

    return launch(
        kernels, stream,
        (struct shape){PROVE, ctas_for(kernels, at_most(copy.words, copy.sample)), THREADS},
        arguments, err);
}

enum status kernels_canary(const struct kernels *kernels, cudaStream_t stream, uint32_t turns,
                           struct kernels_span *span, struct error *err)
{
    void *arguments[] = {&turns, &span};

    return launch(kernels, stream,
                  (struct shape){CANARY, 2 * (unsigned)kernels->sms, KERNELS_CANARY_THREADS},
                  arguments, err);
}
