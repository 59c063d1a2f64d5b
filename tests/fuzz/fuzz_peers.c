/*
 * fuzz_peers.c — the judge's side of the ranks' sockets, and ranks that say what the bytes say.
 *
 * The bytes are steps: a message of a rank, something that the judge tells it, or an end. The
 * ranks' page is what the bytes make of it, too.
 */
#include "tests/fuzz/fuzz.h"
#include "worker/peers.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WORLD = 3, STEPS_MAX = 1024, CALLS = 4 };

struct bytes {
    const uint8_t *data;
    size_t left;
};

struct judge {
    struct peers peers;
    struct control_page page;
    int ranks[WORLD]; /* the ranks' ends */
    int worker[2];
    int next_call; /* of the run */
    int finished[WORLD];
};

static void take(struct bytes *bytes, void *to, size_t size_bytes)
{
    size_t there = size_bytes < bytes->left ? size_bytes : bytes->left;

    memset(to, 0, size_bytes);
    memcpy(to, bytes->data, there);
    bytes->data += there;
    bytes->left -= there;
}

static uint8_t take_byte(struct bytes *bytes)
{
    uint8_t byte = 0;

    take(bytes, &byte, 1);
    return byte;
}

/* The judge hears of each call once, in order, and only of those that it asked for. */
static enum status on_finished(void *context, int rank, int call, struct error *err)
{
    struct judge *judge = context;

    (void)err;
    assert(call >= judge->finished[rank] && call < judge->next_call);
    judge->finished[rank] = call + 1;
    return OK;
}

static void send_bytes(int fd, const void *bytes, size_t size_bytes, bool with_fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof fd)];
    } control = {0};
    struct iovec piece = {.iov_base = (void *)bytes, .iov_len = size_bytes};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};

    if (with_fd) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        control.header = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    }
    (void)sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* A message that is nearly right: kind and body by the bytes, sizes right more often than not. */
static void send_message(struct bytes *bytes, int fd)
{
    struct {
        uint32_t kind, size_bytes;
        union {
            struct progress_body progress;
            struct symm_ask_body ask;
            struct crashed_body crashed;
        };
    } message = {.kind = take_byte(bytes) % (MESSAGE_KINDS + 1)};
    uint8_t shape = take_byte(bytes);
    size_t given = shape & 31;

    switch (message.kind) {
    case MESSAGE_SYMM_ASK:
        message.size_bytes = sizeof message.ask;
        break;
    case MESSAGE_CRASHED:
        message.size_bytes = sizeof message.crashed;
        break;
    default:
        message.size_bytes = sizeof message.progress;
        break;
    }
    take(bytes, &message.progress, given < message.size_bytes ? given : message.size_bytes);
    size_t sent = 8 + message.size_bytes;
    message.size_bytes += shape >> 7;
    send_bytes(fd, &message, sent, shape & 32);
}

static void send_raw(struct bytes *bytes, int fd)
{
    uint8_t raw[512];
    size_t size_bytes = (size_t)take_byte(bytes) * 2;

    take(bytes, raw, size_bytes);
    send_bytes(fd, raw, size_bytes, false);
}

/* What check.c does between two turns. */
static void tell(struct judge *judge, uint8_t kind, int rank)
{
    static const struct {
        enum message_kind kind;
        enum rank_phase phase;
    } orders[] = {{MESSAGE_ATTACH, RANK_LOADING},
                  {MESSAGE_RUN, RANK_SETUP},
                  {MESSAGE_END_RUN, RANK_TEARDOWN}};
    struct calls_body calls = {.first_call = judge->next_call, .count = CALLS};

    if (judge->peers.peer[rank].phase != RANK_IDLE) {
        return;
    }
    if (kind % 4 == 3) {
        judge->next_call += CALLS;
        peers_send_calls(&judge->peers, rank, &calls);
        return;
    }
    peers_send(&judge->peers, rank, &(struct message_parts){.kind = orders[kind % 4].kind},
               orders[kind % 4].phase);
}

static void play(struct judge *judge, struct bytes *bytes)
{
    uint8_t what = take_byte(bytes);
    int rank = (what >> 4) % WORLD;

    switch (what & 7) {
    case 0:
    case 1:
    case 2:
        send_message(bytes, judge->ranks[rank]);
        break;
    case 3:
        send_raw(bytes, judge->ranks[rank]);
        break;
    case 4:
        close(judge->ranks[rank]);
        judge->ranks[rank] = -1;
        break;
    case 5:
        take(bytes, &judge->page, what >> 4);
        break;
    default:
        tell(judge, take_byte(bytes), rank);
        break;
    }
}

static void open_judge(struct judge *judge)
{
    int failed = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, judge->worker);

    assert(!failed);
    peers_init(&judge->peers, judge->worker[0], WORLD);
    judge->peers.context = judge;
    judge->peers.finished = on_finished;
    judge->peers.page = &judge->page;
    for (int rank = 0; rank < WORLD; rank++) {
        int pair[2] = {-1, -1};
        failed = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
        assert(!failed);
        judge->peers.peer[rank].fd = pair[0];
        judge->ranks[rank] = pair[1];
    }
    peers_set_stage(&judge->peers, "check", "a", "b");
}

static void look(struct judge *judge)
{
    struct peers *peers = &judge->peers;
    struct error err = {0};
    char sink[sizeof(struct status_body) + 8];

    enum status status = peers_turn(peers, &err);
    assert(status == OK);
    int failed = peers_failed(peers);
    assert(failed >= -1 && failed < WORLD);
    for (int rank = 0; rank < WORLD; rank++) {
        const struct peer *peer = &peers->peer[rank];
        assert((peer->fd < 0) == (peer->phase == RANK_GONE));
        assert(peer->finished <= peer->returned && peer->returned <= peer->entered);
        assert(peer->entered <= peer->calls);
        assert(memchr(peer->failed.text, 0, sizeof peer->failed.text) != NULL);
        (void)peers_is_in_code(peers, rank);
    }
    (void)peers_are_stuck(peers);
    (void)recv(judge->worker[1], sink, sizeof sink, MSG_DONTWAIT);
}

void fuzz_peers(const uint8_t *data, size_t size_bytes)
{
    static struct judge judge;
    struct bytes bytes = {data, size_bytes};

    judge = (struct judge){0};
    open_judge(&judge);
    for (int step = 0; bytes.left && step < STEPS_MAX; step++) {
        play(&judge, &bytes);
        look(&judge);
    }
    peers_release(&judge.peers);
    for (int rank = 0; rank < WORLD; rank++) {
        close(judge.ranks[rank]);
    }
    close(judge.worker[0]);
    close(judge.worker[1]);
}
