/* SPDX-License-Identifier: Apache-2.0 */
/* What a dimension is: its number for given symbols, and its text. */
#include "graph/dim_parts.h"

/* ---- evaluating ---- */

typedef bool (*number_of)(void *user, uint32_t size, int64_t *n);

static bool evaluate_atom(const opf_dims *dims, uint32_t id, number_of number, void *user, int64_t *result)
{
    const opf_atom *a = &dims->atoms[id];
    int64_t     x, y;
    if (a->kind == OPF_ATOM_SYMBOL || a->is_size)
        return number(user, id, result);
    if (a->kind == OPF_ATOM_UNKNOWN || !opf_dim_evaluate_sizes(dims, a->a, number, user, &x) ||
        !opf_dim_evaluate_sizes(dims, a->b, number, user, &y))
        return false;
    if (a->kind == OPF_ATOM_MIN) {
        *result = x < y ? x : y;
        return true;
    }
    if (y == 0 || (x == INT64_MIN && y == -1))
        return false;
    *result = opf_floor_div(x, y);
    return true;
}

bool opf_dim_evaluate_sizes(const opf_dims *dims, opf_dim d, number_of number, void *user, int64_t *result)
{
    if (d.expr == 0) {
        *result = d.n;
        return true;
    }
    if (!opf_dim_is_valid(dims, d))
        return false;
    const opf_expr *e   = &dims->exprs[d.expr];
    int64_t     sum = 0;
    for (uint32_t i = 0; i < e->n; i++) {
        int64_t product = e->terms[i].coefficient;
        for (uint32_t k = 0; k < e->terms[i].n; k++) {
            int64_t factor;
            if (!evaluate_atom(dims, e->terms[i].factors[k], number, user, &factor) ||
                __builtin_mul_overflow(product, factor, &product))
                return false;
        }
        if (__builtin_add_overflow(sum, product, &sum))
            return false;
    }
    *result = sum;
    return true;
}

typedef struct by_name {
    const opf_dims *dims;
    bool (*number)(void *user, const char *symbol, int64_t *n);
    void *user;
} by_name;

/* A size that is left open has no name to ask for. */
static bool number_by_name(void *user, uint32_t size, int64_t *n)
{
    const by_name *by = user;
    const char *name = by->dims->atoms[size].name;
    return name != NULL && by->number(by->user, name, n);
}

bool opf_dim_evaluate(const opf_dims *dims, opf_dim d, bool (*number)(void *user, const char *symbol, int64_t *n),
                      void *user, int64_t *result)
{
    by_name by = {dims, number, user};
    return opf_dim_evaluate_sizes(dims, d, number_by_name, &by, result);
}

/* ---- printing ---- */

static void print_pair(const opf_dims *dims, const char *before, const char *between, const char *after, const opf_atom *a, opf_text *text)
{
    opf_text_add(text, "%s", before);
    opf_dim_print(dims, a->a, text);
    opf_text_add(text, "%s", between);
    opf_dim_print(dims, a->b, text);
    opf_text_add(text, "%s", after);
}

static void print_atom(const opf_dims *dims, uint32_t id, opf_text *text)
{
    const opf_atom *a = &dims->atoms[id];
    switch (a->kind) {
    case OPF_ATOM_SYMBOL:
        opf_text_add(text, "%s", a->name);
        break;
    case OPF_ATOM_UNKNOWN:
        opf_text_add(text, "?%u", id);
        break;
    case OPF_ATOM_FLOOR_DIV:
        print_pair(dims, "floor((", ")/(", "))", a, text);
        break;
    case OPF_ATOM_MIN:
        print_pair(dims, "min(", ", ", ")", a, text);
        break;
    }
}

void opf_dim_print(const opf_dims *dims, opf_dim d, opf_text *text)
{
    if (d.expr == 0) {
        opf_text_add(text, "%lld", (long long)d.n);
        return;
    }
    if (!opf_dim_is_valid(dims, d)) {
        opf_text_add(text, "?");
        return;
    }
    const opf_expr *e = &dims->exprs[d.expr];
    for (uint32_t i = e->n; i-- > 0;) { /* the constant last */
        const opf_term *t = &e->terms[i];
        if (i + 1 < e->n || t->coefficient < 0)
            opf_text_add(text, "%s", t->coefficient < 0 ? "-" : "+");
        unsigned long long size = t->coefficient < 0 ? 0 - (unsigned long long)t->coefficient : (unsigned long long)t->coefficient;
        if (t->n == 0 || size != 1)
            opf_text_add(text, t->n == 0 ? "%llu" : "%llu*", size);
        for (uint32_t k = 0; k < t->n; k++) {
            if (k != 0)
                opf_text_add(text, "*");
            print_atom(dims, t->factors[k], text);
        }
    }
}

const char *opf_dim_string(const opf_dims *dims, opf_dim d, opf_arena *arena)
{
    opf_text text;
    opf_text_init(&text, arena);
    opf_dim_print(dims, d, &text);
    return text.failed || text.data == NULL ? "?" : text.data;
}
