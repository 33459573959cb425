/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/functions.h"

#include <math.h>
#include <string.h>

enum { MAX_COMPUTED = 1 << 22 }; /* elements of a constant that a rule computes when it is applied */

static bool out_of_memory(const opf_rule_call *call)
{
    *call->failed = true;
    return opf_refuse(call->context, call->why, OPF_MISS_BUDGET, 0, "out of memory");
}

#define REFUSE(call, code, ...) opf_refuse((call)->context, (call)->why, OPF_MISS_##code, 0, __VA_ARGS__)

/* ---- what arguments are ---- */

static const char *value_name(const opf_rule_call *call, uint32_t i)
{
    return call->args[i].kind == OPF_ITEM_VALUE ? opf_graph_value(call->context->graph, call->args[i].value)->name : "computed";
}

static bool get_constant(const opf_rule_call *call, uint32_t i, const opf_const **constant)
{
    const opf_item *item = &call->args[i];
    *constant            = opf_item_constant(call->context->graph, item);
    if (*constant != NULL)
        return true;
    if (item->kind == OPF_ITEM_VALUE && opf_graph_value(call->context->graph, item->value)->is_input)
        return REFUSE(call, CONST, "%s must be a constant, but %s is also a graph input", opf_rule_arg_name(call, i), value_name(call, i));
    return REFUSE(call, CONST, "%s must be a constant, but %s is computed at run time", opf_rule_arg_name(call, i), value_name(call, i));
}

static bool get_info(const opf_rule_call *call, uint32_t i, opf_info *info)
{
    const opf_item *item = &call->args[i];
    if (item->kind == OPF_ITEM_VALUE) {
        *info = opf_graph_value(call->context->graph, item->value)->info;
        return true;
    }
    if (item->kind != OPF_ITEM_CONST)
        return REFUSE(call, SHAPE, "%s has no shape", opf_rule_arg_name(call, i));
    *info      = (opf_info){.type = item->constant->type, .rank = item->constant->rank, .n_values = -1};
    info->dims = OPF_NEW(call->context->scratch, opf_dim, info->rank);
    if (info->dims == NULL)
        return out_of_memory(call);
    for (int32_t k = 0; k < info->rank; k++)
        info->dims[k] = opf_dim_number(item->constant->dims[k]);
    return true;
}

static const char *show(const opf_rule_call *call, const opf_info *info)
{
    const char *text = opf_info_string(info, call->context->graph->dims, call->context->scratch);
    return text != NULL ? text : "?";
}

static bool get_ranked(const opf_rule_call *call, uint32_t i, opf_info *info)
{
    return get_info(call, i, info) && (info->rank >= 0 || REFUSE(call, SHAPE_UNKNOWN, "the rank of %s is not known", value_name(call, i)));
}

/* ---- conditions ---- */

static bool is_constant(const opf_rule_call *call)
{
    for (uint32_t i = 0; i < call->n_args; i++) {
        const opf_const *constant;
        if (call->args[i].kind != OPF_ITEM_ABSENT && call->args[i].kind != OPF_ITEM_NUMBER && !get_constant(call, i, &constant))
            return false;
    }
    return true;
}

static bool is_scalar(const opf_rule_call *call)
{
    for (uint32_t i = 0; i < call->n_args; i++) {
        const opf_const *constant;
        if (call->args[i].kind == OPF_ITEM_NUMBER)
            continue;
        if (!get_constant(call, i, &constant))
            return false;
        if (constant->count != 1)
            return REFUSE(call, SHAPE, "%s has %zu elements, must have one", opf_rule_arg_name(call, i), constant->count);
    }
    return true;
}

static bool is_positive(const opf_rule_call *call)
{
    for (uint32_t i = 0; i < call->n_args; i++) {
        double x;
        if (!opf_item_number(call->context->graph, &call->args[i], &x))
            return is_scalar(call) && REFUSE(call, CONST, "%s is no number", opf_rule_arg_name(call, i));
        if (!(x > 0 && isfinite(x)))
            return REFUSE(call, CONST, "%s is %g, must be positive", opf_rule_arg_name(call, i), x);
    }
    return true;
}

static bool has_same_shape(const opf_rule_call *call)
{
    opf_info a, b;
    if (!get_info(call, 0, &a) || !get_info(call, 1, &b))
        return false;
    a.type = b.type = OPF_FLOAT; /* shapes only */
    return opf_legal_same(call->context, &a, &b, call->why);
}

static bool is_single(const opf_rule_call *call)
{
    for (uint32_t i = 0; i < call->n_args; i++) {
        opf_info info;
        if (!get_info(call, i, &info))
            return false;
        if (info.type != OPF_FLOAT && info.type != OPF_FLOAT16 && info.type != OPF_BFLOAT16)
            return REFUSE(call, DTYPE, "%s is %s, must be float, float16 or bfloat16", opf_rule_arg_name(call, i), opf_type_name(info.type));
    }
    return true;
}

static bool has_rank(const opf_rule_call *call)
{
    opf_info x;
    double   rank;
    if (!get_ranked(call, 0, &x) || !opf_item_number(call->context->graph, &call->args[1], &rank))
        return false;
    return x.rank == (int32_t)rank || REFUSE(call, RANK, "%s has %d dimensions, must have %g", opf_rule_arg_name(call, 0), x.rank, rank);
}

/* v may vary along axes [first, last) of x only, and raises no rank. */
static bool varies_within(const opf_rule_call *call, const opf_info *v, const opf_info *x, int32_t first, int32_t last)
{
    const char *name = opf_rule_arg_name(call, 0);
    if (v->rank > x->rank)
        return REFUSE(call, RANK, "%s is %s, of more dimensions than %s", name, show(call, v), show(call, x));
    for (int32_t k = 0; k < v->rank; k++) {
        int32_t axis = x->rank - v->rank + k;
        if (opf_dim_is(v->dims[k], 1))
            continue;
        if (axis < first || axis >= last)
            return REFUSE(call, SHAPE, "%s is %s: it varies along axis %d of %s", name, show(call, v), axis, show(call, x));
        if (!opf_dim_equal(v->dims[k], x->dims[axis])) {
            if (opf_dim_is_number(v->dims[k]) && opf_dim_is_number(x->dims[axis]))
                return REFUSE(call, SHAPE, "%s is %s, which does not fit %s", name, show(call, v), show(call, x));
            return REFUSE(call, SHAPE_UNKNOWN, "%s is %s, which may not fit %s", name, show(call, v), show(call, x));
        }
    }
    return true;
}

static bool is_per_channel(const opf_rule_call *call)
{
    opf_info v, x;
    return get_ranked(call, 0, &v) && get_ranked(call, 1, &x) && varies_within(call, &v, &x, 1, 2);
}

/* The first of the axes (argument i, absent: all), which must be the last of x without a gap. */
static bool first_of_last(const opf_rule_call *call, const opf_info *x, uint32_t i, int32_t *first)
{
    *first = 0;
    if (call->args[i].kind == OPF_ITEM_ABSENT)
        return true;
    const opf_const *axes;
    if (!get_constant(call, i, &axes))
        return false;
    if (!opf_types_have(OPF_TYPES_INT, axes->type) || axes->count > OPF_MAX_RANK)
        return REFUSE(call, CONST, "%s are no axes", opf_rule_arg_name(call, i));
    if (axes->count == 0) /* reduces all */
        return true;
    bool    seen[OPF_MAX_RANK] = {false};
    int32_t n                  = 0;
    *first                     = x->rank;
    for (size_t k = 0; k < axes->count; k++) {
        int64_t axis = opf_const_i64_at(axes, k);
        if (axis < -(int64_t)x->rank || axis >= x->rank)
            return REFUSE(call, CONST, "axis %lld is out of range", (long long)axis);
        int32_t positive = (int32_t)(axis < 0 ? axis + x->rank : axis);
        n += seen[positive] ? 0 : 1;
        seen[positive] = true;
        *first         = positive < *first ? positive : *first;
    }
    if (n != x->rank - *first)
        return REFUSE(call, CONST, "axes start at %d and are %d of %d, must be the last ones", *first, n, x->rank);
    return true;
}

static bool are_last_axes(const opf_rule_call *call)
{
    opf_info x;
    int32_t  first = 0;
    if (!get_ranked(call, 0, &x))
        return false;
    if (x.rank == 0)
        return REFUSE(call, RANK, "%s has no axes", opf_rule_arg_name(call, 0));
    for (uint32_t i = 1; i < call->n_args; i++) {
        int32_t other;
        if (!first_of_last(call, &x, i, &other))
            return false;
        if (i > 1 && other != first)
            return REFUSE(call, CONST, "axes start at %d and at %d, must be the same", first, other);
        first = other;
    }
    return true;
}

static bool is_along_axes(const opf_rule_call *call)
{
    opf_info v, x;
    int32_t  first;
    if (call->args[0].kind == OPF_ITEM_ABSENT)
        return true;
    return get_ranked(call, 0, &v) && get_ranked(call, 1, &x) && first_of_last(call, &x, 2, &first) &&
           varies_within(call, &v, &x, first, x.rank);
}

/* ---- values ---- */

static bool give_number(const opf_rule_call *call, double x)
{
    *call->result = (opf_item){.kind = OPF_ITEM_NUMBER, .number = x};
    return true;
}

static bool give_constant(const opf_rule_call *call, const opf_const *constant)
{
    if (constant == NULL)
        return out_of_memory(call);
    *call->result = (opf_item){.kind = OPF_ITEM_CONST, .constant = constant};
    return true;
}

/* A computed constant must be finite: a fold that overflows would spread NaN over a whole channel. */
static bool give_finite(const opf_rule_call *call, const opf_const *constant)
{
    for (size_t i = 0; constant != NULL && i < constant->count; i++)
        if (!isfinite(opf_const_f64_at(constant, i)))
            return REFUSE(call, CONST, "element %zu of a computed constant is %g", i, opf_const_f64_at(constant, i));
    return give_constant(call, constant);
}

static bool get_floats(const opf_rule_call *call, uint32_t i, const opf_const **constant)
{
    if (call->args[i].kind == OPF_ITEM_NUMBER) {
        *constant = opf_const_float(call->context->graph->consts, OPF_DOUBLE, call->args[i].number);
        return *constant != NULL || out_of_memory(call);
    }
    if (!get_constant(call, i, constant))
        return false;
    if (!opf_types_have(OPF_TYPES_FLOAT, (*constant)->type))
        return REFUSE(call, DTYPE, "%s is %s, must be a float", opf_rule_arg_name(call, i), opf_type_name((*constant)->type));
    if ((*constant)->count > MAX_COMPUTED)
        return REFUSE(call, BUDGET, "%s has %zu elements, too many to compute with", opf_rule_arg_name(call, i), (*constant)->count);
    return true;
}

static bool broadcasts(const opf_const *a, const opf_const *b)
{
    size_t count = 1;
    for (int32_t k = 1; k <= a->rank || k <= b->rank; k++) {
        int64_t x = k <= a->rank ? a->dims[a->rank - k] : 1, y = k <= b->rank ? b->dims[b->rank - k] : 1;
        if (x != y && x != 1 && y != 1)
            return false;
        if (!opf_mul_size(count, (size_t)(x == 1 ? y : x), &count) || count > MAX_COMPUTED)
            return false;
    }
    return true;
}

static bool arithmetic(const opf_rule_call *call)
{
    const opf_item *args = call->args;
    char            op   = call->expr->function->name[0];
    bool            sum  = op == '+' || op == '-';
    if (args[0].kind == OPF_ITEM_NUMBER && args[1].kind == OPF_ITEM_NUMBER) {
        double a = args[0].number, b = args[1].number;
        return give_number(call, op == '+' ? a + b : op == '-' ? a - b : op == '*' ? a * b : a / b);
    }
    if (sum && args[1].kind == OPF_ITEM_ABSENT) {
        *call->result = args[0];
        return true;
    }
    opf_item zero[2] = {{.kind = OPF_ITEM_NUMBER}, args[1]};
    opf_rule_call filled = *call;
    if (sum && args[0].kind == OPF_ITEM_ABSENT)
        filled.args = zero;
    const opf_const *a, *b;
    for (uint32_t i = 0; i < 2; i++)
        if (filled.args[i].kind == OPF_ITEM_ABSENT)
            return REFUSE(call, CONST, "%s is absent", opf_rule_arg_name(call, i));
    if (!get_floats(&filled, 0, &a) || !get_floats(&filled, 1, &b))
        return false;
    if (!broadcasts(a, b))
        return REFUSE(call, SHAPE, "the shapes of %s and %s do not go together", opf_rule_arg_name(call, 0), opf_rule_arg_name(call, 1));
    return give_finite(call, opf_const_compute(call->context->graph->consts, op, a, b));
}

static bool square_root(const opf_rule_call *call)
{
    const opf_const *a;
    if (call->args[0].kind == OPF_ITEM_NUMBER)
        return give_number(call, sqrt(call->args[0].number));
    return get_floats(call, 0, &a) && give_finite(call, opf_const_sqrt(call->context->graph->consts, a));
}

/* A half-precision weight may leave its range where its channel grows. */
static bool fits_half(const opf_rule_call *call, const opf_const *w, const opf_const *k, int32_t axis)
{
    int64_t start[OPF_MAX_RANK] = {0}, count[OPF_MAX_RANK] = {0};
    for (int32_t i = 0; i < w->rank; i++)
        count[i] = w->dims[i];
    count[axis]     = 1;
    size_t  n       = w->dims[axis] != 0 ? w->count / (size_t)w->dims[axis] : 0;
    double *channel = NULL;
    for (int64_t c = 0; n != 0 && c < w->dims[axis]; c++) {
        double factor = fabs(opf_const_f64_at(k, k->count == 1 ? 0 : (size_t)c));
        if (factor <= 1)
            continue;
        if (channel == NULL && (channel = OPF_NEW(call->context->scratch, double, n)) == NULL)
            return out_of_memory(call);
        start[axis] = c;
        opf_const_read_f64(w, start, count, channel);
        for (size_t i = 0; i < n; i++)
            if (fabs(channel[i]) * factor >= 65520)
                return REFUSE(call, CONST, "a scaled weight of channel %lld leaves the range of float16", (long long)c);
    }
    return true;
}

static bool scale(const opf_rule_call *call, int32_t axis)
{
    const opf_const *w, *k;
    opf_const_pool  *pool = call->context->graph->consts;
    if (!get_constant(call, 0, &w) || !get_floats(call, 1, &k))
        return false;
    if (!opf_types_have(OPF_TYPES_FLOAT, w->type))
        return REFUSE(call, DTYPE, "%s is %s, must be a float", opf_rule_arg_name(call, 0), opf_type_name(w->type));
    if (axis < 0 || axis >= w->rank)
        return REFUSE(call, RANK, "%s has %d dimensions", opf_rule_arg_name(call, 0), w->rank);
    if (k->count != (size_t)w->dims[axis] || k->count != (size_t)(k->rank > 0 ? k->dims[k->rank - 1] : 1))
        return REFUSE(call, SHAPE, "%s has %zu factors for %lld channels", opf_rule_arg_name(call, 1), k->count, (long long)w->dims[axis]);
    if (w->type == OPF_FLOAT16 && !fits_half(call, w, k, axis))
        return false;
    if (k->rank != 1) {
        const int64_t dims[] = {w->dims[axis]};
        k                    = opf_const_reshape(pool, k, 1, dims);
        if (k == NULL)
            return out_of_memory(call);
    }
    return give_constant(call, opf_const_scale(pool, w, k, axis));
}

static bool scale_outputs(const opf_rule_call *call)
{
    return scale(call, 0);
}

static bool scale_axis(const opf_rule_call *call)
{
    double axis;
    if (!opf_item_number(call->context->graph, &call->args[2], &axis) || !(axis >= 0 && axis < OPF_MAX_RANK))
        return REFUSE(call, CONST, "the axis must be a number from 0");
    return scale(call, (int32_t)axis);
}

static bool first_axis(const opf_rule_call *call)
{
    opf_info x;
    int32_t  first;
    return get_ranked(call, 0, &x) && first_of_last(call, &x, 1, &first) && give_number(call, first - x.rank);
}

/* v as an operand over the axes of x: with exactly their dimensions, a constant stretched where it has one element.
   Absent: a constant of the number that argument 3 gives, if there is one. */
static bool over_axes(const opf_rule_call *call)
{
    opf_info        x, v = {.rank = 0};
    opf_const_pool *pool = call->context->graph->consts;
    int32_t         first;
    bool            absent = call->args[0].kind == OPF_ITEM_ABSENT, same = true;
    if (absent && call->n_args < 4)
        return true;
    if (!get_ranked(call, 1, &x) || !first_of_last(call, &x, 2, &first) || (!absent && !get_ranked(call, 0, &v)))
        return false;
    int32_t rank               = x.rank - first;
    int64_t dims[OPF_MAX_RANK] = {0};
    same                       = !absent && v.rank == rank;
    for (int32_t k = 0; same && k < rank; k++)
        same = opf_dim_equal(v.dims[k], x.dims[first + k]);
    if (same) {
        *call->result = call->args[0];
        return true;
    }
    for (int32_t k = 0; k < rank; k++) {
        if (!opf_dim_is_number(x.dims[first + k]))
            return REFUSE(call, SHAPE_UNKNOWN, "the size of the axes of %s is not known", show(call, &x));
        dims[k] = x.dims[first + k].n;
    }
    if (absent) {
        double        fill;
        unsigned char element[16] = {0};
        if (!opf_item_number(call->context->graph, &call->args[3], &fill))
            return REFUSE(call, CONST, "what fills an absent operand must be a number");
        opf_store_f64(x.type, element, 0, fill);
        const void *copy = opf_arena_copy(pool->arena, element, sizeof element);
        return copy == NULL ? out_of_memory(call) : give_constant(call, opf_const_splat(pool, x.type, rank, dims, copy));
    }
    const opf_const *c;
    size_t           count = 1;
    if (!get_constant(call, 0, &c))
        return false;
    for (int32_t k = 0; k < rank; k++)
        if (!opf_mul_size(count, (size_t)dims[k], &count))
            return REFUSE(call, BUDGET, "%s is too large", show(call, &x));
    if (c->count == count)
        return give_constant(call, opf_const_reshape(pool, c, rank, dims));
    if (c->count != 1 || !opf_types_have(OPF_TYPES_FLOAT, c->type))
        return REFUSE(call, SHAPE, "%s is %s, which does not cover the axes of %s", opf_rule_arg_name(call, 0), show(call, &v), show(call, &x));
    unsigned char element[16] = {0};
    opf_store_f64(c->type, element, 0, opf_const_f64_at(c, 0));
    const void *copy = opf_arena_copy(pool->arena, element, sizeof element);
    return copy == NULL ? out_of_memory(call) : give_constant(call, opf_const_splat(pool, c->type, rank, dims, copy));
}

/* ---- the table ---- */

static const opf_rule_function table[] = {
    {"constant", 1, OPF_FUNCTION_ARGS, true, true, is_constant, "each is a constant, or absent"},
    {"scalar", 1, OPF_FUNCTION_ARGS, true, false, is_scalar, "each is a constant of one element"},
    {"positive", 1, OPF_FUNCTION_ARGS, true, false, is_positive, "each is a number or a constant of one element, greater than zero"},
    {"same_shape", 2, 2, true, false, has_same_shape, "both shapes are known and proven equal"},
    {"single", 1, OPF_FUNCTION_ARGS, true, false, is_single, "each is float, float16 or bfloat16: what an operator that computes in float may replace"},
    {"has_rank", 2, 2, true, false, has_rank, "has_rank(x, n): x has n dimensions"},
    {"per_channel", 2, 2, true, false, is_per_channel, "per_channel(v, x): v varies along axis 1 of x only and raises no rank"},
    {"last_axes", 2, OPF_FUNCTION_ARGS, true, true, are_last_axes, "last_axes(x, a, …): each of the lists of axes names the same last axes of x; absent: all"},
    {"along_axes", 3, 3, true, true, is_along_axes, "along_axes(v, x, axes): v varies along these last axes of x only and raises no rank, or is absent"},
    {"sqrt", 1, 1, false, false, square_root, "the square root of a number or of a small constant"},
    {"scale_outputs", 2, 2, false, false, scale_outputs, "scale_outputs(W, k): W with output channel i (axis 0) times k[i], as a recipe"},
    {"scale_axis", 3, 3, false, false, scale_axis, "scale_axis(W, k, axis): the same along another axis"},
    {"first_axis", 2, 2, false, true, first_axis, "first_axis(x, axes): the first of the last axes, counted from the end: -1 is the last"},
    {"over_axes", 3, 4, false, true, over_axes, "over_axes(v, x, axes, fill): v with exactly the dimensions of these axes; absent: constant fill, or absent"},
    {"+", 2, 2, false, true, arithmetic, "computed in double; an absent operand of a sum is 0"},
    {"-", 2, 2, false, true, arithmetic, "computed in double"},
    {"*", 2, 2, false, true, arithmetic, "computed in double"},
    {"/", 2, 2, false, true, arithmetic, "computed in double"},
};

const opf_rule_function *opf_rule_find_function(const char *name)
{
    for (uint32_t i = 0; i < OPF_COUNT(table); i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

const opf_rule_function *opf_rule_all_functions(uint32_t *n)
{
    *n = OPF_COUNT(table);
    return table;
}
