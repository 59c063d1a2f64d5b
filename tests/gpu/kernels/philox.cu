/* Counter-based random numbers and their sums of 16-bit halves. */
#include "../differential.cuh"

__global__ void philox(uint32_t *y, float *normal, uint64_t key)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t c0 = i, c1 = 0, c2 = 0, c3 = 0, k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0, n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    y[i * 4] = c0;
    y[i * 4 + 1] = c1;
    y[i * 4 + 2] = c2;
    y[i * 4 + 3] = c3;
    int sum = (int)(c0 & 0xffff) + (int)(c0 >> 16) + (int)(c3 & 0xffff) + (int)(c3 >> 16);
    normal[i] = (float)(2 * sum - 4 * 65535) * 1.3e-5f;
}

static void test(void)
{
    array<uint32_t> y(1024 * 4);
    array<float> normal(1024);
    philox<<<8, 128>>>(y.device, normal.device, (uint64_t)random_word() << 32 | random_word());
    synchronise();
    emit_exact("words", y);
    emit_exact("normal", normal);
}
