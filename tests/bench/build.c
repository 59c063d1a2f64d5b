/*
 * How long a build takes, beside plain nvcc with the same arguments in the same kind of box: five
 * sources, by turns, and the median of their ratios.
 *
 *     build [PAIRS] [SOURCE TASK]...
 *
 * Prints for each source the medians of wall time and of CPU time of both, and their ratios; then
 * build.ratio and build.cpu_ratio, the medians of the five.
 */
#include "worker/build.h"
#include "common/buffer.h"
#include "tests/node.h"
#include "worker/statistics.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS_DEFAULT = 5, PAIRS_MAX = 100, SOURCES = 5, SLOT = 211, WALL_MS = 120000 };

struct cost {
    double wall_s, cpu_s;
};

static const struct {
    const char *file, *task;
} sources[SOURCES] = {
    {"tests/fixtures/allreduce_loads.cu", "allreduce"}, /* a kernel that loads from peers */
    {"tests/fixtures/reduce_multimem.cu", "reduce"},    /* one that uses the switch */
    {"tasks/016_gemm_reducescatter/baseline.cu", "16"}, /* cuBLAS and NCCL */
    {"tests/submissions/gemm_reducescatter.cu", "16"},  /* tensor cores */
    {"tests/bench/groups.cu", "allreduce"},             /* cooperative groups, a barrier */
};

static _Noreturn void give_up(const char *file, const char *why)
{
    (void)fprintf(stderr, "build: %s: %s\n", file, why);
    exit(1);
}

static struct buffer read_source(const char *file)
{
    struct buffer source = {0};
    ssize_t size = 0;
    int fd = open(file, O_RDONLY | O_CLOEXEC);

    while (fd >= 0 && (size = read(fd, buffer_reserve(&source, 65536), 65536)) > 0) {
        source.size_bytes += (size_t)size;
    }
    if (fd < 0 || size < 0) {
        give_up(file, "cannot be read");
    }
    close(fd);
    return source;
}

static double cpu_s(void)
{
    struct rusage usage;

    getrusage(RUSAGE_CHILDREN, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static double now_s(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void run(struct build *build, struct capture *output)
{
    struct box_program program = build->program;
    struct box_event event = {0};
    struct box *box = NULL;
    struct error err = {0};
    enum status status = OK;

    if (capture_init(output, &program.output, &err) != OK ||
        box_start(&box, &program, 1, &err) != OK) {
        give_up("a box", err.message);
    }
    close(program.output);
    while ((status = box_next(box, &event, &err)) != ERR_UNAVAILABLE) {
        struct pollfd watched = {.fd = box_fd(box), .events = POLLIN};
        if (status == OK && build_note(build, &event)) {
            box_kill(box);
        } else if (status == ERR_NOT_FOUND) {
            (void)poll(&watched, 1, -1);
        }
    }
    box_close(box);
}

static struct cost build_once(int index, const struct buffer *source, bool is_plain)
{
    struct build_options options = {.node = test_node(),
                                    .slot = SLOT,
                                    .task = task_find(sources[index].task),
                                    .dtype = DTYPE_BF16,
                                    .source = source->data,
                                    .source_bytes = source->size_bytes,
                                    .wall_ms = WALL_MS,
                                    .is_plain = is_plain};
    struct result result = {.rank = -1};
    struct capture output = {0};
    struct build build = {0};
    struct error err = {0};
    struct cost cost = {.wall_s = -now_s(), .cpu_s = -cpu_s()};

    if (build_prepare(&build, &options, &err) != OK) {
        give_up(sources[index].file, err.message);
    }
    run(&build, &output);
    build_judge(&build, &output, &result);
    cost.wall_s += now_s();
    cost.cpu_s += cpu_s();
    bool is_ours = result.builder != NULL && strcmp(result.builder, BUILD_BY_STAGES) == 0;
    if (result.verdict != VERDICT_ACCEPTED || is_ours == is_plain) {
        give_up(sources[index].file, result.build_log == NULL ? "not built" : result.build_log);
    }
    capture_release(&output);
    build_release(&build);
    result_release(&result);
    return cost;
}

static struct cost median_cost(const struct cost *costs, int count)
{
    double wall[PAIRS_MAX], cpu[PAIRS_MAX];

    for (int i = 0; i < count; i++) {
        wall[i] = costs[i].wall_s;
        cpu[i] = costs[i].cpu_s;
    }
    return (struct cost){statistics_median(wall, (size_t)count),
                         statistics_median(cpu, (size_t)count)};
}

/* The ratios of one source. */
static struct cost measure(int index, int pairs)
{
    struct cost ours[PAIRS_MAX], theirs[PAIRS_MAX];
    struct buffer source = read_source(sources[index].file);

    for (int i = 0; i < pairs; i++) {
        theirs[i] = build_once(index, &source, true);
        ours[i] = build_once(index, &source, false);
    }
    buffer_release(&source);
    struct cost stages = median_cost(ours, pairs), nvcc = median_cost(theirs, pairs);
    struct cost ratio = {stages.wall_s / nvcc.wall_s, stages.cpu_s / nvcc.cpu_s};
    (void)printf("# %s: %.3f s of %.3f s, ratio %.3f; CPU %.3f s of %.3f s, ratio %.3f\n",
                 sources[index].file, stages.wall_s, nvcc.wall_s, ratio.wall_s, stages.cpu_s,
                 nvcc.cpu_s, ratio.cpu_s);
    (void)fflush(stdout);
    return ratio;
}

int main(int argc, char **argv)
{
    struct cost ratios[SOURCES];
    long pairs = argc > 1 ? strtol(argv[1], NULL, 10) : PAIRS_DEFAULT;

    if (pairs < 1 || pairs > PAIRS_MAX) {
        (void)fprintf(stderr, "usage: build [PAIRS]\n");
        return 2;
    }
    for (int i = 0; i < SOURCES; i++) {
        ratios[i] = measure(i, (int)pairs);
    }
    struct cost all = median_cost(ratios, SOURCES);
    (void)printf("build.ratio %.3f of_nvcc\nbuild.cpu_ratio %.3f of_nvcc\n", all.wall_s, all.cpu_s);
    return 0;
}
