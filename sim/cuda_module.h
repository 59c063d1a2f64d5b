/*
 * cuda_module.h — kernels as this process knows them: a handle is a pointer to one, and lives as
 * long as the process.
 */
#pragma once

#include "sim/cuda_link.h"

struct kernel_handle {
    struct kernel_handle *next;
    uint64_t module;
    char *name;
    struct wire_kernel_info info;
    struct wire_param *params;
    int dynamic_shared_max; /* as set; the default until then */
};

/* The kernel that a handle names, or NULL. */
struct kernel_handle *kernel_of(const void *handle);

/* Puts the parameters of a launch where the kernel expects them. (cuda_launch.c) */
CUresult kernel_pack(const struct kernel_handle *kernel, void **params, void **extra,
                     uint8_t *packed);
