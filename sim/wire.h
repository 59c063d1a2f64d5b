/*
 * wire.h — what a client of the simulator and pkb-simd say to each other.
 *
 * The process connection (PKB_SIM_FD) carries HELLO once and CHANNEL once per thread, with one end
 * of a socket pair attached. Each thread then sends one request at a time on its channel and reads
 * one reply. A request is the fixed record and `payload_bytes` more; so is a reply. Bytes of copies
 * travel in the channel's staging memory, a sealed memfd that both sides map. Both sides are of one
 * build and one machine, so records are plain structs; simd checks every field of a request.
 */
#pragma once

#include "common/job.h"

#include <stddef.h>
#include <stdint.h>

#define WIRE_FD_VARIABLE "PKB_SIM_FD"

/* Where the memory of cuMemAlloc lies: PRIVATE_BASE + client * PRIVATE_STRIDE. */
#define WIRE_PRIVATE_BASE 0x300000000000u
#define WIRE_PRIVATE_STRIDE (1ull << 38)
/* Where ranks keep what peers see; reports name addresses by it. */
#define WIRE_RANK_BASE 0x200000000000u
#define WIRE_RANK_STRIDE (1ull << 38)
#define WIRE_RANK_OUTPUTS (1ull << 36)
#define WIRE_RANK_SYMMETRIC (1ull << 37)

enum {
    WIRE_VERSION = 1,
    WIRE_PAYLOAD_MAX = 64 * 1024,
    WIRE_STAGING_BYTES = 4 << 20,
    WIRE_CHANNELS_MAX = 256,          /* threads of one client */
    WIRE_GRANULARITY_BYTES = 2 << 20, /* of cuMemCreate */
    WIRE_PARAMS_MAX = 4096,           /* parameters of one kernel */
    WIRE_WARP_THREADS = 32,
};

/* X(operation, the host call that reports name where a rank waits in it) */
#define WIRE_OPS(X)                                                                                \
    X(HELLO, "cuInit")                                                                             \
    X(CHANNEL, "cuInit")                                                                           \
    X(REFUSED, "a refused call")                                                                   \
    X(OUTPUT, "printf")                                                                            \
    X(MALLOC, "cudaMalloc")                                                                        \
    X(FREE, "cudaFree")                                                                            \
    X(FREE_ASYNC, "cudaFreeAsync")                                                                 \
    X(HOST_ALLOC, "cudaMallocHost")                                                                \
    X(HOST_FREE, "cudaFreeHost")                                                                   \
    X(MEMORY_INFO, "cudaMemGetInfo")                                                               \
    X(POINTER, "cudaPointerGetAttributes")                                                         \
    X(MEM_CREATE, "cuMemCreate")                                                                   \
    X(MEM_RELEASE, "cuMemRelease")                                                                 \
    X(MEM_EXPORT, "cuMemExportToShareableHandle")                                                  \
    X(MEM_IMPORT, "cuMemImportFromShareableHandle")                                                \
    X(MEM_MAP, "cuMemMap")                                                                         \
    X(MEM_UNMAP, "cuMemUnmap")                                                                     \
    X(MEM_ACCESS, "cuMemSetAccess")                                                                \
    X(MEM_RETAIN, "cuMemRetainAllocationHandle")                                                   \
    X(MEM_PROPERTIES, "cuMemGetAllocationPropertiesFromHandle")                                    \
    X(MULTICAST_CREATE, "cuMulticastCreate")                                                       \
    X(MULTICAST_ADD, "cuMulticastAddDevice")                                                       \
    X(MULTICAST_BIND, "cuMulticastBindMem")                                                        \
    X(MULTICAST_UNBIND, "cuMulticastUnbind")                                                       \
    X(IPC_EXPORT, "cudaIpcGetMemHandle")                                                           \
    X(IPC_OPEN, "cudaIpcOpenMemHandle")                                                            \
    X(IPC_CLOSE, "cudaIpcCloseMemHandle")                                                          \
    X(EVENT_EXPORT, "cudaIpcGetEventHandle")                                                       \
    X(EVENT_OPEN, "cudaIpcOpenEventHandle")                                                        \
    X(MODULE_LOAD, "cuModuleLoadData")                                                             \
    X(MODULE_UNLOAD, "cuModuleUnload")                                                             \
    X(KERNEL, "cuModuleGetFunction")                                                               \
    X(KERNEL_SET, "cudaFuncSetAttribute")                                                          \
    X(SYMBOL, "cudaGetSymbolAddress")                                                              \
    X(OCCUPANCY, "cudaOccupancyMaxActiveBlocksPerMultiprocessor")                                  \
    X(LAUNCH, "cudaLaunchKernel")                                                                  \
    X(COPY, "cudaMemcpy")                                                                          \
    X(SET, "cudaMemset")                                                                           \
    X(STREAM_CREATE, "cudaStreamCreate")                                                           \
    X(STREAM_DESTROY, "cudaStreamDestroy")                                                         \
    X(STREAM_SYNC, "cudaStreamSynchronize")                                                        \
    X(STREAM_QUERY, "cudaStreamQuery")                                                             \
    X(STREAM_WAIT, "cudaStreamWaitEvent")                                                          \
    X(DEVICE_SYNC, "cudaDeviceSynchronize")                                                        \
    X(EVENT_CREATE, "cudaEventCreate")                                                             \
    X(EVENT_DESTROY, "cudaEventDestroy")                                                           \
    X(EVENT_RECORD, "cudaEventRecord")                                                             \
    X(EVENT_SYNC, "cudaEventSynchronize")                                                          \
    X(EVENT_QUERY, "cudaEventQuery")                                                               \
    X(EVENT_ELAPSED, "cudaEventElapsedTime")                                                       \
    X(HOST_QUEUE, "cudaLaunchHostFunc")                                                            \
    X(HOST_NEXT, "")                                                                               \
    X(HOST_DONE, "")                                                                               \
    X(WRITE_VALUE, "cuStreamWriteValue")                                                           \
    X(WAIT_VALUE, "cuStreamWaitValue")                                                             \
    X(AWAIT, "the judge")                                                                          \
    X(CAPTURE_SPOILT, "cudaStreamEndCapture")

enum wire_op {
#define X(name, call) WIRE_##name,
    WIRE_OPS(X)
#undef X
        WIRE_OP_COUNT,
};

enum wire_stream {
    WIRE_STREAM_LEGACY = 0,
    WIRE_IDS_FROM = 256
}; /* ids of made things: from here */

enum wire_copy_kind {
    WIRE_COPY_MAPPED,     /* both sides are addresses of the client's space */
    WIRE_COPY_STAGED_IN,  /* rows lie without gaps at the start of the staging memory */
    WIRE_COPY_STAGED_OUT, /* rows go there; answered when they are there */
    WIRE_COPY_KINDS,
};
enum wire_compare { WIRE_GEQ, WIRE_EQ, WIRE_AND, WIRE_NOR, WIRE_COMPARES };
enum wire_stream_flag { WIRE_STREAM_NON_BLOCKING = 1 };
enum wire_event_flag { WIRE_EVENT_NO_TIMING = 2 };
enum wire_kernel_attribute { WIRE_KERNEL_DYNAMIC_SHARED_MAX };
enum wire_model { WIRE_H200, WIRE_H100, WIRE_MODELS }; /* what the devices say they are */
enum wire_memory_kind { WIRE_MEMORY_NONE, WIRE_MEMORY_DEVICE, WIRE_MEMORY_HOST };

struct wire_memory { /* MALLOC FREE FREE_ASYNC HOST_ALLOC HOST_FREE POINTER MEM_CREATE MEM_RELEASE
                        MEM_EXPORT MEM_MAP MEM_UNMAP MEM_ACCESS */
    uint64_t address, size_bytes;
    uint64_t handle, offset_bytes;
    uint32_t access; /* MAP_READ | MAP_WRITE */
};
struct wire_key { /* names exported memory or an event to other processes; nobody can guess it */
    uint64_t words[2];
};
struct wire_ipc { /* IPC_EXPORT, IPC_CLOSE: address; IPC_OPEN, EVENT_OPEN: key; EVENT_EXPORT: event
                   */
    uint64_t address, event;
    struct wire_key key;
};
struct wire_multicast { /* MULTICAST_*; of BIND the memory is a handle, or an address where that is
                           0 */
    uint64_t handle, offset_bytes, size_bytes;
    uint64_t memory, memory_offset_bytes, address;
    uint32_t device_count;
};
struct wire_copy { /* COPY; a pitch is the distance of rows */
    uint64_t to, to_pitch_bytes;
    uint64_t from, from_pitch_bytes;
    uint64_t width_bytes, height;
    uint32_t kind; /* enum wire_copy_kind */
    uint32_t wait; /* answered when done; otherwise when queued */
};
struct wire_set { /* SET */
    uint64_t to, pitch_bytes;
    uint64_t width_bytes, height;
    uint32_t value, element_bytes; /* 1, 2 or 4 */
};
struct wire_launch { /* LAUNCH; payload: the parameters as the kernel lays them out */
    uint64_t kernel;
    uint32_t grid[3], block[3];
    uint32_t dynamic_shared_bytes, cooperative;
};
struct wire_kernel { /* KERNEL: module, payload: name; KERNEL_SET, OCCUPANCY */
    uint64_t module, kernel;
    int64_t value;
    uint32_t attribute;
    uint32_t threads, dynamic_shared_bytes;
};
struct wire_module { /* MODULE_LOAD: hash; MODULE_UNLOAD, SYMBOL: module, payload: name */
    uint64_t hash, module;
};
struct wire_event { /* EVENT_*, STREAM_WAIT; ELAPSED: from event to event2 */
    uint64_t event, event2;
};
struct wire_value { /* WRITE_VALUE WAIT_VALUE */
    uint64_t address, value;
    uint32_t width_bytes; /* 4 or 8 */
    uint32_t compare;     /* enum wire_compare */
};
struct wire_host { /* HOST_QUEUE HOST_DONE: a function of the client's, by its own number; a thread
                      of the client waits in HOST_NEXT for the next one whose turn has come */
    uint64_t function;
};
struct wire_spoilt { /* CAPTURE_SPOILT: the capture that began on the stream */
    int32_t result;  /* CUresult that says why */
};
struct wire_stream_options { /* STREAM_CREATE; EVENT_CREATE: flags */
    uint32_t flags;
    int32_t priority;
};

struct wire_request {
    uint32_t op; /* enum wire_op */
    uint32_t payload_bytes;
    uint64_t stream; /* WIRE_STREAM_LEGACY or an id */
    int32_t device;
    uint32_t version;     /* HELLO */
    uint32_t is_nccl;     /* what it moves counts as NCCL's */
    uint32_t is_call_end; /* EVENT_RECORD: at the end of a pkb_run */
    union {
        struct wire_memory memory;
        struct wire_multicast multicast;
        struct wire_ipc ipc;
        struct wire_copy copy;
        struct wire_set set;
        struct wire_launch launch;
        struct wire_kernel kernel;
        struct wire_module module;
        struct wire_event event;
        struct wire_value value;
        struct wire_host host;
        struct wire_spoilt spoilt;
        struct wire_stream_options options;
    };
};

struct wire_hello {       /* HELLO */
    int32_t client, rank; /* rank -1: the judge */
    int32_t devices;
    int32_t model; /* enum wire_model */
};
struct wire_pointer { /* POINTER MALLOC SYMBOL MEM_CREATE MEM_IMPORT */
    uint64_t address; /* MEM_CREATE MEM_IMPORT: the handle */
    uint64_t size_bytes;
    int32_t device;
    uint32_t kind;   /* enum wire_memory_kind */
    uint32_t access; /* MAP_READ | MAP_WRITE */
};
struct wire_memory_info {
    uint64_t free_bytes, total_bytes;
};
/* KERNEL; the payload is an array of param_count struct wire_param. */
struct wire_kernel_info {
    uint64_t kernel;
    uint32_t param_count, param_bytes;
    uint32_t shared_bytes, local_bytes, const_bytes, registers;
    uint32_t threads_max;
};
struct wire_param {
    uint32_t offset_bytes, size_bytes;
};

struct wire_reply {
    int32_t result; /* CUresult */
    uint32_t payload_bytes;
    uint32_t output_waits; /* 1: kernels printed something, to be had with OUTPUT */
    uint32_t reserved;
    union {
        uint64_t id; /* of what was made; OCCUPANCY: the count; EVENT_ELAPSED: ns */
        struct wire_hello hello;
        struct wire_pointer pointer;
        struct wire_key key;
        struct wire_memory_info info;
        struct wire_kernel_info kernel;
    };
};
