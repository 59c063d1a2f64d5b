/* Bit operations: prmt, shf, lop3, popc, clz, brev, bfind, bfe, bfi, fns, mul24, sad, dp2a, szext.
 */
#include "../differential.cuh"

const int OUT = 24;

__global__ void bits(const unsigned *x, unsigned *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned a = x[i * 3], b = x[i * 3 + 1], c = x[i * 3 + 2], *out = y + i * OUT, t;
    unsigned long long wide = (unsigned long long)a << 32 | b;

    out[0] = __byte_perm(a, b, c);
    out[1] = __funnelshift_l(a, b, c);
    out[2] = __funnelshift_r(a, b, c);
    out[3] = __funnelshift_lc(a, b, c);
    out[4] = __funnelshift_rc(a, b, c % 64);
    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(out[5]) : "r"(a), "r"(b), "r"(c));
    asm("lop3.b32 %0, %1, %2, %3, 0xE8;" : "=r"(out[6]) : "r"(a), "r"(b), "r"(c));
    out[7] = __popc(a) * 100 + __popcll(wide);
    out[8] = __clz(a >> (c % 33)) * 100 + __clzll(wide >> (c % 64));
    out[9] = __brev(a);
    out[10] = (unsigned)(__brevll(wide) >> 13);
    asm("bfind.u32 %0, %1;" : "=r"(out[11]) : "r"(a >> (c % 32)));
    asm("bfind.s32 %0, %1;" : "=r"(out[12]) : "r"((int)a >> (c % 32)));
    asm("bfind.shiftamt.u32 %0, %1;" : "=r"(out[13]) : "r"(b >> (c % 32)));
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(out[14]) : "r"(a), "r"(b % 40), "r"(c % 40));
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(out[15]) : "r"(a), "r"(b % 40), "r"(c % 40));
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(out[16]) : "r"(a), "r"(b), "r"(c % 40), "r"(a % 40));
    out[17] = __mul24((int)a, (int)b);
    out[18] = __umul24(a, b);
    out[19] = __usad(a, b, c);
    out[20] = (unsigned)__sad((int)a, (int)b, c);
    out[21] = (unsigned)__dp2a_lo((int)a, (int)b, (int)c);
    out[22] = __dp4a(a, b, c);
    asm("{ .reg .u32 q; prmt.b32.f4e %0, %1, %2, %3; mov.u32 q, %0; }"
        : "=r"(t)
        : "r"(a), "r"(b), "r"(c % 4));
    out[23] = t;
}

static void test(void)
{
    array<unsigned> x(256 * 3), y(256 * OUT);
    x.fill([] { return random_word() % 5 == 0 ? 0u : random_word(); });
    bits<<<2, 128>>>(x.device, y.device);
    synchronise();
    emit_exact("bits", y);
}
