/*
 * The kernels around a timed call, on the simulator: what they hide is what keystream.h says, what
 * they prove, too, and a gate lets through what it was told to.
 */
#include "worker/kernels.h"

#include "tests/sim_session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { BLOCKS = 300, WORDS = BLOCKS * KEYSTREAM_BLOCK_WORDS, STREAM = 77, ROUND = 5, PASSES = 3 };

static uint32_t plain[WORDS], got[WORDS];

/* ---- the client ---- */

static void need(int is_right, const char *what)
{
    if (!is_right) {
        (void)fprintf(stderr, "wrong: %s\n", what);
        exit(1);
    }
}

struct client {
    struct kernels *kernels;
    cudaStream_t stream;
    struct reveal_page *page; /* of pinned memory */
    struct kernels_scratch *scratch;
    uint32_t *words;
};

static void start(struct client *client)
{
    struct error err = {0};

    need(cudaSetDevice(0) == cudaSuccess && cudaFree(NULL) == cudaSuccess, "a context");
    need(kernels_load(&client->kernels, &err) == OK, err.message);
    need(cudaStreamCreateWithFlags(&client->stream, cudaStreamNonBlocking) == cudaSuccess,
         "a stream");
    need(cudaHostAlloc((void **)&client->page, sizeof *client->page, cudaHostAllocMapped) ==
             cudaSuccess,
         "pinned memory");
    need(cudaMalloc((void **)&client->scratch, sizeof *client->scratch) == cudaSuccess, "memory");
    need(cudaMalloc((void **)&client->words, sizeof plain) == cudaSuccess, "memory");
    memset(client->page, 0, sizeof *client->page);
    for (uint32_t i = 0; i < WORDS; i++) {
        plain[i] = i * 2654435761U;
    }
    need(cudaMemcpy(client->words, plain, sizeof plain, cudaMemcpyHostToDevice) == cudaSuccess,
         "a copy");
}

static void bring_back(const struct client *client)
{
    need(cudaStreamSynchronize(client->stream) == cudaSuccess, "the kernels");
    need(cudaMemcpy(got, client->words, sizeof got, cudaMemcpyDeviceToHost) == cudaSuccess,
         "a copy");
}

static void open_gate(const struct client *client, struct reveal_line *line)
{
    struct error err = {0};

    for (uint32_t i = 0; i < KEYSTREAM_KEY_WORDS; i++) {
        line->words[i] = i * 11 + 3;
    }
    line->words[REVEAL_PASSES] = PASSES;
    line->round = ROUND;
    need(kernels_gate(client->kernels, client->stream, line, ROUND, client->scratch, &err) == OK,
         err.message);
}

static void mask(const struct client *client)
{
    struct error err = {0};
    struct masking masking = {.to = (uint64_t)(uintptr_t)client->words,
                              .from = (uint64_t)(uintptr_t)client->words,
                              .size_bytes = sizeof plain,
                              .key = (uint64_t)(uintptr_t)client->scratch->words,
                              .stream = STREAM};

    need(kernels_mask(client->kernels, client->stream, &masking, &err) == OK, err.message);
    bring_back(client);
}

static void check_mask(const struct client *client)
{
    uint32_t blocks[PASSES][KEYSTREAM_BLOCK_WORDS];
    uint32_t key[KEYSTREAM_KEY_WORDS];

    open_gate(client, &client->page->key);
    mask(client);
    for (int i = 0; i < KEYSTREAM_KEY_WORDS; i++) {
        key[i] = client->page->key.words[i];
    }
    for (uint32_t i = 0; i < WORDS; i++) {
        uint32_t hidden = plain[i];
        for (uint64_t pass = 0; pass < PASSES; pass++) {
            if (i % KEYSTREAM_BLOCK_WORDS == 0) {
                keystream_block(key, STREAM, pass << 40 | i / KEYSTREAM_BLOCK_WORDS, blocks[pass]);
            }
            hidden ^= blocks[pass][i % KEYSTREAM_BLOCK_WORDS];
        }
        need(got[i] == hidden, "a hidden word");
    }
    mask(client);
    need(memcmp(got, plain, sizeof plain) == 0, "what was revealed");
}

/* The proof of two regions, the second half of the words and then the first. */
static uint64_t prove(const struct client *client, const uint32_t *nonce, uint64_t sample)
{
    uint64_t sum = 0;

    (void)client;
    for (uint64_t region = 0; region < 2; region++) {
        const uint32_t *words = plain + (1 - region) * (WORDS / 2);
        uint64_t count = sample < WORDS / 2 ? sample : WORDS / 2;
        for (uint64_t i = 0; i < count; i++) {
            uint64_t at = sample < WORDS / 2 ? possession_index(nonce, i, WORDS / 2) : i;
            need(at < WORDS / 2, "the index of a word");
            sum += possession_term(nonce, region * (WORDS / 2) + at, words[at]);
        }
    }
    return sum;
}

static void check_answer(const struct client *client, uint32_t round, uint64_t sample)
{
    struct reveal_answer *answer = &client->page->answers[3];
    uint64_t words = (uint64_t)(uintptr_t)client->words;
    struct answering answering = {.from = {words + sizeof plain / 2, words},
                                  .words = WORDS / 2,
                                  .sample = sample,
                                  .regions = 2,
                                  .round = round,
                                  .rank = 3};
    uint32_t nonce[KEYSTREAM_KEY_WORDS];
    struct error err = {0};

    for (uint32_t i = 0; i < KEYSTREAM_KEY_WORDS; i++) {
        client->page->nonce.words[i] = nonce[i] = i * 7 + round;
    }
    client->page->nonce.round = round;
    open_gate(client, &client->page->key);
    need(kernels_answer(client->kernels, client->stream, &answering, client->page, client->scratch,
                        &err) == OK,
         err.message);
    bring_back(client);
    need(answer->done == round, "the word that says done");
    need(answer->proved == round, "the word that says proved");
    need(answer->proof == prove(client, nonce, sample), "the proof");
    need(client->page->answers[2].done == 0, "the answer of another rank");
}

/* The judge's own sum is that of the answer. */
static void check_proof(const struct client *client)
{
    struct kernels_scratch scratch = {.words = {5, 4, 3, 2, 1}};
    struct proving proving = {.from = (uint64_t)(uintptr_t)client->words,
                              .words = WORDS,
                              .first = 1000,
                              .sample = 100,
                              .scratch = client->scratch};
    uint64_t sum = 0;
    struct error err = {0};

    need(cudaMemcpy(client->scratch, &scratch, sizeof scratch, cudaMemcpyHostToDevice) ==
             cudaSuccess,
         "a copy");
    need(kernels_prove(client->kernels, client->stream, &proving, &err) == OK, err.message);
    bring_back(client);
    need(cudaMemcpy(&scratch, client->scratch, sizeof scratch, cudaMemcpyDeviceToHost) ==
             cudaSuccess,
         "a copy");
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t at = possession_index(scratch.words, i, WORDS);
        sum += possession_term(scratch.words, 1000 + at, plain[at]);
    }
    need(scratch.sum == sum, "the judge's proof");
}

/* All blocks of it begin before the last of them ends. */
static void check_canary(const struct client *client)
{
    static const struct kernels_span none = {.first = UINT64_MAX, .least = UINT64_MAX};
    struct kernels_span *span = NULL;
    struct kernels_span seen = {0};
    struct error err = {0};

    need(cudaMalloc((void **)&span, sizeof *span) == cudaSuccess, "memory");
    need(cudaMemcpy(span, &none, sizeof none, cudaMemcpyHostToDevice) == cudaSuccess, "a copy");
    need(kernels_canary(client->kernels, client->stream, 1, span, &err) == OK, err.message);
    need(cudaStreamSynchronize(client->stream) == cudaSuccess, "the canary");
    need(cudaMemcpy(&seen, span, sizeof seen, cudaMemcpyDeviceToHost) == cudaSuccess, "a copy");
    need(seen.first <= seen.last, "the span of the canary");
    need(seen.least <= seen.last - seen.first, "the fastest block of the canary");
}

static int be_client(void)
{
    struct client client = {0};

    start(&client);
    check_mask(&client);
    check_answer(&client, ROUND, UINT64_MAX);
    check_answer(&client, ROUND + 1, 50);
    check_proof(&client);
    check_canary(&client);
    kernels_unload(client.kernels);
    return 0;
}

/* ---- the test ---- */

static void test_what_kernels_hide_and_prove_is_what_the_host_computes(void **state)
{
    struct sim_session session = {0};
    struct buffer report = {0};
    const char *build = getenv("BUILD");
    char image[4096];
    char *argv[] = {(char *)"/proc/self/exe", (char *)"client", NULL};
    int status = 0;

    (void)state;
    (void)snprintf(image, sizeof image, "%s/tests/kernels_image.o", build ? build : "build");
    sim_start(&session, &(struct sim_settings){
                            .ranks = 1, .image = image, .seed = 1, .fuel = UINT64_C(1000000000)});
    sim_spawn(&session, 0, argv, STDERR_FILENO);
    (void)sim_finish(&session, &status, &report);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail_msg("the client ended with %#x: %s", status, report.data ? report.data : "");
    }
    buffer_release(&report);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_kernels_hide_and_prove_is_what_the_host_computes),
    };

    if (argc == 2 && strcmp(argv[1], "client") == 0) {
        return be_client();
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
