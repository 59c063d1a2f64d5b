/*
 * filter.h — which system calls a sandbox allows.
 *
 * filter_open compiles one of them into a program for the kernel, in a sealed memory file; bwrap or
 * pkb-rank loads it. It can be used any number of times, but whoever reads it moves its offset.
 */
#pragma once

#include "common/error.h"

enum filter {
    FILTER_BUILD,    /* an allow-list: what a compiler needs */
    FILTER_RANKS,    /* a deny-list, from the start of pkb-rank on */
    FILTER_RANK_END, /* on top of it, before code of the submission is loaded: no new process */
    FILTER_SIMD,     /* as FILTER_RANKS, without sockets and without new programs */
    FILTERS,
};

enum status filter_open(enum filter filter, int *fd, struct error *err);
