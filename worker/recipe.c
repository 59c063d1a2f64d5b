#include "worker/recipe.h"

#include "common/buffer.h"
#include "common/mem.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* How each command is known: its program, and a word or the end of one that it has. */
static const struct {
    const char *program, *mark;
} shape[RECIPE_STEPS] = {
    [RECIPE_HOST_TEXT] = {"gcc", ".cpp4.ii"},
    [RECIPE_HOST_FRONT] = {"cudafe++", ".cudafe1.cpp"},
    [RECIPE_DEVICE_TEXT] = {"gcc", ".cpp1.ii"},
    [RECIPE_DEVICE_CODE] = {"cicc", ".ptx"},
    [RECIPE_ASSEMBLE] = {"ptxas", ".cubin"},
    [RECIPE_PACK] = {"fatbinary", ".fatbin.c"},
    [RECIPE_HOST_OBJECT] = {"gcc", ".cudafe1.cpp"},
    [RECIPE_LINK_DEVICE] = {"nvlink", ".cubin"},
    [RECIPE_PACK_LINKED] = {"fatbinary", "_dlink.fatbin.c"},
    [RECIPE_LINKED_OBJECT] = {"gcc", "link.stub"},
    [RECIPE_LINK] = {"g++", "-shared"},
};

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);

    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

const char *recipe_value(const struct recipe *recipe, const char *name)
{
    size_t length = strlen(name);

    for (int i = 0; i < recipe->name_count; i++) {
        if (strncmp(recipe->names[i], name, length) == 0 && recipe->names[i][length] == '=') {
            return recipe->names[i] + length + 1;
        }
    }
    return NULL;
}

/* ---- the words of a line, as a shell would see them ---- */

/* $NAME at *at becomes its value. False: there is none. */
static bool take_value(const struct recipe *recipe, const char **at, struct buffer *word)
{
    char name[64];
    size_t length = 0;

    for (++*at; isalnum((unsigned char)**at) != 0 || **at == '_'; ++*at) {
        if (length + 1 == sizeof name) {
            return false;
        }
        name[length++] = **at;
    }
    name[length] = 0;
    const char *value = recipe_value(recipe, name);
    if (value == NULL) {
        return false;
    }
    buffer_append(word, value, strlen(value));
    return true;
}

/* One word from *at on. False: a shell would do more with it than we know. */
static bool take_word(const struct recipe *recipe, const char **at, struct buffer *word)
{
    bool is_quoted = false;

    for (; **at != 0 && (is_quoted || **at != ' ');) {
        if (**at == '"') {
            is_quoted = !is_quoted;
            ++*at;
        } else if (**at == '$') {
            if (!take_value(recipe, at, word)) {
                return false;
            }
        } else if (**at == '\\' && (*at)[1] != 0) {
            buffer_append(word, *at + 1, 1);
            *at += 2;
        } else if (strchr("`'", **at) != NULL ||
                   (!is_quoted && strchr(";|&<>()*?[]{}~!#", **at) != NULL)) {
            return false;
        } else {
            buffer_append(word, *at, 1);
            ++*at;
        }
    }
    buffer_append(word, "", 1);
    return !is_quoted;
}

static void release_command(struct recipe_command *command)
{
    for (int i = 0; i < command->count; i++) {
        free(command->words[i]);
    }
    *command = (struct recipe_command){0};
}

static bool take_command(const struct recipe *recipe, const char *line,
                         struct recipe_command *command)
{
    struct recipe_command made = {0};
    bool is_right = true;

    while (is_right && *line != 0) {
        struct buffer word = {0};
        while (*line == ' ') {
            line++;
        }
        if (*line == 0) {
            break;
        }
        is_right =
            made.count < RECIPE_WORDS_MAX - RECIPE_INSERTS_MAX && take_word(recipe, &line, &word);
        if (is_right) {
            made.words[made.count++] = word.data;
        } else {
            buffer_release(&word);
        }
    }
    if (!is_right || made.count == 0) {
        release_command(&made);
        return false;
    }
    *command = made;
    return true;
}

/* ---- the list ---- */

static const char *program_of(const struct recipe_command *command)
{
    const char *slash = strrchr(command->words[0], '/');

    return slash == NULL ? command->words[0] : slash + 1;
}

static bool is_expected(const struct recipe_command *command, int step)
{
    bool has_mark = false;

    for (int i = 1; i < command->count; i++) {
        has_mark |= ends_with(command->words[i], shape[step].mark);
    }
    return has_mark && strcmp(program_of(command), shape[step].program) == 0;
}

/* NAME=value: what nvcc sets; true where it is that. */
static bool take_name(struct recipe *recipe, const char *line)
{
    size_t length = 0;

    while (isalnum((unsigned char)line[length]) != 0 || line[length] == '_') {
        length++;
    }
    if (length == 0 || line[length] != '=') {
        return false;
    }
    if (recipe->name_count < RECIPE_NAMES_MAX) {
        recipe->names[recipe->name_count++] = xstrdup(line);
    }
    return true;
}

static enum status take_line(struct recipe *recipe, const char *line, int *step, struct error *err)
{
    struct recipe_command command = {0};

    if (take_name(recipe, line)) {
        return OK;
    }
    if (!take_command(recipe, line, &command)) {
        return error_set(err, ERR_INVALID, "a command of nvcc that cannot be read");
    }
    if (strcmp(program_of(&command), "rm") == 0) {
        release_command(&command);
        return OK;
    }
    if (*step == RECIPE_STEPS || !is_expected(&command, *step)) {
        release_command(&command);
        return error_set(err, ERR_INVALID, "command %d of nvcc is not the one that is known",
                         *step + 1);
    }
    recipe->steps[(*step)++] = command;
    return OK;
}

enum status recipe_read(struct recipe *recipe, const char *text, struct error *err)
{
    static const char start[] = "#$ ";
    struct recipe made = {0};
    enum status status = OK;
    int step = 0;

    while (status == OK && *text != 0) {
        size_t length = strcspn(text, "\n");
        if (strncmp(text, start, strlen(start)) != 0) {
            status = error_set(err, ERR_INVALID, "nvcc lists something that is no command");
        } else {
            char *line = xstrndup(text + strlen(start), length - strlen(start));
            status = take_line(&made, line, &step, err);
            free(line);
        }
        text += length + (text[length] == '\n' ? 1 : 0);
    }
    if (status == OK && step < RECIPE_STEPS) {
        status = error_set(err, ERR_INVALID, "nvcc lists %d commands only", step);
    }
    if (status != OK) {
        recipe_release(&made);
        return status;
    }
    *recipe = made;
    return OK;
}

void recipe_release(struct recipe *recipe)
{
    for (int step = 0; step < RECIPE_STEPS; step++) {
        release_command(&recipe->steps[step]);
    }
    for (int i = 0; i < recipe->name_count; i++) {
        free(recipe->names[i]);
    }
    *recipe = (struct recipe){0};
}

char **recipe_argument(struct recipe *recipe, enum recipe_step step, const char *option)
{
    struct recipe_command *command = &recipe->steps[step];

    for (int i = 1; i + 1 < command->count; i++) {
        if (strcmp(command->words[i], option) == 0) {
            return &command->words[i + 1];
        }
    }
    return NULL;
}

void recipe_insert(struct recipe *recipe, enum recipe_step step, const char *word)
{
    struct recipe_command *command = &recipe->steps[step];

    assert(command->count < RECIPE_WORDS_MAX);
    memmove(command->words + 2, command->words + 1,
            (size_t)(command->count - 1) * sizeof *command->words);
    command->words[1] = xstrdup(word);
    command->count++;
}

const char *recipe_program(const struct recipe *recipe, enum recipe_step step)
{
    return program_of(&recipe->steps[step]);
}
