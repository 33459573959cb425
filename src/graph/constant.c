/* SPDX-License-Identifier: Apache-2.0 */
/* Making constants. Reading them is in constant_read.c. */
#include "graph/constant.h"

#include <assert.h>
#include <math.h>

/* Recipes nest no deeper than this, so that evaluation needs little stack: a deeper one is computed when it is made. */
enum { MAX_DEPTH = 24 };

static bool is_float(opf_type type)
{
    return opf_types_have(OPF_TYPES_FLOAT, type);
}

static opf_const *new_const(opf_const_pool *pool, opf_const_kind kind, opf_type type, int32_t rank, const int64_t *dims)
{
    assert(rank >= 0 && rank <= OPF_MAX_RANK);
    opf_const *c = OPF_NEW(pool->arena, opf_const, 1);
    int64_t   *d = OPF_NEW(pool->arena, int64_t, rank);
    if (c == NULL || d == NULL)
        return NULL;
    c->kind  = kind;
    c->type  = type;
    c->rank  = rank;
    c->dims  = d;
    c->count = 1;
    bool overflow = false;
    for (int32_t i = 0; i < rank; i++) {
        assert(dims[i] >= 0);
        d[i] = dims[i];
        if (dims[i] != 0)
            overflow = overflow || !opf_mul_size(c->count, (size_t)dims[i], &c->count);
    }
    for (int32_t i = 0; i < rank; i++)
        if (dims[i] == 0)
            c->count = 0;
    c->id = pool->next_id++;
    return overflow && c->count != 0 ? NULL : c;
}

static bool set_args(opf_const_pool *pool, opf_const *c, const opf_const *const *args, uint32_t n)
{
    const opf_const **list = OPF_NEW(pool->arena, const opf_const *, n);
    if (list == NULL)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        list[i] = args[i];
        if (args[i]->depth >= c->depth)
            c->depth = args[i]->depth + 1;
    }
    c->args   = list;
    c->n_args = n;
    return true;
}

static bool has_arithmetic(const opf_const *c)
{
    if (c->kind == OPF_CONST_SCALE || c->kind == OPF_CONST_CAST || c->kind == OPF_CONST_ADD)
        return true;
    for (uint32_t i = 0; i < c->n_args; i++)
        if (has_arithmetic(c->args[i]))
            return true;
    return false;
}

/* Arithmetic that is computed early is kept in double, so that it is still rounded only once: a reshape to the same dims
   then gives it the type that it must have, without rounding. */
static const opf_const *limit_depth(opf_const_pool *pool, opf_const *c)
{
    if (c->depth <= MAX_DEPTH)
        return c;
    bool     in_double = has_arithmetic(c) && c->type != OPF_DOUBLE;
    opf_type type      = in_double ? OPF_DOUBLE : c->type;
    size_t   bytes;
    if (!opf_type_bytes(type, c->count, &bytes))
        return NULL;
    void *data = opf_arena_alloc(pool->arena, bytes);
    if (data == NULL)
        return NULL;
    if (in_double) {
        const int64_t zeros[OPF_MAX_RANK] = {0};
        opf_const_read_f64(c, zeros, c->dims, data);
    } else {
        opf_const_write(c, data);
    }
    const opf_const *flat = opf_const_bytes(pool, type, c->rank, c->dims, data, bytes);
    if (flat == NULL || !in_double)
        return flat;
    opf_const *typed = new_const(pool, OPF_CONST_RESHAPE, c->type, c->rank, c->dims);
    return typed != NULL && set_args(pool, typed, &flat, 1) ? typed : NULL;
}

const opf_const *opf_const_bytes(opf_const_pool *pool, opf_type type, int32_t rank, const int64_t *dims, const void *data,
                                 size_t bytes)
{
    opf_const *c = new_const(pool, OPF_CONST_BYTES, type, rank, dims);
    if (c == NULL)
        return NULL;
    c->data  = data;
    c->bytes = bytes;
    return c;
}

const opf_const *opf_const_mapped(opf_const_pool *pool, opf_type type, int32_t rank, const int64_t *dims, const void *data,
                                  size_t bytes)
{
    opf_const *c = new_const(pool, OPF_CONST_BYTES, type, rank, dims);
    if (c == NULL)
        return NULL;
    c->data   = data;
    c->bytes  = bytes;
    c->mapped = true;
    return c;
}

const opf_const *opf_const_splat(opf_const_pool *pool, opf_type type, int32_t rank, const int64_t *dims, const void *element)
{
    opf_const *c = new_const(pool, OPF_CONST_SPLAT, type, rank, dims);
    if (c == NULL)
        return NULL;
    c->bytes = opf_type_size(type);
    assert(c->bytes != 0);
    c->data = opf_arena_copy(pool->arena, element, c->bytes);
    return c->data == NULL ? NULL : c;
}

const opf_const *opf_const_scale(opf_const_pool *pool, const opf_const *a, const opf_const *vector, int32_t axis)
{
    assert(is_float(a->type) && is_float(vector->type));
    assert(axis >= 0 && axis < a->rank && vector->rank == 1 && vector->dims[0] == a->dims[axis]);
    /* Two scales of one axis are one: their vectors are small. */
    if (a->kind == OPF_CONST_SCALE && a->axis == axis) {
        vector = opf_const_compute(pool, '*', a->args[1], vector);
        a      = a->args[0];
        if (vector == NULL)
            return NULL;
    }
    opf_const       *c      = new_const(pool, OPF_CONST_SCALE, a->type, a->rank, a->dims);
    const opf_const *args[] = {a, vector};
    if (c == NULL || !set_args(pool, c, args, 2))
        return NULL;
    c->axis = axis;
    return limit_depth(pool, c);
}

const opf_const *opf_const_concat(opf_const_pool *pool, const opf_const *const *parts, uint32_t n, int32_t axis)
{
    assert(n > 0 && axis >= 0 && axis < parts[0]->rank);
    int64_t dims[OPF_MAX_RANK] = {0};
    for (int32_t i = 0; i < parts[0]->rank; i++)
        dims[i] = parts[0]->dims[i];
    for (uint32_t p = 1; p < n; p++) {
        assert(parts[p]->type == parts[0]->type && parts[p]->rank == parts[0]->rank);
        for (int32_t i = 0; i < parts[0]->rank; i++)
            assert(i == axis || parts[p]->dims[i] == dims[i]);
        if (__builtin_add_overflow(dims[axis], parts[p]->dims[axis], &dims[axis]))
            return NULL;
    }
    opf_const *c = new_const(pool, OPF_CONST_CONCAT, parts[0]->type, parts[0]->rank, dims);
    if (c == NULL || !set_args(pool, c, parts, n))
        return NULL;
    c->axis = axis;
    return limit_depth(pool, c);
}

const opf_const *opf_const_transpose(opf_const_pool *pool, const opf_const *a, const int32_t *perm)
{
    int64_t  dims[OPF_MAX_RANK];
    uint32_t seen = 0;
    for (int32_t i = 0; i < a->rank; i++) {
        assert(perm[i] >= 0 && perm[i] < a->rank);
        seen |= 1u << perm[i];
        dims[i] = a->dims[perm[i]];
    }
    assert(seen == (1u << a->rank) - 1);
    (void)seen;
    opf_const *c = new_const(pool, OPF_CONST_TRANSPOSE, a->type, a->rank, dims);
    if (c == NULL || !set_args(pool, c, &a, 1))
        return NULL;
    c->perm = opf_arena_copy(pool->arena, perm, sizeof *perm * (size_t)a->rank);
    return c->perm == NULL ? NULL : limit_depth(pool, c);
}

const opf_const *opf_const_reshape(opf_const_pool *pool, const opf_const *a, int32_t rank, const int64_t *dims)
{
    while (a->kind == OPF_CONST_RESHAPE && a->args[0]->type == a->type)
        a = a->args[0];
    opf_const *c = new_const(pool, OPF_CONST_RESHAPE, a->type, rank, dims);
    if (c == NULL || !set_args(pool, c, &a, 1))
        return NULL;
    assert(c->count == a->count);
    return limit_depth(pool, c);
}

const opf_const *opf_const_cast(opf_const_pool *pool, const opf_const *a, opf_type type)
{
    assert(is_float(a->type) && is_float(type));
    opf_const *c = new_const(pool, OPF_CONST_CAST, type, a->rank, a->dims);
    if (c == NULL || !set_args(pool, c, &a, 1))
        return NULL;
    return limit_depth(pool, c);
}

const opf_const *opf_const_add(opf_const_pool *pool, const opf_const *a, const opf_const *b)
{
    assert(is_float(a->type) && is_float(b->type) && a->rank == b->rank);
    for (int32_t i = 0; i < a->rank; i++)
        assert(a->dims[i] == b->dims[i]);
    opf_const       *c      = new_const(pool, OPF_CONST_ADD, a->type, a->rank, a->dims);
    const opf_const *args[] = {a, b};
    if (c == NULL || !set_args(pool, c, args, 2))
        return NULL;
    return limit_depth(pool, c);
}

const opf_const *opf_const_slice(opf_const_pool *pool, const opf_const *a, const int64_t *start, const int64_t *dims)
{
    for (int32_t i = 0; i < a->rank; i++)
        assert(start[i] >= 0 && dims[i] >= 0 && dims[i] <= a->dims[i] && start[i] <= a->dims[i] - dims[i]);
    opf_const *c = new_const(pool, OPF_CONST_SLICE, a->type, a->rank, dims);
    if (c == NULL || !set_args(pool, c, &a, 1))
        return NULL;
    c->start = opf_arena_copy(pool->arena, start, sizeof *start * (size_t)a->rank);
    return c->start == NULL ? NULL : limit_depth(pool, c);
}

const opf_const *opf_const_expand(opf_const_pool *pool, const opf_const *a, const int64_t *dims)
{
    for (int32_t i = 0; i < a->rank; i++)
        assert(dims[i] == a->dims[i] || a->dims[i] == 1);
    opf_const *c = new_const(pool, OPF_CONST_EXPAND, a->type, a->rank, dims);
    return c != NULL && set_args(pool, c, &a, 1) ? limit_depth(pool, c) : NULL;
}

/* ---- small constants that are computed now ---- */

static double apply(char op, double a, double b)
{
    switch (op) {
    case '+':
        return a + b;
    case '-':
        return a - b;
    case '*':
        return a * b;
    default:
        return a / b;
    }
}

static double *read_all(opf_const_pool *pool, const opf_const *c)
{
    const int64_t zeros[OPF_MAX_RANK] = {0};
    double       *x                   = OPF_NEW(pool->arena, double, c->count);
    if (x != NULL)
        opf_const_read_f64(c, zeros, c->dims, x);
    return x;
}

/* Row-major strides of c seen as broadcast to rank: 0 where it repeats. */
static void broadcast_strides(const opf_const *c, int32_t rank, size_t strides[OPF_MAX_RANK])
{
    size_t step = 1;
    for (int32_t i = rank - 1; i >= 0; i--) {
        int32_t own = i - (rank - c->rank);
        strides[i]  = own < 0 || c->dims[own] == 1 ? 0 : step;
        if (own >= 0)
            step *= (size_t)c->dims[own];
    }
}

const opf_const *opf_const_compute(opf_const_pool *pool, char op, const opf_const *a, const opf_const *b)
{
    assert(op == '+' || op == '-' || op == '*' || op == '/');
    int32_t rank = a->rank > b->rank ? a->rank : b->rank;
    int64_t dims[OPF_MAX_RANK] = {0};
    for (int32_t i = 0; i < rank; i++) {
        int64_t da = i < rank - a->rank ? 1 : a->dims[i - (rank - a->rank)];
        int64_t db = i < rank - b->rank ? 1 : b->dims[i - (rank - b->rank)];
        assert(da == db || da == 1 || db == 1);
        dims[i] = da == 1 ? db : da;
    }
    opf_const *c = new_const(pool, OPF_CONST_BYTES, OPF_DOUBLE, rank, dims);
    if (c == NULL)
        return NULL;
    double *x = read_all(pool, a), *y = read_all(pool, b), *z = OPF_NEW(pool->arena, double, c->count);
    if (x == NULL || y == NULL || z == NULL)
        return NULL;
    size_t sx[OPF_MAX_RANK], sy[OPF_MAX_RANK];
    broadcast_strides(a, rank, sx);
    broadcast_strides(b, rank, sy);
    const int32_t last = rank - 1;
    const size_t  row = rank == 0 ? 1 : (size_t)dims[last], next_x = rank == 0 ? 0 : sx[last], next_y = rank == 0 ? 0 : sy[last];
    for (size_t i = 0; i < c->count; i += row) {
        size_t rest = i / row, ix = 0, iy = 0;
        for (int32_t d = last - 1; d >= 0; d--) {
            size_t at = rest % (size_t)dims[d];
            rest /= (size_t)dims[d];
            ix += at * sx[d];
            iy += at * sy[d];
        }
        for (size_t k = 0; k < row; k++)
            z[i + k] = apply(op, x[ix + k * next_x], y[iy + k * next_y]);
    }
    c->data  = z;
    c->bytes = c->count * sizeof *z;
    return c;
}

const opf_const *opf_const_sqrt(opf_const_pool *pool, const opf_const *a)
{
    opf_const *c = new_const(pool, OPF_CONST_BYTES, OPF_DOUBLE, a->rank, a->dims);
    double    *x = read_all(pool, a);
    if (c == NULL || x == NULL)
        return NULL;
    for (size_t i = 0; i < c->count; i++)
        x[i] = sqrt(x[i]);
    c->data  = x;
    c->bytes = c->count * sizeof *x;
    return c;
}

const opf_const *opf_const_float(opf_const_pool *pool, opf_type type, double x)
{
    opf_const *c    = new_const(pool, OPF_CONST_BYTES, type, 0, NULL);
    void      *data = opf_arena_alloc(pool->arena, sizeof x);
    if (c == NULL || data == NULL)
        return NULL;
    if (is_float(type))
        opf_store_f64(type, data, 0, x);
    else
        opf_store_i64(type, data, 0, (int64_t)x);
    c->data  = data;
    c->bytes = opf_type_size(type);
    return c;
}

const opf_const *opf_const_ints(opf_const_pool *pool, const int64_t *x, int64_t n)
{
    opf_const *c    = new_const(pool, OPF_CONST_BYTES, OPF_INT64, 1, &n);
    void      *data = c == NULL ? NULL : opf_arena_copy(pool->arena, x, c->count * sizeof *x);
    if (data == NULL)
        return NULL;
    c->data  = data;
    c->bytes = c->count * sizeof *x;
    return c;
}

void opf_const_leaves(const opf_const *c, void (*visit)(void *user, const opf_const *leaf), void *user)
{
    if (c->kind == OPF_CONST_BYTES && c->mapped)
        visit(user, c);
    for (uint32_t i = 0; i < c->n_args; i++)
        opf_const_leaves(c->args[i], visit, user);
}
