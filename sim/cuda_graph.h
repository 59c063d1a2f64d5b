/*
 * cuda_graph.h — graphs: what is captured or added by hand, and how it is launched.
 *
 * A graph is a list of nodes, each with the nodes it needs. It lives in this process alone: a
 * launch sends the same requests that the calls would have sent. An executable graph is a copy of a
 * graph with its nodes in order, each on a lane: lane 0 is the stream of the launch, the others are
 * streams of its own, and events tie them together. What is captured goes to the graph
 * instead of pkb-simd; capture_* say where that is so.
 */
#pragma once

#include "sim/cuda_memory.h"
#include "sim/cuda_module.h"

enum { GRAPH_NODES_MAX = 1 << 16, GRAPH_NEEDS_MAX = 1 << 12 };

enum node_kind { NODE_REQUEST, NODE_COPY, NODE_HOST, NODE_EMPTY, NODE_CHILD };

struct CUgraphNode_st {
    struct CUgraph_st *graph;
    const struct CUgraphNode_st *origin; /* in a copy of a graph: the node it was made from */
    CUgraphNodeType type;
    enum node_kind kind;
    struct CUgraphNode_st **needs; /* must be done before it */
    size_t need_count;

    struct wire_request request; /* of a kernel, set, event or word */
    const struct kernel_handle *kernel;
    uint8_t *params;        /* of a kernel, as it lays them out */
    void **param_addresses; /* where each lies in `params` */
    struct copy copy;
    int device;
    CUhostFn function;
    void *data;
    struct CUgraph_st *child; /* owned */

    size_t order, lane; /* of an executable graph */
    uint64_t event;     /* recorded behind it there for nodes on other lanes; 0: none */
    bool is_marked;     /* while the graph is walked */
};

struct CUgraph_st {
    struct CUgraphNode_st **nodes;
    size_t node_count, node_capacity;
};

/* A node of this kind that needs nothing yet, owned by the graph; NULL where there are too many. */
struct CUgraphNode_st *graph_add(struct CUgraph_st *graph, CUgraphNodeType type,
                                 enum node_kind kind);
CUresult node_need(struct CUgraphNode_st *node, struct CUgraphNode_st *needed);
/* Whether it is a node of a graph that is there. */
bool node_is_in(const struct CUgraph_st *graph, const struct CUgraphNode_st *node);
/* A deep copy whose nodes know their origins; NULL where memory is out. */
struct CUgraph_st *graph_copy(const struct CUgraph_st *graph);
void graph_free(struct CUgraph_st *graph);
/* The node of the copy that was made from `origin`, or NULL. */
struct CUgraphNode_st *graph_find(const struct CUgraph_st *copy,
                                  const struct CUgraphNode_st *origin);

/* Gives a kernel node its launch; the parameters are copied. */
CUresult node_set_kernel(struct CUgraphNode_st *node, const CUDA_KERNEL_NODE_PARAMS *params);
/* The same of a launch that is captured: `packed` as the kernel lays them out. */
CUresult node_set_launch(struct CUgraphNode_st *node, const struct kernel_handle *kernel,
                         const struct wire_request *request, const void *packed);

/* ---- capture ---- */

/* Whether any stream captures; only then the rest needs to be asked. */
bool capture_is_any(void);
/* Whether this stream captures. */
bool capture_is_on(uint64_t stream);
/* A new node behind the stream's last ones; an error where the capture is spoilt. */
CUresult capture_add(uint64_t stream, CUgraphNodeType type, enum node_kind kind,
                     struct CUgraphNode_st **node);
/* A request that a capturing stream keeps as it is. */
CUresult capture_request(CUgraphNodeType type, const struct wire_request *request);
CUresult capture_copy(const struct copy *copy, int device);
/* True where the event or the wait is part of a capture; *result is then the call's. */
bool capture_record(uint64_t event, uint64_t stream, CUresult *result);
bool capture_wait(uint64_t stream, uint64_t event, CUresult *result);
/* A call that may not be made while this stream (or, for WIRE_STREAM_LEGACY, any) captures: spoils
 * the capture and says so. CUDA_SUCCESS where it may. */
CUresult capture_forbids(uint64_t stream);
/* The same of an event that a capture has recorded. */
CUresult capture_forbids_event(uint64_t event);
/* Calls that allocate or wait for a device: forbidden while this thread captures strictly. */
CUresult capture_forbids_unsafe(void);

/* Queues a function of the host in a stream. (cuda_host.c) */
CUresult host_queue(uint64_t stream, int device, CUhostFn function, void *data);
/* The copy of the graph that an executable one runs. (cuda_graph_exec.c) */
struct CUgraph_st *exec_graph(CUgraphExec exec);
