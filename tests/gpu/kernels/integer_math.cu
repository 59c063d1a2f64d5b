/* 64-bit products, high halves, division and remainder, carries, min, max, saturation. */
#include "../differential.cuh"

const int OUT = 14;

__global__ void math(const unsigned long long *x, unsigned long long *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long a = x[i * 2], b = x[i * 2 + 1] | 1, *out = y + i * OUT;
    out[0] = a * b;
    out[1] = __umul64hi(a, b);
    out[2] = (unsigned long long)__mul64hi((long long)a, (long long)b);
    out[3] = a / b;
    out[4] = a % b;
    out[5] = (unsigned long long)((long long)a / (long long)b);
    out[6] = (unsigned long long)((long long)a % (long long)b);
    out[7] = __umulhi((unsigned)a, (unsigned)b);
    out[8] = (unsigned)a / (unsigned)b + (unsigned long long)((unsigned)a % (unsigned)b);
    out[9] = (unsigned long long)((int)a / (int)b) ^ (unsigned long long)((int)a % (int)b);
    out[10] = (unsigned long long)min((long long)a, (long long)b);
    out[11] = max(a, b) >> (b % 64);
    asm("{ .reg .u32 l, h, m, n, p, q; mov.b64 {l, h}, %1; mov.b64 {m, n}, %2;"
        " add.cc.u32 p, l, m; addc.u32 q, h, n; mov.b64 %0, {p, q}; }"
        : "=l"(out[12])
        : "l"(a), "l"(b));
    unsigned low;
    asm("add.sat.s32 %0, %1, %2;" : "=r"(low) : "r"((unsigned)a), "r"((unsigned)b));
    out[13] = low;
}

static void test(void)
{
    array<unsigned long long> x(512), y(256 * OUT);
    x.fill([] {
        unsigned long long v = (unsigned long long)random_word() << 32 | random_word();
        return v >> random_int(0, 63);
    });
    math<<<2, 128>>>(x.device, y.device);
    synchronise();
    emit_exact("math", y);
}
