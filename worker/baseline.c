#include "worker/baseline.h"

#include "common/mem.h"
#include "worker/workplace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* At other clocks the same work takes another time. */
#define CLOCK_SHARE 0.05

/* FNV-1a: tells one text of a baseline from the next. */
static uint64_t fingerprint(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *text != 0; text++) {
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static char *path_of(const struct baseline_key *key)
{
    return xasprintf("%s/%03d-%d-%s-%s-%016llx.json", key->directory, task_number(key->task),
                     key->world, dtype_name(key->dtype), device_kind_name(key->device),
                     (unsigned long long)fingerprint(task_baseline(key->task)));
}

static bool are_equal(const char *one, const char *other)
{
    return one == NULL || other == NULL ? one == other : strcmp(one, other) == 0;
}

static bool holds_for(const struct gpu *measured, const struct gpu *gpu)
{
    int difference = abs(measured->sm_mhz - gpu->sm_mhz);

    return are_equal(measured->name, gpu->name) && are_equal(measured->uuid, gpu->uuid) &&
           are_equal(measured->driver, gpu->driver) && are_equal(measured->cuda, gpu->cuda) &&
           are_equal(measured->nccl, gpu->nccl) && measured->count == gpu->count &&
           difference <= CLOCK_SHARE * gpu->sm_mhz;
}

static enum status read_result(int fd, const char *path, struct result *result, struct error *err)
{
    struct buffer text = {0};
    ssize_t size = 1;

    while (size > 0 && text.size_bytes <= RESULT_JSON_MAX_BYTES) {
        size = read(fd, buffer_reserve(&text, RESULT_JSON_MAX_BYTES), RESULT_JSON_MAX_BYTES);
        text.size_bytes += size > 0 ? (size_t)size : 0;
    }
    enum status status = size < 0 ? error_set(err, ERR_IO, "cannot read '%s': %m", path)
                                  : result_read(result, text.data, text.size_bytes, err);
    buffer_release(&text);
    return status;
}

enum status baseline_load(const struct baseline_key *key, const struct gpu *gpu, time_t now,
                          struct result *result, struct error *err)
{
    struct result read = {.rank = -1};
    struct stat found;
    enum status status = OK;
    char *path = path_of(key);

    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &found) != 0 || found.st_uid != geteuid() ||
        now - found.st_mtime > BASELINE_AGE_MAX_S || found.st_mtime > now) {
        status = error_set(err, ERR_NOT_FOUND, "no times of this baseline that are new enough");
    } else {
        status = read_result(fd, path, &read, err);
    }
    if (status == OK && (read.gpu == NULL || !holds_for(read.gpu, gpu))) {
        status = error_set(err, ERR_NOT_FOUND, "no times of this baseline on such a GPU");
    }
    if (fd >= 0) {
        close(fd);
    }
    free(path);
    if (status != OK) {
        result_release(&read);
        return error_set(err, ERR_NOT_FOUND, "no times of this baseline that hold");
    }
    *result = read;
    return OK;
}

static enum status write_all(int fd, const struct buffer *text, const char *path, struct error *err)
{
    size_t written = 0;

    while (written < text->size_bytes) {
        ssize_t size = write(fd, text->data + written, text->size_bytes - written);
        if (size < 0) {
            return error_set(err, ERR_IO, "cannot write '%s': %m", path);
        }
        written += (size_t)size;
    }
    return OK;
}

/* A file of another name takes the place of the old one, whole. */
enum status baseline_store(const struct baseline_key *key, const struct result *result,
                           struct error *err)
{
    struct buffer text = {0};
    enum status status = workplace_make_private(key->directory, err);

    if (status != OK) {
        return status;
    }
    char *path = path_of(key);
    char *next = xasprintf("%s.%d", path, (int)getpid());
    result_write(result, &text);
    int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        status = error_set(err, ERR_IO, "cannot write '%s': %m", next);
    } else {
        status = write_all(fd, &text, next, err);
        close(fd);
    }
    if (status == OK && rename(next, path) != 0) {
        status = error_set(err, ERR_IO, "cannot rename '%s': %m", next);
    }
    if (status != OK) {
        (void)unlink(next);
    }
    buffer_release(&text);
    free(next);
    free(path);
    return status;
}
