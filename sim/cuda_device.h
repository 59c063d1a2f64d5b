/*
 * cuda_device.h — what an H200 says of itself; every simulated device says the same.
 */
#pragma once

#include <stdint.h>

#define DEVICE_NAME "NVIDIA H200"
#define DEVICE_MEMORY_BYTES 150109880320u
enum { DEVICE_DRIVER_VERSION = 13000 };

/* The attribute's value on device `device`; 0 where `attribute` is none. */
int device_attribute(int attribute, int device, int *value);
