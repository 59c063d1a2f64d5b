#include "sim/report.h"

#include "common/log.h"
#include "common/mem.h"
#include "sim/client.h"
#include "sim/stream.h"
#include "sim/work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Writes one line; the worker is trusted to read. */
static void write_line(struct machine *machine, const struct result *result)
{
    struct buffer json = {0};
    size_t done = 0;

    result_write(result, &json);
    buffer_append(&json, "\n", 1);
    while (done < json.size_bytes) {
        ssize_t written =
            write(machine->options.report_fd, json.data + done, json.size_bytes - done);
        if (written < 0 && errno != EINTR) {
            log_event(LOG_ERROR, "simd.report", "error=%m");
            break;
        }
        done += written < 0 ? 0 : (size_t)written;
    }
    buffer_release(&json);
}

static char *copy_text(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

void report_fault(struct client *client, const struct fault *fault)
{
    struct result result = {.verdict = VERDICT_RUNTIME_ERROR, .rank = client->rank};

    result.reason = copy_text(fault->kind);
    result.message = copy_text(fault->message);
    result_add_fault(&result, (struct fault){.rank = client->rank,
                                             .kind = copy_text(fault->kind),
                                             .kernel = copy_text(fault->kernel),
                                             .source = copy_text(fault->source),
                                             .cta = fault->cta,
                                             .warp = fault->warp,
                                             .lane = fault->lane,
                                             .address = copy_text(fault->address),
                                             .message = copy_text(fault->message)});
    write_line(client->machine, &result);
    result_release(&result);
}

void report_fault_call(struct client *client, const char *kind, const char *message)
{
    struct fault fault = {
        .cta = -1, .warp = -1, .lane = -1, .kind = xstrdup(kind), .message = xstrdup(message)};

    report_fault(client, &fault);
    fault_release(&fault);
}

/* "file.cu:12" of "op (kernel NAME, file.cu:12)", or NULL. */
static char *source_of(const char *what)
{
    const char *comma = strrchr(what, ',');
    size_t length = comma ? strlen(comma) : 0;

    return length > 3 && comma[length - 1] == ')' ? xstrndup(comma + 2, length - 3) : NULL;
}

void report_not_simulable(struct client *client, const char *what, const char *kernel)
{
    struct result result = {.verdict = VERDICT_NOT_SIMULABLE, .rank = client->rank};

    if (client->refused_count == MACHINE_REFUSED_MAX) {
        return;
    }
    for (int i = 0; i < client->refused_count; i++) {
        if (strcmp(client->refused[i], what) == 0) {
            return;
        }
    }
    client->refused[client->refused_count++] = xstrdup(what);
    result.message = xasprintf("not simulable: %s", what);
    if (kernel) {
        result_add_fault(&result, (struct fault){.rank = client->rank,
                                                 .kind = xstrdup("not_simulable"),
                                                 .kernel = xstrdup(kernel),
                                                 .source = source_of(what),
                                                 .cta = -1,
                                                 .warp = -1,
                                                 .lane = -1});
    }
    write_line(client->machine, &result);
    result_release(&result);
}

static const char *call_name(uint32_t op)
{
    static const char *const names[WIRE_OP_COUNT] = {
#define X(name, call) [WIRE_##name] = (call),
        WIRE_OPS(X)
#undef X
    };
    return op < WIRE_OP_COUNT ? names[op] : "";
}

static const char *const compare_names[WIRE_COMPARES] = {
    [WIRE_GEQ] = ">=", [WIRE_EQ] = "==", [WIRE_AND] = "&", [WIRE_NOR] = "~|"};

/* A stream that waits for a word: the place of a rank that is in no kernel. */
static void add_value_wait(struct result *result, const struct client *client,
                           const struct item *item)
{
    const struct wire_value *value = &item->value;
    const struct region *region = region_find(client, value->address);
    const uint8_t *word = work_word(client, value, MAP_READ);
    uint64_t now = 0;

    if (word) {
        memcpy(&now, word, value->width_bytes);
    }
    uint64_t offset = region ? value->address - region->address : 0;
    int owner = region ? region->object->device : -1;
    result_add_wait(
        result,
        (struct wait){.rank = client->rank,
                      .where = xasprintf("cuStreamWaitValue%u", value->width_bytes * 8),
                      .cta = -1,
                      .warp = -1,
                      .owner = owner,
                      .address =
                          region ? xasprintf("rank %d %s+%lu", owner, region->label, offset) : NULL,
                      .value = xasprintf("%lu", now),
                      .wanted = xasprintf("%s %lu", compare_names[value->compare], value->value)});
}

static bool has_grid(const struct client *client)
{
    for (const struct stream *stream = client->streams; stream; stream = stream->next) {
        if (stream->head && stream->head->grid) {
            return true;
        }
    }
    return false;
}

/* Where a rank that has no kernel running stands. */
static void add_host_wait(struct result *result, const struct client *client)
{
    const char *where = "host";

    for (const struct stream *stream = client->streams; stream; stream = stream->next) {
        if (stream->head && stream->head->kind == ITEM_WAIT_VALUE) {
            add_value_wait(result, client, stream->head);
            return;
        }
    }
    for (const struct channel *channel = client->channels; channel; channel = channel->next) {
        if (channel->is_pending && channel->waiting.kind != WAIT_HOST) {
            where = call_name(channel->request.op);
            break;
        }
    }
    result_add_wait(
        result,
        (struct wait){
            .rank = client->rank, .where = xstrdup(where), .cta = -1, .warp = -1, .owner = -1});
}

void report_stuck(struct machine *machine, enum verdict verdict, const char *reason)
{
    struct result result = {.verdict = verdict, .rank = -1};

    engine_waits(machine->engine, &result.waits, &result.wait_count);
    for (int i = 0; i < machine->client_count; i++) {
        const struct client *client = &machine->clients[i];
        if (client->is_open && client->rank >= 0 && !has_grid(client)) {
            add_host_wait(&result, client);
        }
    }
    char *residency = verdict == VERDICT_DEADLOCK ? engine_residency(machine->engine) : NULL;
    if (reason || residency) {
        result.reason = xstrdup(reason ? reason : "residency");
    }
    result.message = residency
                         ? residency
                         : xasprintf(verdict == VERDICT_DEADLOCK
                                         ? "no rank can go on: %zu places where one waits"
                                         : "the fuel is used up: %zu places where a rank stands",
                                     result.wait_count);
    write_line(machine, &result);
    result_release(&result);
}

void report_finding(struct client *client, const char *kind, const char *message)
{
    struct finding finding = {
        .kind = xstrdup(kind), .rank = client->rank, .message = xstrdup(message)};

    if (result_has_finding(&client->machine->last, &finding)) {
        finding_release(&finding);
    } else {
        result_add_finding(&client->machine->last, finding);
    }
}

void report_last(struct machine *machine)
{
    engine_report(machine->engine, &machine->last);
    write_line(machine, &machine->last);
}
