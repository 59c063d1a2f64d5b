/* ldmatrix and stmatrix in all their counts, plain and transposed, and movmatrix's fragment order.
 */
#include "../differential.cuh"

__global__ void moves(const uint16_t *x, uint32_t *y, uint16_t *back)
{
    __shared__ __align__(16) uint16_t tile[32 * 8], out[32 * 8];
    int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) {
        tile[i] = x[i];
        out[i] = 0;
    }
    __syncwarp();
    unsigned row = (unsigned)__cvta_generic_to_shared(&tile[lane * 8]);
    unsigned to = (unsigned)__cvta_generic_to_shared(&out[lane * 8]);
    uint32_t a, b, c, d;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(a)
                 : "r"(row)
                 : "memory");
    y[lane * 8] = a;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(a), "=r"(b)
                 : "r"(row)
                 : "memory");
    y[lane * 8 + 1] = a;
    y[lane * 8 + 2] = b;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(row)
                 : "memory");
    y[lane * 8 + 3] = a ^ d;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(row)
                 : "memory");
    y[lane * 8 + 4] = a;
    y[lane * 8 + 5] = b;
    y[lane * 8 + 6] = c;
    y[lane * 8 + 7] = d;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to),
                 "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
    __syncwarp();
    for (int i = lane; i < 256; i += 32) {
        back[i] = out[i];
    }
}

static void test(void)
{
    array<uint16_t> x(256), back(256);
    array<uint32_t> y(32 * 8);
    x.fill(random_word);
    moves<<<1, 32>>>(x.device, y.device, back.device);
    synchronise();
    emit_exact("loaded", y);
    emit_exact("stored", back);
}
