#include "sim/print.h"

#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "sim/access.h"
#include "sim/exec.h"

enum { TEXT_MAX = 4096, SPECIFIER_MAX = 32, WIDTH_MAX = 1000 };

/* One conversion: "%-8.3lld". */
struct specifier {
    char text[SPECIFIER_MAX + 8];
    size_t length;
    char conversion;
    bool is_long; /* 8 bytes */
};

/* Where the arguments of a printf are read: each aligned to its size. */
struct arguments {
    struct warp *warp;
    int lane;
    uint64_t at;
    int count;
};

/* Copies the string at a generic address; false where it is not readable. */
static bool read_text(struct warp *warp, int lane, uint64_t address, char text[TEXT_MAX])
{
    for (size_t i = 0; i < TEXT_MAX - 1; i++) {
        if (!access_read(warp, lane, address + i, &text[i], 1)) {
            return false;
        }
        if (text[i] == 0) {
            return true;
        }
    }
    text[TEXT_MAX - 1] = 0;
    return true;
}

static uint64_t next_argument(struct arguments *arguments, uint32_t size_bytes)
{
    uint64_t value = 0;

    arguments->at = (arguments->at + size_bytes - 1) & ~(uint64_t)(size_bytes - 1);
    (void)access_read(arguments->warp, arguments->lane, arguments->at, &value, size_bytes);
    arguments->at += size_bytes;
    arguments->count++;
    return value;
}

static void append_char(struct specifier *specifier, char letter)
{
    if (specifier->length < SPECIFIER_MAX) {
        specifier->text[specifier->length++] = letter;
    }
}

static const char *read_number(const char *format, struct specifier *specifier,
                               struct arguments *arguments)
{
    char digits[16];
    long value = 0;

    if (*format == '*') {
        value = (int32_t)next_argument(arguments, 4);
        format++;
    } else {
        while (*format >= '0' && *format <= '9') {
            value = value < WIDTH_MAX ? value * 10 + (*format - '0') : value;
            format++;
        }
    }
    value = value > WIDTH_MAX ? WIDTH_MAX : value < -WIDTH_MAX ? -WIDTH_MAX : value;
    (void)snprintf(digits, sizeof(digits), "%ld", value);
    for (const char *digit = digits; *digit; digit++) {
        append_char(specifier, *digit);
    }
    return format;
}

/* Reads what follows a '%'; returns where the text goes on. */
static const char *read_specifier(const char *format, struct specifier *specifier,
                                  struct arguments *arguments)
{
    append_char(specifier, '%');
    while (*format && strchr("-+ #0", *format)) {
        if (specifier->length < 8) {
            append_char(specifier, *format);
        }
        format++;
    }
    if (*format == '*' || (*format >= '1' && *format <= '9')) {
        format = read_number(format, specifier, arguments);
    }
    if (*format == '.') {
        append_char(specifier, '.');
        format = read_number(format + 1, specifier, arguments);
    }
    while (*format && strchr("hlLqjzt", *format)) {
        specifier->is_long = specifier->is_long || strchr("lLqjzt", *format);
        format++;
    }
    specifier->conversion = *format;
    return *format ? format + 1 : format;
}

static void format_integer(struct buffer *text, struct specifier *specifier, uint64_t value)
{
    char conversion = specifier->conversion;
    bool is_signed = conversion == 'd' || conversion == 'i';
    int64_t number = is_signed && !specifier->is_long ? (int32_t)value : (int64_t)value;
    char out[WIDTH_MAX * 2 + 64];

    append_char(specifier, 'l');
    append_char(specifier, 'l');
    append_char(specifier, conversion);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(out, sizeof(out), specifier->text, number);
#pragma GCC diagnostic pop
    buffer_append(text, out, strlen(out));
}

static void format_double(struct buffer *text, struct specifier *specifier, uint64_t bits)
{
    char out[WIDTH_MAX * 2 + 512];
    double value;

    memcpy(&value, &bits, sizeof(value));
    append_char(specifier, specifier->conversion);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(out, sizeof(out), specifier->text, value);
#pragma GCC diagnostic pop
    buffer_append(text, out, strlen(out));
}

static void format_string(struct buffer *text, struct specifier *specifier,
                          struct arguments *arguments, uint64_t address)
{
    char string[TEXT_MAX];
    char out[TEXT_MAX + WIDTH_MAX];

    if (!read_text(arguments->warp, arguments->lane, address, string)) {
        (void)snprintf(string, sizeof(string), "(null)");
    }
    append_char(specifier, 's');
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(out, sizeof(out), specifier->text, string);
#pragma GCC diagnostic pop
    buffer_append(text, out, strlen(out));
}

static void format_one(struct buffer *text, struct specifier *specifier,
                       struct arguments *arguments)
{
    switch (specifier->conversion) {
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
        format_integer(text, specifier, next_argument(arguments, specifier->is_long ? 8 : 4));
        break;
    case 'c': {
        char letter = (char)next_argument(arguments, 4);
        buffer_append(text, &letter, 1);
        break;
    }
    case 'p':
        buffer_printf(text, "%#lx", next_argument(arguments, 8));
        break;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
        format_double(text, specifier, next_argument(arguments, 8));
        break;
    case 's':
        format_string(text, specifier, arguments, next_argument(arguments, 8));
        break;
    default:
        buffer_append(text, specifier->text, specifier->length);
        break;
    }
}

int print_line(struct warp *warp, int lane, uint64_t format, uint64_t address)
{
    struct arguments arguments = {.warp = warp, .lane = lane, .at = address};
    struct buffer *text = &warp->grid->output;
    char pattern[TEXT_MAX];

    warp->threads += PRINT_COST;
    if (!read_text(warp, lane, format, pattern)) {
        return -1;
    }
    if (text->size_bytes >= OUTPUT_MAX_BYTES) {
        return 0;
    }
    for (const char *at = pattern; *at;) {
        size_t plain = strcspn(at, "%");
        buffer_append(text, at, plain);
        at += plain;
        if (at[0] == '%' && at[1] == '%') {
            buffer_append(text, "%", 1);
            at += 2;
        } else if (at[0] == '%') {
            struct specifier specifier = {0};
            at = read_specifier(at + 1, &specifier, &arguments);
            format_one(text, &specifier, &arguments);
        }
    }
    return arguments.count;
}

char *print_assertion(struct warp *warp, const struct insn *insn, int lane)
{
    char message[TEXT_MAX];
    char file[TEXT_MAX];
    char function[TEXT_MAX];

    if (!read_text(warp, lane, SOURCE(uint64_t, 0)[lane], message)) {
        (void)snprintf(message, sizeof(message), "?");
    }
    if (!read_text(warp, lane, SOURCE(uint64_t, 1)[lane], file)) {
        (void)snprintf(file, sizeof(file), "?");
    }
    if (!read_text(warp, lane, SOURCE(uint64_t, 3)[lane], function)) {
        (void)snprintf(function, sizeof(function), "?");
    }
    const char *base = strrchr(file, '/');
    uint32_t thread = warp->index * WARP_LANES + (uint32_t)lane;
    const uint32_t *block = warp->grid->launch.block;
    return xasprintf("%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.",
                     base ? base + 1 : file, SOURCE(uint32_t, 2)[lane], function, warp->cta->id[0],
                     warp->cta->id[1], warp->cta->id[2], thread % block[0],
                     thread / block[0] % block[1], thread / block[0] / block[1], message);
}
