/* One head of causal attention with an online softmax in fp32, bf16 in and out. */
#include "../differential.cuh"

#include <cuda_bf16.h>

const int S = 40, D = 32;

__global__ void attention(const __nv_bfloat16 *q, const __nv_bfloat16 *k, const __nv_bfloat16 *v,
                          float *out)
{
    int row = blockIdx.x, lane = threadIdx.x;
    float query = __bfloat162float(q[row * D + lane]);
    float largest = -INFINITY, total = 0, sum = 0;

    for (int column = 0; column <= row; column++) {
        float score = query * __bfloat162float(k[column * D + lane]);
        for (int step = 16; step > 0; step >>= 1) {
            score += __shfl_xor_sync(~0u, score, step);
        }
        score *= rsqrtf((float)D);
        float next = fmaxf(largest, score);
        float scale = __expf(largest - next), weight = __expf(score - next);
        total = total * scale + weight;
        sum = sum * scale + weight * __bfloat162float(v[column * D + lane]);
        largest = next;
    }
    out[row * D + lane] = sum / total;
}

static void test(void)
{
    array<__nv_bfloat16> q(S * D), k(S * D), v(S * D);
    array<float> out(S * D);
    q.fill(random_normal);
    k.fill(random_normal);
    v.fill(random_normal);
    attention<<<S, D>>>(q.device, k.device, v.device, out.device);
    synchronise();
    double largest = 0;
    for (auto value : v.host) {
        largest = fmax(largest, fabs((double)(float)value));
    }
    emit_bounded("out", out, std::vector<double>(S * D, 1e-5 * largest));
}
