/* fuzz_elf.c — the worker's scan of a library that a hostile build made. */
#include "tests/fuzz/fuzz.h"
#include "worker/elf.h"

void fuzz_elf(const uint8_t *data, size_t size_bytes)
{
    struct elf_facts facts = {0};
    struct error err = {0};

    (void)elf_scan(data, size_bytes, &facts, &err);
}
