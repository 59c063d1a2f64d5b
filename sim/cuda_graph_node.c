/* Nodes that are added to graphs by hand, and what they are made of. */
#include "sim/cuda_graph.h"

#include <stdlib.h>
#include <string.h>

struct place { /* of a new node */
    CUgraph graph;
    const CUgraphNode *needs;
    size_t need_count;
};

static CUresult add(const struct place *place, CUgraphNodeType type, enum node_kind kind,
                    CUgraphNode *node)
{
    int device = 0;
    CUresult result = context_enter(&device);

    if (result || !place->graph || !node) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < place->need_count; i++) {
        if (!node_is_in(place->graph, place->needs[i])) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    struct CUgraphNode_st *made = graph_add(place->graph, type, kind);
    result = made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; !result && i < place->need_count; i++) {
        result = node_need(made, place->needs[i]);
    }
    if (!result) {
        made->device = device;
        *node = made;
    }
    return result;
}

/* A node whose content turned out to be wrong goes again. */
static CUresult keep(CUgraphNode *node, CUresult result)
{
    if (result && *node) {
        (void)cuGraphDestroyNode(*node);
        *node = NULL;
    }
    return result;
}

CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs,
                              size_t need_count, const CUDA_KERNEL_NODE_PARAMS *params)
{
    const struct place place = {graph, needs, need_count};
    CUresult result = params ? add(&place, CU_GRAPH_NODE_TYPE_KERNEL, NODE_REQUEST, node)
                             : CUDA_ERROR_INVALID_VALUE;

    return result ? result : keep(node, node_set_kernel(*node, params));
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params)
{
    if (!node || !params || !node->kernel) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct wire_launch *launch = &node->request.launch;
    *params = (CUDA_KERNEL_NODE_PARAMS){.func = (CUfunction)node->kernel,
                                        .gridDimX = launch->grid[0],
                                        .gridDimY = launch->grid[1],
                                        .gridDimZ = launch->grid[2],
                                        .blockDimX = launch->block[0],
                                        .blockDimY = launch->block[1],
                                        .blockDimZ = launch->block[2],
                                        .sharedMemBytes = launch->dynamic_shared_bytes,
                                        .kernelParams = node->param_addresses};
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    if (!node || !params || node->type != CU_GRAPH_NODE_TYPE_KERNEL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return node_set_kernel(node, params);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs,
                              size_t need_count, const CUDA_MEMCPY3D *params, CUcontext context)
{
    const struct place place = {graph, needs, need_count};
    struct copy copy;
    CUresult result = params ? copy_from_3d(params, &copy) : CUDA_ERROR_INVALID_VALUE;

    (void)context;
    result = result ? result : add(&place, CU_GRAPH_NODE_TYPE_MEMCPY, NODE_COPY, node);
    if (!result) {
        (*node)->copy = copy;
    }
    return result;
}

static CUresult set_memset(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params)
{
    if (params->elementSize != 1 && params->elementSize != 2 && params->elementSize != 4) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t width_bytes = params->width * params->elementSize;
    node->request = (struct wire_request){
        .op = WIRE_SET,
        .device = node->device,
        .set = {.to = params->dst,
                .pitch_bytes = params->height > 1 ? params->pitch : width_bytes,
                .width_bytes = width_bytes,
                .height = params->height,
                .value = params->value,
                .element_bytes = params->elementSize}};
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs,
                              size_t need_count, const CUDA_MEMSET_NODE_PARAMS *params,
                              CUcontext context)
{
    const struct place place = {graph, needs, need_count};
    CUresult result = params ? add(&place, CU_GRAPH_NODE_TYPE_MEMSET, NODE_REQUEST, node)
                             : CUDA_ERROR_INVALID_VALUE;

    (void)context;
    return result ? result : keep(node, set_memset(*node, params));
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs,
                            size_t need_count, const CUDA_HOST_NODE_PARAMS *params)
{
    const struct place place = {graph, needs, need_count};
    CUresult result = params && params->fn ? add(&place, CU_GRAPH_NODE_TYPE_HOST, NODE_HOST, node)
                                           : CUDA_ERROR_INVALID_VALUE;

    if (!result) {
        (*node)->function = params->fn;
        (*node)->data = params->userData;
    }
    return result;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs,
                             size_t need_count)
{
    const struct place place = {graph, needs, need_count};

    return add(&place, CU_GRAPH_NODE_TYPE_EMPTY, NODE_EMPTY, node);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs,
                                  size_t need_count, CUgraph child)
{
    const struct place place = {graph, needs, need_count};
    CUresult result = child && child != graph
                          ? add(&place, CU_GRAPH_NODE_TYPE_GRAPH, NODE_CHILD, node)
                          : CUDA_ERROR_INVALID_VALUE;

    if (result) {
        return result;
    }
    (*node)->child = graph_copy(child);
    return keep(node, (*node)->child ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *child)
{
    if (!node || !node->child) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *child = node->child;
    return CUDA_SUCCESS;
}

static CUresult add_event(const struct place *place, CUgraphNode *node, CUevent event,
                          CUgraphNodeType type)
{
    CUresult result = event ? add(place, type, NODE_REQUEST, node) : CUDA_ERROR_INVALID_VALUE;

    if (!result) {
        bool is_record = type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
        (*node)->request =
            (struct wire_request){.op = is_record ? WIRE_EVENT_RECORD : WIRE_STREAM_WAIT,
                                  .device = (*node)->device,
                                  .event.event = (uint64_t)event};
    }
    return result;
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs,
                                   size_t need_count, CUevent event)
{
    const struct place place = {graph, needs, need_count};

    return add_event(&place, node, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *needs,
                                 size_t need_count, CUevent event)
{
    const struct place place = {graph, needs, need_count};

    return add_event(&place, node, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
}

/* ---- the same of executable graphs ---- */

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode origin,
                                        const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct CUgraphNode_st *node = exec ? graph_find(exec_graph(exec), origin) : NULL;

    return node ? cuGraphKernelNodeSetParams(node, params) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode origin,
                                        const CUDA_MEMCPY3D *params, CUcontext context)
{
    struct CUgraphNode_st *node = exec ? graph_find(exec_graph(exec), origin) : NULL;

    (void)context;
    return node && params && node->kind == NODE_COPY ? copy_from_3d(params, &node->copy)
                                                     : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode origin,
                                        const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    struct CUgraphNode_st *node = exec ? graph_find(exec_graph(exec), origin) : NULL;

    (void)context;
    return node && params && node->type == CU_GRAPH_NODE_TYPE_MEMSET ? set_memset(node, params)
                                                                     : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode origin,
                                      const CUDA_HOST_NODE_PARAMS *params)
{
    struct CUgraphNode_st *node = exec ? graph_find(exec_graph(exec), origin) : NULL;

    if (!node || !params || !params->fn || node->kind != NODE_HOST) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    node->function = params->fn;
    node->data = params->userData;
    return CUDA_SUCCESS;
}
