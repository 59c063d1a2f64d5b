/*
 * gpus.h — the GPUs of this node, as CUDA and its management library see them; for pkb-judge.
 */
#pragma once

#include "common/error.h"
#include "common/result.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the job was timed on: allocated, the caller's. */
struct gpu *gpus_describe(int count);

/* Of one GPU, before anybody of ours used it. */
struct gpu_look {
    char pci_address[32], uuid[96]; /* "": not known */
    int64_t used_bytes;             /* of its memory; -1: not known */
};

/*
 * Is every GPU fit for work: can it run a kernel (through the MPS server, where there is one), and,
 * where `is_exclusive`, does nobody else use it? Returns how many there are in *count.
 * ERR_UNAVAILABLE names what is missing, ERR_LIMIT: there are more than `count_max`.
 */
enum status gpus_check(bool is_exclusive, struct gpu_look *looks, int count_max, int *count,
                       struct error *err);
/* The driver's version ("": not known), and the CUDA that it can do (13000 is 13.0; 0: none). */
void gpus_driver(char *version, size_t size_bytes, int *cuda);
