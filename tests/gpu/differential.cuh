/*
 * differential.cuh — what every kernel of the differential test includes.
 *
 * A program makes its inputs from a seed, runs a kernel on device 0, and writes what came out to a
 * file: `PROGRAM FILE SEED`. The same binary runs on a GPU and on the simulator; compare.c holds
 * the two files against each other. Each output carries a bound per element: 0 means equal bits.
 */
#pragma once

#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t code_ = (call);                                                                \
        if (code_ != cudaSuccess) {                                                                \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                          \
                    cudaGetErrorName(code_));                                                      \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static FILE *output_file;
static uint64_t random_state;

static uint32_t random_word(void)
{
    random_state += 0x9E3779B97F4A7C15u;
    uint64_t z = random_state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ (z >> 31)) >> 16);
}

/* Uniform in [low, high]. */
static int random_int(int low, int high)
{
    return low + (int)(random_word() % (uint32_t)(high - low + 1));
}

/* About normal: a sum of uniform 16-bit values. */
static float random_normal(void)
{
    int sum = 0;
    for (int i = 0; i < 8; i++) {
        sum += (int)(random_word() & 0xffff);
    }
    return (float)(2 * sum - 8 * 65535) * (float)(0.5 / 53509.5);
}

/* An array on the device with a host copy. */
template <typename T> struct array {
    std::vector<T> host;
    T *device;

    explicit array(size_t count) : host(count), device(nullptr)
    {
        CHECK(cudaMalloc(&device, count * sizeof(T)));
        CHECK(cudaMemset(device, 0xA5, count * sizeof(T)));
    }
    void push()
    {
        CHECK(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    void pull()
    {
        CHECK(cudaMemcpy(host.data(), device, host.size() * sizeof(T), cudaMemcpyDeviceToHost));
    }
    template <typename F> void fill(F value)
    {
        for (auto &element : host) {
            element = (T)value();
        }
        push();
    }
};

static void write_header(const char *name, const char *kind, size_t count, size_t size_bytes)
{
    fprintf(output_file, "%s %s %zu %zu\n", name, kind, count, size_bytes);
}

/* Bits must be equal. */
template <typename T> static void emit_exact(const char *name, array<T> &values)
{
    values.pull();
    write_header(name, "exact", values.host.size(), sizeof(T));
    fwrite(values.host.data(), sizeof(T), values.host.size(), output_file);
}

/* |a - b| <= bound[i]; the values are written as doubles. */
template <typename T>
static void emit_bounded(const char *name, array<T> &values, const std::vector<double> &bound)
{
    values.pull();
    write_header(name, "bounded", values.host.size(), sizeof(double));
    for (auto value : values.host) {
        double wide = (double)(float)value;
        fwrite(&wide, sizeof wide, 1, output_file);
    }
    fwrite(bound.data(), sizeof(double), values.host.size(), output_file);
}

static void synchronise(void)
{
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

static void test(void);

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s FILE SEED\n", argv[0]);
        return 2;
    }
    output_file = fopen(argv[1], "wb");
    if (output_file == nullptr) {
        perror(argv[1]);
        return 1;
    }
    random_state = strtoull(argv[2], nullptr, 0);
    test();
    return fclose(output_file) == 0 ? 0 : 1;
}
