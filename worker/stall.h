/*
 * stall.h — nobody moves on real GPUs: what can be seen of it from outside.
 *
 * The simulator proves a deadlock; hardware only shows that time goes by. So a stall is a time
 * without a word of any rank while some have work to do, with a kernel on a GPU: then the ranks
 * wait in kernels for each other, or one of them runs for ever.
 */
#pragma once

#include "worker/holdings.h"
#include "worker/report.h"

/* A row for each rank: the call that it is in, whether its host code or its GPU is not done, and
 * the first words of its signal pad that are not zero. */
void stall_report(struct result *result, const struct place *place, const struct peers *peers,
                  const struct holdings *holdings);
