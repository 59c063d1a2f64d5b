/*
 * machine.h — all that one pkb-simd holds: the engine, the clients in their given order, and what
 * each of them has made.
 *
 * machine_open, then machine_run until every client has hung up, then machine_close. A client is
 * one process: its channels are its threads. Everything is done by one thread, and whatever
 * the order of arrival could change is put in the order of (client, sequence).
 */
#pragma once

#include "common/buffer.h"
#include "common/error.h"
#include "common/result.h"
#include "sim/engine.h"
#include "sim/handles.h"
#include "sim/object.h"
#include "sim/wire.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    MACHINE_CLIENTS_MAX = WORLD_MAX + 1,
    MACHINE_NAME_MAX = 16,
    MACHINE_SM_COUNT = 132, /* an H200's */
    /* Requests in a row that only look (reads of device memory, waits for what is done) and are
     * served at once. A client that goes on polls by them, and each is served as a poll is. */
    MACHINE_LOOKS_MAX = 64,
    MACHINE_REFUSED_MAX = 64,       /* events of one client about calls that are not simulated */
    MACHINE_DESCRIPTORS_MAX = 1024, /* of the pinned memory and the tokens that one client has */
};

struct channel;
struct event;
struct program;
struct stream;

/* What a request that is not answered yet waits for. */
enum wait_kind {
    WAIT_NOTHING,
    WAIT_STREAM,  /* the stream's work up to `sequence` */
    WAIT_DEVICE,  /* the work of all of the device's streams up to `sequence` */
    WAIT_EVENT,   /* the event's record number `sequence` */
    WAIT_HOST,    /* a host function's turn */
    WAIT_DEVICES, /* all devices of the multicast object; then it is handled */
    WAIT_SOCKET,  /* the socket that came with the request can be read */
    POLL_STREAM,  /* the next round; answers whether the stream is done */
    POLL_EVENT,
    POLL_REPEAT, /* the next round; then it is handled: see MACHINE_LOOKS_MAX */
};
struct waiting {
    enum wait_kind kind;
    struct stream *stream;
    struct event *event; /* one reference */
    int device;
    uint64_t sequence;
    uint64_t free_address; /* freed before the answer; 0: nothing */
    uint64_t multicast;    /* the client's handle */
};

/* A thread of a client. */
struct channel {
    struct channel *next;
    struct client *client;
    int fd;
    int given_fd; /* came with the request; -1: none */
    uint8_t *staging;
    struct wire_request request;
    uint8_t *payload; /* WIRE_PAYLOAD_MAX, and a zero byte */
    size_t received_bytes;
    bool is_pending;  /* a whole request is here and not answered */
    bool is_readable; /* of WAIT_SOCKET: so it was seen */
    struct waiting waiting;
};

struct client {
    struct machine *machine;
    char name[MACHINE_NAME_MAX];
    int index;
    int rank; /* -1: the judge */
    bool is_open;
    const char *ending;     /* why it is to be closed; NULL: it is not */
    pid_t pid;              /* 0: not known */
    struct channel control; /* the process connection: HELLO and CHANNEL */
    struct channel *channels;
    int channel_count;

    struct space *space;
    uint64_t memory_bytes, memory_max_bytes;
    uint32_t allocations;
    int descriptors;
    uint64_t private_next; /* the next address of private memory */
    struct regions regions;
    struct handles handles;

    struct stream *streams; /* the legacy streams of the devices first, then in order of creation */
    uint64_t sequence;      /* of the last item queued */
    uint64_t queued_bytes;  /* of copies from host memory that wait in queues */
    struct program *programs;
    struct buffer output;               /* what kernels printed and nobody fetched */
    int looks;                          /* requests in a row that only looked */
    bool has_news;                      /* something that a poll or a look at host memory can see */
    char *refused[MACHINE_REFUSED_MAX]; /* what it asked for that is not simulated */
    int refused_count;

    int sticky;                             /* CUresult of every call after a fault; 0: none */
    int64_t active_since_ns, active_cpu_ns; /* when it was last answered */
    bool others_idle; /* its threads that are not in a call were seen to use no CPU */
    bool is_overdue;  /* did not get quiet in time: the devices go on */
    bool is_overdue_reported;
    bool is_unordered; /* there were too many lanes or numbers: its order is not judged any more */
    int64_t suspect_cpu_ns;

    struct clock *host;          /* what its host code knows to be done; NULL: it queued nothing */
    struct clock *queued_before; /* the end of the last pkb_run: what had been queued; or NULL */
    uint32_t calls;              /* of pkb_run that have returned */
    uint32_t run_end;            /* of the last one, in the lane of ctx->stream: */
    int run_lane;                /* 0: not known yet */
    int streams_made;            /* but for the legacy ones */
    unsigned misuses;            /* of captures, that were told: bits */
};

struct machine_options {
    int devices;
    uint64_t seed, fuel;
    uint64_t memory_max_bytes; /* of one device */
    int report_fd;
    enum wire_model model;
};

struct machine {
    struct machine_options options;
    struct engine *engine;
    struct client clients[MACHINE_CLIENTS_MAX];
    int client_count;
    struct image_file {
        char *path;
        void *elf; /* mapped until it is parsed, then NULL */
        size_t size_bytes;
        struct image_set set;
    } * images;
    int image_count;
    struct object *objects;
    struct result last; /* findings, for the last line */

    int rounds;            /* all pollers were answered so often since anything happened */
    int64_t answer_at_ns;  /* pollers of an idle machine wait until then; 0: they do not */
    bool is_stuck_again;   /* all were answered since nothing could move first */
    int64_t suspect_at_ns; /* nothing can move: judged then; 0: not so */
};

enum status machine_open(struct machine *machine, const struct machine_options *options,
                         struct error *err);
/* Takes `fd`, one end of a socket pair. */
enum status machine_add_client(struct machine *machine, const char *name, int fd,
                               struct error *err);
/* Opens an ELF file whose kernels may run. It is read when a client asks for what no earlier one
 * has, and one that cannot be read has nothing. */
enum status machine_add_image(struct machine *machine, const char *path, struct error *err);
/* Looks which sockets of WAIT_SOCKET can be read now. What was sent to one before a request that
 * has been taken is seen. */
void machine_look_at_sockets(struct machine *machine);
/* Until every client has hung up. */
enum status machine_run(struct machine *machine, struct error *err);
void machine_close(struct machine *machine);
