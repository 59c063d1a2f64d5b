#include "tasks/oracle_reduce.h"

#include "tasks/oracle_round.h"

#include <math.h>

struct sum sum_ranks(const struct run *run, struct tensor *const *in, int input, int64_t index)
{
    double value = 0;
    double magnitude = 0;

    for (int rank = 0; rank < run->world; rank++) {
        double x = tensor_get(&in[rank][input], index);
        value += x;
        magnitude += fabs(x);
    }
    double unit = dtype_unit(in[0][input].spec->dtype);
    return (struct sum){value, 1.02 * (run->world - 1) * unit * magnitude};
}

const struct tolerance sum_tolerance = {
    .bf16 = {.a = 0.03, .r = 0.008},
    .fp16 = {.a = 0.004, .r = 0.001},
    .fp32 = {.a = 1e-6, .r = 3e-7},
};

void fill_summands(bool integers, const struct tensor *tensor, uint64_t key, int rank)
{
    if (integers) {
        fill_tensor_integers(tensor, key, -15, 15);
    } else {
        fill_tensor_normal(tensor, key, 1 + rank);
    }
}
