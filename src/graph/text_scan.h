/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of the textual syntax, for its reader. Every failure names line and column. */
#ifndef OPF_GRAPH_TEXT_SCAN_H
#define OPF_GRAPH_TEXT_SCAN_H

#include "base/status.h"
#include "graph/constant.h"
#include "graph/graph.h"

enum { OPF_SCAN_DEPTH = 64 }; /* of nested graphs and of parentheses in a dimension */

typedef struct opf_scan {
    const char *text, *at;
    opf_arena  *arena;
    opf_error  *error;
    int         depth;

    opf_dims       *dims;
    opf_const_pool *consts;
    uint32_t       *unknown_numbers; /* "?7" means one dimension in all of a text */
    opf_dim        *unknown_dims;
    uint32_t        n_unknowns;
} opf_scan;

typedef struct opf_scan_number {
    bool    is_float; /* spelled with a point, an exponent, or as nan or inf */
    int64_t i;        /* uint64 by its bits */
    double  f;        /* the number in either case */
} opf_scan_number;

/* Fails with OPF_INVALID_MODEL at the position of the next token. */
opf_status opf_scan_fail(opf_scan *scan, const char *format, ...) __attribute__((format(printf, 2, 3)));
opf_status opf_scan_unsupported(opf_scan *scan, const char *what);

char opf_scan_peek(opf_scan *scan);                     /* the first character of the next token, 0 at the end */
bool opf_scan_take(opf_scan *scan, const char *symbol); /* takes the next characters if they are these */
opf_status opf_scan_expect(opf_scan *scan, const char *symbol);
bool opf_scan_at_name(opf_scan *scan); /* an identifier or a quoted name comes next */
/* An identifier, or a quoted name (which has no zero byte). */
opf_status opf_scan_name(opf_scan *scan, const char **name);
opf_status opf_scan_string(opf_scan *scan, const char **string, uint32_t *n);
bool opf_scan_at_number(opf_scan *scan);
opf_status opf_scan_number_get(opf_scan *scan, opf_scan_number *number);
opf_status opf_scan_int(opf_scan *scan, int64_t *i);

/* ---- in text_type.c ---- */

bool opf_scan_find_type(const char *name, opf_type *type);
/* What follows a type's name: nothing (rank 0), [] (any rank) or [N, 3]. */
opf_status opf_scan_shape(opf_scan *scan, opf_info *info);
/* What follows the type and shape of a tensor: {1, 2, 3}. */
opf_status opf_scan_data(opf_scan *scan, const opf_info *info, const opf_const **tensor);

/* ---- what the writer needs too ---- */

/* float8 and sub-byte types have no arithmetic here: the text has their bits (of the signed ones, the number). */
bool opf_text_is_raw(opf_type type);
int64_t opf_text_raw_get(opf_type type, const void *data, size_t i);

/* Numbers are read and written with a point, whatever the caller's locale is. */
typedef struct opf_text_locale {
    void *own, *old;
} opf_text_locale;
opf_text_locale opf_text_locale_enter(void);
void opf_text_locale_leave(opf_text_locale *locale);

/* [A-Za-z_][A-Za-z0-9_]*: what needs no quotes. The end of the identifier at name, or name itself. */
const char *opf_text_skip_identifier(const char *name);

#endif
