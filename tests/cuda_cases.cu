// The kernels of cuda_cases.h.
#include "tests/cuda_cases.h"

#include <stdio.h>

__device__ int counters[16] = {1, 2, 3};
__constant__ int constants[4];

__global__ void add(const float *a, const float *b, float *sum, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        sum[i] = a[i] + b[i];
    }
}
__global__ void fill(int *to, int value, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        to[i] = value;
    }
}
__global__ void add_one(int *word)
{
    *word += 1;
}
__global__ void count_one(int *word)
{
    atomicAdd(word, 1);
}
__global__ void slow_store(int *to, int value, int turns)
{
    volatile int spent = 0;
    while (spent < turns) {
        spent = spent + 1;
    }
    *to = value;
}
__global__ void wait_store(volatile int *flag, int value, int *to)
{
    while (*flag != value) {
    }
    *to = value;
}
__global__ void every_size(char c, short s, int i, long long l, float f, double d, double *sum)
{
    *sum = c + s + i + (double)l + f + d;
}
__global__ void big(struct big_argument argument, unsigned int *sum)
{
    unsigned int total = 0;
    for (int i = 0; i < (int)sizeof argument.bytes; i++) {
        total += argument.bytes[i];
    }
    *sum = total;
}
__global__ void dynamic(int *to, int words)
{
    extern __shared__ int shared[];
    for (int i = threadIdx.x; i < words; i += blockDim.x) {
        shared[i] = i;
    }
    __syncthreads();
    to[threadIdx.x] = shared[words - 1 - threadIdx.x];
}
__global__ void __launch_bounds__(128) bounded(int *to)
{
    to[threadIdx.x] = threadIdx.x;
}
__global__ void nothing()
{
}
__global__ void load(const int *from, int *to)
{
    *to = *from;
}
__global__ void misaligned(char *to)
{
    *(volatile int *)(to + 1) = 1;
}
__global__ void trap()
{
    asm volatile("trap;");
}
__global__ void print(int value)
{
    printf("kernel says %d\n", value);
}
__global__ void symbols(int *to)
{
    if (threadIdx.x < 16) {
        to[threadIdx.x] = counters[threadIdx.x];
    } else {
        to[threadIdx.x] = constants[threadIdx.x - 16];
    }
}
__global__ void ticket(int *words, int rank, int turns)
{
    volatile int spent = 0;
    while (spent < turns) {
        spent = spent + 1;
    }
    words[1 + atomicAdd_system(words, 1)] = rank;
}
__global__ void multimem_store(int *to, int value)
{
    asm volatile("multimem.st.relaxed.sys.global.s32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
__global__ void multimem_add(int *to, int value)
{
    asm volatile("multimem.red.relaxed.sys.global.add.s32 [%0], %1;" ::"l"(to), "r"(value)
                 : "memory");
}
__global__ void multimem_sum(const int *from, int *to)
{
    int sum;
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.s32 %0, [%1];"
                 : "=r"(sum)
                 : "l"(from)
                 : "memory");
    *to = sum;
}
__global__ void cooperative(int *to)
{
    atomicAdd(to, 1);
}

cudaError_t launch_add(const float *a, const float *b, float *sum, int count, cudaStream_t stream)
{
    add<<<(count + 127) / 128, 128, 0, stream>>>(a, b, sum, count);
    return cudaGetLastError();
}
cudaError_t launch_fill(int *to, int value, int count, cudaStream_t stream)
{
    fill<<<(count + 127) / 128, 128, 0, stream>>>(to, value, count);
    return cudaGetLastError();
}
cudaError_t launch_add_one(int *word, cudaStream_t stream)
{
    add_one<<<1, 1, 0, stream>>>(word);
    return cudaGetLastError();
}
cudaError_t launch_count_one(int *word, cudaStream_t stream)
{
    count_one<<<1, 1, 0, stream>>>(word);
    return cudaGetLastError();
}
cudaError_t launch_slow_store(int *to, int value, int turns, cudaStream_t stream)
{
    slow_store<<<1, 1, 0, stream>>>(to, value, turns);
    return cudaGetLastError();
}
cudaError_t launch_wait_store(volatile int *flag, int value, int *to, cudaStream_t stream)
{
    wait_store<<<1, 1, 0, stream>>>(flag, value, to);
    return cudaGetLastError();
}
cudaError_t launch_every_size(char c, short s, int i, long long l, float f, double d, double *sum,
                              cudaStream_t stream)
{
    every_size<<<1, 1, 0, stream>>>(c, s, i, l, f, d, sum);
    return cudaGetLastError();
}
cudaError_t launch_big(struct big_argument argument, unsigned int *sum, cudaStream_t stream)
{
    big<<<1, 1, 0, stream>>>(argument, sum);
    return cudaGetLastError();
}
cudaError_t launch_dynamic(int *to, size_t shared_bytes, cudaStream_t stream)
{
    dynamic<<<1, 64, shared_bytes, stream>>>(to, (int)(shared_bytes / sizeof(int)));
    return cudaGetLastError();
}
cudaError_t launch_bounded(int *to, int threads)
{
    bounded<<<1, threads>>>(to);
    return cudaGetLastError();
}
cudaError_t launch_shape(dim3 grid, dim3 block, size_t shared_bytes)
{
    nothing<<<grid, block, shared_bytes>>>();
    return cudaGetLastError();
}
cudaError_t launch_load(const int *from, int *to, cudaStream_t stream)
{
    load<<<1, 1, 0, stream>>>(from, to);
    return cudaGetLastError();
}
cudaError_t launch_misaligned(char *to)
{
    misaligned<<<1, 1>>>(to);
    return cudaGetLastError();
}
cudaError_t launch_trap(void)
{
    trap<<<1, 1>>>();
    return cudaGetLastError();
}
cudaError_t launch_print(int value)
{
    print<<<1, 1>>>(value);
    return cudaGetLastError();
}
cudaError_t launch_symbols(int *to, cudaStream_t stream)
{
    symbols<<<1, 20, 0, stream>>>(to);
    return cudaGetLastError();
}
cudaError_t launch_ticket(int *words, int rank, int turns, cudaStream_t stream)
{
    ticket<<<1, 1, 0, stream>>>(words, rank, turns);
    return cudaGetLastError();
}
cudaError_t launch_multimem_store(int *to, int value, cudaStream_t stream)
{
    multimem_store<<<1, 1, 0, stream>>>(to, value);
    return cudaGetLastError();
}
cudaError_t launch_multimem_add(int *to, int value, cudaStream_t stream)
{
    multimem_add<<<1, 1, 0, stream>>>(to, value);
    return cudaGetLastError();
}
cudaError_t launch_multimem_sum(const int *from, int *to, cudaStream_t stream)
{
    multimem_sum<<<1, 1, 0, stream>>>(from, to);
    return cudaGetLastError();
}
cudaError_t launch_cooperative(int blocks, int *to)
{
    void *args[] = {&to};
    return cudaLaunchCooperativeKernel((const void *)cooperative, dim3(blocks), dim3(32), args, 0,
                                       0);
}
cudaError_t set_dynamic_shared(int bytes)
{
    return cudaFuncSetAttribute((const void *)dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                bytes);
}
const void *symbol_counters(void)
{
    return counters;
}
const void *symbol_constants(void)
{
    return constants;
}
const void *kernel_bounded(void)
{
    return (const void *)bounded;
}
const void *kernel_add_one(void)
{
    return (const void *)add_one;
}
const void *kernel_nothing(void)
{
    return (const void *)nothing;
}
