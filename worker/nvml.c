#include "worker/nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

struct nvml_device; /* the library's own */

struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_utilization {
    unsigned gpu, memory;
};

/* The library's calls have these numbers since its version 2; 0 is success. */
enum { CLOCK_SM = 1, CLOCK_MEMORY = 2, TEMPERATURE_GPU = 0, INSUFFICIENT_SIZE = 7 };

struct library {
    int (*init)(void);
    int (*find)(const char *pci_address, struct nvml_device **device);
    int (*name)(struct nvml_device *device, char *text, unsigned size);
    int (*uuid)(struct nvml_device *device, char *text, unsigned size);
    int (*driver)(char *text, unsigned size);
    int (*clock)(struct nvml_device *device, int type, unsigned *mhz);
    int (*temperature)(struct nvml_device *device, int sensor, unsigned *celsius);
    int (*utilization)(struct nvml_device *device, struct nvml_utilization *utilization);
    int (*memory)(struct nvml_device *device, struct nvml_memory *memory);
    int (*processes)(struct nvml_device *device, unsigned *count, void *infos);
    int (*reasons)(struct nvml_device *device, unsigned long long *reasons);
};

const char *nvml_open(const struct nvml_call *calls, size_t count)
{
    static const char name[] = "libnvidia-ml.so.1";
    void *opened = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    const char *missing = opened == NULL ? name : NULL;

    for (size_t i = 0; opened != NULL && i < count; i++) {
        void *found = dlsym(opened, calls[i].name);
        *(void **)calls[i].call = found;
        if (found == NULL && missing == NULL) {
            missing = calls[i].name;
        }
    }
    return missing;
}

/* Some of the calls may be missing. */
static bool open_library(struct library *library)
{
    const struct nvml_call calls[] = {
        {"nvmlInit_v2", &library->init},
        {"nvmlDeviceGetHandleByPciBusId_v2", &library->find},
        {"nvmlDeviceGetName", &library->name},
        {"nvmlDeviceGetUUID", &library->uuid},
        {"nvmlSystemGetDriverVersion", &library->driver},
        {"nvmlDeviceGetClockInfo", &library->clock},
        {"nvmlDeviceGetTemperature", &library->temperature},
        {"nvmlDeviceGetUtilizationRates", &library->utilization},
        {"nvmlDeviceGetMemoryInfo", &library->memory},
        {"nvmlDeviceGetComputeRunningProcesses_v3", &library->processes},
        {"nvmlDeviceGetCurrentClocksThrottleReasons", &library->reasons},
    };

    (void)nvml_open(calls, sizeof calls / sizeof *calls);
    return library->init != NULL && library->find != NULL && library->init() == 0;
}

const char *nvml_throttle_name(uint64_t reasons)
{
    static const struct {
        uint64_t bit;
        const char *name;
    } rows[] = {
        {0x0004, "power"},          /* the power cap, by software */
        {0x0080, "power_brake"},    /* an outside signal */
        {0x0008, "hardware"},       /* temperature, power or voltage, at once */
        {0x0020, "temperature"},    /* by software */
        {0x0040, "temperature"},    /* by hardware */
        {0x0002, "clock_settings"}, /* somebody has set the application clocks */
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if ((reasons & rows[i].bit) != 0) {
            return rows[i].name;
        }
    }
    return NULL;
}

static void read_numbers(const struct library *library, struct nvml_device *device,
                         struct nvml_state *state)
{
    unsigned number = 0;
    unsigned long long reasons = 0;
    struct nvml_utilization utilization = {0};
    struct nvml_memory memory = {0};

    if (library->clock != NULL && library->clock(device, CLOCK_SM, &number) == 0) {
        state->sm_mhz = (int)number;
    }
    if (library->clock != NULL && library->clock(device, CLOCK_MEMORY, &number) == 0) {
        state->memory_mhz = (int)number;
    }
    if (library->temperature != NULL &&
        library->temperature(device, TEMPERATURE_GPU, &number) == 0) {
        state->temperature_c = (int)number;
    }
    if (library->utilization != NULL && library->utilization(device, &utilization) == 0) {
        state->busy_percent = (int)utilization.gpu;
    }
    if (library->memory != NULL && library->memory(device, &memory) == 0) {
        state->used_bytes = (int64_t)memory.used;
    }
    if (library->processes != NULL) {
        number = 0;
        int code = library->processes(device, &number, NULL);
        state->processes = code == 0 || code == INSUFFICIENT_SIZE ? (int)number : -1;
    }
    if (library->reasons != NULL && library->reasons(device, &reasons) == 0) {
        state->throttled = nvml_throttle_name(reasons);
    }
}

/* NULL: it is missing. */
static const struct library *get_library(void)
{
    static struct library library;
    static bool is_opened, is_there;

    if (!is_opened) {
        is_opened = true;
        is_there = open_library(&library);
    }
    return is_there ? &library : NULL;
}

void nvml_driver(char *version, size_t size_bytes)
{
    const struct library *library = get_library();

    if (library == NULL || library->driver == NULL ||
        library->driver(version, (unsigned)size_bytes) != 0) {
        version[0] = 0;
    }
}

bool nvml_look(const char *pci_address, struct nvml_state *state)
{
    const struct library *library = get_library();
    struct nvml_device *device = NULL;

    *state = (struct nvml_state){.sm_mhz = -1,
                                 .memory_mhz = -1,
                                 .temperature_c = -1,
                                 .busy_percent = -1,
                                 .used_bytes = -1,
                                 .processes = -1};
    if (library == NULL || library->find(pci_address, &device) != 0) {
        return false;
    }
    if (library->name == NULL || library->name(device, state->name, sizeof state->name) != 0) {
        state->name[0] = 0;
    }
    if (library->uuid == NULL || library->uuid(device, state->uuid, sizeof state->uuid) != 0) {
        state->uuid[0] = 0;
    }
    nvml_driver(state->driver, sizeof state->driver);
    read_numbers(library, device, state);
    return true;
}
