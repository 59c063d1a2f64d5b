#include "worker/tensors.h"

#include "common/mem.h"
#include "worker/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WORLD = 4 };
static const uint64_t key = 0x1234567890abcdef;

struct scene {
    struct run *run;
    struct layouts layouts;
    uint8_t *arena; /* of outputs: red zones, and poison where tensors are */
    uint64_t size_bytes;
};

static int set_up(void **state)
{
    struct scene *scene = xcalloc(1, sizeof *scene);
    struct run_choice choice = {.world = WORLD, .dtype = DTYPE_BF16};
    struct error err = {0};

    assert_int_equal(run_open(&scene->run, task_find("allreduce"), &choice, &err), OK);
    layouts_make(&scene->layouts, scene->run);
    scene->size_bytes = scene->layouts.outputs.arena_bytes + 65536;
    scene->arena = xmalloc(scene->size_bytes);
    red_zone_write(scene->arena, 0, scene->size_bytes, key);
    for (int slot = 0; slot < CHANNEL_SLOTS; slot++) {
        layout_poison(&scene->layouts.outputs, run_plan(scene->run, 0)->outputs,
                      scene->arena + layout_slot(&scene->layouts.outputs, slot), 0x77);
    }
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    run_close(scene->run);
    free(scene->arena);
    free(scene);
    return 0;
}

static void test_tensors_are_aligned_and_lie_in_red_zones(void **state)
{
    struct scene *scene = *state;
    const struct layout *layout = &scene->layouts.outputs;
    uint64_t end = 0;

    for (int slot = 0; slot < CHANNEL_SLOTS; slot++) {
        for (int i = 0; i < layout->count; i++) {
            uint64_t start = layout_slot(layout, slot) + layout->offsets[i];
            assert_int_equal(start % TENSOR_ALIGN_BYTES, 0);
            assert_true(start - end >= 256);
            end = start + run_plan(scene->run, 0)->outputs[i].size_bytes;
        }
    }
    assert_true(layout->arena_bytes - end >= 256);
}

static void test_a_rank_gets_addresses_in_its_window_and_the_parameters(void **state)
{
    struct scene *scene = *state;
    struct run_body *body = xcalloc(1, sizeof *body);
    struct error err = {0};
    size_t params_bytes = 0;
    const void *params = run_params(scene->run, &params_bytes);

    assert_int_equal(layouts_describe(&scene->layouts, scene->run, 1, body, &err), OK);
    assert_int_equal(body->input_count, 1);
    assert_int_equal(body->output_count, 1);
    assert_int_equal(body->params_bytes, params_bytes);
    assert_memory_equal(body->params, params, params_bytes);
    for (int slot = 0; slot < CHANNEL_SLOTS; slot++) {
        assert_true(body->inputs[slot][0] < WINDOW_OUTPUTS);
        assert_true(body->outputs[slot][0] >= WINDOW_OUTPUTS);
        assert_true(body->outputs[slot][0] < WINDOW_SYMM);
    }
    free(body);
}

static bool find(struct scene *scene, struct trespass *trespass)
{
    return layout_find_trespass(&scene->layouts.outputs, run_plan(scene->run, 0)->outputs,
                                scene->arena, scene->size_bytes, key, trespass);
}

static void test_untouched_red_zones_are_found_right(void **state)
{
    struct scene *scene = *state;
    struct trespass trespass = {0};

    assert_false(find(scene, &trespass));
}

static void expect_trespass(struct scene *scene, uint64_t at, struct trespass expected)
{
    struct trespass trespass = {0};

    scene->arena[at] ^= 1;
    assert_true(find(scene, &trespass));
    scene->arena[at] ^= 1;
    assert_int_equal(trespass.slot, expected.slot);
    assert_int_equal(trespass.tensor, expected.tensor);
    assert_int_equal(trespass.is_before, expected.is_before);
    assert_int_equal(trespass.distance_bytes, expected.distance_bytes);
}

static void test_one_changed_byte_is_found_and_blamed_on_the_nearest_tensor(void **state)
{
    struct scene *scene = *state;
    const struct layout *layout = &scene->layouts.outputs;
    uint64_t size_bytes = run_plan(scene->run, 0)->outputs[0].size_bytes;
    uint64_t second = layout_slot(layout, 1) + layout->offsets[0];

    expect_trespass(scene, second - 1, (struct trespass){1, 0, true, 1});
    expect_trespass(scene, second + size_bytes, (struct trespass){1, 0, false, 0});
    expect_trespass(scene, second + size_bytes + 7, (struct trespass){1, 0, false, 7});
    expect_trespass(scene, 0, (struct trespass){0, 0, true, layout->offsets[0]});
    uint64_t last = layout_slot(layout, CHANNEL_SLOTS - 1) + layout->offsets[0] + size_bytes;
    expect_trespass(scene, scene->size_bytes - 1,
                    (struct trespass){CHANNEL_SLOTS - 1, 0, false, scene->size_bytes - 1 - last});
}

static void test_what_lies_behind_the_slots_may_be_looked_at_in_pieces(void **state)
{
    struct scene *scene = *state;
    const struct layout *layout = &scene->layouts.outputs;
    const struct tensor_spec *specs = run_plan(scene->run, 0)->outputs;
    uint64_t from = layout->arena_bytes + 1024;
    struct red_zone zone = {
        .bytes = scene->arena + from, .offset = from, .size_bytes = 4096, .key = key};
    uint64_t end =
        layout_slot(layout, CHANNEL_SLOTS - 1) + layout->offsets[0] + specs[0].size_bytes;
    struct trespass trespass = {0};

    scene->arena[from - 1] ^= 1;
    scene->arena[from + 4096] ^= 1;
    assert_false(layout_find_trespass_behind(layout, specs, &zone, &trespass));
    scene->arena[from + 4095] ^= 1;
    assert_true(layout_find_trespass_behind(layout, specs, &zone, &trespass));
    assert_int_equal(trespass.slot, CHANNEL_SLOTS - 1);
    assert_int_equal(trespass.tensor, 0);
    assert_false(trespass.is_before);
    assert_int_equal(trespass.distance_bytes, from + 4095 - end);
    zone.key++;
    assert_true(layout_find_trespass_behind(layout, specs, &zone, &trespass));
    assert_int_equal(trespass.distance_bytes, from - end);
}

static void test_zones_of_a_seed_have_unlike_keys(void **state)
{
    (void)state;
    assert_int_equal(red_zone_key(1, 2), red_zone_key(1, 2));
    assert_int_not_equal(red_zone_key(1, 2), red_zone_key(1, 3));
    assert_int_not_equal(red_zone_key(1, 2), red_zone_key(UINT64_C(1) << 32 | 1, 2));
}

static void test_changes_of_tensors_are_no_trespass(void **state)
{
    struct scene *scene = *state;
    struct trespass trespass = {0};
    struct tensor tensors[PLAN_TENSORS_MAX];

    layout_tensors(&scene->layouts.outputs, run_plan(scene->run, 0)->outputs, scene->arena,
                   tensors);
    memset(tensors[0].data, 0, tensors[0].spec->size_bytes);
    assert_false(find(scene, &trespass));
}

static void test_the_pattern_depends_on_key_and_place(void **state)
{
    uint8_t one[64], other[64];

    (void)state;
    red_zone_write(one, 0, 64, key);
    red_zone_write(other, 0, 64, key + 1);
    assert_memory_not_equal(one, other, 64);
    red_zone_write(other, 8, 56, key);
    assert_memory_equal(one + 8, other, 56);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_tensors_are_aligned_and_lie_in_red_zones),
        TEST(test_a_rank_gets_addresses_in_its_window_and_the_parameters),
        TEST(test_untouched_red_zones_are_found_right),
        TEST(test_one_changed_byte_is_found_and_blamed_on_the_nearest_tensor),
        TEST(test_what_lies_behind_the_slots_may_be_looked_at_in_pieces),
        TEST(test_zones_of_a_seed_have_unlike_keys),
        TEST(test_changes_of_tensors_are_no_trespass),
        TEST(test_the_pattern_depends_on_key_and_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
