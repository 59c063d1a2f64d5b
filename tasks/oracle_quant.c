#include "tasks/oracle_quant.h"

#include "tasks/oracle_round.h"

#include <math.h>

float quant_scale(const struct tensor *tensor, int64_t first, int64_t count)
{
    float largest = 0;

    for (int64_t i = first; i < first + count; i++) {
        largest = fmaxf(largest, fabsf((float)tensor_get(tensor, i)));
    }
    return largest / 448.0F;
}

uint8_t quant_code(float x, float scale)
{
    float quotient = x / (scale == 0 ? 1 : scale);
    uint8_t code = 0;

    scalar_set(DTYPE_E4M3, &code, 0, quotient);
    return code;
}
