#include "client/options.h"

#include "common/job.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    const char *value; /* how the help calls it; NULL: takes none */
    const char *summary;
} option_table[OPTIONS] = {
    [OPTION_SERVER] = {"--server", "URL", "default: $PKB_SERVER, else http://127.0.0.1:8750"},
    [OPTION_TOKEN] = {"--token", "TOKEN", "default: $PKB_TOKEN (others can see a command line)"},
    [OPTION_TOKEN_FILE] = {"--token-file", "FILE", "a file whose first line is the token"},
    [OPTION_JSON] = {"--json", NULL, "print the server's JSON instead of text"},
    [OPTION_HELP] = {"--help", NULL, "this text"},
    [OPTION_TASK] = {"--task", "TASK", "the task, by number or name"},
    [OPTION_WORLD] = {"--world", "N", "the number of ranks (default 4)"},
    [OPTION_DTYPE] = {"--dtype", "DTYPE", "the element type: bf16 (default), fp16, fp32, ..."},
    [OPTION_DEVICE] = {"--device", "KIND", "sim (default), cuda or cuda-shared"},
    [OPTION_MODEL] = {"--model", "NAME", "the model that wrote the source, for the boards"},
    [OPTION_WAIT] = {"--wait", NULL, "follow the job and show how it ended"},
    [OPTION_HEADER] = {"--header", NULL, "print the pkb_task.h that a submission includes"},
    [OPTION_REPLAY] = {"--replay", NULL, "print what 'pkb-worker --once FILE --replay' repeats"},
};

#define BIT(option) (1U << OPTION_##option)
#define GLOBAL (BIT(SERVER) | BIT(TOKEN) | BIT(TOKEN_FILE) | BIT(JSON) | BIT(HELP))
#define WHERE (BIT(WORLD) | BIT(DTYPE) | BIT(DEVICE))

static const struct {
    const char *name;
    const char *operand; /* NULL: takes none */
    const char *summary;
    unsigned options;
} command_table[COMMANDS] = {
    [COMMAND_SUBMIT] = {"submit", "FILE", "submit a .cu file ('-': standard input) for a task",
                        GLOBAL | WHERE | BIT(TASK) | BIT(MODEL) | BIT(WAIT)},
    [COMMAND_STATUS] = {"status", "JOB", "show a job, and why it ended as it did",
                        GLOBAL | BIT(WAIT) | BIT(REPLAY)},
    [COMMAND_LOG] = {"log", "JOB", "print the log of a job's build and run", GLOBAL},
    [COMMAND_TASKS] = {"tasks", NULL, "list the tasks", GLOBAL},
    [COMMAND_TASK] = {"task", "TASK", "print a task's statement",
                      GLOBAL | BIT(HEADER) | BIT(DTYPE)},
    [COMMAND_BOARD] = {"board", "TASK", "print a task's board", GLOBAL | WHERE},
};

/* ---- the nearest right word ---- */

enum { WORD_MAX = 32, DISTANCE_MAX = 3 };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many bytes to insert, remove or change to make one of the other. */
static size_t distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1];
    size_t length = strlen(b);

    if (length > WORD_MAX || strlen(a) > WORD_MAX) {
        return WORD_MAX;
    }
    for (size_t j = 0; j <= length; j++) {
        row[j] = j;
    }
    for (size_t i = 1; a[i - 1] != 0; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            size_t changed = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = smaller(changed, smaller(row[j], row[j - 1]) + 1);
        }
    }
    return row[length];
}

/* The nearer of `best` and `candidate`; NULL while nothing is near. */
static const char *nearer(const char *word, const char *best, const char *candidate)
{
    size_t far = best == NULL ? DISTANCE_MAX + 1 : distance(word, best);

    return distance(word, candidate) < far ? candidate : best;
}

static enum status refuse_command(const char *word, struct error *err)
{
    const char *best = NULL;

    for (int i = 0; i < COMMANDS; i++) {
        best = nearer(word, best, command_table[i].name);
    }
    if (best != NULL) {
        return error_field(err, ERR_INVALID, word, "unknown command '%s', did you mean '%s'?", word,
                           best);
    }
    return error_field(err, ERR_INVALID, word, "unknown command '%s'; 'pkb --help' lists them",
                       word);
}

static enum status refuse_option(const char *word, struct error *err)
{
    const char *best = NULL;

    for (int i = 0; i < OPTIONS; i++) {
        best = nearer(word, best, option_table[i].name);
    }
    if (best != NULL) {
        return error_field(err, ERR_INVALID, word, "unknown option '%s', did you mean '%s'?", word,
                           best);
    }
    return error_field(err, ERR_INVALID, word, "unknown option '%s'; 'pkb --help' lists them",
                       word);
}

/* ---- reading ---- */

/* Reads the option at args[*index], and its value where it is the next word. */
static enum status read_option(struct options *options, int count, char *const args[], int *index,
                               struct error *err)
{
    char name[WORD_MAX + 1];
    const char *word = args[*index];
    const char *equals = strchr(word, '=');
    size_t length = equals == NULL ? strlen(word) : (size_t)(equals - word);
    int option = 0;

    (void)snprintf(name, sizeof name, "%.*s", (int)length, word);
    while (option < OPTIONS && strcmp(option_table[option].name, name) != 0) {
        option++;
    }
    if (option == OPTIONS) {
        return refuse_option(name, err);
    }
    if (options->value[option] != NULL) {
        return error_field(err, ERR_INVALID, name, "'%s' is given twice", name);
    }
    const char *value = option_table[option].value;
    if (value == NULL && equals != NULL) {
        return error_field(err, ERR_INVALID, name, "'%s' takes no value", name);
    }
    if (value == NULL) {
        options->value[option] = "";
        return OK;
    }
    if (equals == NULL && *index + 1 == count) {
        return error_field(err, ERR_INVALID, name, "'%s' needs a value: %s %s", name, name, value);
    }
    options->value[option] = equals == NULL ? args[++*index] : equals + 1;
    return OK;
}

static enum status read_word(struct options *options, const char *word, struct error *err)
{
    if (options->command == COMMANDS) {
        int command = 0;
        while (command < COMMANDS && strcmp(command_table[command].name, word) != 0) {
            command++;
        }
        if (command == COMMANDS) {
            return refuse_command(word, err);
        }
        options->command = (enum command)command;
        return OK;
    }
    if (command_table[options->command].operand == NULL || options->operand != NULL) {
        return error_field(err, ERR_INVALID, word, "'pkb %s' takes no '%s' here",
                           command_table[options->command].name, word);
    }
    options->operand = word;
    return OK;
}

/* What the words mean together. */
static enum status check(const struct options *options, struct error *err)
{
    if (options->value[OPTION_HELP] != NULL) {
        return OK;
    }
    if (options->command == COMMANDS) {
        return error_set(err, ERR_INVALID, "no command; 'pkb --help' lists them");
    }
    const char *name = command_table[options->command].name;
    for (int i = 0; i < OPTIONS; i++) {
        if (options->value[i] != NULL && (command_table[options->command].options >> i & 1) == 0) {
            return error_field(err, ERR_INVALID, option_table[i].name, "'pkb %s' takes no '%s'",
                               name, option_table[i].name);
        }
    }
    const char *operand = command_table[options->command].operand;
    if (operand != NULL && (options->operand == NULL || options->operand[0] == 0)) {
        return error_field(err, ERR_INVALID, operand, "which %s? usage: pkb %s %s", operand, name,
                           operand);
    }
    if (options->command == COMMAND_SUBMIT && options->value[OPTION_TASK] == NULL) {
        return error_field(err, ERR_INVALID, "--task", "'pkb submit' needs '--task TASK'");
    }
    return OK;
}

/* Who asks for JSON anywhere on the line gets it, also where the line is wrong. */
static bool asks_for_json(int count, char *const args[])
{
    const char *name = option_table[OPTION_JSON].name;

    for (int i = 1; i < count && strcmp(args[i], "--") != 0; i++) {
        size_t length = strlen(name);
        if (strncmp(args[i], name, length) == 0 &&
            (args[i][length] == 0 || args[i][length] == '=')) {
            return true;
        }
    }
    return false;
}

enum status options_read(struct options *options, int count, char *const args[], struct error *err)
{
    struct options made = {.command = COMMANDS};
    bool only_words = false;
    enum status status = OK;

    for (int i = 1; i < count && status == OK; i++) {
        if (!only_words && strcmp(args[i], "--") == 0) {
            only_words = true;
        } else if (!only_words && args[i][0] == '-' && args[i][1] != 0) {
            status = read_option(&made, count, args, &i, err);
        } else {
            status = read_word(&made, args[i], err);
        }
    }
    if (status == OK) {
        status = check(&made, err);
    }
    if (status == OK) {
        *options = made;
    } else {
        options->value[OPTION_JSON] = asks_for_json(count, args) ? "" : NULL;
    }
    return status;
}

enum status options_world(const struct options *options, int *world, struct error *err)
{
    const char *text = options->value[OPTION_WORLD];

    if (text == NULL) {
        *world = 0;
        return OK;
    }
    char *end = NULL;
    long value = strtol(text, &end, 10);
    if (end == text || *end != 0 || value < 1 || value > WORLD_MAX) {
        return error_field(err, ERR_INVALID, "--world",
                           "'--world %s' must be a number from 1 to %d", text, WORLD_MAX);
    }
    *world = (int)value;
    return OK;
}

/* A table of names. */
struct names {
    const char *(*name)(unsigned index);
    unsigned count;
};

static enum status read_name(const struct options *options, enum option option, struct names names,
                             int *found, struct error *err)
{
    const char *text = options->value[option];
    const char *best = NULL;
    struct buffer all = {0};

    for (unsigned i = 0; i < names.count; i++) {
        if (strcmp(names.name(i), text) == 0) {
            *found = (int)i;
            buffer_release(&all);
            return OK;
        }
        best = nearer(text, best, names.name(i));
        buffer_printf(&all, "%s%s", i == 0 ? "" : ", ", names.name(i));
    }
    const char *name = option_table[option].name;
    if (best != NULL) {
        (void)error_field(err, ERR_INVALID, name, "unknown '%s %s', did you mean '%s'? (%s)", name,
                          text, best, all.data);
    } else {
        (void)error_field(err, ERR_INVALID, name, "unknown '%s %s'; there are %s", name, text,
                          all.data);
    }
    buffer_release(&all);
    return ERR_INVALID;
}

enum status options_dtype(const struct options *options, int missing, int *dtype, struct error *err)
{
    if (options->value[OPTION_DTYPE] == NULL) {
        *dtype = missing;
        return OK;
    }
    return read_name(options, OPTION_DTYPE, (struct names){dtype_name, DTYPE_COUNT}, dtype, err);
}

enum status options_device(const struct options *options, int missing, int *device,
                           struct error *err)
{
    if (options->value[OPTION_DEVICE] == NULL) {
        *device = missing;
        return OK;
    }
    return read_name(options, OPTION_DEVICE, (struct names){device_kind_name, DEVICE_KINDS}, device,
                     err);
}

/* ---- help ---- */

static const char exit_codes[] =
    "\nExit codes: 0 success or accepted; 1 trouble with the server or the job; 2 wrong usage or\n"
    "input; of a job that is done: 10 compile_error, 11 link_error, 12 wrong_answer,\n"
    "13 nondeterministic, 14 contract_violation, 15 runtime_error, 16 out_of_memory, 17 deadlock,\n"
    "18 timeout, 19 limit_exceeded, 20 suspect, 21 not_simulable, 22 internal_error.\n";

/* One line: "  --task TASK          the task, by number or name". */
static void help_row(const char *name, const char *value, const char *summary, struct buffer *text)
{
    char form[2 * WORD_MAX];

    (void)snprintf(form, sizeof form, "%s %s", name, value == NULL ? "" : value);
    buffer_printf(text, "  %-20s %s\n", form, summary);
}

static void help_options(unsigned options, struct buffer *text)
{
    for (int i = 0; i < OPTIONS; i++) {
        if ((options >> i & 1) != 0) {
            help_row(option_table[i].name, option_table[i].value, option_table[i].summary, text);
        }
    }
}

void options_help(enum command command, struct buffer *text)
{
    if (command != COMMANDS) {
        const char *operand = command_table[command].operand;
        buffer_printf(text, "usage: pkb %s%s%s [OPTION...]\n%s\n\n", command_table[command].name,
                      operand == NULL ? "" : " ", operand == NULL ? "" : operand,
                      command_table[command].summary);
        help_options(command_table[command].options, text);
    } else {
        buffer_printf(text, "usage: pkb COMMAND [OPTION...]\n"
                            "Has multi-GPU CUDA kernels judged by a pkb server.\n\nCommands:\n");
        for (int i = 0; i < COMMANDS; i++) {
            help_row(command_table[i].name, command_table[i].operand, command_table[i].summary,
                     text);
        }
        buffer_printf(text, "\nOptions of every command:\n");
        help_options(GLOBAL, text);
        buffer_printf(text, "\nOptions of some ('pkb COMMAND --help'):\n");
        help_options(~GLOBAL, text);
    }
    buffer_append(text, exit_codes, strlen(exit_codes));
}
