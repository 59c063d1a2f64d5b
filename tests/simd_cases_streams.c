/* Streams whose work is ordered, and streams whose work is not. */
#include "tests/cuda_cases.h"

#include <dlfcn.h>

enum { CALLS = 3, WORDS = 64 };

/* What a pkb_run has: its stream, another one, and memory. */
struct work {
    cudaStream_t run, side;
    cudaEvent_t event;
    int *words, *others;
};

static struct work make_work(unsigned side_flags)
{
    struct work work = {0};

    GOOD(cudaStreamCreateWithFlags(&work.run, cudaStreamNonBlocking));
    GOOD(cudaStreamCreateWithFlags(&work.side, side_flags));
    GOOD(cudaEventCreateWithFlags(&work.event, cudaEventDisableTiming));
    GOOD(cudaMalloc((void **)&work.words, WORDS * sizeof *work.words));
    GOOD(cudaMalloc((void **)&work.others, WORDS * sizeof *work.others));
    GOOD(cudaMemset(work.words, 0, WORDS * sizeof *work.words));
    GOOD(cudaMemset(work.others, 0, WORDS * sizeof *work.others));
    GOOD(cudaDeviceSynchronize());
    return work;
}

/* What pkb-rank does when a pkb_run has returned. */
static void end_call(const struct work *work)
{
    void (*call_ends)(void) = NULL;
    cudaEvent_t done = NULL;

    *(void **)&call_ends = dlsym(RTLD_DEFAULT, "pkb_sim_call_ends");
    EXPECT(call_ends == NULL, 0);
    if (call_ends != NULL) {
        call_ends();
    }
    GOOD(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    GOOD(cudaEventRecord(done, work->run));
    GOOD(cudaEventDestroy(done));
}

/* `after` waits for what is on `before` now. */
static void order(const struct work *work, cudaStream_t before, cudaStream_t after)
{
    GOOD(cudaEventRecord(work->event, before));
    GOOD(cudaStreamWaitEvent(after, work->event, 0));
}

static void repeat(void (*run)(const struct work *work), unsigned side_flags)
{
    struct work work = make_work(side_flags);

    for (int call = 0; call < CALLS; call++) {
        run(&work);
        end_call(&work);
    }
    GOOD(cudaDeviceSynchronize());
}

static void write_twice(const struct work *work)
{
    order(work, work->run, work->side);
    GOOD(launch_fill(work->words, 1, WORDS, work->run));
    GOOD(launch_fill(work->words, 2, WORDS, work->side));
    order(work, work->side, work->run);
}

static void two_streams_that_write_the_same_are_a_finding(int rank)
{
    (void)rank;
    repeat(write_twice, cudaStreamNonBlocking);
}

static void read_and_copy(const struct work *work)
{
    order(work, work->run, work->side);
    GOOD(cudaMemcpyAsync(work->others, work->words, WORDS, cudaMemcpyDeviceToDevice, work->side));
    GOOD(launch_fill(work->words, 1, WORDS, work->run));
    order(work, work->side, work->run);
}

static void a_copy_beside_a_kernel_is_a_finding(int rank)
{
    (void)rank;
    repeat(read_and_copy, cudaStreamNonBlocking);
}

static void set_and_count(const struct work *work)
{
    order(work, work->run, work->side);
    GOOD(cudaMemsetAsync(work->words, 0, WORDS, work->side));
    GOOD(launch_count_one(work->words, work->run));
    order(work, work->side, work->run);
}

static void counters_that_are_set_beside_atomics_are_a_finding(int rank)
{
    (void)rank;
    repeat(set_and_count, cudaStreamNonBlocking);
}

static void mix_legacy(const struct work *work)
{
    GOOD(cudaMemset(work->words, 0, WORDS));
    GOOD(launch_add_one(work->words, work->run));
    GOOD(cudaDeviceSynchronize());
}

static void the_legacy_stream_is_named(int rank)
{
    (void)rank;
    repeat(mix_legacy, cudaStreamNonBlocking);
}

static void leave_unjoined(const struct work *work)
{
    cudaStream_t own = NULL;

    GOOD(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
    order(work, work->run, own);
    GOOD(launch_fill(work->others, 1, WORDS, own));
    GOOD(cudaStreamDestroy(own));
    GOOD(launch_fill(work->words, 1, WORDS, work->run));
}

static void a_stream_that_is_destroyed_but_not_joined_is_a_finding(int rank)
{
    (void)rank;
    repeat(leave_unjoined, cudaStreamNonBlocking);
}

static void free_in_use(const struct work *work)
{
    int *words = NULL;

    GOOD(cudaMallocAsync((void **)&words, WORDS * sizeof *words, work->run));
    order(work, work->run, work->side);
    GOOD(cudaMemsetAsync(words, 1, WORDS, work->side));
    GOOD(cudaFreeAsync(words, work->run));
    order(work, work->side, work->run);
}

static void memory_that_another_stream_uses_is_not_to_be_freed(int rank)
{
    (void)rank;
    repeat(free_in_use, cudaStreamNonBlocking);
}

static void in_order(const struct work *work)
{
    cudaEvent_t event = NULL;

    GOOD(cudaEventCreate(&event));
    GOOD(launch_fill(work->words, 1, WORDS, work->run));
    GOOD(cudaEventRecord(event, work->run));
    GOOD(cudaStreamWaitEvent(work->side, event, 0));
    GOOD(cudaEventDestroy(event)); /* before it is reached: that is allowed */
    GOOD(launch_fill(work->words, 2, WORDS, work->side));
    GOOD(cudaEventRecord(work->event, work->side));
    GOOD(cudaEventSynchronize(work->event));
    GOOD(launch_fill(work->words, 3, WORDS, work->run));
    GOOD(cudaStreamSynchronize(work->run));
    GOOD(launch_fill(work->words, 4, WORDS, 0));
    while (cudaStreamQuery(0) == cudaErrorNotReady) {
    }
    GOOD(launch_fill(work->words, 5, WORDS, work->run));
    GOOD(launch_fill(work->others, 5, WORDS, work->side));
    GOOD(cudaDeviceSynchronize());
    GOOD(cudaMemcpyAsync(work->words, work->others, WORDS, cudaMemcpyDeviceToDevice, work->run));
}

static void events_and_the_host_order_streams(int rank)
{
    (void)rank;
    repeat(in_order, cudaStreamNonBlocking);
}

static void in_turn(const struct work *work)
{
    GOOD(cudaStreamSynchronize(work->run));
    GOOD(launch_fill(work->words, 1, WORDS, 0));
    GOOD(launch_fill(work->words, 2, WORDS, work->side));
    GOOD(launch_fill(work->words, 3, WORDS, 0));
    order(work, 0, work->run);
}

static void the_legacy_stream_and_a_blocking_one_take_turns(int rank)
{
    (void)rank;
    repeat(in_turn, cudaStreamDefault);
}

static void side_by_side(const struct work *work)
{
    order(work, work->run, work->side);
    GOOD(cudaMemsetAsync(work->words, 1, 2, work->run)); /* other bytes of one word */
    GOOD(cudaMemsetAsync((char *)work->words + 2, 1, 2, work->side));
    GOOD(launch_load(work->others, work->words + 1, work->run));
    GOOD(launch_load(work->others, work->words + 2, work->side));
    order(work, work->side, work->run);
}

static void streams_beside_each_other_are_no_finding(int rank)
{
    (void)rank;
    repeat(side_by_side, cudaStreamNonBlocking);
}

static void by_words(const struct work *work)
{
    static cuuint32_t turn;
    CUdeviceptr flag = (CUdeviceptr)(work->others + 1);

    turn++;
    order(work, work->run, work->side);
    GOOD(launch_fill(work->words, 1, WORDS, work->side));
    GOOD(cuStreamWriteValue32(work->side, flag, turn, 0));
    GOOD(cuStreamWaitValue32(work->run, flag, turn, CU_STREAM_WAIT_VALUE_EQ));
    GOOD(launch_fill(work->words, 2, WORDS, work->run));
}

static void words_that_streams_write_and_wait_for_order_them(int rank)
{
    (void)rank;
    repeat(by_words, cudaStreamNonBlocking);
}

/* Begins a capture on ctx->stream, which is then spoilt. */
static void begin_capture(const struct work *work)
{
    GOOD(cudaStreamBeginCapture(work->run, cudaStreamCaptureModeThreadLocal));
    GOOD(launch_add_one(work->words, work->run));
}

static void end_capture(const struct work *work, cudaError_t error)
{
    cudaGraph_t graph = NULL;

    EXPECT(cudaStreamEndCapture(work->run, &graph), error);
    EXPECT(graph != NULL, 0);
    (void)cudaGetLastError();
}

static void a_wait_in_a_capture_is_a_finding(int rank)
{
    struct work work = make_work(cudaStreamNonBlocking);

    (void)rank;
    begin_capture(&work);
    EXPECT(cudaStreamSynchronize(work.run), cudaErrorStreamCaptureUnsupported);
    end_capture(&work, cudaErrorStreamCaptureInvalidated);
}

static void the_legacy_stream_in_a_capture_is_a_finding(int rank)
{
    struct work work = {0};

    (void)rank;
    work = make_work(cudaStreamNonBlocking);
    GOOD(cudaStreamCreate(&work.run));
    begin_capture(&work);
    EXPECT(launch_add_one(work.words, 0), cudaErrorStreamCaptureImplicit);
    end_capture(&work, cudaErrorStreamCaptureInvalidated);
}

static void a_fork_that_a_capture_does_not_join_is_a_finding(int rank)
{
    struct work work = make_work(cudaStreamNonBlocking);

    (void)rank;
    begin_capture(&work);
    order(&work, work.run, work.side);
    GOOD(launch_add_one(work.words, work.side));
    end_capture(&work, cudaErrorStreamCaptureUnjoined);
}

static void an_event_from_outside_of_a_capture_is_a_finding(int rank)
{
    struct work work = make_work(cudaStreamNonBlocking);

    (void)rank;
    GOOD(cudaEventRecord(work.event, work.side));
    begin_capture(&work);
    EXPECT(cudaStreamWaitEvent(work.run, work.event, 0), cudaErrorStreamCaptureIsolation);
    end_capture(&work, cudaErrorStreamCaptureInvalidated);
}

static void a_captured_event_that_the_host_waits_for_is_a_finding(int rank)
{
    struct work work = make_work(cudaStreamNonBlocking);

    (void)rank;
    begin_capture(&work);
    GOOD(cudaEventRecord(work.event, work.run));
    EXPECT(cudaEventSynchronize(work.event), cudaErrorCapturedEvent);
    end_capture(&work, cudaErrorStreamCaptureInvalidated);
}

static void more_streams_than_are_followed_are_not_judged(int rank)
{
    enum { MANY = 300 };
    struct work work = make_work(cudaStreamNonBlocking);

    (void)rank;
    for (int i = 0; i < MANY; i++) {
        cudaStream_t stream = NULL;
        GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        GOOD(launch_fill(work.others, 1, 1, stream));
    }
    for (int call = 0; call < CALLS; call++) {
        write_twice(&work);
        end_call(&work);
    }
    GOOD(cudaDeviceSynchronize());
}

#define FOUND(name, text) CASE(name, 1, .report = (text))
#define NOTHING(name) CASE(name, 1, .absent = "\"findings\":[{")

const struct cuda_case cases_of_streams[] = {
    FOUND(two_streams_that_write_the_same_are_a_finding, "unordered_access"),
    FOUND(a_copy_beside_a_kernel_is_a_finding, "unordered_access"),
    FOUND(counters_that_are_set_beside_atomics_are_a_finding, "unordered_access"),
    FOUND(the_legacy_stream_is_named, "which a memset on the legacy default stream writes"),
    FOUND(a_stream_that_is_destroyed_but_not_joined_is_a_finding, "unjoined_work"),
    FOUND(memory_that_another_stream_uses_is_not_to_be_freed, "a free on ctx->stream writes"),
    FOUND(a_wait_in_a_capture_is_a_finding, "cudaErrorStreamCaptureUnsupported (pkb_run 1)"),
    FOUND(the_legacy_stream_in_a_capture_is_a_finding,
          "while stream 3 of the process was captured: cudaErrorStreamCaptureImplicit"),
    FOUND(a_fork_that_a_capture_does_not_join_is_a_finding, "capture_misuse"),
    FOUND(an_event_from_outside_of_a_capture_is_a_finding, "cudaErrorStreamCaptureIsolation"),
    FOUND(a_captured_event_that_the_host_waits_for_is_a_finding, "cudaErrorCapturedEvent"),
    NOTHING(events_and_the_host_order_streams),
    NOTHING(the_legacy_stream_and_a_blocking_one_take_turns),
    NOTHING(streams_beside_each_other_are_no_finding),
    NOTHING(words_that_streams_write_and_wait_for_order_them),
    NOTHING(more_streams_than_are_followed_are_not_judged),
    {0},
};
