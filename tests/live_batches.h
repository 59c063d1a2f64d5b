/* live_batches.h — batches sent to a real server (live_server.h), and a worker that ends jobs. */
#pragma once

#include "common/batch.h"
#include "server/queue.h"
#include "tests/live_server.h"

static inline void add_line(struct buffer *lines, const char *model, int task, int attempt)
{
    buffer_printf(lines,
                  "{\"task\":\"%d\",\"model\":\"%s\",\"attempt\":%d,\"world\":2,"
                  "\"source\":\"// %s %d %d\"}\n",
                  task, model, attempt, model, task, attempt);
}

/* Starts a batch under a key, of which `promised_bytes` will come. */
static inline int open_batch(const struct live *live, const char *token, const char *key,
                             size_t promised_bytes)
{
    struct buffer head = {0};
    int fd = live_connect(live);

    buffer_printf(&head,
                  "POST /v1/batches HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                  "Content-Type: application/jsonl\r\nContent-Length: %zu\r\n%s%s\r\n\r\n",
                  token, promised_bytes, key[0] == 0 ? "X-None: " : "Idempotency-Key: ", key);
    assert_true(live_send(fd, head.data, head.size_bytes));
    buffer_release(&head);
    return fd;
}

static inline void post(const struct live *live, const char *token, const char *key,
                        const struct buffer *lines, struct answer *answer)
{
    int fd = open_batch(live, token, key, lines->size_bytes);

    (void)live_send(fd, lines->data, lines->size_bytes); /* it may be refused early */
    assert_true(live_receive(fd, answer));
    close(fd);
}

static inline void read_answer(struct answer *answer, struct batch *batch)
{
    struct error err = {0};

    if (batch_read(batch, answer->body.data, answer->body.size_bytes, &err) != OK) {
        fail_msg("%d: %s in '%s'", answer->status, err.message, answer->body.data);
    }
    buffer_release(&answer->body);
}

static inline void get(struct live *live, const char *token, const char *path,
                       struct answer *answer)
{
    live_call(live, &(struct asked){.path = path, .token = token}, answer);
}

/* A worker's turn: leases a job of task 1 or so and ends it. */
static inline void run_job(struct live *live, const char *verdict, struct answer *answer)
{
    char id[ID_MAX];
    char path[128];
    char body[256];

    live_call(live,
              &(struct asked){.path = "/v1/workers/ada/lease",
                              .token = live->ada,
                              .body = "{\"kinds\":[\"sim\"],\"gpus\":8,\"wait_s\":0}"},
              answer);
    assert_int_equal(answer->status, 200);
    live_text(answer, "id", id, sizeof id);
    buffer_release(&answer->body);
    (void)snprintf(path, sizeof path, "/v1/jobs/%s/result", id);
    (void)snprintf(body, sizeof body,
                   "{\"worker\":\"ada\",\"epoch\":1,\"result\":{\"verdict\":\"%s\","
                   "\"build_ms\":1,\"run_ms\":1}}",
                   verdict);
    live_call(live, &(struct asked){.path = path, .token = live->ada, .body = body}, answer);
}

static inline void register_worker(struct live *live)
{
    struct answer answer = {0};

    live_call(live,
              &(struct asked){.path = "/v1/workers",
                              .token = live->ada,
                              .body = "{\"name\":\"ada\",\"version\":\"1\",\"devices\":[{\"kind\":"
                                      "\"sim\",\"gpus\":8}]}"},
              &answer);
    assert_int_equal(answer.status, 200);
    buffer_release(&answer.body);
}
