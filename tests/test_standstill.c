/* Who is at work when nothing is told: this process plays the ranks, at rest or in a loop. */
#include "worker/launch.h"
#include "worker/process.h"
#include "worker/standstill.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <unistd.h>

enum { AT_MS = 5000 };

struct scene {
    struct evidence evidence;
    pid_t pids[BOX_PROGRAMS_MAX];
    struct standstill standstill;
    int rank;
};

/* Rank 1 of two is this process. */
static void set_scene(struct scene *scene, enum rank_phase phase, bool is_hardware)
{
    *scene = (struct scene){.evidence = {.world = 2}, .rank = -1};
    scene->evidence.device_ending.has_ended = is_hardware;
    scene->evidence.status.phase[0] = RANK_IDLE;
    scene->evidence.status.phase[1] = phase;
    scene->pids[LAUNCH_RANK_0 + 1] = getpid();
}

static enum stop_cause look(struct scene *scene, int64_t now_ms, int64_t quiet_ms)
{
    struct standstill_look look = {
        .now_ms = now_ms, .quiet_ms = quiet_ms, .pids = scene->pids, .evidence = &scene->evidence};

    return standstill_look(&scene->standstill, &look, &scene->rank);
}

/* More than half of a sample. */
static void be_busy(void)
{
    int64_t until_ns = process_active_ns(getpid()) + INT64_C(550000) * STANDSTILL_SAMPLE_MS;

    while (process_active_ns(getpid()) < until_ns) {
        for (volatile int i = 0; i < 1000000; i++) {
        }
    }
}

/* What is found after this process was busy, when so long nothing has been told. */
static enum stop_cause look_busy(struct scene *scene, int64_t quiet_ms)
{
    assert_int_equal(look(scene, AT_MS, quiet_ms - STANDSTILL_SAMPLE_MS), STOP_NONE);
    be_busy();
    return look(scene, AT_MS + STANDSTILL_SAMPLE_MS, quiet_ms);
}

static void test_nothing_is_said_before_a_whole_sample(void **state)
{
    struct scene scene;

    (void)state;
    set_scene(&scene, RANK_WAITING, true);
    assert_int_equal(look(&scene, AT_MS, 10000), STOP_NONE);
    assert_int_equal(look(&scene, AT_MS + STANDSTILL_SAMPLE_MS - 1, 10000), STOP_NONE);
    assert_int_equal(look(&scene, AT_MS + STANDSTILL_SAMPLE_MS, 10000), STOP_WAITING);
}

static void test_a_loop_in_a_call_is_a_busy_host(void **state)
{
    struct scene scene;

    (void)state;
    set_scene(&scene, RANK_IN_RUN, true);
    assert_int_equal(look_busy(&scene, 3000), STOP_HOST_BUSY);
    assert_int_equal(scene.rank, 1);
}

static void test_who_sets_up_on_a_gpu_may_be_busy_for_longer(void **state)
{
    struct scene scene;

    (void)state;
    set_scene(&scene, RANK_SETUP, true);
    assert_int_equal(look_busy(&scene, STANDSTILL_SETUP_MS - 1), STOP_NONE);
    assert_int_equal(scene.rank, -1);
    /* The sample began anew: at rest in setup is a wait like any other. */
    assert_int_equal(look(&scene, AT_MS + 3 * STANDSTILL_SAMPLE_MS, STANDSTILL_SETUP_MS - 1),
                     STOP_WAITING);
    set_scene(&scene, RANK_SETUP, true);
    assert_int_equal(look_busy(&scene, STANDSTILL_SETUP_MS), STOP_HOST_BUSY);
    assert_int_equal(scene.rank, 1);
}

static void test_in_the_simulator_a_loop_in_setup_is_found_at_once(void **state)
{
    struct scene scene;

    (void)state;
    set_scene(&scene, RANK_SETUP, false);
    assert_int_equal(look_busy(&scene, 3000), STOP_HOST_BUSY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_said_before_a_whole_sample),
        cmocka_unit_test(test_a_loop_in_a_call_is_a_busy_host),
        cmocka_unit_test(test_who_sets_up_on_a_gpu_may_be_busy_for_longer),
        cmocka_unit_test(test_in_the_simulator_a_loop_in_setup_is_found_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
