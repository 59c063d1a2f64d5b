/* Divergence: collatz lengths, a switch table, early exits, nested breaks, a lock within a warp. */
#include "../differential.cuh"

__device__ __noinline__ unsigned mix(unsigned v, int n)
{
    return v * 2654435761u + (unsigned)n;
}

__global__ void flow(const unsigned *x, unsigned *y, int *lock, unsigned *guarded)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long n = x[i] % 100000 + 1;
    unsigned steps = 0;
    while (n != 1) {
        n = n % 2 ? 3 * n + 1 : n / 2;
        steps++;
        if (steps > 200) {
            break;
        }
    }
    unsigned v = x[i];
    switch (v % 9) {
    case 0:
        v = __brev(v);
        break;
    case 1:
        v = mix(v, 3);
        break;
    case 2:
        v += 17;
    case 3:
        v ^= 0x55555555;
        break;
    case 4:
        v = v / 7;
        break;
    case 5:
        for (unsigned k = 0; k < v % 13; k++) {
            v = mix(v, (int)k);
            if (v % 11 == 0) {
                goto out;
            }
        }
        break;
    case 6:
        v = __popc(v);
        break;
    case 7:
        v = v * v;
        break;
    default:
        v = ~v;
        break;
    }
out:
    y[i] = v + steps;
    if (v % 5 == 0) {
        return;
    }
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            *(volatile unsigned *)guarded = *(volatile unsigned *)guarded + steps;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

static void test(void)
{
    array<unsigned> x(256), y(256), guarded(1);
    array<int> lock(1);
    x.fill(random_word);
    lock.fill([] { return 0; });
    guarded.fill([] { return 0; });
    flow<<<2, 128>>>(x.device, y.device, lock.device, guarded.device);
    synchronise();
    emit_exact("y", y);
    emit_exact("guarded", guarded);
}
