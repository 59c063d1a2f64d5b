/* Streams, events, host memory that is mapped, 2-D copies and sets in order. */
#include "../differential.cuh"

__global__ void step(int *x, const int *host, int n, int add)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        x[i] = x[i] * 2 + host[i % 16] + add;
    }
}

static void test(void)
{
    const int n = 600;
    array<int> a(n), b(n), pitched(40 * 20);
    int *mapped, *mapped_device;
    cudaStream_t one, two;
    cudaEvent_t event;

    a.fill([] { return random_int(0, 9); });
    CHECK(cudaHostAlloc(&mapped, 16 * sizeof(int), cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&mapped_device, mapped, 0));
    for (int i = 0; i < 16; i++) {
        mapped[i] = random_int(-5, 5);
    }
    CHECK(cudaStreamCreate(&one));
    CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&event));
    step<<<5, 128, 0, one>>>(a.device, mapped_device, n, 1);
    CHECK(cudaEventRecord(event, one));
    CHECK(cudaStreamWaitEvent(two, event, 0));
    CHECK(cudaMemcpyAsync(b.device, a.device, n * sizeof(int), cudaMemcpyDeviceToDevice, two));
    step<<<5, 128, 0, two>>>(b.device, mapped_device, n, 5);
    CHECK(cudaStreamSynchronize(two));
    step<<<5, 128>>>(a.device, mapped_device, n, 9);
    CHECK(cudaMemcpy2D(pitched.device + 3, 40 * sizeof(int), b.device, 30 * sizeof(int),
                       30 * sizeof(int), 20, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemset2D(pitched.device + 35, 40 * sizeof(int), 0x11, 2 * sizeof(int), 20));
    synchronise();
    emit_exact("a", a);
    emit_exact("b", b);
    emit_exact("pitched", pitched);
}
