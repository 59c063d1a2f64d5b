/* Streams that capture: what they are told goes to a graph. */
#include "sim/cuda_graph.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct capture {
    struct capture *next;
    struct CUgraph_st *graph;
    uint64_t id, origin; /* the stream that it began on */
    CUstreamCaptureMode mode;
    pthread_t thread;
    CUresult spoilt;
};

/* The last nodes of a stream that captures, or those that an event stands behind. */
struct tail {
    struct tail *next;
    uint64_t id;
    bool is_event;
    struct capture *capture;
    struct CUgraphNode_st **nodes;
    size_t count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct capture *captures;
static struct tail *tails;
static atomic_int capture_count;
static uint64_t last_id;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

bool capture_is_any(void)
{
    return atomic_load(&capture_count) > 0;
}

/* All below with the lock held, where they are static. */
static struct tail *find_tail(uint64_t id, bool is_event)
{
    struct tail *tail = tails;

    while (tail && (tail->id != id || tail->is_event != is_event)) {
        tail = tail->next;
    }
    return tail;
}

bool capture_is_on(uint64_t stream)
{
    if (!capture_is_any() || stream == WIRE_STREAM_LEGACY) {
        return false;
    }
    pthread_mutex_lock(&lock);
    bool is_on = find_tail(stream, false) != NULL;
    pthread_mutex_unlock(&lock);
    return is_on;
}

/* Tells the simulator what the program did wrong. */
static void tell(const struct capture *capture, CUresult result)
{
    (void)link_send(&(struct wire_request){
        .op = WIRE_CAPTURE_SPOILT, .stream = capture->origin, .spoilt.result = (int32_t)result});
}

static CUresult spoil(struct capture *capture, CUresult result)
{
    tell(capture, result);
    capture->spoilt = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    return result;
}

static struct tail *make_tail(uint64_t id, bool is_event, struct capture *capture)
{
    struct tail *tail = calloc(1, sizeof *tail);

    if (tail) {
        *tail = (struct tail){.next = tails, .id = id, .is_event = is_event, .capture = capture};
        tails = tail;
    }
    return tail;
}

static bool tail_has(const struct tail *tail, const struct CUgraphNode_st *node)
{
    for (size_t i = 0; i < tail->count; i++) {
        if (tail->nodes[i] == node) {
            return true;
        }
    }
    return false;
}

static bool tail_add(struct tail *tail, struct CUgraphNode_st *node)
{
    if (tail_has(tail, node)) {
        return true;
    }
    struct CUgraphNode_st **grown =
        realloc(tail->nodes, (tail->count + 1) * sizeof(struct CUgraphNode_st *));
    if (!grown) {
        return false;
    }
    tail->nodes = grown;
    tail->nodes[tail->count++] = node;
    return true;
}

static void free_tails(const struct capture *capture)
{
    struct tail **link = &tails;

    while (*link) {
        struct tail *tail = *link;
        if (tail->capture == capture) {
            *link = tail->next;
            free(tail->nodes);
            free(tail);
        } else {
            link = &tail->next;
        }
    }
}

static CUresult add(uint64_t stream, CUgraphNodeType type, enum node_kind kind,
                    struct CUgraphNode_st **node)
{
    struct tail *tail = find_tail(stream, false);

    if (!tail || tail->capture->spoilt) {
        return tail ? tail->capture->spoilt : CUDA_ERROR_ILLEGAL_STATE;
    }
    struct CUgraphNode_st *made = graph_add(tail->capture->graph, type, kind);
    CUresult result = made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; !result && i < tail->count; i++) {
        result = node_need(made, tail->nodes[i]);
    }
    if (!result) {
        tail->count = 0;
        result = tail_add(tail, made) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    *node = made;
    return result ? spoil(tail->capture, result) : CUDA_SUCCESS;
}

CUresult capture_add(uint64_t stream, CUgraphNodeType type, enum node_kind kind,
                     struct CUgraphNode_st **node)
{
    pthread_mutex_lock(&lock);
    CUresult result = add(stream, type, kind, node);
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult capture_request(CUgraphNodeType type, const struct wire_request *request)
{
    struct CUgraphNode_st *node = NULL;
    CUresult result = capture_add(request->stream, type, NODE_REQUEST, &node);

    if (!result) {
        node->request = *request;
        node->device = request->device;
    }
    return result;
}

CUresult capture_copy(const struct copy *copy, int device)
{
    struct CUgraphNode_st *node = NULL;
    CUresult result = capture_add(copy->stream, CU_GRAPH_NODE_TYPE_MEMCPY, NODE_COPY, &node);

    if (!result) {
        node->copy = *copy;
        node->device = device;
    }
    return result;
}

/* An event recorded by a capture is a place in its graph; recorded elsewhere it is that no more. */
bool capture_record(uint64_t event, uint64_t stream, CUresult *result)
{
    bool is_captured = false;

    if (!capture_is_any()) {
        return false;
    }
    pthread_mutex_lock(&lock);
    struct tail *place = find_tail(event, true);
    const struct tail *tail = stream ? find_tail(stream, false) : NULL;
    if (place) {
        place->count = 0;
        place->capture = tail ? tail->capture : NULL;
    }
    if (tail) {
        is_captured = true;
        place = place ? place : make_tail(event, true, tail->capture);
        *result = tail->capture->spoilt;
        for (size_t i = 0; place && i < tail->count; i++) {
            if (!tail_add(place, tail->nodes[i])) {
                *result = CUDA_ERROR_OUT_OF_MEMORY;
            }
        }
    }
    pthread_mutex_unlock(&lock);
    return is_captured;
}

bool capture_wait(uint64_t stream, uint64_t event, CUresult *result)
{
    bool is_captured = true;

    if (!capture_is_any()) {
        return false;
    }
    pthread_mutex_lock(&lock);
    const struct tail *place = find_tail(event, true);
    struct tail *tail = stream ? find_tail(stream, false) : NULL;
    if (!place || !place->capture) {
        /* A capture cannot wait for what is outside of it. */
        is_captured = tail != NULL;
        if (tail) {
            *result = spoil(tail->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        }
    } else if (stream == WIRE_STREAM_LEGACY) {
        *result = spoil(place->capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    } else if (tail && tail->capture != place->capture) {
        *result = spoil(tail->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    } else {
        *result = place->capture->spoilt;
        tail = tail ? tail : make_tail(stream, false, place->capture);
        for (size_t i = 0; i < place->count; i++) {
            if (!tail || !tail_add(tail, place->nodes[i])) {
                *result = CUDA_ERROR_OUT_OF_MEMORY;
            }
        }
    }
    pthread_mutex_unlock(&lock);
    return is_captured;
}

/* ---- what a capture forbids ---- */

CUresult capture_forbids(uint64_t stream)
{
    CUresult result = CUDA_SUCCESS;

    if (!capture_is_any()) {
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&lock);
    for (struct tail *tail = tails; tail; tail = tail->next) {
        bool is_meant = stream == WIRE_STREAM_LEGACY
                            ? !tail->is_event && stream_is_blocking(tail->id)
                            : !tail->is_event && tail->id == stream;
        if (is_meant && tail->capture) {
            result = spoil(tail->capture, stream == WIRE_STREAM_LEGACY
                                              ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
                                              : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult capture_forbids_event(uint64_t event)
{
    CUresult result = CUDA_SUCCESS;

    if (!capture_is_any()) {
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&lock);
    const struct tail *place = find_tail(event, true);
    if (place && place->capture) {
        result = spoil(place->capture, CUDA_ERROR_CAPTURED_EVENT);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult capture_forbids_unsafe(void)
{
    CUresult result = CUDA_SUCCESS;

    if (!capture_is_any() || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&lock);
    for (struct capture *capture = captures; capture; capture = capture->next) {
        bool is_mine = pthread_equal(capture->thread, pthread_self());
        if (capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
            (capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && is_mine)) {
            result = spoil(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode before = thread_mode;

    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

/* ---- begin and end ---- */

static CUresult begin(uint64_t stream, CUstreamCaptureMode mode)
{
    struct capture *capture = calloc(1, sizeof *capture);
    struct CUgraph_st *graph = calloc(1, sizeof *graph);

    if (!capture || !graph || !make_tail(stream, false, capture)) {
        free(capture);
        free(graph);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *capture = (struct capture){.next = captures,
                                .graph = graph,
                                .id = ++last_id,
                                .origin = stream,
                                .mode = mode,
                                .thread = pthread_self()};
    captures = capture;
    atomic_fetch_add(&capture_count, 1);
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    uint64_t id = 0;
    CUresult result = stream_id(stream, &id);

    if (result || mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    if (id == WIRE_STREAM_LEGACY) {
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    pthread_mutex_lock(&lock);
    result = find_tail(id, false) ? CUDA_ERROR_ILLEGAL_STATE : begin(id, mode);
    pthread_mutex_unlock(&lock);
    return result;
}

/* Whether all that the capture's other streams did leads to its first stream. */
static bool is_joined(const struct capture *capture, const struct tail *origin)
{
    struct CUgraph_st *graph = capture->graph;

    for (size_t i = 0; i < graph->node_count; i++) {
        graph->nodes[i]->is_marked = false;
    }
    for (size_t i = 0; i < graph->node_count; i++) {
        for (size_t j = 0; j < graph->nodes[i]->need_count; j++) {
            graph->nodes[i]->needs[j]->is_marked = true; /* something follows it */
        }
    }
    bool joined = true;
    for (size_t i = 0; i < graph->node_count; i++) {
        joined &= graph->nodes[i]->is_marked || tail_has(origin, graph->nodes[i]);
        graph->nodes[i]->is_marked = false;
    }
    return joined;
}

static CUresult end(uint64_t stream, CUgraph *graph)
{
    const struct tail *tail = find_tail(stream, false);
    struct capture *capture = tail ? tail->capture : NULL;
    struct capture **link = &captures;

    if (!capture) {
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    if (capture->origin != stream) {
        return spoil(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        !pthread_equal(capture->thread, pthread_self())) {
        tell(capture, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    CUresult result = capture->spoilt;
    if (!result && !is_joined(capture, tail)) {
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        tell(capture, result);
    }
    *graph = result ? NULL : capture->graph;
    if (result) {
        graph_free(capture->graph);
    }
    while (*link != capture) {
        link = &(*link)->next;
    }
    *link = capture->next;
    free_tails(capture);
    free(capture);
    atomic_fetch_sub(&capture_count, 1);
    return result;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    uint64_t id = 0;
    CUresult result = stream_id(stream, &id);

    if (result || !graph) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    result = end(id, graph);
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *capture,
                                CUgraph *graph, const CUgraphNode **nodes,
                                const CUgraphEdgeData **edges, size_t *count)
{
    uint64_t id = 0;
    CUresult result = stream_id(stream, &id);

    if (result || !status) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    const struct tail *tail = id ? find_tail(id, false) : NULL;
    *status = !tail                   ? CU_STREAM_CAPTURE_STATUS_NONE
              : tail->capture->spoilt ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                      : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (tail && capture) {
        *capture = tail->capture->id;
    }
    if (tail && graph) {
        *graph = tail->capture->graph;
    }
    if (tail && nodes) {
        *nodes = (const CUgraphNode *)tail->nodes;
    }
    if (tail && count) {
        *count = tail->count;
    }
    if (edges) {
        *edges = NULL;
    }
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    return cuStreamGetCaptureInfo(stream, status, NULL, NULL, NULL, NULL, NULL);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes,
                                           const CUgraphEdgeData *edges, size_t count,
                                           unsigned int flags)
{
    uint64_t id = 0;
    CUresult result = stream_id(stream, &id);

    (void)edges;
    pthread_mutex_lock(&lock);
    struct tail *tail = result || !id ? NULL : find_tail(id, false);
    if (!tail || tail->capture->spoilt || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
        result = result ? result : CUDA_ERROR_ILLEGAL_STATE;
    } else if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
        tail->count = 0;
    }
    for (size_t i = 0; !result && i < count; i++) {
        bool added = node_is_in(tail->capture->graph, nodes[i]) && tail_add(tail, nodes[i]);
        result = added ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&lock);
    return result;
}
