/* A captured graph of kernels, copies and sets over two streams, replayed. */
#include "../differential.cuh"

__global__ void scale_add(const int *x, int *y, int factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = y[i] * factor + x[i];
    }
}

static void test(void)
{
    const int n = 1000;
    array<int> x(n), y(n), z(n);
    cudaStream_t stream, side;
    cudaEvent_t fork, join;
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    x.fill([] { return random_int(-9, 9); });
    y.fill([] { return 1; });
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    scale_add<<<8, 128, 0, stream>>>(x.device, y.device, 3, n);
    CHECK(cudaEventRecord(fork, stream));
    CHECK(cudaStreamWaitEvent(side, fork, 0));
    CHECK(cudaMemsetAsync(z.device, 0, n * sizeof(int), side));
    scale_add<<<8, 128, 0, side>>>(y.device, z.device, 0, n);
    CHECK(cudaEventRecord(join, side));
    CHECK(cudaStreamWaitEvent(stream, join, 0));
    scale_add<<<8, 128, 0, stream>>>(z.device, y.device, 2, n);
    CHECK(
        cudaMemcpyAsync(z.device, y.device, n / 2 * sizeof(int), cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        CHECK(cudaGraphLaunch(exec, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    emit_exact("y", y);
    emit_exact("z", z);
}
