/* Executable graphs: order and lanes of the nodes, launch, update. */
#include "sim/cuda_graph.h"

#include <stdlib.h>
#include <string.h>

struct lane {
    int device;
    uint64_t stream;                   /* lane 0: of the launch */
    const struct CUgraphNode_st *last; /* the last node on it */
};

struct CUgraphExec_st {
    struct CUgraph_st *graph;
    struct CUgraphNode_st **order;
    struct lane *lanes;
    size_t lane_count;
    uint64_t start, done; /* events: of a launch's start, and of the last launch's end */
    uint64_t *ends;       /* of each lane */
    bool is_launched;
    unsigned long long flags;
};

struct CUgraph_st *exec_graph(CUgraphExec exec)
{
    return exec->graph;
}

static CUresult event_open(int device, uint64_t *event)
{
    struct link_call call = {.request = {.op = WIRE_EVENT_CREATE,
                                         .device = device,
                                         .options.flags = WIRE_EVENT_NO_TIMING}};
    CUresult result = link_call(&call);

    *event = result ? 0 : call.reply.id;
    return result;
}

static void event_close(uint64_t event)
{
    if (event) {
        (void)link_send(&(struct wire_request){.op = WIRE_EVENT_DESTROY, .event.event = event});
    }
}

/* Puts the nodes behind what they need; an error where they need each other. */
static CUresult put_in_order(struct CUgraphExec_st *exec)
{
    struct CUgraph_st *graph = exec->graph;
    size_t placed = 0;
    bool moved = true;

    while (placed < graph->node_count && moved) {
        moved = false;
        for (size_t i = 0; i < graph->node_count; i++) {
            struct CUgraphNode_st *node = graph->nodes[i];
            bool is_ready = !node->is_marked;
            for (size_t j = 0; is_ready && j < node->need_count; j++) {
                is_ready = node->needs[j]->is_marked;
            }
            if (is_ready) {
                node->is_marked = moved = true;
                node->order = placed;
                exec->order[placed++] = node;
            }
        }
    }
    return placed == graph->node_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A lane where a node comes right behind one that it needs, or a new one. */
static CUresult put_on_lane(struct CUgraphExec_st *exec, struct CUgraphNode_st *node)
{
    for (size_t lane = 0; lane < exec->lane_count; lane++) {
        const struct CUgraphNode_st *last = exec->lanes[lane].last;
        bool is_needed = !last;
        for (size_t i = 0; i < node->need_count; i++) {
            is_needed |= node->needs[i] == last;
        }
        if (is_needed && exec->lanes[lane].device == node->device) {
            exec->lanes[lane].last = node;
            node->lane = lane;
            return CUDA_SUCCESS;
        }
    }
    struct link_call call = {.request = {.op = WIRE_STREAM_CREATE,
                                         .device = node->device,
                                         .options.flags = WIRE_STREAM_NON_BLOCKING}};
    CUresult result = link_call(&call);
    if (!result) {
        exec->lanes[exec->lane_count] =
            (struct lane){.device = node->device, .stream = call.reply.id, .last = node};
        result = event_open(node->device, &exec->ends[exec->lane_count]);
        node->lane = exec->lane_count++;
    }
    return result;
}

/* Nodes with a need on another lane wait for an event recorded there. */
static CUresult tie_lanes(struct CUgraphExec_st *exec)
{
    CUresult result = CUDA_SUCCESS;

    for (size_t i = 0; !result && i < exec->graph->node_count; i++) {
        const struct CUgraphNode_st *node = exec->order[i];
        for (size_t j = 0; !result && j < node->need_count; j++) {
            struct CUgraphNode_st *needed = node->needs[j];
            if (needed->lane != node->lane && !needed->event) {
                result = event_open(needed->device, &needed->event);
            }
        }
    }
    return result;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    if (!exec) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; exec->graph && i < exec->graph->node_count; i++) {
        event_close(exec->graph->nodes[i]->event);
    }
    for (size_t lane = 1; lane < exec->lane_count; lane++) {
        event_close(exec->ends[lane]);
        (void)link_send(&(struct wire_request){.op = WIRE_STREAM_DESTROY,
                                               .device = exec->lanes[lane].device,
                                               .stream = exec->lanes[lane].stream});
    }
    event_close(exec->start);
    event_close(exec->done);
    if (exec->graph) {
        graph_free(exec->graph);
    }
    free(exec->order);
    free(exec->lanes);
    free(exec->ends);
    free(exec);
    return CUDA_SUCCESS;
}

static CUresult prepare(struct CUgraphExec_st *exec, int device)
{
    exec->lanes[0] = (struct lane){.device = device};
    exec->lane_count = 1;
    CUresult result = event_open(device, &exec->start);
    result = result ? result : event_open(device, &exec->done);
    result = result ? result : put_in_order(exec);
    for (size_t i = 0; !result && i < exec->graph->node_count; i++) {
        result = put_on_lane(exec, exec->order[i]);
    }
    return result ? result : tie_lanes(exec);
}

CUresult cuGraphInstantiate(CUgraphExec *made, CUgraph graph, unsigned long long flags)
{
    int device = 0;
    CUresult result = context_enter(&device);

    if (result || !made || !graph) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) {
        return pkb_cuda_refuse("cudaGraphInstantiate for launch from the device");
    }
    struct CUgraphExec_st *exec = calloc(1, sizeof *exec);
    size_t room = graph->node_count + 1;
    if (exec) {
        exec->graph = graph_copy(graph);
        exec->order = calloc(room, sizeof(struct CUgraphNode_st *));
        exec->lanes = calloc(room, sizeof *exec->lanes);
        exec->ends = calloc(room, sizeof *exec->ends);
        exec->flags = flags;
    }
    if (!exec || !exec->graph || !exec->order || !exec->lanes || !exec->ends) {
        (void)cuGraphExecDestroy(exec);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    result = prepare(exec, device);
    if (result) {
        (void)cuGraphExecDestroy(exec);
        return result;
    }
    *made = exec;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *made, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    CUresult result = cuGraphInstantiate(made, graph, params->flags);

    params->hErrNode_out = NULL;
    params->result_out = result ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return result;
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
    if (!exec || !flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *flags = exec->flags;
    return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    (void)stream;
    return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- launch ---- */

static CUresult record(uint64_t event, int device, uint64_t stream)
{
    return link_send(&(struct wire_request){
        .op = WIRE_EVENT_RECORD, .device = device, .stream = stream, .event.event = event});
}

static CUresult wait(uint64_t event, int device, uint64_t stream)
{
    return link_send(&(struct wire_request){
        .op = WIRE_STREAM_WAIT, .device = device, .stream = stream, .event.event = event});
}

static CUresult launch_nodes(const struct CUgraph_st *graph, uint64_t stream);

static CUresult run_node(const struct CUgraphNode_st *node, uint64_t stream)
{
    struct link_call call = {.request = node->request, .payload = node->params};
    struct copy copy = node->copy;

    switch (node->kind) {
    case NODE_REQUEST:
        call.request.stream = stream;
        return link_call(&call);
    case NODE_COPY:
        copy.stream = stream;
        copy.is_async = true;
        return copy_run(&copy);
    case NODE_HOST:
        return host_queue(stream, node->device, node->function, node->data);
    case NODE_CHILD:
        return launch_nodes(node->child, stream);
    case NODE_EMPTY:
        break;
    }
    return CUDA_SUCCESS;
}

/* A child graph runs in one of its orders on the lane of its node. Captured and added nodes come
 * behind what they need, so the list is one. */
static CUresult launch_nodes(const struct CUgraph_st *graph, uint64_t stream)
{
    CUresult result = CUDA_SUCCESS;

    for (size_t i = 0; !result && i < graph->node_count; i++) {
        result = run_node(graph->nodes[i], stream);
    }
    return result;
}

static CUresult launch_on_lane(const struct CUgraphExec_st *exec, const struct CUgraphNode_st *node)
{
    const struct lane *lane = &exec->lanes[node->lane];
    CUresult result = CUDA_SUCCESS;

    for (size_t i = 0; !result && i < node->need_count; i++) {
        if (node->needs[i]->lane != node->lane) {
            result = wait(node->needs[i]->event, lane->device, lane->stream);
        }
    }
    result = result ? result : run_node(node, lane->stream);
    return result || !node->event ? result : record(node->event, lane->device, lane->stream);
}

static CUresult launch(struct CUgraphExec_st *exec, uint64_t stream)
{
    int device = exec->lanes[0].device;
    CUresult result = CUDA_SUCCESS;

    exec->lanes[0].stream = stream;
    if (exec->is_launched) {
        result = wait(exec->done, device, stream);
    }
    if (!result && exec->lane_count > 1) {
        result = record(exec->start, device, stream);
    }
    for (size_t lane = 1; !result && lane < exec->lane_count; lane++) {
        result = wait(exec->start, exec->lanes[lane].device, exec->lanes[lane].stream);
    }
    for (size_t i = 0; !result && i < exec->graph->node_count; i++) {
        result = launch_on_lane(exec, exec->order[i]);
    }
    for (size_t lane = 1; !result && lane < exec->lane_count; lane++) {
        result = record(exec->ends[lane], exec->lanes[lane].device, exec->lanes[lane].stream);
        result = result ? result : wait(exec->ends[lane], device, stream);
    }
    exec->is_launched = true;
    return result ? result : record(exec->done, device, stream);
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    struct CUgraphNode_st *node = NULL;
    uint64_t id = 0;
    CUresult result = exec ? stream_id(stream, &id) : CUDA_ERROR_INVALID_VALUE;

    if (result || !capture_is_on(id)) {
        return result ? result : launch(exec, id);
    }
    result = capture_add(id, CU_GRAPH_NODE_TYPE_GRAPH, NODE_CHILD, &node);
    if (!result) {
        node->device = exec->lanes[0].device;
        node->child = graph_copy(exec->graph);
        result = node->child ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    return result;
}

/* ---- update ---- */

/* What differs so that the one cannot become the other. */
static CUgraphExecUpdateResult difference(const struct CUgraph_st *old,
                                          const struct CUgraph_st *graph)
{
    if (old->node_count != graph->node_count) {
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    }
    for (size_t i = 0; i < old->node_count; i++) {
        const struct CUgraphNode_st *was = old->nodes[i], *is = graph->nodes[i];
        if (was->type != is->type) {
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        }
        if (was->need_count != is->need_count) {
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        }
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    CUgraphExec fresh = NULL;

    if (!exec || !graph || !info) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *info = (CUgraphExecUpdateResultInfo){.result = difference(exec->graph, graph)};
    if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    CUresult result = cuGraphInstantiate(&fresh, graph, exec->flags);
    if (result || !fresh) {
        return result;
    }
    /* The handle stays, and so does the end of the last launch, for which the next one waits. */
    struct CUgraphExec_st old = *exec;
    *exec = *fresh;
    exec->is_launched = old.is_launched;
    exec->done = old.done;
    old.done = fresh->done;
    *fresh = old;
    return cuGraphExecDestroy(fresh);
}
