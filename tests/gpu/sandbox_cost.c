/*
 * What a sandbox costs: starts and ends a program that does nothing, by turns with all layers and
 * without one of them, and prints the medians in milliseconds.
 *
 *     sandbox_cost [PAIRS]        a program that ends at once
 *     sandbox_cost nvcc [PAIRS]   nvcc on a small kernel, with all layers and with none
 */
#include "common/mem.h"
#include "tests/node.h"
#include "worker/box.h"
#include "worker/capture.h"
#include "worker/collect.h"
#include "worker/slot.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS_MAX = 1000 };

static struct slot_lease slot = {.lock = -1}; /* who holds none has its programs swept */

static double now_ms(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static _Noreturn void give_up(const struct error *err)
{
    (void)fprintf(stderr, "sandbox_cost: %s\n", err->message);
    exit(1);
}

static bool runs_nvcc;

struct words {
    char *argv[8], *env[3];
};

/* pkb-probe without arguments, or nvcc; the caller frees the words. */
static void choose_program(struct sandbox *sandbox, struct words *words)
{
    static const char kernel[] = "__global__ void k(float *x) { x[threadIdx.x] *= 2; }\n";
    const struct sandbox_paths *inside = &sandbox->inside;
    struct error err = {0};
    int fd = -1;

    if (!runs_nvcc) {
        words->argv[0] = xstrdup(inside->probe);
        return;
    }
    if (collect_bytes(kernel, sizeof kernel - 1, &fd, &err) != OK ||
        sandbox_add_file(sandbox, fd, "k.cu", &err) != OK) {
        give_up(&err);
    }
    close(fd);
    words->argv[0] = xasprintf("%s/bin/nvcc", inside->cuda);
    words->argv[1] = xstrdup("-arch=sm_90a");
    words->argv[2] = xstrdup("-c");
    words->argv[3] = xasprintf("%s/k.cu", inside->source);
    words->argv[4] = xstrdup("-o");
    words->argv[5] = xasprintf("%s/k.o", inside->out);
    words->env[0] = xasprintf("PATH=%s/bin:/usr/bin:/bin", inside->cuda);
    words->env[1] = xasprintf("TMPDIR=%s", inside->tmp);
}

static void forget_words(struct words *words)
{
    for (int i = 0; words->argv[i] != NULL; i++) {
        free(words->argv[i]);
    }
    for (int i = 0; words->env[i] != NULL; i++) {
        free(words->env[i]);
    }
}

/* From the plan of a sandbox to the end of the program in it; exits where it was not started. */
static double start_once(const struct sandbox_node *node, enum sandbox_policy policy)
{
    struct sandbox_options options = {
        .policy = policy, .slot = slot.number, .device = DEVICE_SIM, .world = 1, .has_probe = true};
    struct words words = {0};
    struct sandbox *sandbox = NULL;
    struct capture output = {0};
    struct box_event event = {0};
    struct error err = {0};
    struct box *box = NULL;
    double start_ms = now_ms(), end_ms = 0;
    enum status status = OK;

    struct box_program program = {.argv = words.argv, .env = words.env, .output = -1};
    if (sandbox_open(&sandbox, node, &options, &err) != OK ||
        capture_init(&output, &program.output, &err) != OK) {
        give_up(&err);
    }
    choose_program(sandbox, &words);
    program.sandbox = sandbox;
    if (box_start(&box, &program, 1, &err) != OK) {
        give_up(&err);
    }
    close(program.output);
    while ((status = box_next(box, &event, &err)) != ERR_UNAVAILABLE) {
        struct pollfd watched = {.fd = box_fd(box), .events = POLLIN};
        if (status == OK && event.kind == BOX_ENDED) {
            end_ms = now_ms();
            if (event.wait_status != (runs_nvcc ? 0 : 2 << 8)) { /* 2: pkb-probe's */
                (void)fprintf(stderr, "sandbox_cost: wait status %x\n",
                              (unsigned)event.wait_status);
                exit(1);
            }
            box_kill(box);
        } else if (status == ERR_NOT_FOUND) {
            (void)poll(&watched, 1, -1);
        }
    }
    box_close(box);
    sandbox_close(sandbox);
    capture_release(&output);
    forget_words(&words);
    return end_ms - start_ms;
}

static int compare_numbers(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;

    return (a > b) - (a < b);
}

/* The median difference of pairs, the interval that holds it with 95 %, and that of the fastest,
 * which a busy machine disturbs least. */
static void compare(const char *name, enum sandbox_policy policy, unsigned waived, int pairs)
{
    static double with[PAIRS_MAX], without[PAIRS_MAX], difference[PAIRS_MAX];
    struct sandbox_node less = *test_node();

    less.waived |= waived;
    for (int i = 0; i < pairs; i++) {
        with[i] = start_once(test_node(), policy);
        without[i] = start_once(&less, policy);
        difference[i] = with[i] - without[i];
    }
    qsort(with, (size_t)pairs, sizeof *with, compare_numbers);
    qsort(without, (size_t)pairs, sizeof *without, compare_numbers);
    qsort(difference, (size_t)pairs, sizeof *difference, compare_numbers);
    int reach = 1;
    while (reach * reach < pairs) {
        reach++;
    }
    int low = pairs / 2 - reach < 0 ? 0 : pairs / 2 - reach;
    int high = pairs / 2 + reach >= pairs ? pairs - 1 : pairs / 2 + reach;
    (void)printf("%-6s %-11s costs %6.2f ms of %6.2f  (%.2f to %.2f, %d pairs; "
                 "fastest %.2f of %.2f)\n",
                 sandbox_policy_name(policy), name, difference[pairs / 2], with[pairs / 2],
                 difference[low], difference[high], pairs, with[0] - without[0], with[0]);
}

int main(int argc, char **argv)
{
    static const enum layer layers[] = {LAYER_UID, LAYER_USERNS, LAYER_SECCOMP, LAYER_CGROUP,
                                        LAYER_NAMESPACES};
    runs_nvcc = argc > 1 && strcmp(argv[1], "nvcc") == 0;
    const char *count = argc > 1 + runs_nvcc ? argv[1 + runs_nvcc] : runs_nvcc ? "60" : "100";
    long pairs = strtol(count, NULL, 10);

    if (pairs < 1 || pairs > PAIRS_MAX) {
        (void)fprintf(stderr, "usage: sandbox_cost [nvcc] [PAIRS]\n");
        return 2;
    }
    struct error err = {0};
    if (slot_take(&slot, test_node()->uid_base, &err) != OK) {
        give_up(&err);
    }
    if (runs_nvcc) {
        compare("nvcc, all", SANDBOX_BUILD, ~0U, (int)pairs);
        return 0;
    }
    for (int policy = SANDBOX_BUILD; policy <= SANDBOX_SIMD; policy++) {
        unsigned all = 0;
        for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
            all |= 1U << layers[i];
            compare(layer_name(layers[i]), (enum sandbox_policy)policy, 1U << layers[i],
                    (int)pairs);
        }
        compare("everything", (enum sandbox_policy)policy, all, (int)pairs);
    }
    return 0;
}
