/* entry.c — what libFuzzer calls: the target that $FUZZ names, and how its input is changed. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size_bytes, size_t max_bytes);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size_bytes, size_t max_bytes, unsigned seed);

static const struct target {
    const char *name, *corpus;
    void (*function)(const uint8_t *data, size_t size_bytes);
} targets[] = {
#define X(name, corpus) {#name, #corpus, fuzz_##name},
    FUZZ_TARGETS(X)
#undef X
};
static const struct target *target;

/* Without a name the targets are listed, each with the folder of its corpus. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *name = getenv("FUZZ");

    (void)argc;
    (void)argv;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        if (name == NULL) {
            printf("%s %s\n", targets[i].name, targets[i].corpus);
        } else if (strcmp(targets[i].name, name) == 0) {
            target = &targets[i];
        }
    }
    if (target == NULL) {
        exit(name == NULL ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    target->function(data, size_bytes);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size_bytes, size_t max_bytes, unsigned seed)
{
    if (seed % 2 == 0) {
        return LLVMFuzzerMutate(data, size_bytes, max_bytes);
    }
    return lines_mutate(data, size_bytes, max_bytes, seed / 2);
}
