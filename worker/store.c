#include "worker/store.h"

#include "common/mem.h"
#include "worker/collect.h"
#include "worker/elf.h"
#include "worker/workplace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ENTRIES_MAX = 100000, TEMPORARY_AGE_MAX_S = 3600 };

static const char magic[8] = "pkbbuild";
static const char temporary[] = ".new-";

struct head {
    char magic[sizeof magic];
    uint64_t result_bytes, library_bytes; /* which follow; UINT64_MAX: no library */
    unsigned char hash[crypto_hash_sha256_BYTES];
};

enum status store_init(struct store *store, const char *directory, uint64_t bytes_max,
                       struct error *err)
{
    if (strlen(directory) + STORE_NAME_MAX + 32 >= sizeof store->directory) {
        return error_set(err, ERR_TOO_LARGE, "the name of '%s' is too long", directory);
    }
    enum status status = workplace_make_private(directory, err);
    if (status != OK) {
        return status;
    }
    (void)snprintf(store->directory, sizeof store->directory, "%s", directory);
    store->bytes_max = bytes_max;
    return OK;
}

bool store_keeps(const struct result *result)
{
    return result->verdict == VERDICT_ACCEPTED || result->verdict == VERDICT_COMPILE_ERROR ||
           result->verdict == VERDICT_LINK_ERROR;
}

/* Over everything that an entry says, its name too. */
static void hash_entry(const char *name, const struct head *head, const void *content,
                       size_t size_bytes, unsigned char hash[crypto_hash_sha256_BYTES])
{
    crypto_hash_sha256_state state;

    crypto_hash_sha256_init(&state);
    crypto_hash_sha256_update(&state, (const unsigned char *)name, strlen(name));
    crypto_hash_sha256_update(&state, (const unsigned char *)head, offsetof(struct head, hash));
    crypto_hash_sha256_update(&state, content, size_bytes);
    crypto_hash_sha256_final(&state, hash);
}

/* ---- reading ---- */

static enum status take_entry(const char *name, const unsigned char *data, size_t size_bytes,
                              struct result *result, int *library, struct error *err)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    struct result read = {.rank = -1};
    struct head head;

    if (size_bytes < sizeof head) {
        return error_set(err, ERR_INVALID, "an entry that is cut");
    }
    memcpy(&head, data, sizeof head);
    const unsigned char *content = data + sizeof head;
    size_t content_bytes = size_bytes - sizeof head;
    bool has_library = head.library_bytes != UINT64_MAX;
    uint64_t library_bytes = has_library ? head.library_bytes : 0;
    if (memcmp(head.magic, magic, sizeof magic) != 0 || head.result_bytes > content_bytes ||
        library_bytes != content_bytes - head.result_bytes) {
        return error_set(err, ERR_INVALID, "no entry");
    }
    hash_entry(name, &head, content, content_bytes, hash);
    if (memcmp(hash, head.hash, sizeof hash) != 0) {
        return error_set(err, ERR_INVALID, "an entry that was changed");
    }
    enum status status = result_read(&read, (const char *)content, head.result_bytes, err);
    if (status == OK &&
        (!store_keeps(&read) || (read.verdict == VERDICT_ACCEPTED) != has_library)) {
        status = error_set(err, ERR_INVALID, "an entry without what it needs");
    }
    if (status == OK && has_library) {
        status = collect_bytes(content + head.result_bytes, library_bytes, library, err);
    }
    if (status != OK) {
        result_release(&read);
        return status;
    }
    result_release(result);
    *result = read;
    return OK;
}

enum status store_load(const struct store *store, const char *name, struct result *result,
                       int *library, struct error *err)
{
    char *path = xasprintf("%s/%s", store->directory, name);
    enum status status = ERR_NOT_FOUND;
    struct stat info = {0};
    void *data = MAP_FAILED;

    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
        info.st_size <= 0 || info.st_size > ELF_BYTES_MAX + RESULT_JSON_MAX_BYTES) {
        (void)error_set(err, ERR_NOT_FOUND, "no build of that name");
        goto out;
    }
    data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        (void)error_set(err, ERR_NOT_FOUND, "cannot read '%s': %m", path);
        goto out;
    }
    status = take_entry(name, data, (size_t)info.st_size, result, library, err);
    if (status == OK) {
        (void)futimens(fd, NULL); /* used just now */
    } else {
        (void)unlink(path);
        status = ERR_NOT_FOUND;
    }
out:
    if (data != MAP_FAILED) {
        munmap(data, (size_t)info.st_size);
    }
    if (fd >= 0) {
        close(fd);
    }
    free(path);
    return status;
}

/* ---- the limit ---- */

struct entry {
    char name[NAME_MAX + 1];
    uint64_t size_bytes;
    struct timespec used;
};

static int compare_use(const void *one, const void *other)
{
    const struct timespec *a = &((const struct entry *)one)->used;
    const struct timespec *b = &((const struct entry *)other)->used;

    if (a->tv_sec != b->tv_sec) {
        return a->tv_sec < b->tv_sec ? -1 : 1;
    }
    return (a->tv_nsec > b->tv_nsec) - (a->tv_nsec < b->tv_nsec);
}

/* What a worker left that ended in the middle. */
static bool is_left_over(const char *name, const struct stat *info)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return strncmp(name, temporary, strlen(temporary)) == 0 &&
           now.tv_sec - info->st_mtim.tv_sec > TEMPORARY_AGE_MAX_S;
}

static struct entry *list_entries(int directory, size_t *count, uint64_t *sum_bytes)
{
    struct buffer entries = {0};
    DIR *listing = fdopendir(dup(directory));
    struct dirent *item = NULL;

    *count = 0;
    *sum_bytes = 0;
    while (listing != NULL && (item = readdir(listing)) != NULL && *count < ENTRIES_MAX) {
        struct entry entry = {0};
        struct stat info;
        if (fstatat(directory, item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(info.st_mode)) {
            continue;
        }
        if (is_left_over(item->d_name, &info)) {
            (void)unlinkat(directory, item->d_name, 0);
            continue;
        }
        (void)snprintf(entry.name, sizeof entry.name, "%s", item->d_name);
        entry.size_bytes = (uint64_t)info.st_size;
        entry.used = info.st_mtim;
        *sum_bytes += entry.size_bytes;
        buffer_append(&entries, &entry, sizeof entry);
        ++*count;
    }
    if (listing != NULL) {
        closedir(listing);
    }
    return (struct entry *)entries.data;
}

/* Removes what was not used for longest until a tenth is free. */
static void make_room(const struct store *store, int directory)
{
    size_t count = 0;
    uint64_t sum_bytes = 0;
    struct entry *entries = list_entries(directory, &count, &sum_bytes);

    if (sum_bytes > store->bytes_max) {
        qsort(entries, count, sizeof *entries, compare_use);
        for (size_t i = 0; i < count && sum_bytes > store->bytes_max / 10 * 9; i++) {
            (void)unlinkat(directory, entries[i].name, 0);
            sum_bytes -= entries[i].size_bytes;
        }
    }
    free(entries);
}

/* ---- writing ---- */

/* What the build alone has said. */
static void write_result(const struct result *result, struct buffer *json)
{
    struct result kept = {.rank = -1,
                          .verdict = result->verdict,
                          .reason = result->reason,
                          .message = result->message,
                          .stage = result->stage,
                          .build_log = result->build_log,
                          .flags = result->flags,
                          .flag_count = result->flag_count,
                          .mechanisms = result->mechanisms,
                          .mechanism_count = result->mechanism_count};

    result_write(&kept, json);
}

static enum status write_file(int fd, const struct head *head, const struct buffer *content,
                              struct error *err)
{
    size_t done = 0;

    if (write(fd, head, sizeof *head) != sizeof *head) {
        return error_set(err, ERR_IO, "cannot write a kept build: %m");
    }
    while (done < content->size_bytes) {
        ssize_t size = write(fd, content->data + done, content->size_bytes - done);
        if (size <= 0) {
            return error_set(err, ERR_IO, "cannot write a kept build: %m");
        }
        done += (size_t)size;
    }
    return fsync(fd) == 0 ? OK : error_set(err, ERR_IO, "cannot write a kept build: %m");
}

static enum status read_library(int library, struct buffer *content, struct error *err)
{
    struct stat info;

    if (fstat(library, &info) != 0) {
        return error_set(err, ERR_IO, "cannot read a library: %m");
    }
    for (off_t at = 0; at < info.st_size;) {
        ssize_t size = pread(library, buffer_reserve(content, (size_t)(info.st_size - at)),
                             (size_t)(info.st_size - at), at);
        if (size <= 0) {
            return error_set(err, ERR_IO, "cannot read a library: %m");
        }
        content->size_bytes += (size_t)size;
        at += size;
    }
    return OK;
}

enum status store_save(const struct store *store, const char *name, const struct result *result,
                       int library, struct error *err)
{
    struct head head = {.library_bytes = UINT64_MAX};
    struct buffer content = {0};
    enum status status = OK;
    char *next = xasprintf("%s%s-%d", temporary, name, (int)getpid());
    int fd = -1;

    int directory = open(store->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (directory < 0) {
        status = error_set(err, ERR_IO, "cannot open '%s': %m", store->directory);
        goto out;
    }
    memcpy(head.magic, magic, sizeof magic);
    write_result(result, &content);
    head.result_bytes = content.size_bytes;
    if (library >= 0) {
        status = read_library(library, &content, err);
        head.library_bytes = content.size_bytes - head.result_bytes;
    }
    if (status != OK) {
        goto out;
    }
    hash_entry(name, &head, content.data, content.size_bytes, head.hash);
    fd = openat(directory, next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    status = fd < 0 ? error_set(err, ERR_IO, "cannot write '%s': %m", next)
                    : write_file(fd, &head, &content, err);
    if (status == OK && renameat(directory, next, directory, name) != 0) {
        status = error_set(err, ERR_IO, "cannot rename '%s': %m", next);
    }
    if (status != OK) {
        (void)unlinkat(directory, next, 0);
        goto out;
    }
    make_room(store, directory);
out:
    if (fd >= 0) {
        close(fd);
    }
    if (directory >= 0) {
        close(directory);
    }
    buffer_release(&content);
    free(next);
    return status;
}
