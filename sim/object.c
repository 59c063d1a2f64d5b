#include "sim/object.h"

#include "common/mem.h"
#include "sim/machine.h"
#include "sim/wire.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* An mmap'ed memfd that its holder can neither shrink nor grow under us. */
static enum status host_bytes_open(struct object *object, struct error *err)
{
    if (object->payer->descriptors == MACHINE_DESCRIPTORS_MAX) {
        return error_set(err, ERR_LIMIT, "more than %d descriptors", MACHINE_DESCRIPTORS_MAX);
    }
    int fd = memfd_create("pkb pinned", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, (off_t)object->size_bytes) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        enum status status = error_set(err, ERR_LIMIT, "cannot make host memory: %m");
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    object->memory_fd = fd;
    return OK;
}

enum status object_open(struct object **object, const struct object_request *request,
                        struct error *err)
{
    struct client *payer = request->payer;
    struct object *made = NULL;
    enum status status = OK;
    uint64_t size_bytes = request->size_bytes;

    if (!size_bytes || size_bytes > payer->memory_max_bytes - payer->memory_bytes) {
        return error_set(err, ERR_LIMIT, "%lu bytes beyond the %lu in use exceed the limit of %lu",
                         size_bytes, payer->memory_bytes, payer->memory_max_bytes);
    }
    made = xcalloc(1, sizeof *made);
    *made = (struct object){.machine = payer->machine,
                            .payer = payer,
                            .size_bytes = size_bytes,
                            .memory_fd = -1,
                            .device = request->device,
                            .references = 1,
                            .token_fd = -1};
    if (request->device < 0) {
        status = host_bytes_open(made, err);
        if (status) {
            goto out;
        }
    }
    int flags = made->memory_fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
    void *bytes = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, flags, made->memory_fd, 0);
    if (bytes == MAP_FAILED) {
        status = error_set(err, ERR_LIMIT, "cannot map %lu bytes: %m", size_bytes);
        goto out;
    }
    if (made->memory_fd < 0 && size_bytes >= WIRE_GRANULARITY_BYTES) {
        /* One fault for 2 MiB, where the system has such pages. */
        (void)madvise(bytes, size_bytes, MADV_HUGEPAGE);
    }
    made->host = bytes;
    made->allocation = (uint32_t)payer->index << 24 | payer->allocations++;
    payer->memory_bytes += size_bytes;
    payer->descriptors += made->memory_fd >= 0;
    made->next = payer->machine->objects;
    payer->machine->objects = made;
    *object = made;
    made = NULL;
out:
    if (made && made->memory_fd >= 0) {
        close(made->memory_fd);
    }
    free(made);
    return status;
}

void object_release(struct object *object)
{
    assert(object->references > 0);
    if (--object->references) {
        return;
    }
    struct object **link = &object->machine->objects;
    while (*link != object) {
        link = &(*link)->next;
    }
    *link = object->next;
    if (object->payer) {
        object->payer->memory_bytes -= object->is_multicast ? 0 : object->size_bytes;
        object->payer->descriptors -= (object->memory_fd >= 0) + (object->token_fd >= 0);
    }
    for (int device = 0; device < WORLD_MAX; device++) {
        if (object->members[device].object) {
            object_release(object->members[device].object);
        }
    }
    if (object->host) {
        munmap(object->host, object->size_bytes);
    }
    if (object->memory_fd >= 0) {
        close(object->memory_fd);
    }
    if (object->token_fd >= 0) {
        close(object->token_fd);
    }
    free(object);
}

void object_forget_payer(struct machine *machine, const struct client *client)
{
    for (struct object *object = machine->objects; object; object = object->next) {
        if (object->payer == client) {
            object->payer = NULL;
        }
    }
}

enum status object_export(struct object *object, int *token_fd, struct error *err)
{
    struct client *payer = object->payer;

    if (object->token_fd < 0) {
        struct stat stat;
        if (payer && payer->descriptors == MACHINE_DESCRIPTORS_MAX) {
            return error_set(err, ERR_LIMIT, "more than %d descriptors", MACHINE_DESCRIPTORS_MAX);
        }
        int fd = memfd_create("pkb token", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

        if (fd < 0 || fcntl(fd, F_ADD_SEALS, seals) || fstat(fd, &stat)) {
            enum status status = error_set(err, ERR_IO, "cannot make a token: %m");
            if (fd >= 0) {
                close(fd);
            }
            return status;
        }
        object->token_fd = fd;
        if (payer) {
            payer->descriptors++;
        }
        object->is_shared = true;
        object->token_device = stat.st_dev;
        object->token_inode = stat.st_ino;
    }
    *token_fd = object->token_fd;
    return OK;
}

enum status key_make(struct wire_key *key, struct error *err)
{
    if (getrandom(key, sizeof *key, 0) != sizeof *key) {
        return error_set(err, ERR_IO, "cannot draw a key: %m");
    }
    return OK;
}

bool key_is(const struct wire_key *key, const struct wire_key *other)
{
    const struct wire_key none = {0};

    return memcmp(key, other, sizeof *key) == 0 && memcmp(key, &none, sizeof none) != 0;
}

struct object *object_find_key(struct machine *machine, const struct wire_key *key)
{
    for (struct object *object = machine->objects; object; object = object->next) {
        if (key_is(&object->key, key)) {
            object->references++;
            return object;
        }
    }
    return NULL;
}

struct object *object_import(struct machine *machine, int fd)
{
    struct stat stat;

    /* A token is a memfd: nobody's own file system is asked what its file is. */
    if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &stat)) {
        return NULL;
    }
    for (struct object *object = machine->objects; object; object = object->next) {
        if (object->token_fd >= 0 && object->token_device == stat.st_dev &&
            object->token_inode == stat.st_ino) {
            object->references++;
            return object;
        }
    }
    return NULL;
}
