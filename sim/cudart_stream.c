/* Streams and events of the runtime API. */
#include "sim/cudart_api.h"

DRIVER_CALL(cudaStreamCreate, (cudaStream_t * stream), cuStreamCreate(stream, 0))

DRIVER_CALL(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned int flags),
            cuStreamCreate(stream, flags))

DRIVER_CALL(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned int flags, int priority),
            cuStreamCreateWithPriority(stream, flags, priority))

DRIVER_CALL(cudaStreamDestroy, (cudaStream_t stream), cuStreamDestroy(stream))

DRIVER_CALL(cudaStreamSynchronize, (cudaStream_t stream), cuStreamSynchronize(stream))

DRIVER_CALL(cudaStreamQuery, (cudaStream_t stream), cuStreamQuery(stream))

DRIVER_CALL(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
            cuStreamWaitEvent(stream, event, flags))

DRIVER_CALL(cudaStreamGetFlags, (cudaStream_t stream, unsigned int *flags),
            cuStreamGetFlags(stream, flags))

DRIVER_CALL(cudaStreamGetPriority, (cudaStream_t stream, int *priority),
            cuStreamGetPriority(stream, priority))

DRIVER_CALL(cudaStreamGetDevice, (cudaStream_t stream, int *device),
            cuStreamGetDevice(stream, device))

DRIVER_CALL(cudaStreamGetId, (cudaStream_t stream, unsigned long long *id),
            cuStreamGetId(stream, id))

DRIVER_CALL(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void *data),
            cuLaunchHostFunc(stream, function, data))

DRIVER_CALL(cudaStreamAddCallback,
            (cudaStream_t stream, cudaStreamCallback_t function, void *data, unsigned int flags),
            cuStreamAddCallback(stream, (CUstreamCallback)function, data, flags))

DRIVER_CALL(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
            cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)status))

DRIVER_CALL(cudaEventCreate, (cudaEvent_t * event), cuEventCreate(event, 0))

DRIVER_CALL(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned int flags),
            cuEventCreate(event, flags))

DRIVER_CALL(cudaEventDestroy, (cudaEvent_t event), cuEventDestroy(event))

DRIVER_CALL(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), cuEventRecord(event, stream))

DRIVER_CALL(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
            cuEventRecordWithFlags(event, stream, flags))

DRIVER_CALL(cudaEventQuery, (cudaEvent_t event), cuEventQuery(event))

DRIVER_CALL(cudaEventSynchronize, (cudaEvent_t event), cuEventSynchronize(event))

DRIVER_CALL(cudaEventElapsedTime, (float *milliseconds, cudaEvent_t from, cudaEvent_t to),
            cuEventElapsedTime(milliseconds, from, to))

DRIVER_CALL(cudaDeviceSynchronize, (void), cuCtxSynchronize())

DRIVER_CALL(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest),
            cuCtxGetStreamPriorityRange(least, greatest))
