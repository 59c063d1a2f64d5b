#include "worker/mechanisms.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

/* The names of functions follow a zero byte. */
#define NAME(text) "\0" text, sizeof("\0" text) - 1
#define CODE(text) text, sizeof(text) - 1

static const struct {
    const char *mechanism;
    const char *text;
    size_t size_bytes;
} signs[] = {
    {"code:tensor", CODE("cp.async.bulk.tensor")},
    {"code:tensor", CODE("cp.reduce.async.bulk.tensor")},
    {"code:bulk", CODE("cp.async.bulk.")},
    {"code:bulk", CODE("cp.reduce.async.bulk.")},
    {"code:multimem", CODE("multimem.")},
    {"code:system_scope", CODE(".sys.global")},
    {"calls:copy_engine", NAME("cudaMemcpy")},
    {"calls:copy_engine", NAME("cuMemcpy")},
    {"calls:nccl", NAME("ncclSend")},
    {"calls:nccl", NAME("ncclRecv")},
    {"calls:nccl", NAME("ncclAll")},
    {"calls:nccl", NAME("ncclBroadcast")},
    {"calls:nccl", NAME("ncclReduce")},
    {"calls:nccl", NAME("ncclScatter")},
    {"calls:nccl", NAME("ncclGather")},
    {"calls:cublas", NAME("cublas")},
};

void mechanisms_scan(const void *data, size_t size_bytes, struct result *result)
{
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (memmem(data, size_bytes, signs[i].text, signs[i].size_bytes) != NULL) {
            result_add_mechanism(result, signs[i].mechanism);
        }
    }
}

void mechanisms_note_traffic(struct result *result)
{
    for (size_t i = 0; i < result->traffic_count; i++) {
        const struct traffic *row = &result->traffic[i];
        if (row->source != row->owner && row->bytes > 0) {
            char *text = xasprintf("moved:%s", row->mechanism);
            result_add_mechanism(result, text);
            free(text);
        }
    }
}
