/* Histogram by shared and global atomics, and every other atomic on integers. */
#include "../differential.cuh"

const int N = 5000, BINS = 64;

__global__ void histogram(const unsigned char *x, unsigned *bins)
{
    __shared__ unsigned local[BINS];
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) {
        local[i] = 0;
    }
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += gridDim.x * blockDim.x) {
        atomicAdd(&local[x[i] % BINS], 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) {
        atomicAdd(&bins[i], local[i]);
    }
}

__global__ void atomics(const unsigned *x, unsigned *w, unsigned long long *d)
{
    unsigned v = x[blockIdx.x * blockDim.x + threadIdx.x];
    atomicMin(&w[0], v);
    atomicMax(&w[1], v);
    atomicMin((int *)&w[2], (int)v);
    atomicMax((int *)&w[3], (int)v);
    atomicAnd(&w[4], v | 0xff);
    atomicOr(&w[5], v & 0xff00);
    atomicXor(&w[6], v);
    atomicInc(&w[7], 99);
    atomicDec(&w[8], 77);
    atomicSub(&w[9], v);
    atomicAdd(&d[0], (unsigned long long)v << 20);
    atomicMax(&d[1], (unsigned long long)v << 13);
    atomicMin((long long *)&d[2], (long long)v - (1ll << 31));
    atomicXor(&d[3], (unsigned long long)v * 0x100000001ull);
    unsigned old = w[10], seen;
    do {
        seen = old;
        old = atomicCAS(&w[10], seen, seen * 3 + 1 > 1000000 ? seen - 999999 : seen + 2);
    } while (old != seen);
}

static void test(void)
{
    array<unsigned char> x(N);
    array<unsigned> bins(BINS);
    x.fill(random_word);
    bins.fill([] { return 0; });
    histogram<<<4, 128>>>(x.device, bins.device);
    synchronise();
    emit_exact("bins", bins);

    array<unsigned> v(512), w(11);
    array<unsigned long long> d(4);
    v.fill(random_word);
    w.fill([] { return 0x7f00u; });
    d.fill([] { return 5; });
    atomics<<<4, 128>>>(v.device, w.device, d.device);
    synchronise();
    emit_exact("words", w);
    emit_exact("doubles", d);
}
