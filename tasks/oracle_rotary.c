#include "tasks/oracle_rotary.h"

#include "tasks/oracle_round.h"

#include <math.h>

/* The two terms of element d. */
struct terms {
    double cosine, sine;
};

static struct terms terms_of(const struct rotary *rotary, int64_t d)
{
    int64_t half = rotary->width / 2;
    double other = d < half ? -tensor_get(rotary->x, rotary->head + d + half)
                            : tensor_get(rotary->x, rotary->head + d - half);

    return (struct terms){tensor_get(rotary->x, rotary->head + d) *
                              tensor_get(rotary->cosines, rotary->angle + d),
                          other * tensor_get(rotary->sines, rotary->angle + d)};
}

struct rotated rotary_element(const struct rotary *rotary, int64_t d)
{
    struct terms terms = terms_of(rotary, d);

    return (struct rotated){terms.cosine + terms.sine, fabs(terms.cosine) + fabs(terms.sine)};
}

double rotary_element_rounded(const struct rotary *rotary, int64_t d)
{
    struct terms terms = terms_of(rotary, d);
    enum dtype dtype = rotary->x->spec->dtype;

    return dtype_round(dtype, dtype_round(dtype, terms.cosine) + dtype_round(dtype, terms.sine));
}
