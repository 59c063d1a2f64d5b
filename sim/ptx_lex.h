/*
 * ptx_lex.h — PTX text as tokens, one ahead.
 *
 * lexer_init, then look at lexer->token and call lexer_next. What no token starts with is
 * TOKEN_INVALID, and the text ends there: what follows is TOKEN_END, again and again. Slices point
 * into the text.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slice {
    const char *text;
    uint32_t length;
};

bool slice_is(struct slice slice, const char *text);
bool slice_equal(struct slice a, struct slice b);
uint32_t slice_hash(struct slice slice);

enum token_kind {
    TOKEN_END,
    TOKEN_INVALID,
    TOKEN_WORD,    /* add, %r1, $L_2, sm_90a */
    TOKEN_DOT,     /* .s32, .shared::cta: the slice starts with the dot */
    TOKEN_INTEGER, /* `bits` */
    TOKEN_REAL,    /* `bits`: of the double */
    TOKEN_STRING,  /* the slice is without the quotes */
    TOKEN_MARK,    /* one character: `mark` */
};

struct token {
    enum token_kind kind;
    struct slice slice;
    uint64_t bits;
    char mark;
};

struct lexer {
    const char *at, *end;
    uint32_t line;      /* of `token`, from 1 */
    bool is_broken;     /* a TOKEN_INVALID was met */
    struct token token; /* the next one, not yet taken */
};

void lexer_init(struct lexer *lexer, const char *text, size_t size_bytes);
void lexer_next(struct lexer *lexer);

/* The next token is this mark, and is taken. */
bool lexer_take_mark(struct lexer *lexer, char mark);
/* The next token is this word or .word, and is taken. */
bool lexer_take(struct lexer *lexer, const char *text);
