/* Votes, ballots, match, redux and every shuffle mode, on full and on partial masks. */
#include "../differential.cuh"

__global__ void votes(const unsigned *x, unsigned *y)
{
    unsigned lane = threadIdx.x % 32;
    unsigned value = x[blockIdx.x * blockDim.x + threadIdx.x];
    unsigned *out = y + (blockIdx.x * blockDim.x + threadIdx.x) * 20;
    int all = 0;

    out[0] = __ballot_sync(~0u, value & 1);
    out[1] = (unsigned)__any_sync(~0u, value % 61 == 0);
    out[2] = (unsigned)__all_sync(~0u, value % 61 != 0);
    out[3] = __match_any_sync(~0u, value % 5);
    out[4] = __match_all_sync(~0u, value % 2, &all);
    out[5] = (unsigned)all;
    out[6] = __reduce_add_sync(~0u, value);
    out[7] = __reduce_min_sync(~0u, value);
    out[8] = (unsigned)__reduce_max_sync(~0u, (int)value);
    out[9] = __reduce_and_sync(~0u, value | 0xff);
    out[10] = __reduce_or_sync(~0u, value & 0xff00);
    out[11] = __reduce_xor_sync(~0u, value);
    out[12] = __shfl_sync(~0u, value, (int)(value % 32));
    out[13] = __shfl_up_sync(~0u, value, 3, 16);
    out[14] = __shfl_down_sync(~0u, value, 5, 8);
    out[15] = __shfl_xor_sync(~0u, value, 9);
    out[16] = out[17] = out[18] = out[19] = 0;
    if (lane % 3 == 1) {
        unsigned mask = __activemask();
        out[16] = __popc(mask);
        out[17] = __ballot_sync(0x92492492u, value & 2);
        out[18] = __shfl_sync(0x92492492u, value, 4);
        out[19] = __reduce_add_sync(0x92492492u, value);
    }
}

static void test(void)
{
    array<unsigned> x(256), y(256 * 20);
    x.fill(random_word);
    votes<<<2, 128>>>(x.device, y.device);
    synchronise();
    emit_exact("votes", y);
}
