/*
 * driver.h — where the libraries of NVIDIA's driver lie on this node: they come with the driver and
 * not with CUDA, and containers have them in places of their own.
 */
#pragma once

/* The directory of libcuda.so.1 as the loader would find it: LD_LIBRARY_PATH, then the usual
 * places. NULL: none. */
const char *driver_directory(void);
