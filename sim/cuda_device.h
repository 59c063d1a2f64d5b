/*
 * cuda_device.h — what an H200 or an H100 says of itself; every simulated device says the same.
 */
#pragma once

#include <stdint.h>

enum { DEVICE_DRIVER_VERSION = 13000 };

/* `model` is an enum wire_model. */
const char *device_name(int model);
uint64_t device_memory_bytes(int model);
/* The attribute's value on device `device`; 0 where `attribute` is none. */
int device_attribute(int model, int attribute, int device, int *value);
