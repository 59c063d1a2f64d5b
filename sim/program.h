/*
 * program.h — the images that a client has loaded, their kernels, and their variables on each
 * device.
 *
 * A program is one load of one of the machine's images. It gets an instance on a device, with
 * memory for the variables, when it is first used there. A function is a kernel of a program with
 * the attributes that the client set.
 */
#pragma once

#include "common/error.h"
#include "sim/engine.h"
#include "sim/machine.h"

#include <stdint.h>

struct instance {
    struct module *module; /* NULL: not used on this device yet */
    uint64_t *addresses;   /* of the image's symbols */
};
struct program {
    struct program *next;
    struct client *client;
    uint64_t id;
    const struct image *image;
    struct instance instances[WORLD_MAX];
};
struct function {
    struct program *program;
    const struct kernel *kernel;
    uint32_t dynamic_shared_max;
};

enum { PROGRAM_SHARED_DEFAULT = 48 * 1024, PROGRAM_SHARED_MAX = 227 * 1024 };

/* The image whose fatbin has this hash, among those that the machine was given; or NULL. */
const struct image *program_image(struct machine *machine, uint64_t hash);

/* NULL where the client has made too much. */
struct program *program_open(struct client *client, const struct image *image);
/* Its instances and their memory go; functions of it must not be used any more. */
void program_close(struct program *program);
void programs_release(struct client *client);

/* The instance on `device`, made now if there is none. ERR_LIMIT where memory is out. */
enum status program_instance(struct program *program, int device, struct instance **instance,
                             struct error *err);

/* The index of the symbol called `name`, or -1. */
int program_symbol(const struct program *program, const char *name);
