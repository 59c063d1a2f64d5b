/*
 * nvml.h — what NVIDIA's management library says about the GPUs of this node.
 *
 * The library comes with the driver and is opened when it is first asked; where it is missing, all
 * that it would know is not known. GPUs are found by their PCI address, which CUDA knows as well.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NVML_TEXT_MAX = 96 };

/* Of one GPU; -1 and "": not known. */
struct nvml_state {
    char name[NVML_TEXT_MAX], uuid[NVML_TEXT_MAX], driver[NVML_TEXT_MAX];
    int sm_mhz, memory_mhz, temperature_c;
    int busy_percent;      /* of the last moments */
    int64_t used_bytes;    /* of its memory, by whomever */
    int processes;         /* with a context on it */
    const char *throttled; /* why its clocks are held down: "power", ...; NULL: they are not */
};

/* `pci_address`: "0000:1b:00.0". False: nothing is known. */
bool nvml_look(const char *pci_address, struct nvml_state *state);
struct nvml_call {
    const char *name;
    void *call; /* the address of a pointer to a function */
};

/* Opens the library and finds its functions; those that are missing become NULL, and without the
 * library all stay as they are. NULL: all are there; else the name of what is missing first. */
const char *nvml_open(const struct nvml_call *calls, size_t count);
/* The driver's version, "580.65.06"; "": not known. */
void nvml_driver(char *version, size_t size_bytes);
/* Names the first of the reasons that slow a GPU down: the bits of nvmlDeviceGetCurrentClocks-
 * EventReasons. NULL: none does. */
const char *nvml_throttle_name(uint64_t reasons);
