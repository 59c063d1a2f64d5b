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

enum { BLOCKS = 300, WORDS = BLOCKS * KEYSTREAM_BLOCK_WORDS, STREAM = 77, ROUND = 5 };

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
    uint32_t block[KEYSTREAM_BLOCK_WORDS];
    uint32_t key[KEYSTREAM_KEY_WORDS];

    open_gate(client, &client->page->key);
    mask(client);
    for (int i = 0; i < KEYSTREAM_KEY_WORDS; i++) {
        key[i] = client->page->key.words[i];
    }
    for (uint32_t i = 0; i < WORDS; i++) {
        if (i % KEYSTREAM_BLOCK_WORDS == 0) {
            keystream_block(key, STREAM, i / KEYSTREAM_BLOCK_WORDS, block);
        }
        need(got[i] == (plain[i] ^ block[i % KEYSTREAM_BLOCK_WORDS]), "a hidden word");
    }
    mask(client);
    need(memcmp(got, plain, sizeof plain) == 0, "what was revealed");
}

static void check_proof(const struct client *client)
{
    struct reveal_answer *answer = &client->page->answers[3];
    struct proving proving = {.from = (uint64_t)(uintptr_t)client->words,
                              .size_bytes = sizeof plain,
                              .first = 1000,
                              .scratch = client->scratch};
    uint32_t nonce[KEYSTREAM_KEY_WORDS];
    uint64_t sum = 0;
    struct error err = {0};

    need(kernels_done(client->kernels, client->stream, answer, ROUND, &err) == OK, err.message);
    open_gate(client, &client->page->nonce);
    need(kernels_prove(client->kernels, client->stream, &proving, &err) == OK, err.message);
    need(kernels_proved(client->kernels, client->stream, answer, ROUND, client->scratch, &err) ==
             OK,
         err.message);
    bring_back(client);
    for (int i = 0; i < KEYSTREAM_KEY_WORDS; i++) {
        nonce[i] = client->page->nonce.words[i];
    }
    for (uint32_t i = 0; i < WORDS; i++) {
        sum += possession_term(nonce, 1000 + i, plain[i]);
    }
    need(answer->done == ROUND, "the word that says done");
    need(answer->proved == ROUND, "the word that says proved");
    need(answer->proof == sum, "the proof");
    need(client->page->answers[2].done == 0, "the answer of another rank");
}

static int be_client(void)
{
    struct client client = {0};
    struct error err = {0};

    start(&client);
    check_mask(&client);
    check_proof(&client);
    need(kernels_canary(client.kernels, client.stream, 1, client.scratch, &err) == OK, err.message);
    bring_back(&client);
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
