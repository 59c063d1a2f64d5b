#include "worker/nvml_events.h"

#include "worker/nvml.h"
#include "worker/xid.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

struct nvml_device;
struct nvml_event_set;

/* The library's own records, whose layouts are fixed. */
struct nvml_event {
    struct nvml_device *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};
struct nvml_pci {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char address[32];
};

enum { NVML_OK = 0, NVML_TIMEOUT = 10, NVML_EVENT_XID = 8, WAIT_MS = 1000 };

struct events {
    int (*init)(void);
    int (*count)(unsigned *count);
    int (*get)(unsigned index, struct nvml_device **device);
    int (*pci)(struct nvml_device *device, struct nvml_pci *pci);
    int (*create)(struct nvml_event_set **set);
    int (*watch)(struct nvml_device *device, unsigned long long types, struct nvml_event_set *set);
    int (*wait)(struct nvml_event_set *set, struct nvml_event *event, unsigned timeout_ms);
};

static enum status open_library(struct events *events, struct error *err)
{
    const struct nvml_call calls[] = {
        {"nvmlInit_v2", &events->init},
        {"nvmlDeviceGetCount_v2", &events->count},
        {"nvmlDeviceGetHandleByIndex_v2", &events->get},
        {"nvmlDeviceGetPciInfo_v3", &events->pci},
        {"nvmlEventSetCreate", &events->create},
        {"nvmlDeviceRegisterEvents", &events->watch},
        {"nvmlEventSetWait_v2", &events->wait},
    };
    const char *missing = nvml_open(calls, sizeof calls / sizeof *calls);

    if (missing != NULL) {
        (void)error_set(err, ERR_UNAVAILABLE, "NVIDIA's driver has no %s here", missing);
        return ERR_UNAVAILABLE;
    }
    int code = events->init();
    return code == NVML_OK ? OK
                           : error_set(err, ERR_UNAVAILABLE,
                                       "the driver's libnvidia-ml.so.1 does not start (%d)", code);
}

/* Not every GPU has events. */
static enum status watch_all(const struct events *events, struct nvml_event_set **set, int *watched,
                             struct error *err)
{
    unsigned count = 0;

    if (events->count(&count) != NVML_OK || events->create(set) != NVML_OK) {
        return error_set(err, ERR_UNAVAILABLE, "the driver's GPUs cannot be listed");
    }
    *watched = 0;
    for (unsigned i = 0; i < count; i++) {
        struct nvml_device *device = NULL;
        if (events->get(i, &device) == NVML_OK &&
            events->watch(device, NVML_EVENT_XID, *set) == NVML_OK) {
            ++*watched;
        }
    }
    return *watched > 0
               ? OK
               : error_set(err, ERR_UNAVAILABLE, "none of %u GPUs has events of errors", count);
}

static enum status write_event(const struct events *events, const struct nvml_event *event,
                               int output, struct error *err)
{
    struct nvml_pci pci = {0};
    struct pci_address address = {0};
    char text[PCI_TEXT_MAX];

    if (event->type != NVML_EVENT_XID) {
        return OK;
    }
    if (events->pci(event->device, &pci) != NVML_OK) {
        return error_set(err, ERR_IO, "a GPU with an error (Xid %llu) has no address", event->data);
    }
    address = (struct pci_address){pci.domain, pci.bus, pci.device};
    pci_address_write(&address, text);
    return dprintf(output, "xid %s %llu\n", text, event->data) > 0
               ? OK
               : error_set(err, ERR_IO, "nobody reads: %m");
}

enum status nvml_events_write(int output, struct error *err)
{
    struct events events = {0};
    struct nvml_event_set *set = NULL;
    int watched = 0;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    enum status status = open_library(&events, err);
    if (status == OK) {
        status = watch_all(&events, &set, &watched, err);
    }
    if (status == OK && dprintf(output, "watching %d\n", watched) <= 0) {
        status = error_set(err, ERR_IO, "nobody reads: %m");
    }
    while (status == OK) {
        struct nvml_event event = {0};
        int code = events.wait(set, &event, WAIT_MS);
        if (code == NVML_OK) {
            status = write_event(&events, &event, output, err);
        } else if (code != NVML_TIMEOUT) {
            status = error_set(err, ERR_IO, "the events of the GPUs have ended (%d)", code);
        }
    }
    return status;
}
