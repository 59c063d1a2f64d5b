/*
 * options.h — the command line: which commands there are, which options each takes, and its words
 * read.
 *
 * An option may stand before or after the command, as `--name value` or `--name=value`; `--` ends
 * the options. What is not understood is ERR_INVALID, with the option or command in err->field and
 * the nearest right one in the message.
 */
#pragma once

#include "common/buffer.h"
#include "common/error.h"

enum option {
    OPTION_SERVER,
    OPTION_TOKEN,
    OPTION_TOKEN_FILE,
    OPTION_JSON,
    OPTION_HELP,
    OPTION_TASK,
    OPTION_WORLD,
    OPTION_DTYPE,
    OPTION_DEVICE,
    OPTION_MODEL,
    OPTION_WAIT,
    OPTION_HEADER,
    OPTION_REPLAY,
    OPTIONS,
};

enum command {
    COMMAND_SUBMIT,
    COMMAND_STATUS,
    COMMAND_LOG,
    COMMAND_TASKS,
    COMMAND_TASK,
    COMMAND_BOARD,
    COMMANDS, /* none given: only with OPTION_HELP */
};

struct options {
    enum command command;
    const char *operand;        /* the FILE, ID or TASK; NULL where the command takes none */
    const char *value[OPTIONS]; /* NULL: not given; "" for those without a value */
};

/* The texts in `options` are those of `args`, which begins with the program's name. After an error
 * only whether --json is among them is set: that says how to report it. */
enum status options_read(struct options *options, int count, char *const args[], struct error *err);

/* Of --world: 0 where it was not given. Of --dtype and --device: `missing`. ERR_INVALID says which
 * there are. */
enum status options_world(const struct options *options, int *world, struct error *err);
enum status options_dtype(const struct options *options, int missing, int *dtype,
                          struct error *err);
enum status options_device(const struct options *options, int missing, int *device,
                           struct error *err);

/* The whole help, or that of one command. */
void options_help(enum command command, struct buffer *text);
