/* Graphs of the runtime API. */
#include "sim/cudart_api.h"

/* ---- capture ---- */

DRIVER_CALL(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
            cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode))

DRIVER_CALL(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph),
            cuStreamEndCapture(stream, graph))

DRIVER_CALL(cudaStreamGetCaptureInfo,
            (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
             cudaGraph_t *graph, const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
             size_t *count),
            cuStreamGetCaptureInfo(stream, (CUstreamCaptureStatus *)status, (cuuint64_t *)id, graph,
                                   nodes, (const CUgraphEdgeData **)edges, count))

DRIVER_CALL(cudaStreamUpdateCaptureDependencies,
            (cudaStream_t stream, cudaGraphNode_t *nodes, const cudaGraphEdgeData *edges,
             size_t count, unsigned int flags),
            cuStreamUpdateCaptureDependencies(stream, nodes, (const CUgraphEdgeData *)edges, count,
                                              flags))

DRIVER_CALL(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode),
            cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode))

/* ---- graphs by hand ---- */

DRIVER_CALL(cudaGraphCreate, (cudaGraph_t * graph, unsigned int flags), cuGraphCreate(graph, flags))

DRIVER_CALL(cudaGraphDestroy, (cudaGraph_t graph), cuGraphDestroy(graph))

DRIVER_CALL(cudaGraphClone, (cudaGraph_t * copy, cudaGraph_t graph), cuGraphClone(copy, graph))

DRIVER_CALL(cudaGraphNodeFindInClone,
            (cudaGraphNode_t * found, cudaGraphNode_t origin, cudaGraph_t copy),
            cuGraphNodeFindInClone(found, origin, copy))

DRIVER_CALL(cudaGraphAddDependencies,
            (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
             const cudaGraphEdgeData *edges, size_t count),
            cuGraphAddDependencies(graph, from, to, (const CUgraphEdgeData *)edges, count))

DRIVER_CALL(cudaGraphDestroyNode, (cudaGraphNode_t node), cuGraphDestroyNode(node))

DRIVER_CALL(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count),
            cuGraphGetNodes(graph, nodes, count))

DRIVER_CALL(cudaGraphGetRootNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count),
            cuGraphGetRootNodes(graph, nodes, count))

DRIVER_CALL(cudaGraphGetEdges,
            (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
             cudaGraphEdgeData *edges, size_t *count),
            cuGraphGetEdges(graph, from, to, (CUgraphEdgeData *)edges, count))

DRIVER_CALL(cudaGraphNodeGetType, (cudaGraphNode_t node, enum cudaGraphNodeType *type),
            cuGraphNodeGetType(node, (CUgraphNodeType *)type))

static CUresult kernel_params(const struct cudaKernelNodeParams *given,
                              CUDA_KERNEL_NODE_PARAMS *params)
{
    CUkernel kernel = NULL;
    CUresult result = given ? runtime_kernel(given->func, &kernel) : CUDA_ERROR_INVALID_VALUE;

    if (!result) {
        *params = (CUDA_KERNEL_NODE_PARAMS){.func = (CUfunction)kernel,
                                            .gridDimX = given->gridDim.x,
                                            .gridDimY = given->gridDim.y,
                                            .gridDimZ = given->gridDim.z,
                                            .blockDimX = given->blockDim.x,
                                            .blockDimY = given->blockDim.y,
                                            .blockDimZ = given->blockDim.z,
                                            .sharedMemBytes = given->sharedMemBytes,
                                            .kernelParams = given->kernelParams,
                                            .extra = given->extra};
    }
    return result;
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *needs, size_t need_count,
                                   const struct cudaKernelNodeParams *given)
{
    CUDA_KERNEL_NODE_PARAMS params;
    cudaError_t error = runtime_enter();

    error = error ? error : runtime_end(kernel_params(given, &params));
    return error ? error
                 : runtime_end(cuGraphAddKernelNode(node, graph, needs, need_count, &params));
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *given)
{
    CUDA_KERNEL_NODE_PARAMS params;
    cudaError_t error = runtime_enter();

    error = error ? error : runtime_end(cuGraphKernelNodeGetParams(node, &params));
    if (!error) {
        *given = (struct cudaKernelNodeParams){
            .func = (void *)params.func, /* a handle stands for the function everywhere */
            .gridDim = {params.gridDimX, params.gridDimY, params.gridDimZ},
            .blockDim = {params.blockDimX, params.blockDimY, params.blockDimZ},
            .sharedMemBytes = params.sharedMemBytes,
            .kernelParams = params.kernelParams};
    }
    return error;
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                         const struct cudaKernelNodeParams *given)
{
    CUDA_KERNEL_NODE_PARAMS params;
    cudaError_t error = runtime_enter();

    error = error ? error : runtime_end(kernel_params(given, &params));
    return error ? error : runtime_end(cuGraphKernelNodeSetParams(node, &params));
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const struct cudaKernelNodeParams *given)
{
    CUDA_KERNEL_NODE_PARAMS params;
    cudaError_t error = runtime_enter();

    error = error ? error : runtime_end(kernel_params(given, &params));
    return error ? error : runtime_end(cuGraphExecKernelNodeSetParams(exec, node, &params));
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *needs, size_t need_count,
                                   const struct cudaMemcpy3DParms *given)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = runtime_enter();

    error = error ? error : runtime_end(runtime_copy_3d(given, &copy));
    return error ? error
                 : runtime_end(cuGraphAddMemcpyNode(node, graph, needs, need_count, &copy, NULL));
}

/* One row, as a plane of a copy. */
static struct cudaMemcpy3DParms one_row(void *to, const void *from, size_t size_bytes,
                                        enum cudaMemcpyKind kind)
{
    return (struct cudaMemcpy3DParms){.srcPtr = {(void *)from, size_bytes, size_bytes, 1},
                                      .dstPtr = {to, size_bytes, size_bytes, 1},
                                      .extent = {size_bytes, 1, 1},
                                      .kind = kind};
}

/* NOLINTNEXTLINE(readability-function-size): the API's own */
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph,
                                     const cudaGraphNode_t *needs, size_t need_count, void *to,
                                     const void *from, size_t size_bytes, enum cudaMemcpyKind kind)
{
    const struct cudaMemcpy3DParms row = one_row(to, from, size_bytes, kind);

    return cudaGraphAddMemcpyNode(node, graph, needs, need_count, &row);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const struct cudaMemcpy3DParms *given)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = runtime_enter();

    error = error ? error : runtime_end(runtime_copy_3d(given, &copy));
    return error ? error : runtime_end(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, NULL));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void *to,
                                               const void *from, size_t size_bytes,
                                               enum cudaMemcpyKind kind)
{
    const struct cudaMemcpy3DParms row = one_row(to, from, size_bytes, kind);

    return cudaGraphExecMemcpyNodeSetParams(exec, node, &row);
}

static CUDA_MEMSET_NODE_PARAMS memset_params(const struct cudaMemsetParams *given)
{
    return (CUDA_MEMSET_NODE_PARAMS){.dst = (CUdeviceptr)given->dst,
                                     .pitch = given->pitch,
                                     .value = given->value,
                                     .elementSize = given->elementSize,
                                     .width = given->width,
                                     .height = given->height};
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *needs, size_t need_count,
                                   const struct cudaMemsetParams *given)
{
    CUDA_MEMSET_NODE_PARAMS params = memset_params(given);
    cudaError_t error = runtime_enter();

    return error ? error
                 : runtime_end(cuGraphAddMemsetNode(node, graph, needs, need_count, &params, NULL));
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const struct cudaMemsetParams *given)
{
    CUDA_MEMSET_NODE_PARAMS params = memset_params(given);
    cudaError_t error = runtime_enter();

    return error ? error : runtime_end(cuGraphExecMemsetNodeSetParams(exec, node, &params, NULL));
}

DRIVER_CALL(cudaGraphAddHostNode,
            (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *needs,
             size_t need_count, const struct cudaHostNodeParams *params),
            cuGraphAddHostNode(node, graph, needs, need_count,
                               (const CUDA_HOST_NODE_PARAMS *)params))

DRIVER_CALL(cudaGraphExecHostNodeSetParams,
            (cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaHostNodeParams *params),
            cuGraphExecHostNodeSetParams(exec, node, (const CUDA_HOST_NODE_PARAMS *)params))

DRIVER_CALL(cudaGraphAddEmptyNode,
            (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *needs,
             size_t need_count),
            cuGraphAddEmptyNode(node, graph, needs, need_count))

DRIVER_CALL(cudaGraphAddChildGraphNode,
            (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *needs,
             size_t need_count, cudaGraph_t child),
            cuGraphAddChildGraphNode(node, graph, needs, need_count, child))

DRIVER_CALL(cudaGraphChildGraphNodeGetGraph, (cudaGraphNode_t node, cudaGraph_t *child),
            cuGraphChildGraphNodeGetGraph(node, child))

DRIVER_CALL(cudaGraphAddEventRecordNode,
            (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *needs,
             size_t need_count, cudaEvent_t event),
            cuGraphAddEventRecordNode(node, graph, needs, need_count, event))

DRIVER_CALL(cudaGraphAddEventWaitNode,
            (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *needs,
             size_t need_count, cudaEvent_t event),
            cuGraphAddEventWaitNode(node, graph, needs, need_count, event))

/* ---- executable graphs ---- */

DRIVER_CALL(cudaGraphInstantiate,
            (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
            cuGraphInstantiate(exec, graph, flags))

DRIVER_CALL(cudaGraphInstantiateWithFlags,
            (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
            cuGraphInstantiate(exec, graph, flags))

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *exec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams *params)
{
    cudaError_t error = cudaGraphInstantiate(exec, graph, params->flags);

    params->errNode_out = NULL;
    params->result_out = error ? cudaGraphInstantiateError : cudaGraphInstantiateSuccess;
    return error;
}

DRIVER_CALL(cudaGraphExecGetFlags, (cudaGraphExec_t exec, unsigned long long *flags),
            cuGraphExecGetFlags(exec, (cuuint64_t *)flags))

DRIVER_CALL(cudaGraphExecUpdate,
            (cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info),
            cuGraphExecUpdate(exec, graph, (CUgraphExecUpdateResultInfo *)info))

DRIVER_CALL(cudaGraphUpload, (cudaGraphExec_t exec, cudaStream_t stream),
            cuGraphUpload(exec, stream))

DRIVER_CALL(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream),
            cuGraphLaunch(exec, stream))

DRIVER_CALL(cudaGraphExecDestroy, (cudaGraphExec_t exec), cuGraphExecDestroy(exec))
