/* SPDX-License-Identifier: Apache-2.0 */
/* How dimensions are kept: for graph/dim.c, which computes with them, and graph/dim_values.c, which reads them. */
#ifndef OPF_GRAPH_DIM_PARTS_H
#define OPF_GRAPH_DIM_PARTS_H

#include "base/map.h"
#include "graph/dim.h"

enum { OPF_TERM_FACTORS = 15 };

typedef enum { OPF_ATOM_SYMBOL, OPF_ATOM_UNKNOWN, OPF_ATOM_FLOOR_DIV, OPF_ATOM_MIN } opf_atom_kind;

typedef struct {
    opf_atom_kind   kind;
    const char *name;     /* symbol */
    opf_dim     a, b; /* floor(a/b), min(a, b) */
    bool        is_size; /* UNKNOWN: of a shape, so never negative */
} opf_atom;

typedef struct {
    int64_t  coefficient;
    uint32_t n;                     /* factors */
    uint32_t factors[OPF_TERM_FACTORS];  /* atom ids, ascending, repeated for powers; unused ones are 0 */
} opf_term;
_Static_assert(sizeof(opf_term) == sizeof(int64_t) + sizeof(uint32_t) * (1 + OPF_TERM_FACTORS), "terms are hashed by their bytes: no padding");

typedef struct {
    uint32_t n;
    opf_term    *terms; /* ascending by factors: the constant term first */
    uint32_t hash, next; /* chain of the table */
} opf_expr;

typedef struct {
    opf_dim part, whole; /* part is 1 or whole */
} opf_one_or;

struct opf_dims {
    opf_arena *arena;
    opf_expr      *exprs; /* [0] unused */
    uint32_t   n_exprs, exprs_capacity;
    opf_atom      *atoms; /* [0] unused */
    uint32_t   n_atoms, atoms_capacity;
    uint32_t  *buckets;
    opf_map    symbols; /* name to atom */
    opf_one_or    *stated;
    uint32_t   n_stated, stated_capacity;
    uint32_t   n_unknowns;
    bool       failed;
};

static inline bool opf_dim_is_valid(const opf_dims *dims, opf_dim d)
{
    return d.expr < dims->n_exprs;
}

static inline int64_t opf_floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

#endif
