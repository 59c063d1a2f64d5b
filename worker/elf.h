/*
 * elf.h — may this shared library, which a hostile build made, be loaded by pkb-rank?
 *
 * The scan reads what the loader will read (the dynamic segment), checks every offset, and refuses
 * what it does not understand. It shows nothing about what the code does.
 */
#pragma once

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>

enum { ELF_BYTES_MAX = 64 << 20 };

struct elf_facts {
    bool uses_nccl; /* needs libnccl */
};

/*
 * ERR_INVALID: it may not be loaded, and the message tells the submitter why and what would be
 * right: not an ELF64 library of x86-64, a library outside of the list, a search path, no pkb_run
 * of the right type, an undefined symbol, a static CUDA runtime, or relocatable device code.
 */
enum status elf_scan(const void *data, size_t size_bytes, struct elf_facts *facts,
                     struct error *err);

/* What a submission has to define, for messages. */
#define ELF_PKB_RUN                                                                                \
    "int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, "                           \
    "const struct pkb_inputs *in, const struct pkb_outputs *out)"
#define ELF_PKB_SETUP "int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)"
#define ELF_PKB_TEARDOWN "void pkb_teardown(struct pkb_ctx *ctx)"
