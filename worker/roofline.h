/*
 * roofline.h — how fast a call could be: what GPUs can do, by name, against what a task has to do.
 *
 * The rates are the makers', one way and dense. A node may have others: a file of JSON,
 * {"rates": [{"name": "NVIDIA H200", "link": 450e9, ...}]}, whose rows come before those built in.
 */
#pragma once

#include "common/error.h"
#include "tasks/task.h"

enum { RATES_NAME_MAX = 64, RATES_MAX = 64 };

/* Of one GPU; per second. */
struct rates {
    char name[RATES_NAME_MAX]; /* as CUDA says it, or how that begins */
    double link;               /* bytes to other GPUs, one way */
    double memory;             /* bytes of its own memory */
    double mma16, mma32;       /* operations of tensor cores on 16-bit types, on fp32 as tf32 */
    double other;              /* fp32 operations otherwise */
    double cache;              /* bytes of L2: so much may never reach the memory */
};

struct roofline;

/* `path` NULL: only what is built in. ERR_NOT_FOUND, ERR_INVALID: the file. */
enum status roofline_open(struct roofline **roofline, const char *path, struct error *err);
void roofline_close(struct roofline *roofline);

/* The first row whose name `name` begins with; NULL: an unknown GPU. */
const struct rates *roofline_find(const struct roofline *roofline, const char *name);

struct least_times {
    double floor_us;  /* nobody can be faster */
    double target_us; /* of the best scheme known */
};
struct least_times roofline_times(const struct rates *rates, const struct work *work,
                                  enum dtype dtype);
