/* main.c — pkb, the command line client: which command runs, and what its end means to a shell. */
#include "client/client.h"
#include "client/show.h"
#include "common/json_write.h"
#include "common/result.h"

#include <stdint.h>
#include <stdio.h>

/* docs/exit-codes.md and the help say the same. */
enum { EXIT_OK = 0, EXIT_TROUBLE = 1, EXIT_WRONG = 2, EXIT_VERDICTS = 10 };

static enum status (*const commands[COMMANDS])(struct client *client, struct error *err) = {
    [COMMAND_SUBMIT] = cmd_submit, [COMMAND_STATUS] = cmd_status, [COMMAND_LOG] = cmd_log,
    [COMMAND_TASKS] = cmd_tasks,   [COMMAND_TASK] = cmd_task,     [COMMAND_BOARD] = cmd_board,
};

static int exit_code(enum status status, int verdict)
{
    switch (status) {
    case OK:
        return verdict <= VERDICT_ACCEPTED ? EXIT_OK : EXIT_VERDICTS + verdict - 1;
    case ERR_INVALID:
    case ERR_TOO_LARGE:
        return EXIT_WRONG;
    default:
        return EXIT_TROUBLE;
    }
}

/* With --json also on standard output, where a program reads. */
static void show_error(const struct error *err, bool json)
{
    struct buffer text = {0};

    buffer_printf(&text, "pkb: ");
    show_text(err->message, &text);
    (void)fprintf(stderr, "%s\n", text.data);
    if (json) {
        text.size_bytes = 0;
        buffer_printf(&text, "{\"error\":{\"status\":\"%s\",\"detail\":", status_name(err->status));
        json_write_text(&text, err->message, SIZE_MAX);
        if (err->field[0] != 0) {
            buffer_printf(&text, ",\"field\":");
            json_write_text(&text, err->field, SIZE_MAX);
        }
        (void)printf("%s}}\n", text.data);
    }
    buffer_release(&text);
}

static enum status help(enum command command, struct error *err)
{
    struct buffer text = {0};

    options_help(command, &text);
    enum status status = client_print(&text, err);
    buffer_release(&text);
    return status;
}

int main(int count, char *args[])
{
    struct options options = {0};
    struct client client = {.verdict = -1};
    struct error err = {0};

    enum status status = options_read(&options, count, args, &err);
    if (status == OK && options.value[OPTION_HELP] != NULL) {
        status = help(options.command, &err);
    } else if (status == OK) {
        status = client_open(&client, &options, &err);
        if (status == OK) {
            status = commands[options.command](&client, &err);
        }
        client_close(&client);
    }
    if (status != OK) {
        show_error(&err, options.value[OPTION_JSON] != NULL);
    }
    return exit_code(status, client.verdict);
}
