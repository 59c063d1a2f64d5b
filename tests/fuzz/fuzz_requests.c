/*
 * fuzz_requests.c — pkb-simd's machine, and clients that say to it what the bytes say.
 *
 * The bytes are steps, each of a client: a request made of fields that often mean something, bytes
 * as they are, a new thread, an end. A step is played when the machine has nothing else to do, that
 * is in its call of poll, and time is what passes there.
 */
#include "sim/machine.h"
#include "tests/fuzz/fuzz.h"

#include "common/mem.h"

#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    DEVICES = 2,
    CLIENTS = 3,
    CHANNELS = 4, /* of a client */
    KNOWN = 16,   /* answers that later requests may name */
    KEPT_FDS = 4, /* descriptors that came, for later requests */
    IDLE_POLLS_MAX = 200,
    STEPS_MAX = 2048,
    PAYLOAD_WORDS_MAX = 16,
    TIME_FACTOR = 4, /* of what poll is told to wait */
};

enum step_kind { STEP_REQUEST, STEP_BYTES, STEP_CHANNEL, STEP_CLOSE, STEP_WORK, STEP_KINDS };

static const char image_text[] =
    ".version 8.0\n.target sm_90a\n.address_size 64\n"
    ".global .align 4 .b8 g0[256];\n"
    ".const .align 4 .u32 g1[4] = {1, 2, 3, 4};\n"
    ".visible .entry k0() { ret; }\n"
    ".visible .entry k1(.param .u64 p0, .param .u32 p1) {\n"
    " .reg .b64 %rd<3>; .reg .b32 %r<3>;\n"
    " ld.param.u64 %rd1, [p0]; ld.param.u32 %r1, [p1];\n"
    " st.global.u32 [%rd1], %r1; atom.global.add.u32 %r2, [%rd1], 1;\n"
    " ret; }\n"
    ".visible .entry k2(.param .u64 p0) {\n"
    " .reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .pred %p1;\n"
    " ld.param.u64 %rd1, [p0];\n"
    "again: ld.acquire.sys.global.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra again;\n"
    " ret; }\n"
    ".visible .entry k3(.param .u64 p0) {\n"
    " .reg .b64 %rd<3>; .reg .f32 %f<5>;\n"
    " ld.param.u64 %rd1, [p0];\n"
    " multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];\n"
    " multimem.st.relaxed.sys.global.v4.f32 [%rd1], {%f1, %f2, %f3, %f4};\n"
    " ret; }\n";

struct player {
    bool is_playing;
    const uint8_t *data;
    size_t left;
    int control[CLIENTS];
    int channels[CLIENTS][CHANNELS];
    uint64_t known[KNOWN];
    int known_count;
    int kept[KEPT_FDS];
    int kept_count;
    int steps, idle_polls;
    int64_t now_ns, cpu_ns;
};

static struct player player;

int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

static uint8_t take_byte(void)
{
    if (!player.left) {
        return 0;
    }
    player.left--;
    return *player.data++;
}

static uint64_t take_raw(int bytes)
{
    uint64_t value = 0;

    for (int i = 0; i < bytes; i++) {
        value |= (uint64_t)take_byte() << (8 * i);
    }
    return value;
}

/* A field of a request, by a byte that says what kind of number it is. */
static uint64_t take_word(void)
{
    uint8_t tag = take_byte();
    uint64_t low = tag & 15;

    switch (tag >> 4) {
    case 4:
        return player.known[low];
    case 5:
        return player.known[low] + take_raw(2) * 4;
    case 6:
        return WIRE_IDS_FROM + low;
    case 7:
        return low * WIRE_GRANULARITY_BYTES;
    case 8:
        return low * 4096;
    case 9:
        return WIRE_RANK_BASE + (low >> 2) * WIRE_RANK_STRIDE + (low & 3) * WIRE_GRANULARITY_BYTES;
    case 10:
        return 0x7f0000000000u + low * 4096;
    case 11:
        return 1ull << (low * 4);
    case 12:
    case 13: /* two fields of four bytes */
        return (tag & 3) | (uint64_t)(tag >> 2 & 7) << 32;
    case 14:
        low = take_byte();
        return low | (uint64_t)take_byte() << 32;
    case 15:
        return tag == 0xff ? take_raw(8) : 0 - low;
    default:
        return tag;
    }
}

static void send_request(int fd, const struct wire_request *request, const void *payload,
                         int given_fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof given_fd)];
    } control = {0};
    struct iovec pieces[2] = {{.iov_base = (void *)request, .iov_len = sizeof *request},
                              {.iov_base = (void *)payload, .iov_len = request->payload_bytes}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};

    if (given_fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                          .cmsg_type = SCM_RIGHTS,
                                          .cmsg_len = CMSG_LEN(sizeof given_fd)};
        memcpy(CMSG_DATA(&control.header), &given_fd, sizeof given_fd);
    }
    (void)sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void open_channel(int client, int channel)
{
    struct wire_request request = {.op = WIRE_CHANNEL};
    int pair[2] = {-1, -1};

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
        return;
    }
    send_request(player.control[client], &request, NULL, pair[1]);
    close(pair[1]);
    if (player.channels[client][channel] >= 0) {
        close(player.channels[client][channel]);
    }
    player.channels[client][channel] = pair[0];
}

/* What lies behind a request: a name, parameters, or any bytes. */
static uint32_t take_payload(uint8_t *payload)
{
    static const char *const names[] = {"k0", "k1", "k2", "k3", "g0", "g1", "g2", ""};
    uint8_t kind = take_byte();
    uint32_t size_bytes = 0;

    if (kind < 8) {
        size_bytes = (uint32_t)strlen(names[kind]);
        memcpy(payload, names[kind], size_bytes);
    } else if (kind < 8 + PAYLOAD_WORDS_MAX) {
        for (uint8_t i = 8; i < kind; i++) {
            uint64_t word = take_word();
            memcpy(payload + size_bytes, &word, sizeof word);
            size_bytes += sizeof word;
        }
        size_bytes -= kind & 1 ? 4 : 0; /* the last parameter has four bytes */
    } else if (kind >= 0xf0) {
        size_bytes = (uint32_t)take_raw(2);
        for (uint32_t i = 0; i < size_bytes; i++) {
            payload[i] = take_byte();
        }
    }
    return size_bytes;
}

static void play_request(int fd)
{
    static uint8_t payload[UINT16_MAX + 1];
    struct wire_request request = {.op = take_byte() % (WIRE_OP_COUNT + 1)};
    uint64_t fields[(sizeof request - offsetof(struct wire_request, memory)) / 8] = {0};
    uint8_t shape = take_byte(); /* fields, device, descriptor */

    request.device = (shape >> 4 & 3) - (shape >> 6 & 1);
    request.stream = take_word();
    request.version = WIRE_VERSION;
    request.is_nccl = shape >> 7;
    for (int i = 0; i < (shape & 7) && i < (int)(sizeof fields / sizeof *fields); i++) {
        fields[i] = take_word();
    }
    memcpy(&request.memory, fields, sizeof fields);
    request.payload_bytes = take_payload(payload);
    send_request(fd, &request, payload,
                 shape & 8 ? player.kept[player.known_count % KEPT_FDS] : -1);
}

static void play_bytes(int fd)
{
    uint8_t bytes[256];
    size_t size_bytes = take_byte();

    for (size_t i = 0; i < size_bytes; i++) {
        bytes[i] = take_byte();
    }
    (void)send(fd, bytes, size_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void play_step(void)
{
    uint8_t who = take_byte();
    int client = (who & 3) % CLIENTS, channel = who >> 2 & (CHANNELS - 1);
    bool is_control = (who & 0xc0) == 0xc0;
    int *fd = is_control ? &player.control[client] : &player.channels[client][channel];

    player.steps++;
    switch ((enum step_kind)(take_byte() % STEP_KINDS)) {
    case STEP_REQUEST:
        play_request(*fd);
        break;
    case STEP_BYTES:
        play_bytes(*fd);
        break;
    case STEP_CHANNEL:
        open_channel(client, channel);
        break;
    case STEP_CLOSE:
        if (*fd >= 0) {
            close(*fd);
            *fd = -1;
        }
        break;
    case STEP_WORK:
        player.cpu_ns += (int64_t)take_byte() << 20;
        break;
    case STEP_KINDS:
        break;
    }
}

/* Takes what the machine answered, and remembers what a client may name again. */
static void take_answers(int fd)
{
    static uint8_t bytes[WIRE_PAYLOAD_MAX + sizeof(struct wire_reply)];
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int) * 4)];
    } control;
    struct wire_reply reply;

    for (;;) {
        struct iovec piece = {.iov_base = bytes, .iov_len = sizeof bytes};
        struct msghdr message = {.msg_iov = &piece,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = sizeof control};
        ssize_t size = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (size <= 0) {
            return;
        }
        if (size >= (ssize_t)sizeof reply) {
            memcpy(&reply, bytes, sizeof reply);
            player.known[player.known_count++ % KNOWN] = reply.id;
        }
        struct cmsghdr *part = CMSG_FIRSTHDR(&message);
        if (part && part->cmsg_type == SCM_RIGHTS && part->cmsg_len == CMSG_LEN(sizeof(int))) {
            int *kept = &player.kept[player.kept_count++ % KEPT_FDS];
            close(*kept);
            memcpy(kept, CMSG_DATA(part), sizeof *kept);
        }
    }
}

static void hang_up(void)
{
    for (int client = 0; client < CLIENTS; client++) {
        for (int channel = 0; channel < CHANNELS; channel++) {
            close(player.channels[client][channel]);
            player.channels[client][channel] = -1;
        }
        close(player.control[client]);
        player.control[client] = -1;
    }
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    if (!player.is_playing) {
        return __real_poll(fds, count, timeout_ms);
    }
    int ready = __real_poll(fds, count, 0);
    if (ready) {
        return ready;
    }
    for (int client = 0; client < CLIENTS; client++) {
        take_answers(player.control[client]);
        for (int channel = 0; channel < CHANNELS; channel++) {
            take_answers(player.channels[client][channel]);
        }
    }
    if (player.left && player.steps < STEPS_MAX) {
        play_step();
    } else if (timeout_ms < 0 || ++player.idle_polls > IDLE_POLLS_MAX) {
        hang_up();
    } else {
        player.now_ns += (int64_t)timeout_ms * 1000000 * TIME_FACTOR;
    }
    return __real_poll(fds, count, 0);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!player.is_playing) {
        return __real_clock_gettime(clock, now);
    }
    player.now_ns += 10000;
    int64_t ns = clock == CLOCK_MONOTONIC ? player.now_ns : player.cpu_ns;
    *now = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}

/* What the machine reports is a result's JSON, whatever made it say so. */
static void check_report(int fd)
{
    off_t size_bytes = lseek(fd, 0, SEEK_END);
    char *text = xmalloc((size_t)size_bytes + 1);

    ssize_t got = pread(fd, text, (size_t)size_bytes, 0);
    assert(got == size_bytes);
    text[got] = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        struct result result = {0};
        struct error err = {0};
        enum status status = result_read(&result, line, (size_t)(end - line), &err);
        assert(status == OK);
        result_release(&result);
    }
    free(text);
}

/* The one image, which clients call 1. */
static void add_image(struct machine *machine)
{
    struct image *image = NULL;
    struct error err = {0};

    enum status status = image_parse(&image, image_text, sizeof image_text - 1, &err);
    assert(status == OK);
    image->hash = 1;
    machine->images = xcalloc(1, sizeof *machine->images);
    machine->images[0].path = xstrdup("image");
    machine->images[0].set.images = xcalloc(1, sizeof(struct image *));
    machine->images[0].set.images[0] = image;
    machine->images[0].set.count = 1;
    machine->image_count = 1;
}

static void sit_down(struct machine *machine)
{
    static const char *const names[CLIENTS] = {"rank0", "rank1", "judge"};
    struct error err = {0};

    for (int client = 0; client < CLIENTS; client++) {
        int pair[2] = {-1, -1};
        int failed = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
        assert(!failed);
        enum status status = machine_add_client(machine, names[client], pair[1], &err);
        assert(status == OK);
        player.control[client] = pair[0];
        memset(player.channels[client], -1, sizeof player.channels[client]);
        open_channel(client, 0);
    }
    memset(player.kept, -1, sizeof player.kept);
}

void fuzz_requests(const uint8_t *data, size_t size_bytes)
{
    static struct machine machine;
    struct error err = {0};
    int report = memfd_create("report", MFD_CLOEXEC);

    player = (struct player){.data = data, .left = size_bytes};
    enum status status = machine_open(&machine,
                                      &(struct machine_options){.devices = DEVICES,
                                                                .seed = 1,
                                                                .fuel = 100000,
                                                                .memory_max_bytes = 64 << 20,
                                                                .report_fd = report},
                                      &err);
    assert(status == OK);
    add_image(&machine);
    sit_down(&machine);
    player.is_playing = true;
    status = machine_run(&machine, &err);
    player.is_playing = false;
    assert(status == OK);
    machine_close(&machine);
    hang_up();
    for (int i = 0; i < KEPT_FDS; i++) {
        close(player.kept[i]);
    }
    check_report(report);
    close(report);
}
