/* Which devices reach which, of the driver API. */
#include "sim/cuda_link.h"

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    CUresult result = context_check_device(device);

    result = result ? result : context_check_device(peer);
    if (!result) {
        *can = device != peer;
    }
    return result;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice device,
                                 CUdevice peer)
{
    CUresult result = context_check_device(device);

    result = result ? result : context_check_device(peer);
    if (result || device == peer) {
        return result ? result : CUDA_ERROR_INVALID_DEVICE;
    }
    *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
             attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
    return CUDA_SUCCESS;
}

/* Peers see each other always; a real device keeps count of who enabled whom, and so do we. */
static _Atomic unsigned int peers_enabled[WORLD_MAX];

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    int device = 0;
    CUresult result = context_enter(&device);

    if (result) {
        return result;
    }
    if (flags || !context_is(peer)) {
        return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT;
    }
    if (context_device_of(peer) == device) {
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    unsigned int bit = 1u << context_device_of(peer);
    if (peers_enabled[device] & bit) {
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    }
    peers_enabled[device] |= bit;
    return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    int device = 0;
    CUresult result = context_enter(&device);

    if (result || !context_is(peer)) {
        return result ? result : CUDA_ERROR_INVALID_CONTEXT;
    }
    unsigned int bit = 1u << context_device_of(peer);
    if (!(peers_enabled[device] & bit)) {
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    }
    peers_enabled[device] &= ~bit;
    return CUDA_SUCCESS;
}
