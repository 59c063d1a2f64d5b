/* entry.c — what libFuzzer calls: the target that the build names, and how its input is changed. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/lines.h"

#ifndef FUZZ_TARGET /* the build names it; without a name this file can still be read alone */
#define FUZZ_TARGET fuzz_json
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size_bytes, size_t max_bytes);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size_bytes, size_t max_bytes, unsigned seed);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    FUZZ_TARGET(data, size_bytes);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size_bytes, size_t max_bytes, unsigned seed)
{
    if (seed % 2 == 0) {
        return LLVMFuzzerMutate(data, size_bytes, max_bytes);
    }
    return lines_mutate(data, size_bytes, max_bytes, seed / 2);
}
