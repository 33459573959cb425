/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of the rule language, with their places. */
#ifndef OPF_FUSE_RULE_SCAN_H
#define OPF_FUSE_RULE_SCAN_H

#include "fuse/rule_parse.h"

typedef enum opf_rule_token_kind {
    OPF_TOKEN_END,
    OPF_TOKEN_NAME,
    OPF_TOKEN_NUMBER,
    OPF_TOKEN_TEXT,
    OPF_TOKEN_PUNCT
} opf_rule_token_kind;

typedef struct opf_rule_token {
    opf_rule_token_kind kind;
    const char *start; /* in the text */
    size_t length;
    opf_rule_place place;
} opf_rule_token;

typedef struct opf_rule_scan {
    const char *file;
    const char *at;
    opf_rule_place place; /* of at */
    opf_rule_token token; /* the next one, not yet taken */
    uint32_t last_line;   /* of the token taken last */
    opf_error *error;
} opf_rule_scan;

/* "file:line:column: message"; OPF_INVALID_ARGUMENT. */
opf_status opf_rule_scan_fail(opf_rule_scan *scan, opf_rule_place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Takes the current token; the next one is read. dashes: a name may hold '-', as names of rules do. */
opf_status opf_rule_take(opf_rule_scan *scan, bool dashes);
/* The same, of a token that must be this character. */
opf_status opf_rule_expect(opf_rule_scan *scan, char c);

bool opf_rule_is_punct(const opf_rule_scan *scan, char c);
bool opf_rule_is_word(const opf_rule_scan *scan, const char *word);
bool opf_rule_is_section(const opf_rule_scan *scan); /* a word that begins a section, or the end */

#endif
