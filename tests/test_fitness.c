/*
 * Whether a node may take a job: the gate, the driver's errors, and what follows of them. A script
 * stands in for pkb-judge, a pipe for the kernel's log.
 */
#include "worker/fitness.h"

#include "worker/loop.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { UID_BASE = 71000, LATE_MS = 30000 };

static char folder[] = "/tmp/test_fitness.XXXXXX";
static char judge[64], kmsg[64], answers[64];
static struct sandbox_node node;
static struct devices first;
static struct fitness *fitness;
static enum worker_state wanted;
static const char *wanted_reason;
static bool busy, is_late;
static int failed_count;

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fprintf(file, "%s", text) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(judge, sizeof judge, "%s/pkb-judge", folder);
    (void)snprintf(kmsg, sizeof kmsg, "%s/kmsg", folder);
    (void)snprintf(answers, sizeof answers, "%s/answers", folder);
    node = (struct sandbox_node){.bin_dir = folder,
                                 .cuda_home = "/usr/local/cuda",
                                 .work_dir = folder,
                                 .uid_base = UID_BASE};
    first = (struct devices){
        .ranks = 1, .gpu_count = 1, .gpu = {{{0, 0x1b, 0}, INT64_C(1) << 30, "GPU-a"}}};
    return mkfifo(kmsg, 0600);
}

static int remove_folder(void **state)
{
    (void)state;
    (void)unlink(judge);
    (void)unlink(kmsg);
    (void)unlink(answers);
    return rmdir(folder);
}

/* What pkb-judge says of the GPUs from now on; --xids watches and tells nothing. */
static void pretend(const char *devices)
{
    char script[512];

    (void)snprintf(
        script, sizeof script,
        "#!/bin/sh\n[ \"$1\" = --devices ] || { echo watching 1; exec sleep 100; }\n%s\n", devices);
    write_file(judge, script);
    assert_int_equal(chmod(judge, 0700), 0);
}

static const char clean[] = "echo 'gpu 0000:1b:00.0 1073741824 GPU-a'; echo 1";

static void look_whether_it_is_so(void)
{
    if (fitness_is_known(fitness) && fitness_state(fitness) == wanted &&
        strstr(fitness_reason(fitness), wanted_reason) != NULL) {
        loop_stop();
    }
}

static void on_changed(void *context)
{
    (void)context;
    if (fitness != NULL) {
        look_whether_it_is_so();
    }
}

static void on_failed(void *context)
{
    (void)context;
    failed_count++;
}

static bool is_busy(void *context)
{
    (void)context;
    return busy;
}

static void on_late(void *context)
{
    (void)context;
    is_late = true;
    loop_stop();
}

/* Runs the loop until the node is so. */
static void await(enum worker_state state, const char *reason)
{
    struct loop_timer *late = loop_timer_open(LATE_MS, 0, on_late, NULL);

    wanted = state;
    wanted_reason = reason;
    is_late = false;
    if (!fitness_is_known(fitness) || fitness_state(fitness) != wanted ||
        strstr(fitness_reason(fitness), reason) == NULL) {
        loop_run();
    }
    loop_timer_close(late);
    if (is_late) {
        fail_msg("the node is %s (%s), not %s (%s)", worker_state_name(fitness_state(fitness)),
                 fitness_reason(fitness), worker_state_name(state), reason);
    }
}

static struct fitness_options options_of(enum device_kind device)
{
    return (struct fitness_options){.gate = {.node = &node, .device = device, .first = &first},
                                    .kmsg = kmsg,
                                    .has_events = device != DEVICE_SIM,
                                    .again_ms = 20,
                                    .limit_ms = 60000,
                                    .is_busy = is_busy,
                                    .changed = on_changed,
                                    .failed = on_failed};
}

static void start(const struct fitness_options *options)
{
    struct error err = {0};

    failed_count = 0;
    busy = false;
    assert_int_equal(fitness_open(&fitness, options, &err), OK);
}

static void stop(void)
{
    fitness_close(fitness);
    fitness = NULL;
}

static void say_of(int bus, int xid)
{
    char record[96];
    int length =
        snprintf(record, sizeof record, "3,1,2,-;NVRM: Xid (PCI:0000:%02x:00): %d, x\n", bus, xid);
    int fd = open(kmsg, O_WRONLY | O_CLOEXEC);

    assert_int_equal(write(fd, record, (size_t)length), length);
    close(fd);
}

static void say(int xid)
{
    say_of(0x1b, xid);
}

static void test_a_node_is_ready_once_it_has_passed_the_gate(void **state)
{
    struct fitness_options options = options_of(DEVICE_CUDA);

    (void)state;
    pretend(clean);
    start(&options);
    assert_false(fitness_is_known(fitness));
    await(WORKER_READY, "");
    assert_int_equal(fitness_failures(fitness), 0);
    stop();
}

static void test_what_keeps_a_node_from_passing_is_its_reason_until_it_does(void **state)
{
    static const char *const rows[][2] = {
        {"echo 'pkb-judge: GPU 0 is in use: 1 processes that are not ours' >&2; exit 1",
         "GPU 0 is in use"},
        {"echo 'pkb-judge: GPU 0 cannot run a kernel: unknown error' >&2; exit 1",
         "cannot run a kernel"},
        {"echo 'gpu 0000:1b:00.0 1573741824 GPU-a'; echo 1", "476 MiB more of GPU 0's memory"},
        {"echo 'gpu 0000:1b:00.0 1073741824 GPU-b'; echo 1", "now it is GPU-b"},
        {"kill -9 $$", "without a word"},
    };
    struct fitness_options options = options_of(DEVICE_CUDA);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pretend(rows[i][0]);
        start(&options);
        await(WORKER_DRAINING, rows[i][1]);
        pretend(clean);
        await(WORKER_READY, "");
        stop();
    }
}

static void test_one_that_drains_for_too_long_is_quarantined_until_it_is_lifted(void **state)
{
    struct fitness_options options = options_of(DEVICE_CUDA);

    (void)state;
    options.limit_ms = 50;
    pretend("exit 1");
    start(&options);
    await(WORKER_QUARANTINED, "without a word");
    pretend(clean);
    fitness_idle(fitness);
    fitness_conclude(fitness, OK, NULL);
    assert_int_equal(fitness_state(fitness), WORKER_QUARANTINED);
    fitness_lift(fitness);
    assert_int_equal(fitness_state(fitness), WORKER_DRAINING);
    await(WORKER_READY, "");
    stop();
}

/* What follows of each class of errors. */
static void test_errors_of_gpus_do_what_the_table_says(void **state)
{
    struct fitness_options options = options_of(DEVICE_CUDA);

    (void)state;
    pretend(clean);
    start(&options);
    await(WORKER_READY, "");
    say(31);
    say(94);
    await(WORKER_DRAINING, "Xid 94 of GPU 0000:1b:00");
    assert_int_equal(failed_count, 1); /* 31 is the submission's own */
    assert_non_null(strstr(fitness_failure(fitness), "Xid 94"));
    await(WORKER_READY, "");
    say(63);
    await(WORKER_QUARANTINED, "Xid 63");
    assert_int_equal(failed_count, 1); /* the job ends as it would */
    fitness_lift(fitness);
    await(WORKER_READY, "");
    say(4711);
    await(WORKER_DRAINING, "Xid 4711 of GPU 0000:1b:00: an error that this program does not know");
    await(WORKER_READY, "");
    say(79);
    await(WORKER_QUARANTINED, "Xid 79");
    assert_int_equal(failed_count, 3);
    assert_int_equal(fitness_failures(fitness), 3);
    stop();
}

static void test_errors_of_gpus_that_are_not_ours_do_nothing(void **state)
{
    struct fitness_options options = options_of(DEVICE_CUDA);

    (void)state;
    pretend(clean);
    start(&options);
    await(WORKER_READY, "");
    say_of(0x1c, 79);
    say(94);
    await(WORKER_DRAINING, "Xid 94");
    assert_int_equal(fitness_failures(fitness), 1);
    stop();
}

static void test_the_gpus_of_a_busy_node_are_left_alone(void **state)
{
    struct fitness_options options = options_of(DEVICE_CUDA);
    char script[128];
    struct stat info = {0};

    (void)state;
    pretend(clean);
    start(&options);
    await(WORKER_READY, "");
    busy = true;
    (void)snprintf(script, sizeof script, "touch %s; %s", answers, clean);
    pretend(script);
    say(94);
    await(WORKER_DRAINING, "Xid 94");
    assert_int_equal(stat(answers, &info), -1);
    busy = false;
    fitness_idle(fitness);
    await(WORKER_READY, "");
    assert_int_equal(stat(answers, &info), 0);
    stop();
}

static void test_a_node_whose_errors_nobody_sees_does_not_start(void **state)
{
    struct fitness_options options = options_of(DEVICE_CUDA);
    struct error err = {0};

    (void)state;
    write_file(judge, "#!/bin/sh\necho 'the driver has no libnvidia-ml.so.1'; exit 1\n");
    options.kmsg = NULL;
    assert_int_equal(fitness_open(&fitness, &options, &err), ERR_UNAVAILABLE);
    assert_string_equal(err.message, "the driver has no libnvidia-ml.so.1");
    options.kmsg = "/nonexistent";
    assert_int_equal(fitness_open(&fitness, &options, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "--kmsg none"));
    fitness = NULL;
}

static void test_one_that_loses_sight_of_errors_is_quarantined(void **state)
{
    struct fitness_options options = options_of(DEVICE_CUDA);
    char script[512];

    (void)state;
    (void)snprintf(script, sizeof script,
                   "#!/bin/sh\n[ \"$1\" = --devices ] && { %s; exit; }\n"
                   "echo watching 1; echo xid 0000:1b:00 94; echo; echo xid 0000:1b:00 x\n",
                   clean);
    write_file(judge, script);
    assert_int_equal(chmod(judge, 0700), 0);
    options.kmsg = NULL;
    start(&options);
    await(WORKER_QUARANTINED, "cannot be seen any more");
    assert_int_equal(fitness_failures(fitness), 1); /* said before it ended */
    stop();
}

static enum status looked;
static char looked_message[ERROR_MESSAGE_MAX];

static void on_looked(void *context, enum status status, const struct error *err)
{
    (void)context;
    looked = status;
    (void)snprintf(looked_message, sizeof looked_message, "%s", err->message);
    loop_stop();
}

static void look_at(const struct slot_lease *slot, int64_t disk_min_bytes)
{
    struct gate_options options = {
        .node = &node, .device = DEVICE_SIM, .first = &first, .disk_min_bytes = disk_min_bytes};
    struct gate_question question = {.slot = slot, .has_gpus = true, .done = on_looked};
    struct gate *gate = NULL;

    gate_open(&gate, &options, &question);
    loop_run();
    gate_close(gate);
}

static void test_a_disk_without_room_is_named(void **state)
{
    (void)state;
    look_at(NULL, 1);
    assert_int_equal(looked, OK);
    look_at(NULL, INT64_C(1) << 60);
    assert_int_equal(looked, ERR_LIMIT);
    assert_non_null(strstr(looked_message, "1099511627776 MiB are needed"));
    node.work_dir = "/nonexistent";
    look_at(NULL, 1);
    node.work_dir = folder;
    assert_int_equal(looked, ERR_LIMIT);
    assert_non_null(strstr(looked_message, "out of reach"));
}

/* Of user `uid`, until it is killed. */
static pid_t stay_as(uid_t uid)
{
    int ends[2];
    char byte = 0;

    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_int_not_equal(pid, -1);
    if (pid == 0) {
        if (setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0 ||
            prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || write(ends[1], "", 1) != 1) {
            _exit(1);
        }
        (void)pause();
        _exit(0);
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

static void test_a_process_left_in_a_slot_is_seen_and_swept_when_nobody_holds_it(void **state)
{
    struct slot_lease slot = {.lock = -1};
    struct error err = {0};
    int count = 0;
    int wait_status = 0;

    (void)state;
    if (geteuid() != 0) {
        print_message("the layer uid is missing\n");
        skip();
    }
    assert_int_equal(slot_take(&slot, UID_BASE, &err), OK);
    look_at(&slot, 1);
    assert_int_equal(looked, OK);
    slot_release(&slot); /* a child would hold it, too */
    pid_t pid = stay_as(UID_BASE + (uid_t)slot.number * SANDBOX_POLICIES + SANDBOX_RANKS);
    pid_t other = stay_as(UID_BASE + SANDBOX_SLOTS_MAX * SANDBOX_POLICIES);
    assert_int_equal(slot_take(&slot, UID_BASE, &err), OK);
    look_at(&slot, 1);
    assert_int_equal(looked, ERR_CONFLICT);
    assert_non_null(strstr(looked_message, "of a job that has ended lives on"));
    assert_int_equal(slots_sweep(UID_BASE, &count, &err), OK);
    assert_int_equal(count, 0); /* the slot is held */
    slot_release(&slot);
    /* By a worker that counts its users from elsewhere. */
    assert_int_equal(slot_take(&slot, UID_BASE - SANDBOX_POLICIES, &err), OK);
    struct slot_lease overlapping = {.lock = -1};
    assert_int_equal(slot_take(&overlapping, UID_BASE - SANDBOX_POLICIES, &err), OK);
    assert_int_equal(overlapping.number, 1);
    assert_int_equal(slots_sweep(UID_BASE, &count, &err), OK);
    assert_int_equal(count, 0);
    slot_release(&overlapping);
    slot_release(&slot);
    assert_int_equal(slots_sweep(UID_BASE, &count, &err), OK);
    assert_int_equal(count, 1);
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    assert_true(WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL);
    assert_int_equal(kill(other, 0), 0); /* of nobody's slot */
    assert_int_equal(kill(other, SIGKILL), 0);
    assert_int_equal(waitpid(other, &wait_status, 0), other);
    assert_int_equal(slots_sweep(UID_BASE, &count, &err), OK);
    assert_int_equal(count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_node_is_ready_once_it_has_passed_the_gate),
        cmocka_unit_test(test_what_keeps_a_node_from_passing_is_its_reason_until_it_does),
        cmocka_unit_test(test_one_that_drains_for_too_long_is_quarantined_until_it_is_lifted),
        cmocka_unit_test(test_errors_of_gpus_do_what_the_table_says),
        cmocka_unit_test(test_errors_of_gpus_that_are_not_ours_do_nothing),
        cmocka_unit_test(test_the_gpus_of_a_busy_node_are_left_alone),
        cmocka_unit_test(test_a_node_whose_errors_nobody_sees_does_not_start),
        cmocka_unit_test(test_one_that_loses_sight_of_errors_is_quarantined),
        cmocka_unit_test(test_a_disk_without_room_is_named),
        cmocka_unit_test(test_a_process_left_in_a_slot_is_seen_and_swept_when_nobody_holds_it),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
