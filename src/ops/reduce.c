/* SPDX-License-Identifier: Apache-2.0 */
/* All reductions. The reference sees what is reduced to one element as a strided view. */
#include "ops/reduce.h"
#include "ops/elementwise.h"
#include "ops/infer.h"
#include "ops/lift.h"
#include "ops/reference.h"

#include <math.h>

/* ---- axes ---- */

static opf_status mark_axes(const int64_t *axes, int32_t n, bool noop, int32_t rank, bool *reduced, opf_error *error)
{
    for (int32_t i = 0; i < rank; i++)
        reduced[i] = n == 0 && !noop;
    for (int32_t i = 0; i < n; i++) {
        int32_t axis;
        OPF_TRY(opf_normalize_axis(axes[i], rank, &axis, error));
        OPF_FAIL_IF(error, reduced[axis], OPF_INVALID_MODEL, "axis %lld is given twice", (long long)axes[i]);
        reduced[axis] = true;
    }
    return OPF_OK;
}

bool opf_reduce_is_known(const opf_node *node)
{
    return node->op != NULL && ((node->op->traits & OPF_REDUCTION) != 0 || node->op == &opf_op_GlobalAveragePool ||
                                node->op == &opf_op_GlobalMaxPool);
}

opf_status opf_reduce_mark(const opf_node *node, const int64_t *axes, int32_t n, int32_t rank, bool *reduced,
                           opf_error *error)
{
    if ((node->op->traits & OPF_REDUCTION) != 0)
        return mark_axes(axes, n, opf_node_int(node, "noop_with_empty_axes", 0) != 0, rank, reduced, error);
    for (int32_t i = 0; i < rank; i++)
        reduced[i] = i >= 2;
    return OPF_OK;
}

bool opf_reduce_find_run(const bool *reduced, int32_t rank, int32_t *first, int32_t *last)
{
    *first = 0;
    *last = rank;
    while (*first < rank && !reduced[*first])
        (*first)++;
    while (*last > *first && !reduced[*last - 1])
        (*last)--;
    bool is_run = *first < *last;
    for (int32_t i = *first; i < *last; i++)
        is_run = is_run && reduced[i];
    return is_run;
}

/* What is known when the axes come with the data: keepdims keeps the rank, else their count tells it. */
static opf_status infer_unknown_axes(opf_infer *infer, bool keepdims, opf_error *error)
{
    const opf_info *x = infer->in[0], *axes = infer->in[1];
    int32_t         rank = x->rank;
    opf_dim         dims[OPF_MAX_RANK];
    if (!keepdims) {
        bool counted = axes->rank == 1 && opf_dim_is_number(axes->dims[0]) && axes->dims[0].n > 0;
        if (!counted || axes->dims[0].n > rank)
            return OPF_OK;
        rank -= (int32_t)axes->dims[0].n;
    }
    for (int32_t i = 0; i < rank; i++)
        dims[i] = opf_dim_unknown(infer->dims);
    return opf_infer_set(infer, 0, rank, dims, error);
}

static opf_status infer_reduce(opf_infer *infer, opf_error *error)
{
    const opf_info *x        = infer->in[0];
    const bool      keepdims = opf_node_int(infer->node, "keepdims", 1) != 0;
    const bool      noop     = opf_node_int(infer->node, "noop_with_empty_axes", 0) != 0;
    int64_t         axes[OPF_MAX_RANK];
    int32_t         n = 0, rank = 0;
    bool            reduced[OPF_MAX_RANK];
    opf_dim         dims[OPF_MAX_RANK];
    if (x->rank < 0)
        return OPF_OK;
    if (opf_infer_has(infer, 1) && !opf_infer_numbers(infer, 1, axes, OPF_MAX_RANK, &n)) {
        bool is_empty = infer->in[1]->rank == 1 && opf_dim_is(infer->in[1]->dims[0], 0);
        if (!is_empty)
            return infer_unknown_axes(infer, keepdims, error);
        n = 0;
    }
    OPF_TRY(mark_axes(axes, n, noop, x->rank, reduced, error));
    for (int32_t i = 0; i < x->rank; i++) {
        if (!reduced[i])
            dims[rank++] = x->dims[i];
        else if (keepdims)
            dims[rank++] = opf_dim_number(1);
    }
    return opf_infer_set(infer, 0, rank, dims, error);
}

/* ---- reference ---- */

typedef enum reduction { SUM, MEAN, MAX, MIN, PROD, SUM_SQUARE, L1, L2, LOG_SUM, LOG_SUM_EXP } reduction;

static double max_of(const opf_view *part)
{
    double   max = -(double)INFINITY;
    opf_walk walk;
    for (opf_walk_init(&walk, part->rank, part->dims, 1, &part); walk.left > 0; opf_walk_next(&walk)) {
        double x = opf_view_f64(part, walk.offset[0]);
        max      = x > max ? x : max;
    }
    return max;
}

static double fold_float(reduction kind, double so_far, double x, double max)
{
    switch (kind) {
    case MAX:
        return isnan(x) || x > so_far ? x : so_far;
    case MIN:
        return isnan(x) || x < so_far ? x : so_far;
    case PROD:
        return so_far * x;
    case SUM_SQUARE:
    case L2:
        return so_far + x * x;
    case L1:
        return so_far + fabs(x);
    case LOG_SUM_EXP:
        return so_far + exp(x - max);
    default:
        return so_far + x;
    }
}

static double finish_float(reduction kind, double result, double count, double max)
{
    switch (kind) {
    case MEAN:
        return result / count;
    case L2:
        return sqrt(result);
    case LOG_SUM:
        return log(result);
    case LOG_SUM_EXP:
        return log(result) + max;
    default:
        return result;
    }
}

/* Reductions over nothing: 0, 1 for a product, NaN for a mean, and the least or greatest value of the type. A NaN
   wins. */
static double reduce_floats(reduction kind, const opf_view *part)
{
    double   result = kind == MAX ? -(double)INFINITY : kind == MIN ? (double)INFINITY : kind == PROD ? 1 : 0;
    double   max    = kind == LOG_SUM_EXP ? max_of(part) : 0;
    opf_walk walk;
    if (isinf(max)) /* shifting by it would give NaN */
        max = 0;
    for (opf_walk_init(&walk, part->rank, part->dims, 1, &part); walk.left > 0; opf_walk_next(&walk))
        result = fold_float(kind, result, opf_view_f64(part, walk.offset[0]), max);
    return finish_float(kind, result, (double)opf_view_count(part), max);
}

static int64_t least_of(opf_type type)
{
    bool is_signed = opf_types_have(OPF_TYPES_SINT, type);
    return is_signed ? (int64_t)(UINT64_MAX << (opf_type_bits(type) - 1)) : 0;
}

static int64_t greatest_of(opf_type type)
{
    if (type == OPF_BOOL)
        return 1;
    bool is_signed = opf_types_have(OPF_TYPES_SINT, type);
    return (int64_t)(UINT64_MAX >> (64 - opf_type_bits(type) + (is_signed ? 1 : 0)));
}

static bool is_below(int64_t a, int64_t b, bool is_signed)
{
    return is_signed ? a < b : (uint64_t)a < (uint64_t)b;
}

static int64_t fold_integer(reduction kind, int64_t so_far, int64_t x, bool is_signed)
{
    const uint64_t a = (uint64_t)so_far, b = (uint64_t)x;
    switch (kind) {
    case MAX:
        return is_below(so_far, x, is_signed) ? x : so_far;
    case MIN:
        return is_below(x, so_far, is_signed) ? x : so_far;
    case PROD:
        return (int64_t)(a * b);
    case SUM_SQUARE:
    case L2:
        return (int64_t)(a + b * b);
    case L1:
        return (int64_t)(is_signed && x < 0 ? a - b : a + b);
    default:
        return (int64_t)(a + b);
    }
}

/* Sums and products wrap; a mean is truncated towards zero, and 0 over nothing; roots and logarithms go through double
   and are truncated. uint64 travels by its bits. */
static int64_t reduce_integers(reduction kind, const opf_view *part)
{
    const bool   is_signed = opf_types_have(OPF_TYPES_SINT, part->type);
    const size_t count     = opf_view_count(part);
    int64_t      result    = kind == PROD;
    opf_walk     walk;
    if (kind == MAX || kind == MIN)
        result = kind == MAX ? least_of(part->type) : greatest_of(part->type);
    if (kind == LOG_SUM_EXP)
        return opf_double_to_int(reduce_floats(kind, part));
    for (opf_walk_init(&walk, part->rank, part->dims, 1, &part); walk.left > 0; opf_walk_next(&walk))
        result = fold_integer(kind, result, opf_view_i64(part, walk.offset[0]), is_signed);
    if (kind == L2 || kind == LOG_SUM) {
        const double sum = is_signed && kind == LOG_SUM ? (double)result : (double)(uint64_t)result;
        return opf_double_to_int(finish_float(kind, sum, 0, 0));
    }
    if (kind != MEAN || count == 0)
        return result;
    return is_signed ? result / (int64_t)count : (int64_t)((uint64_t)result / count);
}

static opf_status read_axes(const opf_call *call, int32_t rank, bool *reduced, opf_error *error)
{
    int64_t axes[OPF_MAX_RANK];
    size_t  n = 0;
    if (call->n_in > 1 && call->in[1].data != NULL)
        n = opf_view_count(&call->in[1]);
    OPF_FAIL_IF(error, n > OPF_MAX_RANK, OPF_INVALID_INPUT, "%zu axes for rank %d", n, (int)rank);
    for (size_t i = 0; i < n; i++)
        axes[i] = opf_view_i64(&call->in[1], opf_view_offset(&call->in[1], i));
    return mark_axes(axes, (int32_t)n, opf_call_int(call, "noop_with_empty_axes", 0) != 0, rank, reduced, error);
}

static void append_axis(opf_view *view, int64_t dim, int64_t stride)
{
    view->dims[view->rank]    = dim;
    view->strides[view->rank] = stride;
    view->rank++;
}

static opf_status run_reduce(const opf_call *call, reduction kind, opf_error *error)
{
    const opf_view *x        = &call->in[0];
    opf_view       *y        = &call->out[0];
    const bool      is_float = opf_types_have(OPF_TYPES_FLOAT, x->type);
    bool            reduced[OPF_MAX_RANK];
    opf_view        kept = {.type = x->type}, written = {.type = y->type}, part = {.type = x->type};
    OPF_TRY(read_axes(call, x->rank, reduced, error));
    const bool keepdims = opf_call_int(call, "keepdims", 1) != 0;
    for (int32_t i = 0, o = 0; i < x->rank; i++) {
        append_axis(reduced[i] ? &part : &kept, x->dims[i], x->strides[i]);
        if (!reduced[i])
            append_axis(&written, y->dims[o], y->strides[o]);
        o += !reduced[i] || keepdims;
    }
    const opf_view *views[] = {&kept, &written};
    opf_walk        walk;
    for (opf_walk_init(&walk, kept.rank, kept.dims, 2, views); walk.left > 0; opf_walk_next(&walk)) {
        part.data = (char *)x->data + walk.offset[0] * (int64_t)opf_type_size(x->type);
        if (is_float)
            opf_view_put_f64(y, walk.offset[1], reduce_floats(kind, &part));
        else
            opf_view_put_i64(y, walk.offset[1], reduce_integers(kind, &part));
    }
    return OPF_OK;
}

/* ---- older opsets ---- */

static opf_status lift_axes(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_lift_ints(graph, node, "axes", 1, error);
}

static opf_status lower_axes(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node    *node  = opf_graph_node(graph, id);
    const opf_value_id value = node->n_own_inputs > 1 ? node->inputs[1] : 0;
    const opf_const   *axes  = opf_graph_value(graph, value)->constant;
    const bool         none  = value == 0 || (axes != NULL && axes->count == 0);
    OPF_FAIL_IF(error, none && opf_node_int(node, "noop_with_empty_axes", 0) != 0, OPF_UNSUPPORTED,
                "%s (%s): no axes with noop_with_empty_axes has no form in opset %d", node->name, node->op_type,
                (int)opset);
    opf_node_remove_attr(opf_graph_node(graph, id), "noop_with_empty_axes");
    if (!none)
        return opf_lower_ints(graph, id, "axes", 1, error);
    OPF_OOM_IF(error, value != 0 && !opf_graph_set_input(graph, id, 1, 0));
    return OPF_OK;
}

/* Axes counted from the end came with opset 11. */
static opf_status lower_negative_axes(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    const opf_attr *attr = opf_node_attr(node, "axes");
    const int32_t   rank = opf_graph_value(graph, node->inputs[0])->info.rank;
    int64_t         axes[OPF_MAX_RANK];
    if (attr == NULL)
        return OPF_OK;
    OPF_FAIL_IF(error, attr->n > OPF_MAX_RANK, OPF_INVALID_MODEL, "%s (%s): %u axes", node->name, node->op_type,
                attr->n);
    for (uint32_t i = 0; i < attr->n; i++) {
        OPF_FAIL_IF(error, attr->ints[i] < 0 && rank < 0, OPF_UNSUPPORTED,
                    "%s (%s): negative axes need a known rank for opset %d", node->name, node->op_type, (int)opset);
        axes[i] = attr->ints[i] < 0 ? attr->ints[i] + rank : attr->ints[i];
    }
    OPF_OOM_IF(error, !opf_node_set_ints(graph, id, "axes", axes, attr->n));
    return OPF_OK;
}

static const opf_import_row sum_rows[]     = {{11, opf_import_same, lower_negative_axes},
                                              {13, lift_axes, lower_axes},
                                              {13, opf_import_same, opf_lower_no_bfloat16}};
static const opf_import_row mean_rows[]    = {{11, opf_import_same, lower_negative_axes},
                                              {13, opf_import_same, opf_lower_no_bfloat16},
                                              {18, lift_axes, lower_axes}};
static const opf_import_row extreme_rows[] = {{11, opf_import_same, lower_negative_axes},
                                              {12, opf_import_same, opf_lower_no_8_bit},
                                              {13, opf_import_same, opf_lower_no_bfloat16},
                                              {18, lift_axes, lower_axes},
                                              {20, opf_import_same, opf_lower_no_bool}};

/* ---- signatures ---- */

#define SUM_TYPES                                                                                                      \
    (OPF_TYPES_FLOAT | OPF_TYPE_BIT(OPF_INT32) | OPF_TYPE_BIT(OPF_INT64) | OPF_TYPE_BIT(OPF_UINT32) |                  \
     OPF_TYPE_BIT(OPF_UINT64))
#define EXTREME_TYPES (SUM_TYPES | OPF_TYPE_BIT(OPF_INT8) | OPF_TYPE_BIT(OPF_UINT8) | OPF_TYPES_BOOL)

static const opf_attr_def attrs[] = {{.name = "keepdims", .type = OPF_ATTR_INT, .i = 1},
                                     {.name = "noop_with_empty_axes", .type = OPF_ATTR_INT}};

#define DEFINE_REDUCE(op_name, kind, types, op_rows)                                                                   \
    static opf_status run_##op_name(const opf_call *call, opf_error *error)                                            \
    {                                                                                                                  \
        return run_reduce(call, kind, error);                                                                          \
    }                                                                                                                  \
    static const opf_param op_name##_inputs[]  = {{"data", 'T', types, 0},                                             \
                                                  {"axes", 0, OPF_TYPE_BIT(OPF_INT64), OPF_OPTIONAL}};                 \
    static const opf_param op_name##_outputs[] = {{"reduced", 'T', types, 0}};                                         \
    const opf_op           opf_op_##op_name    = {.name      = #op_name,                                               \
                                                  .domain    = "",                                                     \
                                                  .since     = 1,                                                      \
                                                  .traits    = OPF_REDUCTION,                                          \
                                                  .inputs    = op_name##_inputs,                                       \
                                                  .n_inputs  = OPF_COUNT(op_name##_inputs),                            \
                                                  .outputs   = op_name##_outputs,                                      \
                                                  .n_outputs = OPF_COUNT(op_name##_outputs),                           \
                                                  .attrs     = attrs,                                                  \
                                                  .n_attrs   = OPF_COUNT(attrs),                                       \
                                                  .rows      = op_rows,                                                \
                                                  .n_rows    = OPF_COUNT(op_rows),                                     \
                                                  .infer     = infer_reduce,                                           \
                                                  .reference = run_##op_name}
DEFINE_REDUCE(ReduceSum, SUM, SUM_TYPES, sum_rows);
DEFINE_REDUCE(ReduceMean, MEAN, SUM_TYPES, mean_rows);
DEFINE_REDUCE(ReduceMax, MAX, EXTREME_TYPES, extreme_rows);
DEFINE_REDUCE(ReduceMin, MIN, EXTREME_TYPES, extreme_rows);
DEFINE_REDUCE(ReduceProd, PROD, SUM_TYPES, mean_rows);
DEFINE_REDUCE(ReduceSumSquare, SUM_SQUARE, SUM_TYPES, mean_rows);
DEFINE_REDUCE(ReduceL1, L1, SUM_TYPES, mean_rows);
DEFINE_REDUCE(ReduceL2, L2, SUM_TYPES, mean_rows);
/* Integers up to opset 27. */
DEFINE_REDUCE(ReduceLogSum, LOG_SUM, SUM_TYPES, mean_rows);
DEFINE_REDUCE(ReduceLogSumExp, LOG_SUM_EXP, SUM_TYPES, mean_rows);
