/*
 * main.c — one figure of `make bench` that needs no other process: `bench NAME [MS]` prints the
 * line "NAME value unit".
 *
 * Kernels run in the engine as pkb-simd runs them: every address is looked up, its alignment and
 * rights are checked, its bytes counted. What is measured is this process's CPU time, which other
 * load hardly disturbs: the median of five samples, each of as many launches as take MS. Where it
 * is known what a kernel must write, that is compared; a wrong result ends the program.
 */
#include "tests/bench/calibrate.h"

#include "common/buffer.h"
#include "common/mem.h"
#include "sim/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SAMPLES = 5,
    SAMPLE_MS = 200,
    RANKS = 8,
    ARRAYS = 3, /* of each rank */
    COUNT = 1 << 20,
    BUFFER_BYTES = COUNT * 4,
    SIDE = 512, /* of the matrices of wmma512 */
    CALIBRATION = 10000000,
};

#define BASE 0x200000000000u
#define ARRAY_STRIDE 0x100000000u

enum array { IN, OUT, FLAGS };

struct bench {
    struct image_set images;
    const struct image *image;
    struct engine *engine;
    struct space *spaces[RANKS];
    struct module *modules[RANKS];
    uint8_t *memory[RANKS][ARRAYS];
    int ranks;
};

struct figure {
    const char *name; /* of the kernel */
    void (*fill)(const struct bench *bench);
    bool (*check)(const struct bench *bench); /* NULL: not known */
    bool is_time;                             /* seconds a launch, not instructions a second */
    int ranks;
    uint32_t ctas;
    int count, rounds;
};

static void need(enum status status, const char *what, const struct error *err)
{
    if (status) {
        (void)fprintf(stderr, "bench: %s: %s\n", what, err->message);
        exit(1);
    }
}

static void need_true(bool good, const char *what)
{
    if (!good) {
        (void)fprintf(stderr, "bench: %s\n", what);
        exit(1);
    }
}

static double cpu_seconds(void)
{
    struct timespec time = {0};

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int in_order(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* ---- inputs and what comes of them ---- */

static void *words(const struct bench *bench, int rank, enum array array)
{
    return bench->memory[rank][array];
}

static void fill_integers(const struct bench *bench)
{
    uint32_t *in = words(bench, 0, IN);
    uint32_t x = 1;

    for (int i = 0; i < COUNT; i++) {
        x = x * 1664525 + 1013904223;
        in[i] = x;
    }
}

static float sample(int rank, int i)
{
    return (float)(i % 5 + rank);
}

static void fill_floats(const struct bench *bench)
{
    for (int rank = 0; rank < bench->ranks; rank++) {
        float *in = words(bench, rank, IN);
        for (int i = 0; i < COUNT; i++) {
            in[i] = sample(rank, i);
        }
    }
}

/* Pairs of both signs and magnitudes from 1 to 2. */
static void fill_bfloats(const struct bench *bench)
{
    uint32_t *in = words(bench, 0, IN);
    uint32_t x = 1;

    for (int i = 0; i < COUNT; i++) {
        x = x * 1664525 + 1013904223;
        in[i] = 0x3f803f80 ^ (x >> 8 & 0x807f) ^ (x & 0x807f0000);
    }
}

static float factor(int row, int column)
{
    return (float)((row * 7 + column * 3) % 5 - 2);
}

/* Two matrices of bf16, the second behind the first. */
static void fill_factors(const struct bench *bench)
{
    uint16_t *in = words(bench, 0, IN);

    for (int at = 0; at < 2 * SIDE * SIDE; at++) {
        float value = factor(at / SIDE, at % SIDE);
        uint32_t bits = 0;
        memcpy(&bits, &value, sizeof(bits));
        in[at] = (uint16_t)(bits >> 16);
    }
}

static bool is_copy(const struct bench *bench)
{
    return memcmp(words(bench, 0, IN), words(bench, 0, OUT), BUFFER_BYTES) == 0;
}

static bool is_product(const struct bench *bench)
{
    const float *c = words(bench, 0, OUT);

    for (int at = 0; at < SIDE * SIDE; at += 611) {
        float sum = 0;
        for (int k = 0; k < SIDE; k++) {
            sum += factor(at / SIDE, k) * factor(SIDE + k, at % SIDE);
        }
        if (c[at] != sum) {
            return false;
        }
    }
    return true;
}

static bool is_sum_of_ranks(const struct bench *bench)
{
    for (int at = 0; at < RANKS * COUNT; at++) {
        const float *out = words(bench, at / COUNT, OUT);
        float sum = 0;
        for (int rank = 0; rank < RANKS; rank++) {
            sum += sample(rank, at % COUNT);
        }
        if (out[at % COUNT] != sum) {
            return false;
        }
    }
    return true;
}

enum { THREADS = 256 };
static const struct figure figures[] = {
    {"saxpy", fill_floats, NULL, false, 1, 132, COUNT, 1},
    {"copy128", fill_integers, is_copy, false, 1, 132, COUNT, 2},
    {"bf16x2", fill_bfloats, NULL, false, 1, 64, 1 << 16, 16},
    {"bf16sum", fill_bfloats, NULL, false, 1, 64, 1 << 16, 16},
    {"hash", fill_integers, NULL, false, 1, 64, 1 << 16, 32},
    {"diverge", fill_integers, NULL, false, 1, 64, 1 << 14, 16},
    {"reduce", fill_floats, NULL, false, 1, 64, 1 << 18, 2},
    {"gemm", fill_floats, NULL, false, 1, 64, 128 * 128, 128},
    {"scatter", fill_integers, NULL, false, 1, 64, 1 << 15, 8},
    {"wmma512", fill_factors, is_product, true, 1, SIDE / 32 * SIDE / 32 / 8, 0, 0},
    {"allreduce8", fill_floats, is_sum_of_ranks, true, RANKS, 64, COUNT, 0},
};

static const struct figure *find_figure(const char *name)
{
    for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++) {
        if (strcmp(figures[i].name, name) == 0) {
            return &figures[i];
        }
    }
    return NULL;
}

/* ---- the engine ---- */

static uint64_t address_of(int rank, enum array array)
{
    return BASE + ((uint64_t)rank * ARRAYS + array) * ARRAY_STRIDE;
}

/* The kernels' object file is built beside the program. */
static void read_kernels(struct bench *bench, const char *program)
{
    char *path = xasprintf("%s.kernels.o", program);
    FILE *file = fopen(path, "rb");
    struct buffer bytes = {0};
    struct error err = {0};
    char part[65536];
    size_t got = 0;

    need_true(file != NULL, path);
    while ((got = fread(part, 1, sizeof(part), file)) > 0) {
        buffer_append(&bytes, part, got);
    }
    (void)fclose(file);
    need(image_set_read(&bench->images, bytes.data, bytes.size_bytes, &err), path, &err);
    need_true(bench->images.count == 1, "one image of kernels");
    bench->image = bench->images.images[0];
    buffer_release(&bytes);
    free(path);
}

static void map_all(struct bench *bench, int rank)
{
    struct error err = {0};

    for (int at = 0; at < bench->ranks * ARRAYS; at++) {
        int owner = at / ARRAYS;
        need(space_map(bench->spaces[rank],
                       &(struct mapping){.address = address_of(owner, at % ARRAYS),
                                         .size_bytes = BUFFER_BYTES,
                                         .host = bench->memory[owner][at % ARRAYS],
                                         .owner = owner,
                                         .access = MAP_READ | MAP_WRITE,
                                         .label = ""},
                       &err),
             "mapping", &err);
    }
}

static void bench_open(struct bench *bench, const char *program, int ranks)
{
    struct engine_options options = {.devices = ranks,
                                     .seed = 1,
                                     .fuel = UINT64_MAX,
                                     .sm_count = 132,
                                     .shared_per_sm_bytes = 228 << 10,
                                     .threads_per_sm = 2048,
                                     .ctas_per_sm = 32,
                                     .registers_per_sm = 65536};

    *bench = (struct bench){.ranks = ranks};
    read_kernels(bench, program);
    bench->engine = engine_open(&options);
    for (int at = 0; at < ranks * ARRAYS; at++) {
        bench->memory[at / ARRAYS][at % ARRAYS] = xcalloc(1, BUFFER_BYTES);
    }
    for (int rank = 0; rank < ranks; rank++) {
        bench->spaces[rank] = space_open(bench->engine, rank);
        bench->modules[rank] = module_open(bench->spaces[rank], bench->image, NULL);
        map_all(bench, rank);
    }
}

static void bench_close(struct bench *bench)
{
    for (int rank = 0; rank < bench->ranks; rank++) {
        module_close(bench->modules[rank]);
        space_close(bench->spaces[rank]);
    }
    engine_close(bench->engine);
    image_set_release(&bench->images);
    for (int at = 0; at < bench->ranks * ARRAYS; at++) {
        free(bench->memory[at / ARRAYS][at % ARRAYS]);
    }
}

/* The arguments of rank `rank`'s launch; the kernels of figures that are times have their own. */
union arguments {
    struct {
        uint64_t in, out;
        int count, rounds;
    } common;
    struct {
        uint64_t a, b, c;
    } product;
    struct {
        uint64_t input[RANKS], flags[RANKS], out;
        int count, rank;
    } sum;
};

static union arguments arguments_of(const struct figure *figure, int rank)
{
    union arguments arguments = {0};

    if (figure->fill == fill_factors) {
        arguments.product.a = address_of(0, IN);
        arguments.product.b = address_of(0, IN) + sizeof(uint16_t) * SIDE * SIDE;
        arguments.product.c = address_of(0, OUT);
    } else if (figure->ranks == 1) {
        arguments.common.in = address_of(0, IN);
        arguments.common.out = address_of(0, OUT);
        arguments.common.count = figure->count;
        arguments.common.rounds = figure->rounds;
    } else {
        for (int peer = 0; peer < RANKS; peer++) {
            arguments.sum.input[peer] = address_of(peer, IN);
            arguments.sum.flags[peer] = address_of(peer, FLAGS);
        }
        arguments.sum.out = address_of(rank, OUT);
        arguments.sum.count = figure->count;
        arguments.sum.rank = rank;
    }
    return arguments;
}

static void run_grids(const struct bench *bench, struct grid *const *grids)
{
    int done = 0;

    while (done < bench->ranks) {
        enum engine_outcome outcome = engine_run(bench->engine, 1 << 20);
        need_true(outcome == ENGINE_RAN || outcome == ENGINE_SLICE, "the kernel hangs");
        done = 0;
        for (int rank = 0; rank < bench->ranks; rank++) {
            need_true(grid_state(grids[rank]) != GRID_FAULTED, "the kernel faults");
            done += grid_state(grids[rank]) == GRID_DONE;
        }
    }
}

/* Launches the kernel once on every rank and waits. */
static void launch(const struct bench *bench, const struct figure *figure)
{
    struct grid *grids[RANKS] = {0};
    struct error err = {0};

    for (int rank = 0; rank < bench->ranks; rank++) {
        union arguments arguments = arguments_of(figure, rank);
        struct launch options = {.kernel = image_kernel(bench->image, figure->name),
                                 .module = bench->modules[rank],
                                 .space = bench->spaces[rank],
                                 .device = rank,
                                 .grid = {figure->ctas, 1, 1},
                                 .block = {THREADS, 1, 1},
                                 .params = &arguments};
        need_true(options.kernel != NULL, "no such kernel");
        memset(bench->memory[rank][FLAGS], 0, sizeof(uint32_t) * figure->ctas * RANKS);
        need(engine_launch(bench->engine, &grids[rank], &options, &err), figure->name, &err);
    }
    run_grids(bench, grids);
    for (int rank = 0; rank < bench->ranks; rank++) {
        grid_release(grids[rank]);
    }
}

/* One sample: instructions a second in G, or seconds a launch. */
static double sample_once(const struct bench *bench, const struct figure *figure, int sample_ms)
{
    uint64_t instructions = engine_instructions(bench->engine);
    double start = cpu_seconds();
    double taken = 0;
    int launches = 0;

    while (launches == 0 || taken < sample_ms * 1e-3) {
        launch(bench, figure);
        taken = cpu_seconds() - start;
        launches++;
    }
    instructions = engine_instructions(bench->engine) - instructions;
    return figure->is_time ? taken / launches : (double)instructions / taken * 1e-9;
}

static void print_figure(const char *program, const struct figure *figure, int sample_ms)
{
    struct bench bench;
    double value[SAMPLES];

    bench_open(&bench, program, figure->ranks);
    figure->fill(&bench);
    launch(&bench, figure);
    need_true(!figure->check || figure->check(&bench), "the kernel's result is wrong");
    for (int i = 0; i < SAMPLES; i++) {
        value[i] = sample_once(&bench, figure, sample_ms);
    }
    qsort(value, SAMPLES, sizeof(*value), in_order);
    printf("sim.%s %.4g %s\n", figure->name, value[SAMPLES / 2],
           figure->is_time ? "s" : "G-thread-instructions/s");
    bench_close(&bench);
}

static void print_calibration(int sample_ms)
{
    uint64_t iterations = (uint64_t)CALIBRATION * (uint64_t)sample_ms / SAMPLE_MS;
    volatile float kept = 0;
    double value[SAMPLES];

    for (int i = 0; i < SAMPLES; i++) {
        double start = cpu_seconds();
        kept = calibrate(iterations);
        value[i] = (double)iterations / (cpu_seconds() - start) * 1e-6;
    }
    (void)kept;
    qsort(value, SAMPLES, sizeof(*value), in_order);
    printf("bench.cal %.4g M-iterations/s\n", value[SAMPLES / 2]);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    int sample_ms = argc > 2 ? (int)strtol(argv[2], NULL, 10) : SAMPLE_MS;
    const struct figure *figure = strncmp(name, "sim.", 4) == 0 ? find_figure(name + 4) : NULL;

    if (sample_ms < 1 || (!figure && strcmp(name, "bench.cal") != 0)) {
        (void)fprintf(stderr, "usage: bench bench.cal|sim.KERNEL [MS]\n");
        return 2;
    }
    if (figure) {
        print_figure(argv[0], figure, sample_ms);
    } else {
        print_calibration(sample_ms);
    }
    return 0;
}
