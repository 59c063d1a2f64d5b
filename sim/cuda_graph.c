#include "sim/cuda_graph.h"

#include <stdlib.h>
#include <string.h>

struct CUgraphNode_st *graph_add(struct CUgraph_st *graph, CUgraphNodeType type,
                                 enum node_kind kind)
{
    if (graph->node_count == GRAPH_NODES_MAX) {
        return NULL;
    }
    if (graph->node_count == graph->node_capacity) {
        size_t capacity = graph->node_capacity ? graph->node_capacity * 2 : 16;
        struct CUgraphNode_st **grown =
            realloc(graph->nodes, capacity * sizeof(struct CUgraphNode_st *));
        if (!grown) {
            return NULL;
        }
        graph->nodes = grown;
        graph->node_capacity = capacity;
    }
    struct CUgraphNode_st *node = calloc(1, sizeof *node);
    if (node) {
        node->graph = graph;
        node->type = type;
        node->kind = kind;
        graph->nodes[graph->node_count++] = node;
    }
    return node;
}

CUresult node_need(struct CUgraphNode_st *node, struct CUgraphNode_st *needed)
{
    for (size_t i = 0; i < node->need_count; i++) {
        if (node->needs[i] == needed) {
            return CUDA_SUCCESS;
        }
    }
    if (node == needed || node->graph != needed->graph || node->need_count == GRAPH_NEEDS_MAX) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct CUgraphNode_st **grown =
        realloc(node->needs, (node->need_count + 1) * sizeof(struct CUgraphNode_st *));
    if (!grown) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    node->needs = grown;
    node->needs[node->need_count++] = needed;
    return CUDA_SUCCESS;
}

bool node_is_in(const struct CUgraph_st *graph, const struct CUgraphNode_st *node)
{
    for (size_t i = 0; graph && i < graph->node_count; i++) {
        if (graph->nodes[i] == node) {
            return true;
        }
    }
    return false;
}

static void node_free(struct CUgraphNode_st *node)
{
    if (node->child) {
        graph_free(node->child);
    }
    free(node->needs);
    free(node->params);
    free(node->param_addresses);
    free(node);
}

void graph_free(struct CUgraph_st *graph)
{
    for (size_t i = 0; i < graph->node_count; i++) {
        node_free(graph->nodes[i]);
    }
    free(graph->nodes);
    free(graph);
}

struct CUgraphNode_st *graph_find(const struct CUgraph_st *copy,
                                  const struct CUgraphNode_st *origin)
{
    for (size_t i = 0; i < copy->node_count; i++) {
        if (copy->nodes[i]->origin == origin) {
            return copy->nodes[i];
        }
    }
    return NULL;
}

static CUresult node_copy(struct CUgraphNode_st *made, const struct CUgraphNode_st *node)
{
    CUresult result = CUDA_SUCCESS;

    made->origin = node;
    made->request = node->request;
    made->copy = node->copy;
    made->device = node->device;
    made->function = node->function;
    made->data = node->data;
    if (node->kernel) {
        result = node_set_launch(made, node->kernel, &node->request, node->params);
    }
    if (!result && node->child) {
        made->child = graph_copy(node->child);
        result = made->child ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (size_t i = 0; !result && i < node->need_count; i++) {
        struct CUgraphNode_st *needed = graph_find(made->graph, node->needs[i]);
        result = node_need(made, needed);
    }
    return result;
}

struct CUgraph_st *graph_copy(const struct CUgraph_st *graph)
{
    struct CUgraph_st *copy = calloc(1, sizeof *copy);
    CUresult result = copy ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

    /* All nodes first, so that needs of later ones are found. */
    for (size_t i = 0; !result && i < graph->node_count; i++) {
        struct CUgraphNode_st *made = graph_add(copy, graph->nodes[i]->type, graph->nodes[i]->kind);
        result = made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        if (made) {
            made->origin = graph->nodes[i];
        }
    }
    for (size_t i = 0; !result && i < graph->node_count; i++) {
        result = node_copy(copy->nodes[i], graph->nodes[i]);
    }
    if (result && copy) {
        graph_free(copy);
        copy = NULL;
    }
    return copy;
}

CUresult node_set_launch(struct CUgraphNode_st *node, const struct kernel_handle *kernel,
                         const struct wire_request *request, const void *packed)
{
    size_t size_bytes = kernel->info.param_bytes;
    uint8_t *params = malloc(size_bytes + 1);
    void **addresses = malloc((kernel->info.param_count + 1) * sizeof(void *));

    if (!params || !addresses) {
        free(params);
        free(addresses);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(params, packed, size_bytes);
    for (uint32_t i = 0; i < kernel->info.param_count; i++) {
        addresses[i] = params + kernel->params[i].offset_bytes;
    }
    free(node->params);
    free(node->param_addresses);
    node->params = params;
    node->param_addresses = addresses;
    node->kernel = kernel;
    node->request = *request;
    node->request.launch.kernel = kernel->info.kernel;
    node->request.payload_bytes = (uint32_t)size_bytes;
    node->device = request->device;
    return CUDA_SUCCESS;
}

CUresult node_set_kernel(struct CUgraphNode_st *node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    uint8_t packed[WIRE_PAYLOAD_MAX] = {0};
    struct wire_request request = {
        .op = WIRE_LAUNCH,
        .device = node->device,
        .launch = {.grid = {params->gridDimX, params->gridDimY, params->gridDimZ},
                   .block = {params->blockDimX, params->blockDimY, params->blockDimZ},
                   .dynamic_shared_bytes = params->sharedMemBytes}};
    const struct kernel_handle *kernel =
        kernel_of(params->func ? (const void *)params->func : (const void *)params->kern);

    if (!kernel || kernel->info.param_bytes > sizeof packed) {
        return kernel ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    }
    CUresult result = kernel_pack(kernel, params->kernelParams, params->extra, packed);
    return result ? result : node_set_launch(node, kernel, &request, packed);
}

/* ---- graphs by hand ---- */

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    struct CUgraph_st *made = flags ? NULL : calloc(1, sizeof *made);

    if (!made) {
        return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    }
    *graph = made;
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    if (!graph) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    graph_free(graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph *copy, CUgraph graph)
{
    struct CUgraph_st *made = graph ? graph_copy(graph) : NULL;

    if (!made) {
        return graph ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    }
    *copy = made;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                const CUgraphEdgeData *edges, size_t count)
{
    CUresult result = graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

    (void)edges;
    for (size_t i = 0; !result && i < count; i++) {
        result = node_is_in(graph, from[i]) && node_is_in(graph, to[i]) ? node_need(to[i], from[i])
                                                                        : CUDA_ERROR_INVALID_VALUE;
    }
    return result;
}

CUresult cuGraphDestroyNode(CUgraphNode node)
{
    struct CUgraph_st *graph = node->graph;
    size_t kept = 0;

    for (size_t i = 0; i < graph->node_count; i++) {
        struct CUgraphNode_st *other = graph->nodes[i];
        size_t needs = 0;
        for (size_t j = 0; j < other->need_count; j++) {
            if (other->needs[j] != node) {
                other->needs[needs++] = other->needs[j];
            }
        }
        other->need_count = needs;
        if (other != node) {
            graph->nodes[kept++] = other;
        }
    }
    graph->node_count = kept;
    node_free(node);
    return CUDA_SUCCESS;
}

/* Gives the nodes that `is_wanted` picks: as many as fit *count, and how many there are. */
static CUresult list_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count, bool roots_only)
{
    size_t found = 0, room = nodes && count ? *count : 0;

    if (!graph || !count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < graph->node_count; i++) {
        if (roots_only && graph->nodes[i]->need_count) {
            continue;
        }
        if (found < room) {
            nodes[found] = graph->nodes[i];
        }
        found++;
    }
    *count = nodes && room < found ? room : found;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    return list_nodes(graph, nodes, count, false);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    return list_nodes(graph, nodes, count, true);
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges,
                         size_t *count)
{
    size_t found = 0, room = from && to && count ? *count : 0;

    if (!graph || !count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < graph->node_count; i++) {
        for (size_t j = 0; j < graph->nodes[i]->need_count; j++, found++) {
            if (found < room) {
                from[found] = graph->nodes[i]->needs[j];
                to[found] = graph->nodes[i];
            }
            if (found < room && edges) {
                edges[found] = (CUgraphEdgeData){0};
            }
        }
    }
    *count = from && to && room < found ? room : found;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    if (!node || !type) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *type = node->type;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *found, CUgraphNode origin, CUgraph copy)
{
    struct CUgraphNode_st *node = copy ? graph_find(copy, origin) : NULL;

    if (!node) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *found = node;
    return CUDA_SUCCESS;
}
