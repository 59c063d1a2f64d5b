/* judge_call.h — pkb-judge as the one who knows CUDA: asked beside any job, it writes its answer.
 */
#pragma once

#include "worker/sandbox.h"

/*
 * Starts `pkb-judge QUESTION ARGUMENT` (or without the argument: NULL) with a pipe, whose end to
 * read from is *answer: the caller closes it and waits for *pid. ERR_UNAVAILABLE: it does not
 * start.
 */
enum status judge_call(const struct sandbox_node *node, const char *question, const char *argument,
                       pid_t *pid, int *answer, struct error *err);
