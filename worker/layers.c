#include "worker/layers.h"

#include <string.h>

static const char *const names[LAYERS] = {
    [LAYER_UID] = "uid",
    [LAYER_NAMESPACES] = "namespaces",
    [LAYER_USERNS] = "userns",
    [LAYER_MOUNT] = "mount",
    [LAYER_PID] = "pid",
    [LAYER_NET] = "net",
    [LAYER_IPC] = "ipc",
    [LAYER_SECCOMP] = "seccomp",
    [LAYER_CGROUP] = "cgroup",
    [LAYER_PRIVILEGES] = "privileges",
    [LAYER_ENVIRONMENT] = "environment",
    [LAYER_COLLECTOR] = "collector",
};

const char *layer_name(enum layer layer)
{
    return names[layer];
}

int layer_find(const char *name, size_t length)
{
    for (int layer = 0; layer < LAYERS; layer++) {
        if (strlen(names[layer]) == length && memcmp(names[layer], name, length) == 0) {
            return layer;
        }
    }
    return -1;
}

enum status layers_read(unsigned *layers, const char *text, struct error *err)
{
    unsigned read = 0;

    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        int layer = layer_find(at, length);
        if (layer < 0) {
            return error_field(err, ERR_INVALID, "insecure",
                               "'%.*s' is no layer; there are uid, namespaces, userns, mount, pid, "
                               "net, ipc, seccomp, cgroup, privileges, environment and collector",
                               (int)length, at);
        }
        read |= 1U << layer;
        if (layer == LAYER_NAMESPACES) { /* of which these are kinds */
            read |= 1U << LAYER_USERNS | 1U << LAYER_MOUNT | 1U << LAYER_PID | 1U << LAYER_NET |
                    1U << LAYER_IPC;
        }
        at += length;
        if (*at == 0) {
            break;
        }
    }
    *layers |= read;
    return OK;
}
