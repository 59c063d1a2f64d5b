#include "worker/roofline.h"

#include "common/json.h"
#include "common/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MAX_BYTES = 65536 };

struct roofline {
    struct rates *rates; /* of the node */
    size_t count;
};

#define MIB (1024.0 * 1024.0)

static const struct rates built_in[] = {
    {"NVIDIA A100-SXM4-40GB", 300e9, 1555e9, 312e12, 156e12, 19.5e12, 40 * MIB},
    {"NVIDIA A100-SXM4-80GB", 300e9, 2039e9, 312e12, 156e12, 19.5e12, 40 * MIB},
    {"NVIDIA H100 80GB HBM3", 450e9, 3350e9, 989e12, 494e12, 67e12, 50 * MIB},
    {"NVIDIA H200", 450e9, 4800e9, 989e12, 494e12, 67e12, 50 * MIB},
    {"NVIDIA B200", 900e9, 8000e9, 2250e12, 1125e12, 75e12, 126 * MIB},
};

#define RATE(member)                                                                               \
    JSON_NUMBER, .offset = offsetof(struct rates, member), .min = 1, .max = INT64_MAX
static const struct json_record rates_record = {
    .size_bytes = sizeof(struct rates),
    .fields =
        {
            {"name", JSON_NAME, .offset = offsetof(struct rates, name), .min = 1,
             .size = RATES_NAME_MAX},
            {"link", RATE(link)},
            {"memory", RATE(memory)},
            {"mma16", RATE(mma16)},
            {"mma32", RATE(mma32)},
            {"other", RATE(other)},
            {"cache", RATE(cache)},
        },
};
static const struct json_record file_record = {
    .size_bytes = sizeof(struct roofline),
    .fields = {{"rates", JSON_LIST, .offset = offsetof(struct roofline, rates), .max = RATES_MAX,
                .count_offset = offsetof(struct roofline, count), .record = &rates_record}},
};

static enum status read_file(struct roofline *roofline, const char *path, struct error *err)
{
    struct buffer text = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return error_set(err, ERR_NOT_FOUND, "cannot open '%s': %m", path);
    }
    ssize_t size = read(fd, buffer_reserve(&text, FILE_MAX_BYTES), FILE_MAX_BYTES);
    close(fd);
    enum status status = OK;
    if (size < 0) {
        status = error_set(err, ERR_IO, "cannot read '%s'", path);
    } else if (size == FILE_MAX_BYTES) {
        status = error_set(err, ERR_TOO_LARGE, "'%s' has %d bytes or more", path, FILE_MAX_BYTES);
    } else {
        status = json_read(&file_record, roofline, text.data, (size_t)size, err);
    }
    buffer_release(&text);
    return status;
}

enum status roofline_open(struct roofline **roofline, const char *path, struct error *err)
{
    struct roofline *made = xcalloc(1, sizeof *made);
    enum status status = path == NULL ? OK : read_file(made, path, err);

    if (status != OK) {
        free(made);
        return status;
    }
    *roofline = made;
    return OK;
}

void roofline_close(struct roofline *roofline)
{
    if (roofline != NULL) {
        json_record_release(&file_record, roofline);
        free(roofline);
    }
}

static const struct rates *find(const struct rates *rates, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strncmp(name, rates[i].name, strlen(rates[i].name)) == 0) {
            return &rates[i];
        }
    }
    return NULL;
}

const struct rates *roofline_find(const struct roofline *roofline, const char *name)
{
    const struct rates *found = find(roofline->rates, roofline->count, name);

    return found != NULL ? found : find(built_in, sizeof built_in / sizeof *built_in, name);
}

/* The lesser of the two schemes where the switch can add; a scheme without bytes is none. */
static double link_bytes(const struct work *work)
{
    double direct = fmax(work->nvlink_out, work->nvlink_in);
    double by_switch = fmax(work->nvls_out, work->nvls_in);

    return by_switch > 0 && by_switch < direct ? by_switch : direct;
}

struct least_times roofline_times(const struct rates *rates, const struct work *work,
                                  enum dtype dtype)
{
    double mma = dtype == DTYPE_FP32 ? rates->mma32 : rates->mma16;
    double memory_bytes = work->hbm_read + work->hbm_write;
    double beyond_cache = fmax(memory_bytes - rates->cache, 0);
    double target_s = fmax(fmax(link_bytes(work) / rates->link, memory_bytes / rates->memory),
                           fmax(work->flops_mma / mma, work->flops_other / rates->other));

    return (struct least_times){
        .floor_us = fmax(work->floor_in / rates->link, beyond_cache / rates->memory) * 1e6,
        .target_us = target_s * 1e6,
    };
}
