#include "sim/code.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "sim/ptx.h"

/* libstdc++'s; its header is C++. */
char *__cxa_demangle(const char *name, char *buffer, size_t *size_bytes, int *status);

/* A name may repeat parts of itself: k repetitions make up to 3^(k/3) of it. */
enum { DEMANGLE_LENGTH_MAX = 2048, DEMANGLE_REPETITIONS_MAX = 24 };

static bool is_tame(const char *name)
{
    size_t length = strlen(name);
    int repetitions = 0;

    for (size_t i = 0; i + 1 < length; i++) {
        char next = name[i + 1];
        bool is_sequence =
            (next >= '0' && next <= '9') || (next >= 'A' && next <= 'Z') || next == '_';
        repetitions += (name[i] == 'S' || name[i] == 'T') && is_sequence;
    }
    return length <= DEMANGLE_LENGTH_MAX && repetitions <= DEMANGLE_REPETITIONS_MAX;
}

char *image_demangle(const char *name)
{
    int failure = 0;
    char *demangled = NULL;

    if (strncmp(name, "_Z", 2) == 0 && is_tame(name)) {
        demangled = __cxa_demangle(name, NULL, NULL, &failure);
    }
    return demangled != NULL ? demangled : xstrdup(name);
}

enum status image_parse(struct image **image, const char *ptx, size_t size_bytes, struct error *err)
{
    struct ptx_module module = {0};
    enum status status = ptx_parse(&module, ptx, size_bytes, err);

    if (status == OK) {
        struct image *made = xcalloc(1, sizeof *made);
        ptx_lower(made, &module);
        *image = made;
    }
    ptx_release(&module);
    return status;
}

static void release_kernel(struct kernel *kernel)
{
    free(kernel->name);
    free(kernel->demangled);
    free(kernel->insns);
    free(kernel->args);
    free(kernel->constants);
    free(kernel->targets);
    free(kernel->params);
    free(kernel->unsupported);
}

void image_close(struct image *image)
{
    if (image == NULL) {
        return;
    }
    for (uint32_t i = 0; i < image->kernel_count; i++) {
        release_kernel(&image->kernels[i]);
    }
    for (uint32_t i = 0; i < image->symbol_count; i++) {
        free(image->symbols[i].name);
        free(image->symbols[i].initial);
        free(image->symbols[i].relocations);
    }
    for (uint32_t i = 0; i < image->file_count; i++) {
        free(image->files[i]);
    }
    free(image->kernels);
    free(image->symbols);
    free(image->lines);
    free(image->files);
    free(image);
}

const struct kernel *image_kernel(const struct image *image, const char *name)
{
    for (uint32_t i = 0; i < image->kernel_count; i++) {
        if (strcmp(image->kernels[i].name, name) == 0) {
            return &image->kernels[i];
        }
    }
    return NULL;
}
