/*
 * cudart_own_stream.c — the runtime API of programs whose default stream is each thread's own:
 * with CUDA_API_PER_THREAD_DEFAULT_STREAM the headers call name_ptsz and name_ptds. What copies and
 * sets in the default stream is done when it returns.
 */
#include "sim/cudart_api.h"

#define OWN_STREAM ((cudaStream_t)2)
#define OWN(stream) ((stream) ? (stream) : OWN_STREAM)

/* name_ptsz: the call with `stream` in its place. (name, parameters, arguments) */
#define OWN_CALL(name, parameters, arguments)                                                      \
    __attribute__((visibility("default"))) cudaError_t name##_ptsz parameters;                     \
    cudaError_t name##_ptsz parameters                                                             \
    {                                                                                              \
        return name arguments;                                                                     \
    }

/* name_ptds: the asynchronous call in the thread's own stream, and then its end. */
#define OWN_WAIT(name, parameters, call)                                                           \
    __attribute__((visibility("default"))) cudaError_t name##_ptds parameters;                     \
    cudaError_t name##_ptds parameters                                                             \
    {                                                                                              \
        cudaError_t error = call;                                                                  \
        return error ? error : cudaStreamSynchronize(OWN_STREAM);                                  \
    }

OWN_WAIT(cudaMemcpy, (void *to, const void *from, size_t size_bytes, enum cudaMemcpyKind kind),
         cudaMemcpyAsync(to, from, size_bytes, kind, OWN_STREAM))
OWN_WAIT(cudaMemcpy2D,
         (void *to, size_t to_pitch_bytes, const void *from, size_t from_pitch_bytes,
          size_t width_bytes, size_t height, enum cudaMemcpyKind kind),
         cudaMemcpy2DAsync(to, to_pitch_bytes, from, from_pitch_bytes, width_bytes, height, kind,
                           OWN_STREAM))
OWN_WAIT(cudaMemcpy3D, (const struct cudaMemcpy3DParms *params),
         cudaMemcpy3DAsync(params, OWN_STREAM))
OWN_WAIT(cudaMemcpy3DPeer, (const struct cudaMemcpy3DPeerParms *params),
         cudaMemcpy3DPeerAsync(params, OWN_STREAM))
OWN_WAIT(cudaMemcpyToSymbol,
         (const void *symbol, const void *from, size_t size_bytes, size_t offset_bytes,
          enum cudaMemcpyKind kind),
         cudaMemcpyToSymbolAsync(symbol, from, size_bytes, offset_bytes, kind, OWN_STREAM))
OWN_WAIT(cudaMemcpyFromSymbol,
         (void *to, const void *symbol, size_t size_bytes, size_t offset_bytes,
          enum cudaMemcpyKind kind),
         cudaMemcpyFromSymbolAsync(to, symbol, size_bytes, offset_bytes, kind, OWN_STREAM))
OWN_WAIT(cudaMemset, (void *to, int value, size_t size_bytes),
         cudaMemsetAsync(to, value, size_bytes, OWN_STREAM))
OWN_WAIT(cudaMemset2D, (void *to, size_t pitch_bytes, int value, size_t width_bytes, size_t height),
         cudaMemset2DAsync(to, pitch_bytes, value, width_bytes, height, OWN_STREAM))
OWN_WAIT(cudaMemset3D, (struct cudaPitchedPtr to, int value, struct cudaExtent extent),
         cudaMemset3DAsync(to, value, extent, OWN_STREAM))

OWN_CALL(cudaMemcpyAsync,
         (void *to, const void *from, size_t size_bytes, enum cudaMemcpyKind kind,
          cudaStream_t stream),
         (to, from, size_bytes, kind, OWN(stream)))
OWN_CALL(cudaMemcpy2DAsync,
         (void *to, size_t to_pitch_bytes, const void *from, size_t from_pitch_bytes,
          size_t width_bytes, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream),
         (to, to_pitch_bytes, from, from_pitch_bytes, width_bytes, height, kind, OWN(stream)))
OWN_CALL(cudaMemcpy3DAsync, (const struct cudaMemcpy3DParms *params, cudaStream_t stream),
         (params, OWN(stream)))
OWN_CALL(cudaMemcpy3DPeerAsync, (const struct cudaMemcpy3DPeerParms *params, cudaStream_t stream),
         (params, OWN(stream)))
OWN_CALL(cudaMemcpyToSymbolAsync,
         (const void *symbol, const void *from, size_t size_bytes, size_t offset_bytes,
          enum cudaMemcpyKind kind, cudaStream_t stream),
         (symbol, from, size_bytes, offset_bytes, kind, OWN(stream)))
OWN_CALL(cudaMemcpyFromSymbolAsync,
         (void *to, const void *symbol, size_t size_bytes, size_t offset_bytes,
          enum cudaMemcpyKind kind, cudaStream_t stream),
         (to, symbol, size_bytes, offset_bytes, kind, OWN(stream)))
OWN_CALL(cudaMemsetAsync, (void *to, int value, size_t size_bytes, cudaStream_t stream),
         (to, value, size_bytes, OWN(stream)))
OWN_CALL(cudaMemset2DAsync,
         (void *to, size_t pitch_bytes, int value, size_t width_bytes, size_t height,
          cudaStream_t stream),
         (to, pitch_bytes, value, width_bytes, height, OWN(stream)))
OWN_CALL(cudaMemset3DAsync,
         (struct cudaPitchedPtr to, int value, struct cudaExtent extent, cudaStream_t stream),
         (to, value, extent, OWN(stream)))
OWN_CALL(cudaMallocAsync, (void **address, size_t size_bytes, cudaStream_t stream),
         (address, size_bytes, OWN(stream)))
OWN_CALL(cudaMallocFromPoolAsync,
         (void **address, size_t size_bytes, cudaMemPool_t pool, cudaStream_t stream),
         (address, size_bytes, pool, OWN(stream)))
OWN_CALL(cudaFreeAsync, (void *address, cudaStream_t stream), (address, OWN(stream)))
OWN_CALL(cudaMemPrefetchAsync,
         (const void *address, size_t size_bytes, struct cudaMemLocation location,
          unsigned int flags, cudaStream_t stream),
         (address, size_bytes, location, flags, OWN(stream)))

OWN_CALL(cudaStreamSynchronize, (cudaStream_t stream), (OWN(stream)))
OWN_CALL(cudaStreamQuery, (cudaStream_t stream), (OWN(stream)))
OWN_CALL(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
         (OWN(stream), event, flags))
OWN_CALL(cudaStreamGetFlags, (cudaStream_t stream, unsigned int *flags), (OWN(stream), flags))
OWN_CALL(cudaStreamGetPriority, (cudaStream_t stream, int *priority), (OWN(stream), priority))
OWN_CALL(cudaStreamGetDevice, (cudaStream_t stream, int *device), (OWN(stream), device))
OWN_CALL(cudaStreamGetId, (cudaStream_t stream, unsigned long long *id), (OWN(stream), id))
OWN_CALL(cudaStreamAddCallback,
         (cudaStream_t stream, cudaStreamCallback_t function, void *data, unsigned int flags),
         (OWN(stream), function, data, flags))
OWN_CALL(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void *data),
         (OWN(stream), function, data))
OWN_CALL(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, OWN(stream)))
OWN_CALL(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
         (event, OWN(stream), flags))

OWN_CALL(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
         (OWN(stream), mode))
OWN_CALL(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph), (OWN(stream), graph))
OWN_CALL(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
         (OWN(stream), status))
OWN_CALL(cudaGraphInstantiateWithParams,
         (cudaGraphExec_t * exec, cudaGraph_t graph, cudaGraphInstantiateParams *params),
         (exec, graph, params))
OWN_CALL(cudaGraphUpload, (cudaGraphExec_t exec, cudaStream_t stream), (exec, OWN(stream)))
OWN_CALL(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream), (exec, OWN(stream)))
OWN_CALL(cudaStreamSetAttribute,
         (cudaStream_t stream, cudaStreamAttrID attribute, const cudaStreamAttrValue *value),
         (OWN(stream), attribute, value))
OWN_CALL(cudaStreamGetAttribute,
         (cudaStream_t stream, cudaStreamAttrID attribute, cudaStreamAttrValue *value),
         (OWN(stream), attribute, value))
OWN_CALL(cudaStreamCopyAttributes, (cudaStream_t to, cudaStream_t from), (OWN(to), OWN(from)))
OWN_CALL(cudaStreamAttachMemAsync,
         (cudaStream_t stream, void *address, size_t size_bytes, unsigned int flags),
         (OWN(stream), address, size_bytes, flags))
OWN_CALL(cudaStreamGetCaptureInfo,
         (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
          cudaGraph_t *graph, const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
          size_t *count),
         (OWN(stream), status, id, graph, nodes, edges, count))
OWN_CALL(cudaStreamUpdateCaptureDependencies,
         (cudaStream_t stream, cudaGraphNode_t *nodes, const cudaGraphEdgeData *edges, size_t count,
          unsigned int flags),
         (OWN(stream), nodes, edges, count, flags))
OWN_CALL(cudaGetDriverEntryPointByVersion,
         (const char *name, void **function, unsigned int version, unsigned long long flags,
          enum cudaDriverEntryPointQueryResult *status),
         (name, function, version, flags | cudaEnablePerThreadDefaultStream, status))
