/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/einsum.h"

#include <string.h>

enum { ELLIPSIS = -1 }; /* a label, before it is expanded */

static int32_t letter_label(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    return c >= 'a' && c <= 'z' ? 26 + (c - 'a') : -1;
}

/* One term, up to a comma, an arrow or the end; the ellipsis is one label for now. */
static opf_status scan_term(const char **text, opf_einsum_term *t, opf_error *error)
{
    *t = (opf_einsum_term){.ellipsis = -1};
    for (;; (*text)++) {
        const char *p = *text;
        if (*p == '\0' || *p == ',' || (p[0] == '-' && p[1] == '>'))
            return OPF_OK;
        if (*p == ' ')
            continue;
        OPF_FAIL_IF(error, t->n > OPF_MAX_RANK, OPF_LIMIT, "equation: a term has more than %d labels", OPF_MAX_RANK);
        int32_t label = letter_label(*p);
        if (label >= 0) {
            t->labels[t->n++] = (int8_t)label;
            continue;
        }
        OPF_FAIL_IF(error, strncmp(p, "...", 3) != 0, OPF_INVALID_MODEL,
                    "equation: '%c' is neither a letter nor ...", *p);
        OPF_FAIL_IF(error, t->ellipsis >= 0, OPF_INVALID_MODEL, "equation: a term has two ellipses");
        t->ellipsis       = 0;
        t->labels[t->n++] = ELLIPSIS;
        *text += 2;
    }
}

/* The ellipsis becomes labels of `count` dimensions. */
static opf_status expand(opf_einsum_term *t, int32_t count, opf_error *error)
{
    int8_t  labels[OPF_MAX_RANK];
    int32_t n = 0;
    count = t->ellipsis >= 0 ? count : 0;
    OPF_FAIL_IF(error, t->n - (t->ellipsis >= 0) + count > OPF_MAX_RANK, OPF_LIMIT,
                "equation: a term has more than %d dimensions", OPF_MAX_RANK);
    for (int32_t i = 0; i < t->n; i++) {
        if (t->labels[i] != ELLIPSIS)
            labels[n++] = t->labels[i];
        else
            for (int32_t k = 0; k < count; k++)
                labels[n++] = (int8_t)(OPF_EINSUM_LABELS - count + k);
    }
    memcpy(t->labels, labels, (size_t)n * sizeof *labels);
    t->n        = n;
    t->ellipsis = t->ellipsis >= 0 ? count : -1;
    return OPF_OK;
}

/* Without an arrow: the ellipsis, then the letters that occur once, in the order of their codes. */
static opf_status imply_output(opf_einsum_equation *e, opf_error *error)
{
    int32_t times[OPF_EINSUM_LETTERS] = {0};
    e->out                 = (opf_einsum_term){.ellipsis = -1};
    for (uint32_t i = 0; i < e->n_in; i++) {
        if (e->in[i].ellipsis >= 0)
            e->out.ellipsis = 0;
        for (int32_t k = 0; k < e->in[i].n; k++)
            if (e->in[i].labels[k] >= 0 && e->in[i].labels[k] < OPF_EINSUM_LETTERS)
                times[e->in[i].labels[k]]++;
    }
    if (e->out.ellipsis == 0)
        e->out.labels[e->out.n++] = ELLIPSIS;
    for (int32_t label = 0; label < OPF_EINSUM_LETTERS; label++) {
        if (times[label] != 1)
            continue;
        OPF_FAIL_IF(error, e->out.n > OPF_MAX_RANK, OPF_LIMIT, "equation: the result has more than %d dimensions",
                    OPF_MAX_RANK);
        e->out.labels[e->out.n++] = (int8_t)label;
    }
    return OPF_OK;
}

bool opf_einsum_has(const opf_einsum_term *t, int32_t label)
{
    for (int32_t i = 0; i < t->n; i++)
        if (t->labels[i] == label)
            return true;
    return false;
}

static opf_status check_output(const opf_einsum_equation *e, opf_error *error)
{
    bool seen[OPF_EINSUM_LABELS] = {false};
    for (int32_t k = 0; k < e->out.n; k++) {
        const int32_t label = e->out.labels[k];
        bool          found = label >= OPF_EINSUM_LETTERS;
        for (uint32_t i = 0; i < e->n_in && !found; i++)
            found = opf_einsum_has(&e->in[i], label);
        const char name = (char)(label < 26 ? 'A' + label : 'a' + label - 26);
        OPF_FAIL_IF(error, !found, OPF_INVALID_MODEL, "equation: '%c' of the result is in no operand", name);
        OPF_FAIL_IF(error, seen[label], OPF_INVALID_MODEL, "equation: '%c' is twice in the result", name);
        seen[label] = true;
    }
    return OPF_OK;
}

opf_status opf_einsum_parse(const char *text, const int32_t *ranks, uint32_t n_in, opf_einsum_equation *e,
                            opf_error *error)
{
    int32_t widest = 0;
    OPF_FAIL_IF(error, n_in > OPF_EINSUM_OPERANDS, OPF_LIMIT, "%u operands, at most %d are supported", n_in,
                OPF_EINSUM_OPERANDS);
    e->n_in = 0;
    do {
        OPF_FAIL_IF(error, e->n_in == n_in, OPF_INVALID_MODEL, "equation has more terms than the %u inputs", n_in);
        opf_einsum_term *t = &e->in[e->n_in];
        OPF_TRY(scan_term(&text, t, error));
        const int32_t left = ranks[e->n_in] - (t->n - (t->ellipsis >= 0));
        OPF_FAIL_IF(error, t->ellipsis >= 0 ? left < 0 : left != 0, OPF_INVALID_MODEL,
                    "equation: term %u has %d labels, input %u has rank %d", e->n_in, t->n - (t->ellipsis >= 0),
                    e->n_in, ranks[e->n_in]);
        OPF_TRY(expand(t, left, error));
        widest = left > widest ? left : widest;
        e->n_in++;
    } while (*text++ == ',');
    text--;
    OPF_FAIL_IF(error, e->n_in != n_in, OPF_INVALID_MODEL, "equation has %u terms, there are %u inputs", e->n_in,
                n_in);
    if (*text == '\0') {
        OPF_TRY(imply_output(e, error));
    } else {
        text += 2;
        OPF_TRY(scan_term(&text, &e->out, error));
        OPF_FAIL_IF(error, *text != '\0', OPF_INVALID_MODEL, "equation: \"%s\" behind the result", text);
    }
    OPF_TRY(expand(&e->out, widest, error));
    return check_output(e, error);
}
