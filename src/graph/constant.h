/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants: bytes, or a recipe over other constants. Rules build recipes instead of computing weights; plan evaluates
 * a recipe panel by panel straight into the packed form, in double, rounded once. A constant never changes.
 */
#ifndef OPF_GRAPH_CONSTANT_H
#define OPF_GRAPH_CONSTANT_H

#include "base/memory.h"
#include "base/types.h"

typedef enum opf_const_kind {
    OPF_CONST_BYTES,     /* dense elements at data, at any byte address */
    OPF_CONST_SPLAT,     /* every element is the one element at data */
    OPF_CONST_SCALE,     /* args[0] times vector args[1] along axis */
    OPF_CONST_CONCAT,    /* args joined along axis */
    OPF_CONST_TRANSPOSE, /* args[0] with axes permuted by perm: dims[i] = args[0]->dims[perm[i]] */
    OPF_CONST_RESHAPE,   /* args[0] with other dims */
    OPF_CONST_CAST,      /* args[0] rounded to another float type */
    OPF_CONST_ADD,       /* args[0] plus args[1], same dims */
    OPF_CONST_SLICE,     /* the box of args[0] that begins at start */
    OPF_CONST_EXPAND     /* args[0] with axes of one element repeated */
} opf_const_kind;

/* Arithmetic (SCALE, CAST, ADD) is for float types only; the other kinds move elements of any type. */
typedef struct opf_const {
    opf_const_kind                 kind;
    opf_type                       type;
    int32_t                        rank;
    const int64_t                 *dims;
    size_t                         count; /* elements */
    const void                    *data;  /* BYTES, SPLAT */
    size_t                         bytes; /* at data */
    bool                           mapped; /* data lies in the mapped model file: its pages may be given back */
    const struct opf_const *const *args;
    uint32_t                       n_args;
    int32_t                        axis;
    const int32_t                 *perm;
    const int64_t                 *start; /* SLICE */
    uint32_t                       depth; /* of the recipe, 0 for bytes: constructors keep it small by evaluating */
    uint32_t                       id; /* unique within a model: the key of packed weights */
} opf_const;

/* Constructors: in the arena; NULL when memory is out. Dims are copied, data is borrowed. Those that take arguments
   check them with assert: callers have checked types and shapes. next_id is the model's counter. */
typedef struct opf_const_pool {
    opf_arena *arena;
    uint32_t   next_id;
} opf_const_pool;
const opf_const *opf_const_bytes(opf_const_pool *pool, opf_type type, int32_t rank, const int64_t *dims, const void *data,
                                 size_t bytes);
const opf_const *opf_const_mapped(opf_const_pool *pool, opf_type type, int32_t rank, const int64_t *dims, const void *data,
                                  size_t bytes); /* bytes that lie in the mapped file */
const opf_const *opf_const_splat(opf_const_pool *pool, opf_type type, int32_t rank, const int64_t *dims, const void *element);
const opf_const *opf_const_scale(opf_const_pool *pool, const opf_const *a, const opf_const *vector, int32_t axis);
const opf_const *opf_const_concat(opf_const_pool *pool, const opf_const *const *parts, uint32_t n, int32_t axis);
const opf_const *opf_const_transpose(opf_const_pool *pool, const opf_const *a, const int32_t *perm);
const opf_const *opf_const_reshape(opf_const_pool *pool, const opf_const *a, int32_t rank, const int64_t *dims);
const opf_const *opf_const_cast(opf_const_pool *pool, const opf_const *a, opf_type type);
const opf_const *opf_const_add(opf_const_pool *pool, const opf_const *a, const opf_const *b);
/* The box [start, start + dims) of a; dims of a's rank, of which those of one element in a are repeated. */
const opf_const *opf_const_slice(opf_const_pool *pool, const opf_const *a, const int64_t *start, const int64_t *dims);
const opf_const *opf_const_expand(opf_const_pool *pool, const opf_const *a, const int64_t *dims);
/* Small vectors computed now, in double (type OPF_DOUBLE), with numpy broadcasting; op is one of + - * / */
const opf_const *opf_const_compute(opf_const_pool *pool, char op, const opf_const *a, const opf_const *b);
const opf_const *opf_const_sqrt(opf_const_pool *pool, const opf_const *a);
const opf_const *opf_const_float(opf_const_pool *pool, opf_type type, double x);                       /* rank 0 */
const opf_const *opf_const_ints(opf_const_pool *pool, const int64_t *x, int64_t n);                    /* int64, rank 1 */

/* Evaluates the box [start, start+count) (rank numbers each) into dense dst, row-major. Floats only. A recipe is
   evaluated in double without rounding in between, but for CAST, which rounds. */
void opf_const_read_f64(const opf_const *c, const int64_t *start, const int64_t *count, double *dst);
/* The same into float: exact copies where c is float bytes. This is what packing calls, a panel at a time. */
void opf_const_read_f32(const opf_const *c, const int64_t *start, const int64_t *count, float *dst);
/* The same in the constant's own type, of at least one byte an element; floats or not. */
void opf_const_read(const opf_const *c, const int64_t *start, const int64_t *count, void *dst);
/* The whole constant in its own type into dense dst of opf_const_size bytes: any type. */
void opf_const_write(const opf_const *c, void *dst);
size_t opf_const_size(const opf_const *c);
/* Element i (row-major) of a small constant. */
double opf_const_f64_at(const opf_const *c, size_t i);
int64_t opf_const_i64_at(const opf_const *c, size_t i);
/* True when c is float bytes seen through slices, repetition, transposes and reshapes that keep it strided: then element [i...] is the
   float at data + sum i*strides (strides in elements; data may be unaligned). */
bool opf_const_strided_f32(const opf_const *c, const char **data, int64_t strides[OPF_MAX_RANK]);
/* Calls visit for each mapped BYTES leaf, to give pages back. */
void opf_const_leaves(const opf_const *c, void (*visit)(void *user, const opf_const *leaf), void *user);

#endif
