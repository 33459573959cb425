/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dimensions: numbers, or expressions over symbols. An expression is a polynomial with integer coefficients over atoms
 * (symbols, floor divisions, minima, opaque unknowns), kept in one canonical form and stored once in a table, so that two equal
 * ids are proven equal and two different ids are "unknown". Symbols of shapes are never negative.
 */
#ifndef OPF_GRAPH_DIM_H
#define OPF_GRAPH_DIM_H

#include "base/memory.h"

/* expr 0: the number n. Otherwise expression number expr of the table, n is 0. Compare with opf_dim_equal. */
typedef struct opf_dim {
    int64_t  n;
    uint32_t expr;
} opf_dim;

typedef struct opf_dims opf_dims; /* the table; lives in an arena */

opf_dims *opf_dims_create(opf_arena *arena); /* NULL when there is no memory */
/* A table of its own, in which every dimension of the first means the same. NULL when there is no memory. */
opf_dims *opf_dims_clone(const opf_dims *dims, opf_arena *arena);

static inline opf_dim opf_dim_number(int64_t n)
{
    return (opf_dim){.n = n};
}
static inline bool opf_dim_is_number(opf_dim d)
{
    return d.expr == 0;
}
/* Proven equal; false means unknown or different. */
static inline bool opf_dim_equal(opf_dim a, opf_dim b)
{
    return a.expr == b.expr && a.n == b.n;
}
static inline bool opf_dim_is(opf_dim d, int64_t n)
{
    return d.expr == 0 && d.n == n;
}

/* The symbol of this name (the same name gives the same dimension), and one that equals nothing else. When memory is
   out, all of these return the sentinel of opf_dims_failed, which equals nothing: check it once, at the end. */
opf_dim opf_dim_symbol(opf_dims *dims, const char *name);
opf_dim opf_dim_unknown(opf_dims *dims);
opf_dim opf_dim_unnamed(opf_dims *dims); /* the same for a size that a file leaves open: never negative */
bool opf_dims_failed(const opf_dims *dims);

/* Exact integer arithmetic; an overflow gives an unknown. div rounds towards minus infinity; a zero divisor gives an
   unknown. div_exact: the caller knows that b divides a (a reshape's -1). */
opf_dim opf_dim_add(opf_dims *dims, opf_dim a, opf_dim b);
opf_dim opf_dim_sub(opf_dims *dims, opf_dim a, opf_dim b);
opf_dim opf_dim_mul(opf_dims *dims, opf_dim a, opf_dim b);
opf_dim opf_dim_div(opf_dims *dims, opf_dim a, opf_dim b);
opf_dim opf_dim_div_exact(opf_dims *dims, opf_dim a, opf_dim b);
opf_dim opf_dim_min(opf_dims *dims, opf_dim a, opf_dim b);

/* part is min(whole, c) for some c of at least 2. Where both are dims of one numpy broadcast, the result is `whole`: they
   are equal unless whole exceeds c, and then they do not broadcast at all. Exporters slice masks and positions like this. */
bool opf_dim_is_clipped(const opf_dims *dims, opf_dim part, opf_dim whole);

/* States that part is 1 or whole, which an operator demands of an operand; and whether that has been stated. */
void opf_dims_state_one_or(opf_dims *dims, opf_dim part, opf_dim whole);
bool opf_dim_is_one_or(const opf_dims *dims, opf_dim part, opf_dim whole);
/* How much has been stated; and back to that much. */
uint32_t opf_dims_stated(const opf_dims *dims);
void opf_dims_forget(opf_dims *dims, uint32_t stated);

/* Proven comparisons, with symbols at least 0 (or at least 1: pass least = 1). False: unknown. */
bool opf_dim_at_least(const opf_dims *dims, opf_dim d, int64_t bound);

/* Appends "N", "2*S+1", "floor(H/2)", "?7". */
void opf_dim_print(const opf_dims *dims, opf_dim d, opf_text *text);
const char *opf_dim_string(const opf_dims *dims, opf_dim d, opf_arena *arena);

/* The name if d is one symbol, NULL otherwise (unknowns have none). */
const char *opf_dim_symbol_name(const opf_dims *dims, opf_dim d);

/* The value of d when symbols have the numbers that `number` returns (false: symbol not bound). False: not known. */
bool opf_dim_evaluate(const opf_dims *dims, opf_dim d, bool (*number)(void *user, const char *symbol, int64_t *n), void *user,
                      int64_t *result);

/* The same by the number of each size of a shape, named or left open; opf_dim_size is that of d if d is one, else 0. */
uint32_t opf_dim_size(const opf_dims *dims, opf_dim d);
bool opf_dim_evaluate_sizes(const opf_dims *dims, opf_dim d, bool (*number)(void *user, uint32_t size, int64_t *n),
                            void *user, int64_t *result);

#endif
