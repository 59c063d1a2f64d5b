#include "sim/cuda_link.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

struct thread_channel {
    int fd;
    uint8_t *staging;
};

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static int process_fd = -1;
static bool is_forked;
static struct wire_hello hello;
static pthread_key_t channel_key;
static _Thread_local struct thread_channel *thread_channel;

static bool send_all(int fd, const struct link_call *call)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec pieces[2] = {
        {.iov_base = (void *)&call->request, .iov_len = sizeof call->request},
        {.iov_base = (void *)call->payload, .iov_len = call->request.payload_bytes}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};

    if (call->give_fd > 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        control.header = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(&control.header), &call->give_fd, sizeof(int));
    }
    while (message.msg_iovlen) {
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) {
            return false;
        }
        message.msg_control = sent > 0 ? NULL : message.msg_control;
        message.msg_controllen = sent > 0 ? 0 : message.msg_controllen;
        size_t done = sent < 0 ? 0 : (size_t)sent;
        while (message.msg_iovlen && done >= message.msg_iov->iov_len) {
            done -= message.msg_iov->iov_len;
            message.msg_iov++;
            message.msg_iovlen--;
        }
        if (message.msg_iovlen) {
            message.msg_iov->iov_base = (char *)message.msg_iov->iov_base + done;
            message.msg_iov->iov_len -= done;
        }
    }
    return true;
}

/* Reads exactly `size_bytes`; a descriptor that comes with them goes to *taken_fd. */
static bool receive_all(int fd, void *to, size_t size_bytes, int *taken_fd)
{
    size_t done = 0;

    while (done < size_bytes) {
        union {
            struct cmsghdr header;
            char bytes[CMSG_SPACE(sizeof(int))];
        } control = {0};
        struct iovec piece = {.iov_base = (char *)to + done, .iov_len = size_bytes - done};
        struct msghdr message = {.msg_iov = &piece,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = sizeof control};
        ssize_t received = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
        if (received == 0 || (received < 0 && errno != EINTR)) {
            return false;
        }
        const struct cmsghdr *part = received > 0 ? CMSG_FIRSTHDR(&message) : NULL;
        if (part && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS) {
            memcpy(taken_fd, CMSG_DATA(part), sizeof(int));
        }
        done += received < 0 ? 0 : (size_t)received;
    }
    return true;
}

/* One request and its reply. What does not fit `into` is read and dropped. */
static bool exchange(int fd, struct link_call *call)
{
    int taken_fd = -1;

    if (!send_all(fd, call) || !receive_all(fd, &call->reply, sizeof call->reply, &taken_fd)) {
        return false;
    }
    size_t rest = call->reply.payload_bytes;
    size_t wanted = rest < call->into_bytes ? rest : call->into_bytes;
    if (wanted && !receive_all(fd, call->into, wanted, &taken_fd)) {
        return false;
    }
    for (rest -= wanted; rest;) {
        char dropped[512];
        size_t piece = rest < sizeof dropped ? rest : sizeof dropped;
        if (!receive_all(fd, dropped, piece, &taken_fd)) {
            return false;
        }
        rest -= piece;
    }
    if (call->takes_fd && taken_fd >= 0) {
        call->taken_fd = taken_fd;
    } else if (taken_fd >= 0) {
        close(taken_fd);
    }
    return true;
}

static void thread_close(void *memory)
{
    struct thread_channel *channel = memory;

    munmap(channel->staging, WIRE_STAGING_BYTES);
    close(channel->fd);
    free(channel);
}

static void after_fork(void)
{
    is_forked = true;
    thread_channel = NULL;
    if (process_fd >= 0) {
        close(process_fd);
        process_fd = -1;
    }
}

static int parse_fd(const char *text)
{
    char *end = NULL;
    long fd = text ? strtol(text, &end, 10) : -1;

    return text && end != text && !*end && fd >= 0 && fd <= 1 << 20 ? (int)fd : -1;
}

/* With the lock held. Nothing of the process may lie where its private device memory is. */
static CUresult process_open(void)
{
    struct link_call call = {.request = {.op = WIRE_HELLO, .version = WIRE_VERSION}};
    int fd = parse_fd(getenv(WIRE_FD_VARIABLE));

    if (fd < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) || !exchange(fd, &call) || call.reply.result) {
        return CUDA_ERROR_NO_DEVICE;
    }
    if (pthread_key_create(&channel_key, thread_close) || pthread_atfork(NULL, NULL, after_fork)) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    hello = call.reply.hello;
    uint64_t base = WIRE_PRIVATE_BASE + (uint64_t)hello.client * WIRE_PRIVATE_STRIDE;
    (void)mmap((void *)base, WIRE_PRIVATE_STRIDE, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    process_fd = fd;
    return CUDA_SUCCESS;
}

CUresult link_open(void)
{
    CUresult result = CUDA_SUCCESS;

    if (is_forked) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    pthread_mutex_lock(&process_lock);
    if (process_fd < 0) {
        result = process_open();
    }
    pthread_mutex_unlock(&process_lock);
    return result;
}

const struct wire_hello *link_hello(void)
{
    return &hello;
}

static struct thread_channel *thread_open(void)
{
    struct link_call call = {.request = {.op = WIRE_CHANNEL}, .takes_fd = true, .taken_fd = -1};
    struct thread_channel *channel = NULL;
    void *staging = MAP_FAILED;
    int ends[2] = {-1, -1};

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
        return NULL;
    }
    call.give_fd = ends[1];
    pthread_mutex_lock(&process_lock);
    bool answered = exchange(process_fd, &call) && !call.reply.result;
    pthread_mutex_unlock(&process_lock);
    close(ends[1]);
    if (answered && call.taken_fd >= 0) {
        staging =
            mmap(NULL, WIRE_STAGING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, call.taken_fd, 0);
    }
    if (call.taken_fd >= 0) {
        close(call.taken_fd);
    }
    channel = staging == MAP_FAILED ? NULL : calloc(1, sizeof *channel);
    if (!channel) {
        close(ends[0]);
        return NULL;
    }
    *channel = (struct thread_channel){.fd = ends[0], .staging = staging};
    pthread_setspecific(channel_key, channel);
    return channel;
}

static CUresult thread_enter(void)
{
    if (thread_channel && !is_forked) {
        return CUDA_SUCCESS;
    }
    CUresult result = link_open();
    if (!result) {
        thread_channel = thread_open();
        result = thread_channel ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
    }
    return result;
}

uint8_t *link_staging(void)
{
    return thread_enter() ? NULL : thread_channel->staging;
}

/* A kernel's printf appears when the host synchronises, on the process's own stdout. */
static void print_output(void)
{
    char text[WIRE_PAYLOAD_MAX];
    struct link_call call = {
        .request = {.op = WIRE_OUTPUT}, .into = text, .into_bytes = sizeof text};

    do {
        if (!exchange(thread_channel->fd, &call) || call.reply.result) {
            return;
        }
        (void)fwrite(text, 1, call.reply.payload_bytes, stdout);
    } while (call.reply.output_waits);
}

static bool is_synchronising(const struct wire_request *request)
{
    return request->op == WIRE_STREAM_SYNC || request->op == WIRE_DEVICE_SYNC ||
           request->op == WIRE_EVENT_SYNC || request->op == WIRE_FREE ||
           (request->op == WIRE_COPY && request->copy.wait);
}

/* Our NCCL says so around what it queues, so that it can be told from the submission's own. */
static _Thread_local bool is_nccl;

void pkb_sim_traffic_tag(int nccl)
{
    is_nccl = nccl != 0;
}

static _Thread_local bool is_call_end;

void pkb_sim_call_ends(void)
{
    is_call_end = true;
}

CUresult link_call(struct link_call *call)
{
    CUresult result = thread_enter();

    if (result) {
        return result;
    }
    call->request.is_nccl = is_nccl;
    if (call->request.op == WIRE_EVENT_RECORD) {
        call->request.is_call_end = is_call_end;
        is_call_end = false;
    }
    if (!exchange(thread_channel->fd, call)) {
        return CUDA_ERROR_UNKNOWN; /* simd has ended */
    }
    if (call->reply.output_waits && is_synchronising(&call->request)) {
        print_output();
    }
    return (CUresult)call->reply.result;
}

CUresult link_send(const struct wire_request *request)
{
    struct link_call call = {.request = *request};

    return link_call(&call);
}

void pkb_sim_await(int fd)
{
    struct link_call call = {.request = {.op = WIRE_AWAIT}, .give_fd = fd};

    (void)link_call(&call);
}
