/* SPDX-License-Identifier: Apache-2.0 */
/* LpNormalization along one axis, and MeanVarianceNormalization over a list of axes. What is normalised together is a
   strided view. */
#include "ops/elementwise.h"
#include "ops/lift.h"
#include "ops/lp_normalization.h"

#include <math.h>
#include <string.h>

typedef void (*normalize_function)(const opf_call *call, const opf_view *x, opf_view *y);

static void append_axis(opf_view *view, int64_t dim, int64_t stride)
{
    view->dims[view->rank]    = dim;
    view->strides[view->rank] = stride;
    view->rank++;
}

/* Splits x and y into the parts that the marked axes span, and runs the function on each. */
static void run_parts(const opf_call *call, const bool *marked, normalize_function normalize)
{
    const opf_view *x = &call->in[0], *y = &call->out[0];
    opf_view        kept[2] = {{.type = x->type}, {.type = y->type}}, part[2] = {{.type = x->type}, {.type = y->type}};
    const opf_view *whole[2] = {x, y}, *views[2] = {&kept[0], &kept[1]};
    opf_walk        walk;
    for (int32_t i = 0; i < x->rank; i++)
        for (int v = 0; v < 2; v++)
            append_axis(marked[i] ? &part[v] : &kept[v], x->dims[i], whole[v]->strides[i]);
    for (opf_walk_init(&walk, kept[0].rank, kept[0].dims, 2, views); walk.left > 0; opf_walk_next(&walk)) {
        for (int v = 0; v < 2; v++)
            part[v].data = (char *)whole[v]->data + walk.offset[v] * (int64_t)opf_type_size(x->type);
        normalize(call, &part[0], &part[1]);
    }
}

/* y = (x - shift) / scale */
static void write_part(const opf_view *x, opf_view *y, double shift, double scale)
{
    const opf_view *views[] = {x, y};
    opf_walk        walk;
    for (opf_walk_init(&walk, x->rank, x->dims, 2, views); walk.left > 0; opf_walk_next(&walk))
        opf_view_put_f64(y, walk.offset[1], (opf_view_f64(x, walk.offset[0]) - shift) / scale);
}

/* ---- LpNormalization ---- */

opf_lp_guard opf_lp_guard_of(const opf_attr *attrs, uint32_t n_attrs, float *epsilon)
{
    static const char *const names[] = {[OPF_LP_MAX] = "max", [OPF_LP_ADD] = "add", [OPF_LP_INSIDE] = "inside"};
    const opf_attr          *guard = opf_attrs_find(attrs, n_attrs, "guard"), *e = opf_attrs_find(attrs, n_attrs, "epsilon");
    *epsilon = e != NULL ? e->f : 0.0F;
    for (unsigned i = OPF_LP_MAX; guard != NULL && guard->s != NULL && i < OPF_COUNT(names); i++)
        if (strcmp(guard->s, names[i]) == 0)
            return (opf_lp_guard)i;
    return OPF_LP_ZERO;
}

double opf_lp_denominator(opf_lp_guard guard, double epsilon, bool squared, double sum)
{
    const double inside = guard == OPF_LP_INSIDE ? sum + epsilon : sum, norm = squared ? sqrt(inside) : inside;
    if (guard == OPF_LP_MAX)
        return norm < epsilon ? epsilon : norm;
    if (guard == OPF_LP_ZERO)
        return norm == 0 ? 1 : norm; /* zeros stay zeros */
    return guard == OPF_LP_ADD ? norm + epsilon : norm;
}

static opf_status infer_lp(opf_infer *infer, opf_error *error)
{
    const int64_t p = opf_node_int(infer->node, "p", 2);
    int32_t       axis;
    OPF_FAIL_IF(error, p != 1 && p != 2, OPF_INVALID_MODEL, "p is %lld, must be 1 or 2", (long long)p);
    if (infer->in[0]->rank >= 0)
        OPF_TRY(opf_normalize_axis(opf_node_int(infer->node, "axis", -1), infer->in[0]->rank, &axis, error));
    return opf_infer_same(infer, 0, 0, error);
}

static void normalize_lp(const opf_call *call, const opf_view *x, opf_view *y)
{
    const bool squared = opf_call_int(call, "p", 2) == 2;
    double     sum     = 0;
    float      epsilon;
    opf_walk   walk;
    for (opf_walk_init(&walk, x->rank, x->dims, 1, &x); walk.left > 0; opf_walk_next(&walk)) {
        const double value = opf_view_f64(x, walk.offset[0]);
        sum += squared ? value * value : fabs(value);
    }
    const opf_lp_guard guard = opf_lp_guard_of(call->attrs, call->n_attrs, &epsilon);
    write_part(x, y, 0, opf_lp_denominator(guard, (double)epsilon, squared, sum));
}

static opf_status run_lp(const opf_call *call, opf_error *error)
{
    bool    marked[OPF_MAX_RANK] = {false};
    int32_t axis;
    OPF_TRY(opf_normalize_axis(opf_call_int(call, "axis", -1), call->in[0].rank, &axis, error));
    marked[axis] = true;
    run_parts(call, marked, normalize_lp);
    return OPF_OK;
}

/* ---- MeanVarianceNormalization ---- */

static opf_status mark_axes(const opf_attr *attr, int32_t rank, bool *marked, opf_error *error)
{
    static const int64_t images[] = {0, 2, 3};
    const int64_t       *axes     = attr != NULL ? attr->ints : images;
    const uint32_t       n        = attr != NULL ? attr->n : OPF_COUNT(images);
    for (int32_t i = 0; i < rank; i++)
        marked[i] = attr != NULL && n == 0; /* an empty list means all, as in reductions */
    for (uint32_t i = 0; i < n; i++) {
        int32_t axis;
        OPF_TRY(opf_normalize_axis(axes[i], rank, &axis, error));
        OPF_FAIL_IF(error, marked[axis], OPF_INVALID_MODEL, "axis %lld is given twice", (long long)axes[i]);
        marked[axis] = true;
    }
    return OPF_OK;
}

static opf_status infer_mean_variance(opf_infer *infer, opf_error *error)
{
    bool marked[OPF_MAX_RANK];
    if (infer->in[0]->rank >= 0)
        OPF_TRY(mark_axes(opf_node_attr(infer->node, "axes"), infer->in[0]->rank, marked, error));
    return opf_infer_same(infer, 0, 0, error);
}

static void normalize_mean_variance(const opf_call *call, const opf_view *x, opf_view *y)
{
    const double count = (double)opf_view_count(x);
    double       sum = 0, squares = 0;
    opf_walk     walk;
    (void)call;
    for (opf_walk_init(&walk, x->rank, x->dims, 1, &x); walk.left > 0; opf_walk_next(&walk))
        sum += opf_view_f64(x, walk.offset[0]);
    const double mean = sum / count;
    for (opf_walk_init(&walk, x->rank, x->dims, 1, &x); walk.left > 0; opf_walk_next(&walk)) {
        const double d = opf_view_f64(x, walk.offset[0]) - mean;
        squares += d * d;
    }
    write_part(x, y, mean, sqrt(squares / count) + 1e-9);
}

static opf_status run_mean_variance(const opf_call *call, opf_error *error)
{
    bool marked[OPF_MAX_RANK];
    OPF_TRY(mark_axes(opf_call_attr(call, "axes"), call->in[0].rank, marked, error));
    run_parts(call, marked, normalize_mean_variance);
    return OPF_OK;
}

/* ---- signatures ---- */

static const opf_import_row lp_rows[]  = {{22, opf_import_same, opf_lower_no_bfloat16}};
static const opf_import_row mvn_rows[] = {{13, opf_import_same, opf_lower_no_bfloat16}};

static const opf_attr_def lp_attrs[]  = {{.name = "axis", .type = OPF_ATTR_INT, .i = -1},
                                         {.name = "p", .type = OPF_ATTR_INT, .i = 2},
                                         {.name = "epsilon", .type = OPF_ATTR_FLOAT}, /* with guard; lp_normalization.h */
                                         {.name = "guard", .type = OPF_ATTR_STRING}};
static const opf_attr_def mvn_attrs[] = {{.name = "axes", .type = OPF_ATTR_INTS}};

#define DEFINE_NORMALIZATION(op_name, version, op_attrs, op_rows, functions)                                           \
    const opf_op opf_op_##op_name = {.name      = #op_name,                                                            \
                                     .domain    = "",                                                                  \
                                     .since     = (version),                                                           \
                                     .traits    = OPF_NORMALIZATION,                                                   \
                                     .inputs    = OPF_PARAMS({"X", 'T', OPF_TYPES_FLOAT, 0}),                          \
                                     .n_inputs  = 1,                                                                   \
                                     .outputs   = OPF_PARAMS({"Y", 'T', OPF_TYPES_FLOAT, 0}),                          \
                                     .n_outputs = 1,                                                                   \
                                     .attrs     = op_attrs,                                                            \
                                     .n_attrs   = OPF_COUNT(op_attrs),                                                 \
                                     .rows      = op_rows,                                                             \
                                     .n_rows    = OPF_COUNT(op_rows),                                                  \
                                     .infer     = infer_##functions,                                                   \
                                     .reference = run_##functions}
DEFINE_NORMALIZATION(LpNormalization, 1, lp_attrs, lp_rows, lp);
DEFINE_NORMALIZATION(MeanVarianceNormalization, 9, mvn_attrs, mvn_rows, mean_variance);
