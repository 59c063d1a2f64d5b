/*
 * recipe.h — the commands that nvcc would run, as `nvcc --dryrun` lists them, told apart.
 *
 * recipe_read knows one shape of that list: one source, one architecture, a shared library.
 * Anything else is refused, so that whoever wants to run the commands in another way runs plain
 * nvcc instead.
 */
#pragma once

#include "common/error.h"

#include <stdbool.h>

/* In nvcc's order. */
enum recipe_step {
    RECIPE_HOST_TEXT,     /* preprocess for the host */
    RECIPE_HOST_FRONT,    /* cudafe++: what the host compiler gets */
    RECIPE_DEVICE_TEXT,   /* preprocess for the device */
    RECIPE_DEVICE_CODE,   /* cicc: PTX, and the stub that registers it */
    RECIPE_ASSEMBLE,      /* ptxas */
    RECIPE_PACK,          /* fatbinary */
    RECIPE_HOST_OBJECT,   /* compile for the host, the stub included */
    RECIPE_LINK_DEVICE,   /* nvlink */
    RECIPE_PACK_LINKED,   /* fatbinary */
    RECIPE_LINKED_OBJECT, /* compile what registers that */
    RECIPE_LINK,
    RECIPE_STEPS,
};

enum {
    RECIPE_BYTES_MAX = 64 * 1024,
    RECIPE_WORDS_MAX = 128,
    RECIPE_INSERTS_MAX = 8,
    RECIPE_NAMES_MAX = 32,
};

struct recipe_command {
    char *words[RECIPE_WORDS_MAX + 1];
    int count;
};

struct recipe {
    struct recipe_command steps[RECIPE_STEPS];
    char *names[RECIPE_NAMES_MAX + 1]; /* NAME=value, as nvcc sets them for its commands */
    int name_count;
};

/* ERR_INVALID: not that shape; nothing is left behind. `text` ends with a zero byte. */
enum status recipe_read(struct recipe *recipe, const char *text, struct error *err);
void recipe_release(struct recipe *recipe);

/* The word behind `option` in a command, or, with `option` "…=", the rest of that word; NULL: none.
 */
char **recipe_argument(struct recipe *recipe, enum recipe_step step, const char *option);
/* Adds an option, as the first; at most RECIPE_INSERTS_MAX of them to a command. */
void recipe_insert(struct recipe *recipe, enum recipe_step step, const char *word);
/* As shells name it: "gcc". */
const char *recipe_program(const struct recipe *recipe, enum recipe_step step);
/* The value of one of the names; NULL: none. */
const char *recipe_value(const struct recipe *recipe, const char *name);
