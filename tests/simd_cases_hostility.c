/* Clients that speak to pkb-simd without our libraries, and mean it ill. */
#include "sim/wire.h"
#include "tests/cuda_cases.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static int process_fd(void)
{
    const char *text = getenv(WIRE_FD_VARIABLE);

    return text != NULL ? (int)strtol(text, NULL, 10) : -1;
}

/* Whether pkb-simd hangs up after these bytes. */
static void expect_hang_up(int fd, const void *data, size_t size_bytes)
{
    char rest[4096];
    ssize_t got = 0;

    (void)send(fd, data, size_bytes, MSG_NOSIGNAL);
    do {
        got = recv(fd, rest, sizeof rest, 0);
    } while (got > 0);
    EXPECT(got <= 0, 1);
}

static void garbage_ends_the_client(int rank)
{
    char garbage[1000];

    (void)rank;
    memset(garbage, 0xab, sizeof garbage);
    expect_hang_up(process_fd(), garbage, sizeof garbage);
}

static void an_oversized_request_ends_the_client(int rank)
{
    struct wire_request request = {.op = WIRE_HELLO, .payload_bytes = WIRE_PAYLOAD_MAX + 1};

    (void)rank;
    expect_hang_up(process_fd(), &request, sizeof request);
}

static void work_on_the_process_connection_ends_the_client(int rank)
{
    struct wire_request request = {.op = WIRE_MALLOC, .memory.size_bytes = 64};

    (void)rank;
    expect_hang_up(process_fd(), &request, sizeof request);
}

/* A channel of its own, as the library makes it, but in the hands of the test. */
static int open_channel(void)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct wire_request request = {.op = WIRE_CHANNEL};
    struct iovec piece = {.iov_base = &request, .iov_len = sizeof request};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    struct wire_reply reply;
    int pair[2];

    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    control.header = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(&control.header), &pair[1], sizeof(int));
    EXPECT(sendmsg(process_fd(), &message, 0), sizeof request);
    EXPECT(recv(process_fd(), &reply, sizeof reply, MSG_WAITALL), sizeof reply);
    EXPECT(reply.result, 0);
    close(pair[1]);
    return pair[0];
}

/* The result of a request that must be answered. */
static int ask(int fd, const struct wire_request *request, struct wire_reply *reply)
{
    EXPECT(send(fd, request, sizeof *request, MSG_NOSIGNAL), sizeof *request);
    EXPECT(recv(fd, reply, sizeof *reply, MSG_WAITALL), sizeof *reply);
    return reply->result;
}

static void wrong_fields_are_refused(int rank)
{
    static const struct wire_request wrong[] = {
        {.op = WIRE_FREE, .memory.address = 0x300000000000},
        {.op = WIRE_MALLOC, .memory.size_bytes = UINT64_MAX},
        {.op = WIRE_HOST_ALLOC, .memory = {.address = 0x700000000000, .size_bytes = 4096}},
        {.op = WIRE_HOST_ALLOC, .memory = {.address = UINT64_MAX - 100, .size_bytes = 4096}},
        {.op = WIRE_MEM_MAP, .memory = {.address = 1 << 21, .size_bytes = 1 << 21, .handle = 9}},
        {.op = WIRE_MEM_UNMAP, .memory = {.address = 4096, .size_bytes = UINT64_MAX}},
        {.op = WIRE_MEM_IMPORT},
        {.op = WIRE_KERNEL, .kernel.module = 1 << 20},
        {.op = WIRE_LAUNCH, .launch = {.kernel = 300}},
        {.op = WIRE_STREAM_SYNC, .stream = 257},
        {.op = WIRE_EVENT_SYNC, .event.event = 256},
        {.op = WIRE_COPY,
         .copy = {.to = 1, .from = 1, .width_bytes = UINT64_MAX, .height = UINT64_MAX}},
        {.op = WIRE_SET,
         .set = {.to = UINT64_MAX, .width_bytes = 8, .height = 1, .element_bytes = 4}},
        {.op = WIRE_WAIT_VALUE, .value = {.address = 8, .width_bytes = 8}},
    };
    int fd = open_channel();
    struct wire_reply reply;

    (void)rank;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        EXPECT(ask(fd, &wrong[i], &reply) != 0, 1);
    }
    EXPECT(ask(fd, &(struct wire_request){.op = WIRE_MALLOC, .memory.size_bytes = 64}, &reply), 0);
}

static void impossible_fields_end_the_client(int rank)
{
    struct wire_request request = {
        .op = WIRE_COPY,
        .copy = {.kind = WIRE_COPY_STAGED_IN, .width_bytes = WIRE_STAGING_BYTES + 1, .height = 1}};

    (void)rank;
    expect_hang_up(open_channel(), &request, sizeof request);
}

static void awaiting_no_socket_ends_the_client(int rank)
{
    struct wire_request request = {.op = WIRE_AWAIT};

    (void)rank;
    expect_hang_up(open_channel(), &request, sizeof request);
}

static void one_client_s_end_leaves_the_other(int rank)
{
    char byte = 'e';
    int *word = NULL;

    if (rank == 1) {
        struct wire_request request = {.op = WIRE_OP_COUNT};
        expect_hang_up(open_channel(), &request, sizeof request);
        case_peer = dup(case_peer);
        (void)send(case_peer, &byte, 1, MSG_NOSIGNAL);
        return;
    }
    case_receive(&byte, 1, NULL);
    GOOD(cudaMalloc((void **)&word, 4));
    GOOD(launch_fill(word, 3, 1, 0));
    GOOD(cudaDeviceSynchronize());
}

/* A token names memory; whoever holds it can neither read that memory nor make the token grow. */
static void a_token_holds_no_bytes(int rank)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes =
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle = 0;
    int fd = -1;

    (void)rank;
    GOOD(cudaFree(NULL));
    GOOD(cuMemCreate(&handle, 2 << 20, &properties, 0));
    GOOD(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EXPECT(lseek(fd, 0, SEEK_END), 0);
    EXPECT(ftruncate(fd, 4096), -1);
    EXPECT(write(fd, "x", 1), -1);
}

/* Memory beyond the budget is refused also when it is asked for bit by bit. */
static void the_budget_holds(int rank)
{
    const size_t piece = 1ull << 30;
    void *address = NULL;
    int pieces = 0;

    (void)rank;
    while (cudaMalloc(&address, piece) == cudaSuccess) {
        pieces++;
    }
    EXPECT(pieces, 4);
    EXPECT(cudaGetLastError(), cudaErrorMemoryAllocation);
    EXPECT(cudaMallocHost(&address, piece), cudaErrorMemoryAllocation);
}

const struct cuda_case cases_of_hostility[] = {
    CASE(garbage_ends_the_client, 1),
    CASE(an_oversized_request_ends_the_client, 1),
    CASE(work_on_the_process_connection_ends_the_client, 1),
    CASE(wrong_fields_are_refused, 1),
    CASE(awaiting_no_socket_ends_the_client, 1),
    CASE(impossible_fields_end_the_client, 1),
    CASE(one_client_s_end_leaves_the_other, 2),
    CASE(a_token_holds_no_bytes, 1),
    CASE(the_budget_holds, 1),
    {0},
};
