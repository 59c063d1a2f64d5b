/*
 * object.h — the bytes that simd owns, and where each client sees them.
 *
 * An object is one allocation: simd's bytes, the device that owns them, the client that pays. It
 * lives while a handle or a region refers to it. A region is a range of one client's addresses; the
 * device sees it once it has an access. An exported object has a token: an empty sealed memfd
 * whose inode names it, so that a client that holds the token can import the object and can do
 * nothing else with it.
 */
#pragma once

#include "common/error.h"
#include "sim/engine.h"
#include "sim/wire.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct client;
struct machine;

struct object {
    struct object *next; /* of the machine's */
    struct machine *machine;
    struct client *payer; /* NULL once that client has gone */
    uint64_t size_bytes;
    uint8_t *host;
    int memory_fd; /* of pinned host memory; else -1 */
    int device;    /* whose memory it is; -1: host memory */
    int references;
    bool starts_undefined; /* as cudaMalloc gives it, whatever the bytes are */
    bool is_shared;        /* once exported: other clients may reach it */
    struct wire_key key;   /* zero: not exported by it */
    int token_fd;          /* -1: has none */
    dev_t token_device;
    ino_t token_inode;
    uint32_t allocation;

    /* Of a multicast object, which has no bytes of its own: the memory bound on each device. */
    bool is_multicast;
    uint32_t devices_added; /* bit i: device i takes part */
    int device_count;       /* that are to take part */
    struct member {
        struct object *object; /* one reference; NULL: nothing is bound */
        uint64_t at_bytes, size_bytes;
        uint64_t offset_bytes; /* in `object` */
    } members[WORLD_MAX];
};

struct object_request {
    struct client *payer;
    uint64_t size_bytes;
    int device; /* -1: pinned host memory */
};

/* A multicast object over `device_count` devices, with one reference. */
struct object *object_open_multicast(struct client *client, uint64_t size_bytes, int device_count);
/* Binds `member`, taking a reference, on the device of its object; where it is seen, it is seen so
 * at once. ERR_INVALID where the device does not take part, has something bound, or it does not
 * fit. */
enum status object_bind(struct object *multicast, const struct member *member, struct error *err);
/* What was bound by the same numbers as those of `range`, and all of it. */
enum status object_unbind(struct object *multicast, int device, const struct member *range,
                          struct error *err);

/* A zeroed object with one reference, or ERR_LIMIT beyond the payer's memory. */
enum status object_open(struct object **object, const struct object_request *request,
                        struct error *err);
/* Gives one reference back; the last one frees the bytes. */
void object_release(struct object *object);
/* The client pays no more: its process has ended. */
void object_forget_payer(struct machine *machine, const struct client *client);

/* The token's fd, which stays the object's. ERR_IO, or ERR_LIMIT beyond the payer's descriptors. */
enum status object_export(struct object *object, int *token_fd, struct error *err);
/* A key that no client can guess. */
enum status key_make(struct wire_key *key, struct error *err);
bool key_is(const struct wire_key *key, const struct wire_key *other);
/* The object that was exported by this key, with one reference more, or NULL. */
struct object *object_find_key(struct machine *machine, const struct wire_key *key);

/* The object that `fd` is a token of, with one reference more, or NULL. */
struct object *object_import(struct machine *machine, int fd);

enum region_kind { REGION_PRIVATE, REGION_VIRTUAL, REGION_HOST, REGION_SYMBOL, REGION_IPC };
struct region {
    uint64_t address, size_bytes;
    uint64_t offset_bytes; /* in the object */
    struct object *object; /* one reference */
    enum region_kind kind;
    int access;        /* MAP_READ | MAP_WRITE; 0: the device does not see it */
    const char *label; /* what reports call it; static */
};
/* A client's regions, by address. */
struct regions {
    struct region *rows;
    size_t count, capacity;
};
enum { REGIONS_MAX = 1 << 16 };

/* Adds `region`, taking its own reference, and maps it where it has an access. ERR_CONFLICT where
 * it overlaps another, ERR_INVALID where no device memory may lie, ERR_LIMIT beyond REGIONS_MAX. */
enum status region_add(struct client *client, struct region region, struct error *err);
/* The same at a new address of the client's private window: the whole object, readable and
 * writable. */
enum status region_add_private(struct client *client, struct object *object, enum region_kind kind,
                               uint64_t *address, struct error *err);
/* The region that holds `address`, or NULL. */
struct region *region_find(const struct client *client, uint64_t address);
/* Unmaps and removes the region that starts at `address`. ERR_NOT_FOUND where none does. */
enum status region_remove(struct client *client, uint64_t address, struct error *err);
/* Changes what the device may do with a region. */
enum status region_set_access(struct client *client, struct region *region, int access,
                              struct error *err);
/* What lies behind the client's regions of `object` has changed. */
void regions_remap(struct client *client, const struct object *object);
void regions_release(struct client *client);

/* Whether no other client can reach any byte of the range. */
bool region_is_private(const struct client *client, uint64_t address, uint64_t size_bytes);
