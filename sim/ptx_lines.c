#include "sim/ptx_parse.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_BUCKETS = 1 << 12, INLINE_DEPTH_MAX = 64, LINES_MAX = 1 << 17 };

/* A position that was named by .loc, and the call it was inlined at (the latest, if several). */
struct position {
    struct location location, outer;
    bool is_inlined;
    uint32_t next;
};

struct line_table {
    bool *is_toolkit;              /* by file, in the module's order */
    uint16_t files[PTX_FILES_MAX]; /* by the number that the PTX gives them: 1 + index, or 0 */
    struct position *positions;
    uint32_t count, capacity;
    uint32_t buckets[LINE_BUCKETS];
    struct {
        uint32_t line, next;
    } * known; /* module->lines by bucket */
    uint32_t known_count, known_capacity;
    uint32_t known_buckets[LINE_BUCKETS];
    uint32_t looks_left; /* at lines that are not the one wanted; then none is found */
};

static bool slice_contains(struct slice slice, const char *text)
{
    return memmem(slice.text, slice.length, text, strlen(text)) != NULL;
}

static bool slice_ends(struct slice slice, const char *text)
{
    size_t length = strlen(text);

    return slice.length >= length && memcmp(slice.text + slice.length - length, text, length) == 0;
}

/* Headers of the toolkit and of the system: a person looks for the line that calls them. */
static bool is_toolkit_path(struct slice path)
{
    return slice_contains(path, "/include/") && !slice_ends(path, ".cu");
}

static char *base_name(struct slice path)
{
    uint32_t start = path.length;

    while (start > 0 && path.text[start - 1] != '/') {
        start--;
    }
    return xstrndup(path.text + start, path.length - start);
}

static void add_file(struct parser *parser, struct line_table *table, uint32_t *capacity,
                     uint64_t number, struct slice path)
{
    struct ptx_module *module = parser->module;

    if (number >= PTX_FILES_MAX || module->file_count == PTX_FILES_MAX) {
        parser_fail(parser, ERR_TOO_LARGE, "more than %d files", PTX_FILES_MAX);
        return;
    }
    if (module->file_count == *capacity) {
        *capacity = *capacity > 0 ? *capacity * 2 : 16;
        module->files = xrealloc(module->files, *capacity * sizeof *module->files);
        table->is_toolkit = xrealloc(table->is_toolkit, *capacity * sizeof *table->is_toolkit);
    }
    table->is_toolkit[module->file_count] = is_toolkit_path(path);
    module->files[module->file_count++] = base_name(path);
    table->files[number] = (uint16_t)module->file_count;
}

/* The compiler puts .file behind the functions, so they are looked for ahead. */
static void read_files(struct parser *parser, struct line_table *table)
{
    const char *at = parser->lexer.token.slice.text;
    const char *end = parser->lexer.end;
    uint32_t capacity = 0;

    while (parser->status == OK && (at = memmem(at, (size_t)(end - at), ".file", 5)) != NULL) {
        struct lexer lexer;
        uint64_t number;
        at += 5;
        lexer_init(&lexer, at, (size_t)(end - at));
        if (lexer.token.kind != TOKEN_INTEGER) {
            continue;
        }
        number = lexer.token.bits;
        lexer_next(&lexer);
        if (lexer.token.kind == TOKEN_STRING) {
            add_file(parser, table, &capacity, number, lexer.token.slice);
        }
    }
}

struct line_table *lines_open(struct parser *parser)
{
    struct line_table *table = xcalloc(1, sizeof *table);
    struct ptx_module *module = parser->module;

    table->looks_left = PTX_LOOKS_MAX;
    memset(table->buckets, 0xff, sizeof table->buckets);
    memset(table->known_buckets, 0xff, sizeof table->known_buckets);
    ptx_grow(&module->lines, &module->line_capacity, module->line_count, sizeof *module->lines);
    module->lines[module->line_count++] = (struct code_line){.file = ""};
    read_files(parser, table);
    return table;
}

void lines_close(struct line_table *table)
{
    free(table->is_toolkit);
    free(table->positions);
    free(table->known);
    free(table);
}

static uint32_t hash_location(struct location location)
{
    return (location.file * 7919 + location.line * 2654435761u + location.column * 31) %
           LINE_BUCKETS;
}

static struct position *find_position(struct line_table *table, struct location location)
{
    uint32_t found = table->buckets[hash_location(location)];

    while (found != PTX_NONE && table->looks_left > 0) {
        struct position *position = &table->positions[found];
        if (memcmp(&position->location, &location, sizeof location) == 0) {
            return position;
        }
        found = position->next;
        table->looks_left--;
    }
    return NULL;
}

static void note_position(struct parser *parser, struct location location,
                          const struct location *outer)
{
    struct line_table *table = parser->line_table;
    struct position *position = find_position(table, location);

    if (position == NULL) {
        if (table->count == LINES_MAX) {
            return; /* reports will name the toolkit's line */
        }
        uint32_t bucket = hash_location(location);
        ptx_grow(&table->positions, &table->capacity, table->count, sizeof *table->positions);
        position = &table->positions[table->count];
        *position = (struct position){.location = location, .next = table->buckets[bucket]};
        table->buckets[bucket] = table->count++;
    }
    position->is_inlined = outer != NULL;
    if (outer != NULL) {
        position->outer = *outer;
    }
}

static uint32_t find_file(const struct parser *parser, uint32_t number)
{
    uint32_t file = number < PTX_FILES_MAX ? parser->line_table->files[number] : 0;

    return file > 0 ? file - 1 : PTX_NONE;
}

/* The innermost position outside the toolkit; the innermost of all where there is none. */
static struct location choose(const struct parser *parser, struct location location)
{
    struct line_table *table = parser->line_table;
    struct location at = location;

    for (int depth = 0; depth < INLINE_DEPTH_MAX; depth++) {
        uint32_t file = find_file(parser, at.file);
        const struct position *position = find_position(table, at);
        if (file != PTX_NONE && !table->is_toolkit[file]) {
            return at;
        }
        if (position == NULL || !position->is_inlined) {
            break;
        }
        at = position->outer;
    }
    return location;
}

/* The index of this line in the module, which gets it if it is new. */
static uint32_t add_line(struct parser *parser, struct location location)
{
    struct ptx_module *module = parser->module;
    struct line_table *table = parser->line_table;
    uint32_t file = find_file(parser, location.file);
    struct code_line line = {
        .file = file != PTX_NONE ? module->files[file] : "",
        .line = location.line,
        .column = location.column,
    };
    uint32_t bucket = hash_location(location);
    uint32_t found = table->known_buckets[bucket];

    while (found != PTX_NONE && table->looks_left > 0) {
        const struct code_line *known = &module->lines[table->known[found].line];
        if (known->file == line.file && known->line == line.line && known->column == line.column) {
            return table->known[found].line;
        }
        found = table->known[found].next;
        table->looks_left--;
    }
    if (module->line_count == LINES_MAX) {
        return 0;
    }
    ptx_grow(&table->known, &table->known_capacity, table->known_count, sizeof *table->known);
    table->known[table->known_count].line = module->line_count;
    table->known[table->known_count].next = table->known_buckets[bucket];
    table->known_buckets[bucket] = table->known_count++;
    ptx_grow(&module->lines, &module->line_capacity, module->line_count, sizeof *module->lines);
    module->lines[module->line_count] = line;
    return module->line_count++;
}

static struct location parse_location(struct parser *parser)
{
    struct location location = {0};

    location.file = (uint32_t)parser_integer(parser);
    location.line = (uint32_t)parser_integer(parser);
    location.column = (uint32_t)parser_integer(parser);
    return location;
}

void lines_parse_loc(struct parser *parser)
{
    struct lexer *lexer = &parser->lexer;
    struct location location = parse_location(parser);
    struct location outer;
    bool is_inlined = false;

    if (lexer_take_mark(lexer, ',')) {
        if (lexer_take(lexer, "function_name")) {
            parser_word(parser);
            if (lexer_take_mark(lexer, '+')) {
                parser_integer(parser);
            }
            parser_expect(parser, ',');
        }
        if (lexer_take(lexer, "inlined_at")) {
            outer = parse_location(parser);
            is_inlined = true;
        }
    }
    note_position(parser, location, is_inlined ? &outer : NULL);
    if (parser->status == OK) {
        parser->line = add_line(parser, choose(parser, location));
    }
}
