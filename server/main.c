/* pkb-server: takes submissions, queues jobs, serves results. */
#include "common/clock.h"
#include "server/db.h"
#include "server/service.h"
#include "server/tokens.h"

#include <getopt.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_TROUBLE = 1, EXIT_USAGE = 2 };

static const char usage[] =
    "usage: pkb-server COMMAND --db FILE [OPTION...]\n"
    "\n"
    "  init   create the database, and print the first token (role admin), once\n"
    "  run    serve until SIGTERM\n"
    "           --listen ADDRESS     127.0.0.1:8750; port 0: any free one\n"
    "           --port-file FILE     write the port there when it is open\n"
    "           --lease-ttl-ms N     how long a lease lives without a heartbeat; 30000\n"
    "  token  make a token and print it, once\n"
    "           --role ROLE          reader, submitter, worker or admin\n"
    "           --name NAME          whose submissions these are; of a worker: its name\n"
    "           --node NODE          the one node that may use a worker's token; NAME\n";

struct options {
    const char *database;
    const char *listen;
    const char *port_file;
    const char *role;
    const char *name;
    const char *node;
    int64_t ttl_ms;
};

static enum status read_ttl(const char *text, int64_t *ttl_ms, struct error *err)
{
    char *end = NULL;
    long number = strtol(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end != 0 || number < 1 || number > INT_MAX) {
        return error_set(err, ERR_INVALID, "--lease-ttl-ms '%s' is not a number from 1", text);
    }
    *ttl_ms = number;
    return OK;
}

static enum status read_options(int count, char **words, struct options *options, struct error *err)
{
    static const struct option known[] = {
        {"db", required_argument, NULL, 'd'},        {"listen", required_argument, NULL, 'l'},
        {"port-file", required_argument, NULL, 'p'}, {"lease-ttl-ms", required_argument, NULL, 't'},
        {"role", required_argument, NULL, 'r'},      {"name", required_argument, NULL, 'n'},
        {"node", required_argument, NULL, 'o'},      {0},
    };
    enum status status = OK;
    int option = 0;

    while (status == OK && (option = getopt_long(count, words, "", known, NULL)) != -1) {
        switch (option) {
        case 'd':
            options->database = optarg;
            break;
        case 'l':
            options->listen = optarg;
            break;
        case 'p':
            options->port_file = optarg;
            break;
        case 't':
            status = read_ttl(optarg, &options->ttl_ms, err);
            break;
        case 'r':
            options->role = optarg;
            break;
        case 'n':
            options->name = optarg;
            break;
        case 'o':
            options->node = optarg;
            break;
        default:
            status = error_set(err, ERR_INVALID, "an option is not understood");
            break;
        }
    }
    if (status == OK && optind < count) {
        status = error_set(err, ERR_INVALID, "'%s' is one word too many", words[optind]);
    }
    if (status == OK && options->database == NULL) {
        status = error_set(err, ERR_INVALID, "--db FILE is missing");
    }
    return status;
}

static enum status add_token(struct db *db, struct token *token, struct error *err)
{
    char text[TOKEN_TEXT_MAX] = "";
    enum status status = db_begin(db, err);

    if (status == OK) {
        status = token_add(db, token, clock_wall_ms(), text, err);
    }
    if (status == OK) {
        status = db_commit(db, err);
    }
    if (status == OK && (printf("%s\n", text) < 0 || fflush(stdout) != 0)) {
        status = error_set(err, ERR_IO, "cannot print the token: %m");
    }
    return status;
}

static enum status command_init(const struct options *options, struct error *err)
{
    struct token token = {.role = ROLE_ADMIN, .name = "admin"};
    struct db *db = NULL;
    enum status status = db_open(&db, options->database, DB_CREATE, err);

    if (status == OK) {
        status = add_token(db, &token, err);
    }
    db_close(db);
    return status;
}

static enum status command_run(const struct options *options, struct error *err)
{
    struct service_options service = {.database = options->database,
                                      .listen = options->listen,
                                      .port_file = options->port_file,
                                      .ttl_ms = options->ttl_ms};

    return service_run(&service, err);
}

static enum status command_token(const struct options *options, struct error *err)
{
    struct token token = {0};
    struct db *db = NULL;
    const char *node = options->node;
    enum status status = OK;

    if (options->role == NULL) {
        return error_set(err, ERR_INVALID,
                         "--role is missing: give reader, submitter, worker or admin");
    }
    if (role_find(options->role) == 0) {
        return error_set(err, ERR_INVALID,
                         "no role '%.60s': give reader, submitter, worker or admin", options->role);
    }
    token.role = (enum role)role_find(options->role);
    if (options->name == NULL || options->name[0] == 0 || strlen(options->name) >= NAME_MAX_BYTES) {
        return error_set(err, ERR_INVALID, "--name must have 1 to %d bytes", NAME_MAX_BYTES - 1);
    }
    if (token.role != ROLE_WORKER && node != NULL) {
        return error_set(err, ERR_INVALID, "--node is for the role worker only");
    }
    if (token.role == ROLE_WORKER && node == NULL) {
        node = options->name;
    }
    if (node != NULL && (node[0] == 0 || strlen(node) >= NAME_MAX_BYTES)) {
        return error_set(err, ERR_INVALID, "--node must have 1 to %d bytes", NAME_MAX_BYTES - 1);
    }
    (void)snprintf(token.name, sizeof token.name, "%s", options->name);
    (void)snprintf(token.node, sizeof token.node, "%s", node == NULL ? "" : node);
    status = db_open(&db, options->database, DB_WRITE, err);
    if (status == OK) {
        status = add_token(db, &token, err);
    }
    db_close(db);
    return status;
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        enum status (*run)(const struct options *options, struct error *err);
    } commands[] = {{"init", command_init}, {"run", command_run}, {"token", command_token}};
    struct options options = {.listen = "127.0.0.1:8750", .ttl_ms = LEASE_TTL_MS};
    struct error err = {0};

    if (count > 1 && strcmp(words[1], "--help") == 0) {
        (void)fputs(usage, stdout);
        return 0;
    }
    if (sodium_init() < 0) {
        (void)fputs("pkb-server: libsodium cannot start\n", stderr);
        return EXIT_TROUBLE;
    }
    for (size_t i = 0; count > 1 && i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(words[1], commands[i].name) != 0) {
            continue;
        }
        if (read_options(count - 1, words + 1, &options, &err) != OK) {
            (void)fprintf(stderr, "pkb-server: %s\n%s", err.message, usage);
            return EXIT_USAGE;
        }
        if (commands[i].run(&options, &err) != OK) {
            (void)fprintf(stderr, "pkb-server: %s\n", err.message);
            return err.status == ERR_INVALID ? EXIT_USAGE : EXIT_TROUBLE;
        }
        return 0;
    }
    (void)fputs(usage, stderr);
    return EXIT_USAGE;
}
