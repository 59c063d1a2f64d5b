/* The report of a batch against a table that is counted here, another way. */
#include "tests/known_batch.h"

#include "server/report_write.h"

#include <jansson.h>
#include <math.h>
#include <sodium.h>
#include <stdlib.h>

static const double thresholds[] = {1, 1.5, 3};
static const struct batch_setting setting = {WORLD, DTYPE_BF16, DEVICE_CUDA};

static struct known_batch fixture;
static json_t *report_json;

static struct report *make_report(void)
{
    struct report *report = report_open();

    assert_int_equal(batch_report(fixture.db, "bat_1", &setting, report, &fixture.err), OK);
    report_count(report, thresholds, sizeof thresholds / sizeof thresholds[0]);
    return report;
}

static int set_up(void **state)
{
    struct buffer json = {0};

    (void)state;
    known_open(&fixture);
    struct report *report = make_report();
    report_write_json(report, "", &json);
    report_close(report);
    report_json = json_loadb(json.data, json.size_bytes, 0, NULL);
    assert_non_null(report_json);
    buffer_release(&json);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    json_decref(report_json);
    db_close(fixture.db);
    return 0;
}

/* ---- the same, counted here ---- */

static bool is_of(int task, const char *family)
{
    return family == NULL || strcmp(fixture.families[task], family) == 0;
}

static bool is_correct(const struct known *known)
{
    return known->end == 0;
}

static bool is_fast(const struct known *known)
{
    return known->end == 0 && known->is_faster;
}

/* Tasks that one of the first k attempts solved in the sense of `good`. */
static int ordered(int m, const char *family, int k, bool (*good)(const struct known *))
{
    int tasks = 0;

    for (int t = 0; t < TASKS; t++) {
        bool is_good = false;
        for (int a = 0; a < k; a++) {
            is_good = is_good || good(&fixture.known[m][t][a]);
        }
        tasks += is_good && is_of(t, family);
    }
    return tasks;
}

static bool is_judged(const struct known *known)
{
    return known->end >= 0 && known_ends[known->end].verdict != VERDICT_INTERNAL_ERROR;
}

/* The mean over all choices of k of a task's judged attempts, by going through them. */
static double expected(int m, const char *family, int k, bool (*good)(const struct known *),
                       int *tasks)
{
    double sum = 0;

    *tasks = 0;
    for (int t = 0; t < TASKS; t++) {
        int choices = 0;
        int hits = 0;
        for (unsigned choice = 0; choice < 1U << ATTEMPTS; choice++) {
            bool is_choice = __builtin_popcount(choice) == k;
            bool is_hit = false;
            for (int a = 0; a < ATTEMPTS; a++) {
                if ((choice >> a & 1) != 0) {
                    is_choice = is_choice && is_judged(&fixture.known[m][t][a]);
                    is_hit = is_hit || good(&fixture.known[m][t][a]);
                }
            }
            choices += is_choice;
            hits += is_choice && is_hit;
        }
        if (choices > 0 && is_of(t, family)) {
            ++*tasks;
            sum += (double)hits / choices;
        }
    }
    return sum;
}

static double number(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    assert_true(json_is_number(value));
    return json_number_value(value);
}

static double number_at(const json_t *object, const char *key, int i)
{
    json_t *array = json_object_get(object, key);

    assert_int_equal(json_array_size(array), ATTEMPTS);
    return json_number_value(json_array_get(array, (size_t)i));
}

static const json_t *model_of(int m)
{
    json_t *list = json_object_get(report_json, "models");

    assert_int_equal(json_array_size(list), MODELS);
    for (size_t i = 0; i < MODELS; i++) {
        json_t *model = json_array_get(list, i);
        if (strcmp(json_string_value(json_object_get(model, "model")), known_models[m]) == 0) {
            return model;
        }
    }
    fail_msg("no model '%s'", known_models[m]);
    return NULL;
}

static void check_by_k(const json_t *totals, int m, const char *family)
{
    for (int k = 1; k <= ATTEMPTS; k++) {
        int tasks = 0;
        assert_int_equal(number_at(totals, "correct", k - 1), ordered(m, family, k, is_correct));
        assert_int_equal(number_at(totals, "fast", k - 1), ordered(m, family, k, is_fast));
        double correct = expected(m, family, k, is_correct, &tasks);
        assert_true(fabs(number_at(totals, "correct_estimate", k - 1) - correct) < 1e-3);
        double fast = expected(m, family, k, is_fast, &tasks);
        assert_true(fabs(number_at(totals, "fast_estimate", k - 1) - fast) < 1e-3);
        assert_int_equal(number_at(totals, "estimated_tasks", k - 1), tasks);
    }
}

static void test_correct_and_fast_at_k_are_those_of_the_known_outcomes(void **state)
{
    (void)state;
    assert_int_equal(number(report_json, "tasks"), TASKS);
    assert_int_equal(number(report_json, "k"), ATTEMPTS);
    for (int m = 0; m < MODELS; m++) {
        assert_int_equal(number(model_of(m), "attempts"), TASKS * ATTEMPTS);
        check_by_k(model_of(m), m, NULL);
    }
    assert_int_equal(number_at(model_of(4), "correct", 0), TASKS);
    assert_int_equal(number_at(model_of(3), "correct", ATTEMPTS - 1), 0);
    assert_true(number_at(model_of(0), "correct", 0) < number_at(model_of(0), "correct", 2));
}

static void test_families_have_the_same_counts_of_their_own_tasks(void **state)
{
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        json_t *list = json_object_get(model_of(m), "families");
        int tasks = 0;
        assert_int_equal(json_array_size(list), 15);
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *family = json_array_get(list, i);
            const char *name = json_string_value(json_object_get(family, "family"));
            int of_family = 0;
            for (int t = 0; t < TASKS; t++) {
                of_family += is_of(t, name);
            }
            assert_int_equal(number(family, "tasks"), of_family);
            tasks += of_family;
            check_by_k(family, m, name);
        }
        assert_int_equal(tasks, TASKS);
    }
}

static void test_fast_p_counts_speedups_beyond_each_threshold(void **state)
{
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        json_t *list = json_object_get(model_of(m), "fast_p");
        assert_int_equal(json_array_size(list), 3);
        for (size_t p = 0; p < 3; p++) {
            const json_t *row = json_array_get(list, p);
            assert_true(number(row, "p") == thresholds[p]);
            for (int k = 1; k <= ATTEMPTS; k++) {
                int tasks = 0;
                for (int t = 0; t < TASKS; t++) {
                    bool is_above = false;
                    for (int a = 0; a < k; a++) {
                        const struct known *known = &fixture.known[m][t][a];
                        is_above = is_above || (known->end == 0 && known->speedup > thresholds[p]);
                    }
                    tasks += is_above;
                }
                assert_int_equal(number_at(row, "tasks", k - 1), tasks);
            }
        }
    }
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return a < b ? -1 : a > b;
}

static void test_speedups_are_of_the_best_attempt_at_each_solved_task(void **state)
{
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        double best[TASKS];
        double product = 1;
        double percent = 0;
        int count = 0;
        for (int t = 0; t < TASKS; t++) {
            const struct known *fastest = NULL;
            for (int a = 0; a < ATTEMPTS; a++) {
                const struct known *known = &fixture.known[m][t][a];
                if (known->end == 0 && known->speedup > 0 &&
                    (fastest == NULL || known->speedup > fastest->speedup)) {
                    fastest = known;
                }
            }
            if (fastest != NULL) {
                best[count++] = fastest->speedup;
                percent += fastest->target_percent;
            }
        }
        assert_int_equal(number(model_of(m), "timed"), count);
        if (count == 0) {
            assert_true(json_is_null(json_object_get(model_of(m), "geomean_speedup")));
            continue;
        }
        qsort(best, (size_t)count, sizeof best[0], compare);
        for (int i = 0; i < count; i++) {
            product *= pow(best[i], 1.0 / count);
        }
        double median =
            count % 2 == 1 ? best[count / 2] : (best[count / 2 - 1] + best[count / 2]) / 2;
        assert_true(fabs(number(model_of(m), "geomean_speedup") / product - 1) < 1e-5);
        assert_true(fabs(number(model_of(m), "median_speedup") / median - 1) < 1e-5);
        assert_true(fabs(number(model_of(m), "target_percent") - percent / count) < 1e-3);
    }
}

static void test_every_attempt_is_in_its_published_class(void **state)
{
    static const char *const keys[] = {"first_attempts", "all_attempts"};

    (void)state;
    for (int m = 0; m < MODELS; m++) {
        for (size_t i = 0; i < 2; i++) {
            const json_t *counts = json_object_get(model_of(m), keys[i]);
            int sum = 0;
            for (int o = 0; o < OUTCOMES; o++) {
                const char *name = outcome_name((enum outcome)o);
                int attempts = 0;
                for (int t = 0; t < TASKS; t++) {
                    for (int a = 0; a < (i == 0 ? 1 : ATTEMPTS); a++) {
                        int end = fixture.known[m][t][a].end;
                        const char *known = end < 0 ? "pending" : known_ends[end].outcome;
                        attempts += strcmp(known, name) == 0;
                    }
                }
                assert_int_equal(number(counts, name), attempts);
                sum += attempts;
            }
            assert_int_equal(sum, i == 0 ? TASKS : TASKS * ATTEMPTS);
        }
    }
}

static void test_mechanisms_are_those_of_correct_attempts(void **state)
{
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        const json_t *counts = json_object_get(model_of(m), "mechanisms");
        for (int i = 0; i < MECHANISMS_MAX; i++) {
            int attempts = 0;
            for (int t = 0; t < TASKS; t++) {
                for (int a = 0; a < ATTEMPTS; a++) {
                    const struct known *known = &fixture.known[m][t][a];
                    attempts += known->end == 0 && (known->mechanisms >> i & 1) != 0;
                }
            }
            assert_int_equal(number(counts, facts_mechanism(i)), attempts);
        }
    }
}

static void test_csv_and_markdown_say_the_same(void **state)
{
    struct report *report = make_report();
    struct buffer csv = {0};
    struct buffer markdown = {0};
    char line[128];
    int lines = 0;

    (void)state;
    report_write_csv(report, &csv);
    for (int k = 1; k <= ATTEMPTS; k++) {
        (void)snprintf(line, sizeof line, "\"com,ma \"\"quoted\"\"\",\"\",correct,%d,%d\r\n", k,
                       ordered(2, NULL, k, is_correct));
        assert_non_null(strstr(csv.data, line));
        (void)snprintf(line, sizeof line, "\"plain\",\"moe\",fast,%d,%d\r\n", k,
                       ordered(0, "moe", k, is_fast));
        assert_non_null(strstr(csv.data, line));
        (void)snprintf(
            line, sizeof line, "\"all\",\"\",fast_p_1.5,%d,%.9g\r\n", k,
            number_at(json_array_get(json_object_get(model_of(4), "fast_p"), 1), "tasks", k - 1));
        assert_non_null(strstr(csv.data, line));
    }
    for (const char *at = csv.data; (at = strstr(at, "\r\n")) != NULL; at += 2) {
        lines++;
    }
    /* Without a speedup, the model 'none' and some families have three lines less. */
    assert_true(lines > 1 + MODELS * 16 * 50 && lines <= 1 + MODELS * 16 * (4 + 3 + 24 + 24 + 8));

    report_write_markdown(report, &markdown);
    (void)snprintf(line, sizeof line, "| plain | %d -> %d | ", ordered(0, NULL, 1, is_correct),
                   ordered(0, NULL, ATTEMPTS, is_correct));
    assert_non_null(strstr(markdown.data, line));
    assert_non_null(strstr(markdown.data, "| wi\\|th \\*marks\\* | "));
    assert_non_null(strstr(markdown.data, "Of 87 tasks, k = 1 -> 3"));
    buffer_release(&csv);
    buffer_release(&markdown);
    report_close(report);
}

static void test_a_report_without_attempts_is_empty(void **state)
{
    struct report *report = report_open();
    struct buffer text = {0};

    (void)state;
    report_count(report, thresholds, 1);
    report_write_json(report, "\"batch\":\"b\",", &text);
    assert_string_equal(text.data, "{\"batch\":\"b\",\"tasks\":0,\"k\":0,\"models\":[]}");
    buffer_release(&text);
    report_write_markdown(report, &text);
    assert_string_equal(text.data, "No attempts.\n");
    buffer_release(&text);
    report_close(report);
}

static void test_one_attempt_of_each_has_no_range(void **state)
{
    static const struct attempt attempt = {
        .model = "m", .task_number = 7, .number = 1, .outcome = OUTCOME_CORRECT};
    struct report *report = report_open();
    struct buffer text = {0};

    (void)state;
    report_add_task(report, 7, "f");
    report_add_task(report, 7, "f");
    report_add(report, &attempt);
    report_count(report, thresholds, 1);
    assert_int_equal(report_task_count(report), 1);
    report_write_markdown(report, &text);
    assert_non_null(strstr(text.data, "| m | 1 | 1.0 | 0 | 0.0 | 0 | - | - | - |\n"));
    buffer_release(&text);
    report_close(report);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_correct_and_fast_at_k_are_those_of_the_known_outcomes),
        cmocka_unit_test(test_families_have_the_same_counts_of_their_own_tasks),
        cmocka_unit_test(test_fast_p_counts_speedups_beyond_each_threshold),
        cmocka_unit_test(test_speedups_are_of_the_best_attempt_at_each_solved_task),
        cmocka_unit_test(test_every_attempt_is_in_its_published_class),
        cmocka_unit_test(test_mechanisms_are_those_of_correct_attempts),
        cmocka_unit_test(test_csv_and_markdown_say_the_same),
        cmocka_unit_test(test_a_report_without_attempts_is_empty),
        cmocka_unit_test(test_one_attempt_of_each_has_no_range),
    };

    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, set_up, tear_down);
}
