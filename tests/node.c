#include "tests/node.h"

#include "worker/staging.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *setting(const char *name, const char *otherwise)
{
    const char *value = getenv(name);

    return value == NULL || *value == 0 ? otherwise : value;
}

static void require(enum status status, const struct error *err)
{
    if (status != OK) {
        (void)fprintf(stderr, "%s\n", err->message);
        abort();
    }
}

struct sandbox_node *test_node(void)
{
    static struct sandbox_node node;
    static struct staging staging;
    static char bin[PATH_MAX], sim[PATH_MAX], nccl[PATH_MAX];
    struct error err = {0};

    if (node.bwrap != NULL) {
        return &node;
    }
    const char *build = setting("BUILD", "build");
    (void)snprintf(bin, sizeof bin, "%s/bin", build);
    (void)snprintf(sim, sizeof sim, "%s/lib/sim", build);
    (void)snprintf(nccl, sizeof nccl, "%s/lib/nccl", build);
    node = (struct sandbox_node){.bwrap = setting("PKB_TEST_BWRAP", "/usr/bin/bwrap"),
                                 .bin_dir = bin,
                                 .sim_dir = sim,
                                 .nccl_dir = nccl,
                                 .cuda_home = setting("CUDA_HOME", "/usr/local/cuda"),
                                 .work_dir = P_tmpdir,
                                 .uid_base = SANDBOX_UID_BASE};
    const char *insecure = getenv("PKB_TEST_INSECURE"); /* what a machine is known to lack */
    if (insecure != NULL) {
        require(layers_read(&node.waived, insecure, &err), &err);
    }
    if (geteuid() != 0) {
        node.waived |= 1U << LAYER_UID | 1U << LAYER_CGROUP;
    }
    require(staging_prepare(&staging, &node, &err), &err);
    if ((node.waived >> LAYER_CGROUP & 1) == 0) {
        require(cgroup_prepare(&err), &err);
    }
    require(sandbox_node_init(&node, &err), &err);
    return &node;
}
