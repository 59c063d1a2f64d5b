#include "tasks/oracle_move.h"

void fill_moved(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    for (int rank = 0; rank < run->world; rank++) {
        fill_payload(run->variant == MOVED_BITS, &in[rank][0], trial_stream(trial, rank, 0));
    }
}

void derive_root(struct run *run)
{
    run->dim[MOVED_ROOT] = run_at(run, "check") ? run->world - 1 : 0;
}

void expect_move(struct expected *out, const struct tensor *from, const struct move *move)
{
    for (int64_t row = 0; row < move->rows; row++) {
        expect_copy(out, move->to + row * move->to_stride, from,
                    move->from + row * move->from_stride, move->count);
    }
}

void expect_block(struct expected *out, int64_t to, const struct tensor *from, int64_t block,
                  int64_t count)
{
    expect_copy(out, to * count, from, block * count, count);
}
