#include "worker/toolchain.h"

#include "common/mem.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define ALL (~0U)
#define SIMULATED (1U << DEVICE_SIM)

static const struct {
    size_t directory; /* where in the settings its name is */
    const char *file;
    int access;
    unsigned devices; /* bits of enum device_kind that need it */
    const char *hint;
} needed[] = {
#define CUDA offsetof(struct sandbox_node, cuda_home)
#define OURS offsetof(struct sandbox_node, bin_dir)
#define SIM offsetof(struct sandbox_node, sim_dir)
#define NCCL offsetof(struct sandbox_node, nccl_dir)
    {CUDA, "bin/nvcc", X_OK, ALL, "CUDA_HOME must be an installation of CUDA"},
    {CUDA, "include/cuda.h", R_OK, ALL, "CUDA_HOME must be an installation of CUDA with headers"},
    {CUDA, "include/cuda_runtime.h", R_OK, ALL,
     "CUDA_HOME must be an installation of CUDA with headers"},
    {CUDA, "include/cuda_bf16.h", R_OK, ALL,
     "CUDA_HOME must be an installation of CUDA with headers"},
    {OURS, "pkb-judge", X_OK, ALL, "--bin-dir must be the folder of our programs"},
    {OURS, "pkb-init", X_OK, ALL, "--bin-dir must be the folder of our programs"},
    {OURS, "pkb-compile", X_OK, ALL, "--bin-dir must be the folder of our programs"},
    {OURS, "pkb-probe", X_OK, ALL, "--bin-dir must be the folder of our programs"},
    {OURS, "pkb-rank", X_OK, ALL, "--bin-dir must be the folder of our programs"},
    {OURS, "pkb-simd", X_OK, SIMULATED, "--bin-dir must be the folder of our programs"},
    {SIM, "libcuda.so.1", R_OK, SIMULATED, "the simulator is not installed beside --bin-dir"},
    {SIM, "libcudart.so.13", R_OK, SIMULATED, "the simulator is not installed beside --bin-dir"},
    {SIM, "libcublas.so.13", R_OK, SIMULATED, "the simulator is not installed beside --bin-dir"},
    {SIM, "libcublasLt.so.13", R_OK, SIMULATED, "the simulator is not installed beside --bin-dir"},
    {NCCL, "libnccl.so.2", R_OK, SIMULATED | 1U << DEVICE_CUDA_SHARED,
     "the simulator is not installed beside --bin-dir"},
#undef CUDA
#undef OURS
#undef SIM
#undef NCCL
};

enum status toolchain_check(const struct sandbox_node *node, enum device_kind device,
                            struct error *err)
{
    enum status status = OK;

    if (node->cuda_home[0] != '/') {
        return error_field(err, ERR_UNAVAILABLE, "CUDA_HOME",
                           "CUDA_HOME '%s' does not begin with '/'", node->cuda_home);
    }
    for (size_t i = 0; i < sizeof needed / sizeof needed[0] && status == OK; i++) {
        if ((needed[i].devices >> device & 1) == 0) {
            continue;
        }
        const char *directory = *(const char *const *)((const char *)node + needed[i].directory);
        char *path = xasprintf("%s/%s", directory, needed[i].file);
        struct stat found;
        if (stat(path, &found) == 0 && !S_ISREG(found.st_mode)) {
            status = error_field(err, ERR_UNAVAILABLE, path, "'%s' is no file: %s", path,
                                 needed[i].hint);
        } else if (access(path, needed[i].access) != 0) {
            status = error_field(err, ERR_UNAVAILABLE, path, "cannot use '%s': %m: %s", path,
                                 needed[i].hint);
        }
        free(path);
    }
    return status;
}
