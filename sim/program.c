#include "sim/program.h"

#include "common/log.h"
#include "common/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SYMBOL_ALIGN = 256 };

static const struct image *find_image(const struct image_set *set, uint64_t hash)
{
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->images[i]->hash == hash) {
            return set->images[i];
        }
    }
    return NULL;
}

static void read_file(struct image_file *file)
{
    struct error err = {0};

    if (image_set_read(&file->set, file->elf, file->size_bytes, &err)) {
        log_event(LOG_WARN, "simd.image", "path=%s message=%s", file->path, err.message);
    }
    munmap(file->elf, file->size_bytes);
    file->elf = NULL;
}

const struct image *program_image(struct machine *machine, uint64_t hash)
{
    const struct image *image = NULL;

    for (int i = 0; !image && i < machine->image_count; i++) {
        if (machine->images[i].elf) {
            read_file(&machine->images[i]);
        }
        image = find_image(&machine->images[i].set, hash);
    }
    return image;
}

struct program *program_open(struct client *client, const struct image *image)
{
    struct program *program = xcalloc(1, sizeof *program);

    *program = (struct program){.client = client, .image = image, .next = client->programs};
    program->id = handles_add(&client->handles, HANDLE_PROGRAM, program);
    if (!program->id) {
        free(program);
        return NULL;
    }
    client->programs = program;
    return program;
}

static void instance_close(struct program *program, struct instance *instance)
{
    struct error err = {0};

    for (uint32_t i = 0; instance->addresses && i < program->image->symbol_count; i++) {
        if (instance->addresses[i]) {
            (void)region_remove(program->client, instance->addresses[i], &err);
        }
    }
    if (instance->module) {
        module_close(instance->module);
    }
    free(instance->addresses);
    *instance = (struct instance){0};
}

void program_close(struct program *program)
{
    struct client *client = program->client;
    struct program **link = &client->programs;

    while (*link != program) {
        link = &(*link)->next;
    }
    *link = program->next;
    handles_remove(&client->handles, program->id);
    for (size_t i = 0; i < client->handles.count; i++) {
        struct handle *handle = &client->handles.rows[i];
        struct function *function = handle->thing;
        if (handle->kind == HANDLE_FUNCTION && function->program == program) {
            free(function);
            *handle = (struct handle){.kind = HANDLE_NONE};
        }
    }
    for (int device = 0; device < WORLD_MAX; device++) {
        instance_close(program, &program->instances[device]);
    }
    free(program);
}

void programs_release(struct client *client)
{
    while (client->programs) {
        program_close(client->programs);
    }
}

/* Words that hold the address of another symbol get it. */
static void relocate(const struct image *image, const struct code_symbol *symbol, uint8_t *bytes,
                     const uint64_t *addresses)
{
    for (uint32_t i = 0; i < symbol->relocation_count; i++) {
        uint64_t at = symbol->relocations[i].at;
        uint32_t other = symbol->relocations[i].symbol;
        if (other < image->symbol_count && at + sizeof(uint64_t) <= symbol->size_bytes) {
            uint64_t address = addresses[other] + (uint64_t)symbol->relocations[i].addend;
            memcpy(bytes + at, &address, sizeof address);
        }
    }
}

static uint64_t round_up(uint64_t value, uint64_t align)
{
    return (value + align - 1) / align * align;
}

/* Maps each symbol by itself, with its exact bounds. */
static enum status map_symbols(struct program *program, struct object *object,
                               struct instance *instance, struct error *err)
{
    struct client *client = program->client;
    const struct image *image = program->image;
    uint64_t base = client->private_next;
    uint64_t offset = 0;
    enum status status = OK;

    client->private_next += round_up(object->size_bytes, 2 << 20) + (2 << 20);
    for (uint32_t i = 0; !status && i < image->symbol_count; i++) {
        const struct code_symbol *symbol = &image->symbols[i];
        offset = round_up(offset, SYMBOL_ALIGN);
        if (!symbol->size_bytes) {
            continue;
        }
        int access = MAP_READ | MAP_WRITE; /* the host writes constants, too */
        status = region_add(client,
                            (struct region){.address = base + offset,
                                            .size_bytes = symbol->size_bytes,
                                            .offset_bytes = offset,
                                            .object = object,
                                            .kind = REGION_SYMBOL,
                                            .access = access},
                            err);
        if (!status) {
            instance->addresses[i] = base + offset;
        }
        offset += symbol->size_bytes + SYMBOL_ALIGN;
    }
    return status;
}

static void fill_symbols(const struct program *program, struct object *object,
                         const struct instance *instance)
{
    const struct image *image = program->image;

    for (uint32_t i = 0; i < image->symbol_count; i++) {
        const struct code_symbol *symbol = &image->symbols[i];
        const struct region *region = region_find(program->client, instance->addresses[i]);
        if (!region) {
            continue;
        }
        uint8_t *bytes = object->host + region->offset_bytes;
        if (symbol->initial) {
            memcpy(bytes, symbol->initial, symbol->size_bytes);
        }
        relocate(image, symbol, bytes, instance->addresses);
        engine_note_write(program->client->machine->engine, program->client->space, region->address,
                          region->size_bytes);
    }
}

enum status program_instance(struct program *program, int device, struct instance **instance,
                             struct error *err)
{
    const struct image *image = program->image;
    struct instance *made = &program->instances[device];
    struct object *object = NULL;
    enum status status = OK;
    uint64_t size_bytes = 0;

    if (made->module) {
        *instance = made;
        return OK;
    }
    made->addresses = xcalloc(image->symbol_count + 1, sizeof *made->addresses);
    for (uint32_t i = 0; i < image->symbol_count; i++) {
        size_bytes =
            round_up(size_bytes, SYMBOL_ALIGN) + image->symbols[i].size_bytes + SYMBOL_ALIGN;
    }
    if (size_bytes) {
        status =
            object_open(&object,
                        &(struct object_request){
                            .payer = program->client, .size_bytes = size_bytes, .device = device},
                        err);
        if (status) {
            goto out;
        }
        status = map_symbols(program, object, made, err);
        if (status) {
            goto out;
        }
        fill_symbols(program, object, made);
    }
    made->module = module_open(program->client->space, image, made->addresses);
    *instance = made;
out:
    if (object) {
        object_release(object);
    }
    if (status) {
        instance_close(program, made);
    }
    return status;
}

int program_symbol(const struct program *program, const char *name)
{
    for (uint32_t i = 0; i < program->image->symbol_count; i++) {
        if (strcmp(program->image->symbols[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}
