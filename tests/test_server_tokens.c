/* Tokens and ids: what is stored, what is accepted, what sorts. */
#include "server/ids.h"
#include "server/tokens.h"

#include <setjmp.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct db *db;
    struct error err;
    struct token token;
    char text[TOKEN_TEXT_MAX];
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    assert_int_not_equal(sodium_init(), -1);
    assert_int_equal(db_open(&fixture->db, ":memory:", DB_CREATE, &fixture->err), OK);
    fixture->token = (struct token){.role = ROLE_WORKER, .name = "ada", .node = "node1"};
    assert_int_equal(token_add(fixture->db, &fixture->token, 1000, fixture->text, &fixture->err),
                     OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    db_close(fixture->db);
    free(fixture);
    return 0;
}

static enum status check(struct fixture *fixture, const char *text, int64_t now_ms,
                         struct token *token)
{
    return token_check(fixture->db, text, now_ms, token, &fixture->err);
}

static void run(struct fixture *fixture, const char *sql)
{
    struct sqlite3_stmt *statement = NULL;

    assert_int_equal(db_prepare(fixture->db, sql, &statement, &fixture->err), OK);
    assert_int_equal(db_run(fixture->db, statement, NULL, &fixture->err), OK);
}

static void test_a_token_is_known_by_its_text(void **state)
{
    struct fixture *fixture = *state;
    struct token token = {0};

    assert_int_equal(check(fixture, fixture->text, 2000, &token), OK);
    assert_string_equal(token.id, fixture->token.id);
    assert_int_equal(token.role, ROLE_WORKER);
    assert_string_equal(token.name, "ada");
    assert_string_equal(token.node, "node1");
}

static void test_any_other_text_is_no_token(void **state)
{
    struct fixture *fixture = *state;
    struct token token = {.name = "before"};
    char text[TOKEN_TEXT_MAX];
    size_t length = strlen(fixture->text);
    static const char *const others[] = {"",
                                         "pkb_",
                                         "pkb__",
                                         "pkb_0000000000000000_",
                                         "bearer",
                                         "pkb_%_%",
                                         "pkb_a",
                                         "_",
                                         "pkb_0123456789abcdef0123456789abcdef_0"};

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(check(fixture, others[i], 2000, &token), ERR_UNAUTHENTICATED);
    }
    for (size_t i = 0; i < length; i++) {
        memcpy(text, fixture->text, sizeof text);
        text[i] = text[i] == '0' ? '1' : '0';
        assert_int_equal(check(fixture, text, 2000, &token), ERR_UNAUTHENTICATED);
        memcpy(text, fixture->text, sizeof text);
        text[i] = 0;
        assert_int_equal(check(fixture, text, 2000, &token), ERR_UNAUTHENTICATED);
    }
    assert_string_equal(token.name, "before");
}

static void test_the_secret_is_not_stored(void **state)
{
    struct fixture *fixture = *state;
    struct sqlite3_stmt *select = NULL;
    bool row = false;
    const char *secret = strrchr(fixture->text, '_') + 1;

    assert_int_equal(strlen(secret), 64);
    assert_int_equal(db_prepare(fixture->db,
                                "SELECT count(*) FROM token WHERE instr(hex(secret_sha256) || id"
                                " || name || node, ?1) OR instr(secret_sha256, ?1)",
                                &select, &fixture->err),
                     OK);
    db_bind_text(select, 1, secret);
    assert_int_equal(db_step(fixture->db, select, &row, &fixture->err), OK);
    assert_int_equal(sqlite3_column_int(select, 0), 0);
    db_reset(select);
}

static void test_a_token_ends_when_it_expires_or_is_revoked(void **state)
{
    struct fixture *fixture = *state;
    struct token token = {0};

    run(fixture, "UPDATE token SET expires_ms = 3000");
    assert_int_equal(check(fixture, fixture->text, 2999, &token), OK);
    assert_int_equal(check(fixture, fixture->text, 3000, &token), ERR_UNAUTHENTICATED);
    run(fixture, "UPDATE token SET expires_ms = NULL");
    assert_int_equal(check(fixture, fixture->text, 3000, &token), OK);
    run(fixture, "UPDATE token SET revoked_ms = 1");
    assert_int_equal(check(fixture, fixture->text, 3000, &token), ERR_UNAUTHENTICATED);
}

static void test_two_tokens_have_nothing_in_common(void **state)
{
    struct fixture *fixture = *state;
    struct token other = fixture->token;
    char text[TOKEN_TEXT_MAX];

    assert_int_equal(token_add(fixture->db, &other, 1000, text, &fixture->err), OK);
    assert_string_not_equal(other.id, fixture->token.id);
    assert_string_not_equal(strrchr(text, '_'), strrchr(fixture->text, '_'));
    /* The id of one with the secret of the other. */
    (void)snprintf(text, sizeof text, "pkb_%s%s", other.id, strrchr(fixture->text, '_'));
    assert_int_equal(check(fixture, text, 2000, &other), ERR_UNAUTHENTICATED);
}

static void test_roles_have_names(void **state)
{
    (void)state;
    for (int role = ROLE_READER; role <= ROLE_ADMIN; role *= 2) {
        assert_int_equal(role_find(role_name((enum role)role)), role);
    }
    assert_int_equal(role_find("king"), 0);
    assert_string_equal(role_name((enum role)0), "");
}

static void test_ids_rise_with_time_and_within_a_millisecond(void **state)
{
    struct id_maker maker = {0};
    char before[ID_MAX];
    char id[ID_MAX];
    const int64_t times_ms[] = {1, 1, 1, 2, 1796118776480, 1796118776480, 5, 1796118776481};

    (void)state;
    assert_int_not_equal(sodium_init(), -1);
    id_make(&maker, "job", 0, before);
    for (size_t i = 0; i < sizeof times_ms / sizeof times_ms[0]; i++) {
        id_make(&maker, "job", times_ms[i], id);
        assert_true(strcmp(id, before) > 0);
        assert_int_equal(strlen(id), strlen("job_") + 26);
        memcpy(before, id, sizeof before);
    }
}

static void test_ids_rise_when_the_random_part_is_used_up(void **state)
{
    struct id_maker maker = {.last_ms = 7};
    char before[ID_MAX];
    char id[ID_MAX];

    (void)state;
    memset(maker.random, 0xff, sizeof maker.random);
    maker.random[sizeof maker.random - 1] = 0xfe;
    id_make(&maker, "sub", 7, before);
    id_make(&maker, "sub", 7, id);
    assert_true(strcmp(id, before) > 0);
    assert_int_equal(maker.last_ms, 8);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(test_a_token_is_known_by_its_text),
        TEST(test_any_other_text_is_no_token),
        TEST(test_the_secret_is_not_stored),
        TEST(test_a_token_ends_when_it_expires_or_is_revoked),
        TEST(test_two_tokens_have_nothing_in_common),
        cmocka_unit_test(test_roles_have_names),
        cmocka_unit_test(test_ids_rise_with_time_and_within_a_millisecond),
        cmocka_unit_test(test_ids_rise_when_the_random_part_is_used_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
