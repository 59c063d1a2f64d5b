#include "sim/ptx_lex.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBER_LENGTH_MAX = 64 };

bool slice_is(struct slice slice, const char *text)
{
    size_t length = strlen(text);

    return slice.length == length && memcmp(slice.text, text, length) == 0;
}

bool slice_equal(struct slice a, struct slice b)
{
    return a.length == b.length && memcmp(a.text, b.text, a.length) == 0;
}

uint32_t slice_hash(struct slice slice)
{
    uint32_t hash = 2166136261u;

    for (uint32_t i = 0; i < slice.length; i++) {
        hash = (hash ^ (unsigned char)slice.text[i]) * 16777619u;
    }
    return hash ^ hash >> 15;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}

static bool is_word(char c)
{
    return is_word_start(c) || is_digit(c);
}

static int hex_digit(char c)
{
    if (is_digit(c)) {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void lexer_init(struct lexer *lexer, const char *text, size_t size_bytes)
{
    const char *zero = memchr(text, 0, size_bytes);

    *lexer = (struct lexer){
        .at = text,
        .end = zero != NULL ? zero : text + size_bytes,
        .line = 1,
    };
    lexer_next(lexer);
}

static const char *find_comment_end(const char *at, const char *end)
{
    for (; at + 1 < end; at++) {
        if (at[0] == '*' && at[1] == '/') {
            return at + 2;
        }
    }
    return end;
}

static void skip_blank(struct lexer *lexer)
{
    while (lexer->at < lexer->end) {
        char c = *lexer->at;
        if (c == '\n') {
            lexer->line++;
            lexer->at++;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            lexer->at++;
        } else if (c == '/' && lexer->at + 1 < lexer->end && lexer->at[1] == '/') {
            const char *line_end = memchr(lexer->at, '\n', (size_t)(lexer->end - lexer->at));
            lexer->at = line_end != NULL ? line_end : lexer->end;
        } else if (c == '/' && lexer->at + 1 < lexer->end && lexer->at[1] == '*') {
            const char *after = find_comment_end(lexer->at + 2, lexer->end);
            for (; lexer->at < after; lexer->at++) {
                lexer->line += *lexer->at == '\n';
            }
        } else {
            return;
        }
    }
}

/* 0fXXXXXXXX and 0dXXXXXXXXXXXXXXXX: the bits of a float or a double. */
static bool lex_real_bits(struct lexer *lexer, int digits)
{
    const char *at = lexer->at + 2;
    uint64_t bits = 0;

    if (lexer->end - at < digits) {
        return false;
    }
    for (int i = 0; i < digits; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0) {
            return false;
        }
        bits = bits << 4 | (unsigned)digit;
    }
    if (digits == 8) {
        uint32_t narrow = (uint32_t)bits;
        float single;
        memcpy(&single, &narrow, sizeof single);
        double wide = single;
        memcpy(&bits, &wide, sizeof bits);
        if ((narrow & 0x7f800000) == 0x7f800000 && (narrow & 0x7fffff) != 0) {
            /* The conversion would quiet a NaN; its payload must survive. */
            bits = (uint64_t)(narrow >> 31) << 63 | 0x7ff0000000000000u |
                   (uint64_t)(narrow & 0x7fffff) << 29;
        }
    }
    lexer->token.kind = TOKEN_REAL;
    lexer->token.bits = bits;
    lexer->at = at + digits;
    return true;
}

static void lex_decimal_real(struct lexer *lexer, const char *end)
{
    char copy[NUMBER_LENGTH_MAX];
    size_t length = (size_t)(end - lexer->at);
    double value;

    if (length >= sizeof copy) {
        lexer->token.kind = TOKEN_INVALID;
        return;
    }
    memcpy(copy, lexer->at, length);
    copy[length] = 0;
    value = strtod(copy, NULL);
    lexer->token.kind = TOKEN_REAL;
    memcpy(&lexer->token.bits, &value, sizeof value);
    lexer->at = end;
}

static void lex_integer(struct lexer *lexer)
{
    unsigned base = 10;
    uint64_t value = 0;

    if (*lexer->at == '0' && lexer->at + 1 < lexer->end) {
        char c = lexer->at[1] | 0x20;
        base = c == 'x' ? 16 : c == 'b' ? 2 : is_digit(lexer->at[1]) ? 8 : 10;
        lexer->at += base == 16 || base == 2 ? 2 : 0;
    }
    while (lexer->at < lexer->end) {
        int digit = hex_digit(*lexer->at);
        if (digit < 0 || (unsigned)digit >= base) {
            break;
        }
        value = value * base + (unsigned)digit;
        lexer->at++;
    }
    if (lexer->at < lexer->end && *lexer->at == 'U') {
        lexer->at++;
    }
    lexer->token.kind = TOKEN_INTEGER;
    lexer->token.bits = value;
}

static void lex_number(struct lexer *lexer)
{
    const char *at = lexer->at;
    bool is_real = false;

    if (*at == '0' && at + 1 < lexer->end) {
        char c = at[1] | 0x20;
        if ((c == 'f' && lex_real_bits(lexer, 8)) || (c == 'd' && lex_real_bits(lexer, 16))) {
            return;
        }
    }
    while (at < lexer->end && is_digit(*at)) {
        at++;
    }
    if (at + 1 < lexer->end && *at == '.' && is_digit(at[1])) {
        is_real = true;
        at++;
        while (at < lexer->end && is_digit(*at)) {
            at++;
        }
    }
    if (at + 1 < lexer->end && (*at | 0x20) == 'e' &&
        (is_digit(at[1]) || at[1] == '-' || at[1] == '+')) {
        is_real = true;
        at += 2;
        while (at < lexer->end && is_digit(*at)) {
            at++;
        }
    }
    if (is_real) {
        lex_decimal_real(lexer, at);
    } else {
        lex_integer(lexer);
    }
}

/* `.` and a name; `::` joins two. A dot alone is a mark. */
static void lex_dot(struct lexer *lexer)
{
    const char *at = lexer->at + 1;

    while (at < lexer->end) {
        if (is_word(*at)) {
            at++;
        } else if (at + 2 < lexer->end && at[0] == ':' && at[1] == ':' && is_word(at[2])) {
            at += 2;
        } else {
            break;
        }
    }
    lexer->token.kind = at > lexer->at + 1 ? TOKEN_DOT : TOKEN_MARK;
    lexer->token.mark = '.';
    lexer->at = at;
}

static void lex_string(struct lexer *lexer)
{
    const char *at = lexer->at + 1;

    while (at < lexer->end && *at != '"' && *at != '\n') {
        at++;
    }
    if (at == lexer->end || *at != '"') {
        lexer->token.kind = TOKEN_INVALID;
        return;
    }
    lexer->token.kind = TOKEN_STRING;
    lexer->token.slice = (struct slice){lexer->at + 1, (uint32_t)(at - lexer->at - 1)};
    lexer->at = at + 1;
}

static void lex_token(struct lexer *lexer)
{
    const char *start;
    char c;

    skip_blank(lexer);
    start = lexer->at;
    lexer->token = (struct token){.slice = {start, 0}};
    if (start == lexer->end) {
        return;
    }
    c = *start;
    if (c == '"') {
        lex_string(lexer);
        return;
    }
    if (is_digit(c)) {
        lex_number(lexer);
    } else if (is_word_start(c)) {
        lexer->token.kind = TOKEN_WORD;
        while (lexer->at < lexer->end && is_word(*lexer->at)) {
            lexer->at++;
        }
    } else if (c == '.') {
        lex_dot(lexer);
    } else if (strchr("{}[]()<>,;:|@!+-*/=~&^?", c) != NULL) {
        lexer->token.kind = TOKEN_MARK;
        lexer->token.mark = c;
        lexer->at++;
    } else {
        lexer->token.kind = TOKEN_INVALID;
    }
    lexer->token.slice.length = (uint32_t)(lexer->at - start);
}

void lexer_next(struct lexer *lexer)
{
    lex_token(lexer);
    if (lexer->token.kind == TOKEN_INVALID) {
        lexer->is_broken = true;
        lexer->at = lexer->end;
    }
}

bool lexer_take_mark(struct lexer *lexer, char mark)
{
    if (lexer->token.kind != TOKEN_MARK || lexer->token.mark != mark) {
        return false;
    }
    lexer_next(lexer);
    return true;
}

bool lexer_take(struct lexer *lexer, const char *text)
{
    bool is_name = lexer->token.kind == TOKEN_WORD || lexer->token.kind == TOKEN_DOT;

    if (!is_name || !slice_is(lexer->token.slice, text)) {
        return false;
    }
    lexer_next(lexer);
    return true;
}
