/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expressions in canonical form: a sum of terms, each a coefficient times a sorted product of atoms. Terms are sorted by
 * their atoms, so equal polynomials have equal bytes; a table finds them, and so equal means equal ids. Atoms are
 * symbols, unknowns, floor divisions of two expressions that do not divide exactly, and minima of two of which neither is
 * proven to be the smaller.
 */
#include "graph/dim_parts.h"

#include <string.h>

enum { MAX_TERMS = 32, BUCKETS = 4096 };

typedef struct {
    uint32_t n;
    opf_term     terms[MAX_TERMS];
    bool     overflow;
} poly;

opf_dims *opf_dims_create(opf_arena *arena)
{
    opf_dims *dims = OPF_NEW(arena, opf_dims, 1);
    if (dims == NULL)
        return NULL;
    dims->arena   = arena;
    dims->buckets = OPF_NEW(arena, uint32_t, BUCKETS);
    opf_map_init(&dims->symbols, arena);
    if (dims->buckets == NULL || !OPF_PUSH(arena, dims->exprs, dims->n_exprs, dims->exprs_capacity, (opf_expr){0}) ||
        !OPF_PUSH(arena, dims->atoms, dims->n_atoms, dims->atoms_capacity, (opf_atom){0}))
        return NULL;
    return dims;
}

opf_dims *opf_dims_clone(const opf_dims *dims, opf_arena *arena)
{
    opf_dims *copy = opf_arena_copy(arena, dims, sizeof *dims);
    if (copy == NULL)
        return NULL;
    copy->arena           = arena;
    copy->symbols.arena   = arena;
    copy->exprs_capacity  = dims->n_exprs;
    copy->atoms_capacity  = dims->n_atoms;
    copy->exprs           = opf_arena_copy(arena, dims->exprs, dims->n_exprs * sizeof *dims->exprs);
    copy->atoms           = opf_arena_copy(arena, dims->atoms, dims->n_atoms * sizeof *dims->atoms);
    copy->buckets         = opf_arena_copy(arena, dims->buckets, BUCKETS * sizeof *dims->buckets);
    copy->symbols.entries = opf_arena_copy(arena, dims->symbols.entries, dims->symbols.capacity * sizeof *dims->symbols.entries);
    return copy->exprs != NULL && copy->atoms != NULL && copy->buckets != NULL && copy->symbols.entries != NULL ? copy : NULL;
}

bool opf_dims_failed(const opf_dims *dims)
{
    return dims->failed;
}

/* Equal to nothing, not even itself in another call: each has an id of its own above the table. */
static opf_dim failure(opf_dims *dims)
{
    dims->failed = true;
    return (opf_dim){.expr = UINT32_MAX - dims->n_unknowns++};
}

/* ---- polynomials ---- */

static int compare_factors(const opf_term *a, const opf_term *b)
{
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    for (uint32_t i = 0; i < a->n; i++)
        if (a->factors[i] != b->factors[i])
            return a->factors[i] < b->factors[i] ? -1 : 1;
    return 0;
}

/* Adds coefficient * factors at its place. */
static void add_term(poly *p, const opf_term *t)
{
    uint32_t i = 0;
    while (i < p->n && compare_factors(&p->terms[i], t) < 0)
        i++;
    if (i < p->n && compare_factors(&p->terms[i], t) == 0) {
        if (__builtin_add_overflow(p->terms[i].coefficient, t->coefficient, &p->terms[i].coefficient))
            p->overflow = true;
        if (p->terms[i].coefficient == 0) {
            memmove(&p->terms[i], &p->terms[i + 1], (p->n - i - 1) * sizeof *p->terms);
            p->n--;
        }
        return;
    }
    if (t->coefficient == 0)
        return;
    if (p->n == MAX_TERMS) {
        p->overflow = true;
        return;
    }
    memmove(&p->terms[i + 1], &p->terms[i], (p->n - i) * sizeof *p->terms);
    p->terms[i] = *t;
    p->n++;
}

static void to_poly(const opf_dims *dims, opf_dim d, poly *p)
{
    p->n        = 0;
    p->overflow = !opf_dim_is_valid(dims, d);
    if (p->overflow)
        return;
    if (d.expr != 0) {
        const opf_expr *e = &dims->exprs[d.expr];
        p->n          = e->n;
        memcpy(p->terms, e->terms, e->n * sizeof *e->terms);
    } else if (d.n != 0) {
        p->n        = 1;
        p->terms[0] = (opf_term){.coefficient = d.n};
    }
}

static opf_dim from_poly(opf_dims *dims, const poly *p)
{
    if (p->overflow)
        return opf_dim_unknown(dims);
    if (p->n == 0)
        return opf_dim_number(0);
    if (p->n == 1 && p->terms[0].n == 0)
        return opf_dim_number(p->terms[0].coefficient);
    uint32_t hash = opf_hash_bytes(p->terms, p->n * sizeof *p->terms, p->n);
    for (uint32_t i = dims->buckets[hash % BUCKETS]; i != 0; i = dims->exprs[i].next) {
        const opf_expr *e = &dims->exprs[i];
        if (e->hash == hash && e->n == p->n && memcmp(e->terms, p->terms, p->n * sizeof *p->terms) == 0)
            return (opf_dim){.expr = i};
    }
    opf_expr e = {.n = p->n, .hash = hash, .next = dims->buckets[hash % BUCKETS]};
    e.terms = opf_arena_copy(dims->arena, p->terms, p->n * sizeof *p->terms);
    if (e.terms == NULL || !OPF_PUSH(dims->arena, dims->exprs, dims->n_exprs, dims->exprs_capacity, e))
        return failure(dims);
    dims->buckets[hash % BUCKETS] = dims->n_exprs - 1;
    return (opf_dim){.expr = dims->n_exprs - 1};
}

static opf_dim from_atom(opf_dims *dims, uint32_t id)
{
    poly p = {.n = 1, .terms = {{.coefficient = 1, .n = 1, .factors = {id}}}};
    return from_poly(dims, &p);
}

/* ---- atoms ---- */

static opf_dim add_atom(opf_dims *dims, opf_atom a)
{
    if (!OPF_PUSH(dims->arena, dims->atoms, dims->n_atoms, dims->atoms_capacity, a))
        return failure(dims);
    return from_atom(dims, dims->n_atoms - 1);
}

opf_dim opf_dim_symbol(opf_dims *dims, const char *name)
{
    uint32_t id;
    if (opf_map_get(&dims->symbols, name, &id))
        return from_atom(dims, id);
    const char *copy = opf_arena_copy_string(dims->arena, name, strlen(name));
    if (copy == NULL || !opf_map_put(&dims->symbols, copy, dims->n_atoms))
        return failure(dims);
    return add_atom(dims, (opf_atom){.kind = OPF_ATOM_SYMBOL, .name = copy});
}

opf_dim opf_dim_unknown(opf_dims *dims)
{
    return add_atom(dims, (opf_atom){.kind = OPF_ATOM_UNKNOWN});
}

opf_dim opf_dim_unnamed(opf_dims *dims)
{
    return add_atom(dims, (opf_atom){.kind = OPF_ATOM_UNKNOWN, .is_size = true});
}

/* The atom of this kind over a and b, once each. */
static opf_dim binary_atom(opf_dims *dims, opf_atom_kind kind, opf_dim a, opf_dim b)
{
    for (uint32_t i = 1; i < dims->n_atoms; i++)
        if (dims->atoms[i].kind == kind && opf_dim_equal(dims->atoms[i].a, a) && opf_dim_equal(dims->atoms[i].b, b))
            return from_atom(dims, i);
    return add_atom(dims, (opf_atom){.kind = kind, .a = a, .b = b});
}

/* ---- arithmetic ---- */

static opf_dim add_scaled(opf_dims *dims, opf_dim a, opf_dim b, int64_t scale)
{
    poly p, q;
    to_poly(dims, a, &p);
    to_poly(dims, b, &q);
    p.overflow |= q.overflow;
    for (uint32_t i = 0; !p.overflow && i < q.n; i++) {
        opf_term t = q.terms[i];
        if (__builtin_mul_overflow(t.coefficient, scale, &t.coefficient))
            p.overflow = true;
        else
            add_term(&p, &t);
    }
    return from_poly(dims, &p);
}

opf_dim opf_dim_add(opf_dims *dims, opf_dim a, opf_dim b)
{
    int64_t n;
    if (a.expr == 0 && b.expr == 0 && !__builtin_add_overflow(a.n, b.n, &n))
        return opf_dim_number(n);
    return add_scaled(dims, a, b, 1);
}

opf_dim opf_dim_sub(opf_dims *dims, opf_dim a, opf_dim b)
{
    int64_t n;
    if (a.expr == 0 && b.expr == 0 && !__builtin_sub_overflow(a.n, b.n, &n))
        return opf_dim_number(n);
    return add_scaled(dims, a, b, -1);
}

static bool multiply_terms(const opf_term *a, const opf_term *b, opf_term *product)
{
    *product = (opf_term){.n = a->n + b->n};
    if (product->n > OPF_TERM_FACTORS || __builtin_mul_overflow(a->coefficient, b->coefficient, &product->coefficient))
        return false;
    for (uint32_t i = 0, j = 0, k = 0; k < product->n; k++)
        product->factors[k] = j == b->n || (i < a->n && a->factors[i] <= b->factors[j]) ? a->factors[i++] : b->factors[j++];
    return true;
}

opf_dim opf_dim_mul(opf_dims *dims, opf_dim a, opf_dim b)
{
    int64_t n;
    if (a.expr == 0 && b.expr == 0 && !__builtin_mul_overflow(a.n, b.n, &n))
        return opf_dim_number(n);
    if (opf_dim_is(a, 0) || opf_dim_is(b, 0))
        return opf_dim_number(0);
    if (opf_dim_is(a, 1))
        return b;
    if (opf_dim_is(b, 1))
        return a;
    poly p, q, r = {0};
    to_poly(dims, a, &p);
    to_poly(dims, b, &q);
    r.overflow = p.overflow || q.overflow;
    for (uint32_t i = 0; i < p.n; i++)
        for (uint32_t j = 0; !r.overflow && j < q.n; j++) {
            opf_term t;
            if (multiply_terms(&p.terms[i], &q.terms[j], &t))
                add_term(&r, &t);
            else
                r.overflow = true;
        }
    return from_poly(dims, &r);
}

/* a / b where b is one term that divides every term of a; false if it does not. */
static bool divide_by_term(const poly *a, const opf_term *b, poly *quotient)
{
    *quotient = (poly){0};
    for (uint32_t i = 0; i < a->n; i++) {
        opf_term t = a->terms[i];
        if (t.coefficient % b->coefficient != 0)
            return false;
        t.coefficient /= b->coefficient;
        for (uint32_t j = 0; j < b->n; j++) {
            uint32_t k = 0;
            while (k < t.n && t.factors[k] != b->factors[j])
                k++;
            if (k == t.n)
                return false;
            memmove(&t.factors[k], &t.factors[k + 1], (t.n - k - 1) * sizeof *t.factors);
            t.factors[--t.n] = 0;
        }
        add_term(quotient, &t);
    }
    return !quotient->overflow;
}

/* a / b when the division is exact as polynomials; the zero of a symbol in b is the caller's business. */
static bool divide(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *quotient)
{
    if (opf_dim_equal(a, b)) {
        *quotient = opf_dim_number(1);
        return true;
    }
    poly p, q, r;
    to_poly(dims, a, &p);
    to_poly(dims, b, &q);
    if (p.overflow || q.overflow || q.n == 0)
        return false;
    if (q.n == 1 && !(q.terms[0].coefficient == -1) && divide_by_term(&p, &q.terms[0], &r)) {
        *quotient = from_poly(dims, &r);
        return true;
    }
    /* A sum divides when one term of a, over the first term of b, gives a quotient that multiplies back. */
    for (uint32_t i = 0; q.n > 1 && i < p.n; i++)
        for (uint32_t j = 0; j < q.n; j++) {
            poly one = {.n = 1, .terms = {p.terms[i]}};
            if (q.terms[j].coefficient == 0 || q.terms[j].coefficient == -1 || !divide_by_term(&one, &q.terms[j], &r))
                continue;
            opf_dim guess = from_poly(dims, &r);
            if (opf_dim_equal(opf_dim_mul(dims, guess, b), a)) {
                *quotient = guess;
                return true;
            }
        }
    return false;
}

/* Exact when the divisor is a number. With symbols in it, zero is possible, and only div_exact may divide. */
opf_dim opf_dim_div(opf_dims *dims, opf_dim a, opf_dim b)
{
    if (opf_dim_is(b, 0))
        return opf_dim_unknown(dims);
    if (opf_dim_is(b, 1))
        return a;
    if (a.expr == 0 && b.expr == 0)
        return a.n == INT64_MIN && b.n == -1 ? opf_dim_unknown(dims) : opf_dim_number(opf_floor_div(a.n, b.n));
    opf_dim quotient;
    if (b.expr == 0) {
        if (divide(dims, a, b, &quotient))
            return quotient;
        /* floor((q*b + r) / b) = q + floor(r / b): what divides leaves the division, so that equal results look equal. */
        poly p, whole = {0}, rest = {0};
        to_poly(dims, a, &p);
        for (uint32_t i = 0; b.n > 0 && !p.overflow && i < p.n; i++) {
            opf_term   t = p.terms[i], left = t;
            int64_t q        = opf_floor_div(t.coefficient, b.n);
            left.coefficient = t.coefficient - q * b.n;
            t.coefficient    = q;
            add_term(&whole, &t);
            add_term(&rest, &left);
        }
        if (b.n > 0 && !p.overflow && whole.n != 0) {
            opf_dim remaining = from_poly(dims, &rest);
            return opf_dim_add(dims, from_poly(dims, &whole), opf_dim_div(dims, remaining, b));
        }
    }
    return binary_atom(dims, OPF_ATOM_FLOOR_DIV, a, b);
}

opf_dim opf_dim_div_exact(opf_dims *dims, opf_dim a, opf_dim b)
{
    opf_dim quotient;
    if ((a.expr != 0 || b.expr != 0) && !opf_dim_is(b, 0) && divide(dims, a, b, &quotient))
        return quotient;
    return opf_dim_div(dims, a, b);
}

opf_dim opf_dim_min(opf_dims *dims, opf_dim a, opf_dim b)
{
    if (opf_dim_at_least(dims, opf_dim_sub(dims, b, a), 0))
        return a;
    if (opf_dim_at_least(dims, opf_dim_sub(dims, a, b), 0))
        return b;
    bool ordered = a.expr != b.expr ? a.expr > b.expr : a.n <= b.n; /* one spelling for min(a, b) and min(b, a) */
    return ordered ? binary_atom(dims, OPF_ATOM_MIN, a, b) : binary_atom(dims, OPF_ATOM_MIN, b, a);
}

/* ---- facts ---- */

static const opf_atom *single_atom(const opf_dims *dims, opf_dim d)
{
    if (d.expr == 0 || !opf_dim_is_valid(dims, d))
        return NULL;
    const opf_expr *e = &dims->exprs[d.expr];
    return e->n == 1 && e->terms[0].n == 1 && e->terms[0].coefficient == 1 ? &dims->atoms[e->terms[0].factors[0]] : NULL;
}

bool opf_dim_is_clipped(const opf_dims *dims, opf_dim part, opf_dim whole)
{
    const opf_atom *a = single_atom(dims, part);
    if (a == NULL || a->kind != OPF_ATOM_MIN)
        return false;
    return (opf_dim_equal(a->a, whole) && opf_dim_at_least(dims, a->b, 2)) ||
           (opf_dim_equal(a->b, whole) && opf_dim_at_least(dims, a->a, 2));
}

bool opf_dim_is_one_or(const opf_dims *dims, opf_dim part, opf_dim whole)
{
    for (uint32_t i = 0; i < dims->n_stated; i++)
        if (opf_dim_equal(dims->stated[i].part, part) && opf_dim_equal(dims->stated[i].whole, whole))
            return true;
    return false;
}

void opf_dims_state_one_or(opf_dims *dims, opf_dim part, opf_dim whole)
{
    const opf_one_or fact = {part, whole};
    if (opf_dim_is(part, 1) || opf_dim_equal(part, whole) || opf_dim_is_one_or(dims, part, whole))
        return;
    if (!OPF_PUSH(dims->arena, dims->stated, dims->n_stated, dims->stated_capacity, fact))
        dims->failed = true;
}

uint32_t opf_dims_stated(const opf_dims *dims)
{
    return dims->n_stated;
}

void opf_dims_forget(opf_dims *dims, uint32_t stated)
{
    dims->n_stated = stated;
}

static bool atom_at_least(const opf_dims *dims, uint32_t id, int64_t bound)
{
    const opf_atom *a = &dims->atoms[id];
    switch (a->kind) {
    case OPF_ATOM_SYMBOL:
        return bound <= 0;
    case OPF_ATOM_FLOOR_DIV:
        return bound <= 0 && a->b.expr == 0 && a->b.n > 0 && opf_dim_at_least(dims, a->a, 0);
    case OPF_ATOM_MIN:
        return opf_dim_at_least(dims, a->a, bound) && opf_dim_at_least(dims, a->b, bound);
    case OPF_ATOM_UNKNOWN:
        return a->is_size && bound <= 0;
    }
    return false;
}

/* Every atom is at least 0 and every coefficient but the constant is positive: then the constant is the least value. */
bool opf_dim_at_least(const opf_dims *dims, opf_dim d, int64_t bound)
{
    if (d.expr == 0)
        return d.n >= bound;
    if (!opf_dim_is_valid(dims, d))
        return false;
    const opf_expr *e     = &dims->exprs[d.expr];
    int64_t     least = 0;
    for (uint32_t i = 0; i < e->n; i++) {
        const opf_term *t = &e->terms[i];
        if (t->n == 0) {
            least = t->coefficient;
            continue;
        }
        if (t->coefficient < 0)
            return false;
        for (uint32_t k = 0; k < t->n; k++)
            if (!atom_at_least(dims, t->factors[k], 0))
                return false;
    }
    return least >= bound;
}

const char *opf_dim_symbol_name(const opf_dims *dims, opf_dim d)
{
    const opf_atom *a = single_atom(dims, d);
    return a != NULL && a->kind == OPF_ATOM_SYMBOL ? a->name : NULL;
}

uint32_t opf_dim_size(const opf_dims *dims, opf_dim d)
{
    const opf_atom *a = single_atom(dims, d);
    return a != NULL && (a->kind == OPF_ATOM_SYMBOL || a->is_size) ? (uint32_t)(a - dims->atoms) : 0;
}
