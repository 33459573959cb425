/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that give values: constants computed now in double, or recipes. */
#include "fuse/function_args.h"

#include <math.h>

enum { MAX_COMPUTED = 1 << 22 }; /* elements of a constant that a rule computes when it is applied */

bool opf_function_give_number(const opf_rule_call *call, double x)
{
    *call->result = (opf_item){.kind = OPF_ITEM_NUMBER, .number = x};
    return true;
}

bool opf_function_give_constant(const opf_rule_call *call, const opf_const *constant)
{
    if (constant == NULL)
        return opf_function_out_of_memory(call);
    *call->result = (opf_item){.kind = OPF_ITEM_CONST, .constant = constant};
    return true;
}

bool opf_function_give_ints(const opf_rule_call *call, const int64_t *ints, uint32_t n)
{
    const int64_t *copy = opf_arena_copy(call->context->graph->arena, ints, n * sizeof *ints);
    if (copy == NULL)
        return opf_function_out_of_memory(call);
    *call->result = (opf_item){.kind = OPF_ITEM_ATTR, .attr = {.type = OPF_ATTR_INTS, .ints = copy, .n = n}};
    return true;
}

/* A computed constant must be finite: a fold that overflows would spread NaN over a whole channel. */
static bool give_finite(const opf_rule_call *call, const opf_const *constant)
{
    for (size_t i = 0; constant != NULL && i < constant->count; i++)
        if (!isfinite(opf_const_f64_at(constant, i)))
            return OPF_REFUSE(call, CONST, "element %zu of a computed constant is %g", i,
                              opf_const_f64_at(constant, i));
    return opf_function_give_constant(call, constant);
}

bool opf_function_floats(const opf_rule_call *call, uint32_t i, const opf_const **constant)
{
    if (call->args[i].kind == OPF_ITEM_NUMBER) {
        *constant = opf_const_float(call->context->graph->consts, OPF_DOUBLE, call->args[i].number);
        return *constant != NULL || opf_function_out_of_memory(call);
    }
    if (!opf_function_constant(call, i, constant))
        return false;
    if (!opf_types_have(OPF_TYPES_FLOAT, (*constant)->type))
        return OPF_REFUSE(call, DTYPE, "%s is %s, must be a float", opf_rule_arg_name(call, i),
                          opf_type_name((*constant)->type));
    if ((*constant)->count > MAX_COMPUTED)
        return OPF_REFUSE(call, BUDGET, "%s has %zu elements, too many to compute with", opf_rule_arg_name(call, i),
                          (*constant)->count);
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

bool opf_rule_arithmetic(const opf_rule_call *call)
{
    const opf_item *args = call->args;
    char op = call->expr->function->name[0];
    bool sum = op == '+' || op == '-';
    if (args[0].kind == OPF_ITEM_NUMBER && args[1].kind == OPF_ITEM_NUMBER) {
        double a = args[0].number, b = args[1].number;
        return opf_function_give_number(call, op == '+' ? a + b : op == '-' ? a - b : op == '*' ? a * b : a / b);
    }
    if (sum && args[1].kind == OPF_ITEM_ABSENT) {
        *call->result = args[0];
        return true;
    }
    if (op == '*' && (args[0].kind == OPF_ITEM_ABSENT || args[1].kind == OPF_ITEM_ABSENT)) {
        *call->result = (opf_item){.kind = OPF_ITEM_ABSENT};
        return true;
    }
    opf_item zero[2] = {{.kind = OPF_ITEM_NUMBER}, args[1]};
    opf_rule_call filled = *call;
    if (sum && args[0].kind == OPF_ITEM_ABSENT)
        filled.args = zero;
    const opf_const *a, *b;
    for (uint32_t i = 0; i < 2; i++)
        if (filled.args[i].kind == OPF_ITEM_ABSENT)
            return OPF_REFUSE(call, CONST, "%s is absent", opf_rule_arg_name(call, i));
    if (!opf_function_floats(&filled, 0, &a) || !opf_function_floats(&filled, 1, &b))
        return false;
    if (!broadcasts(a, b))
        return OPF_REFUSE(call, SHAPE, "the shapes of %s and %s do not go together", opf_rule_arg_name(call, 0),
                          opf_rule_arg_name(call, 1));
    return give_finite(call, opf_const_compute(call->context->graph->consts, op, a, b));
}

bool opf_rule_sqrt(const opf_rule_call *call)
{
    const opf_const *a;
    if (call->args[0].kind == OPF_ITEM_NUMBER)
        return opf_function_give_number(call, sqrt(call->args[0].number));
    return opf_function_floats(call, 0, &a) && give_finite(call, opf_const_sqrt(call->context->graph->consts, a));
}

/* ---- bounds ---- */

/* A bound: a number, or a constant of one element; absent: `otherwise`. */
static bool get_bound(const opf_rule_call *call, uint32_t i, double otherwise, double *x)
{
    *x = otherwise;
    if (i >= call->n_args || call->args[i].kind == OPF_ITEM_ABSENT)
        return true;
    if (!opf_item_number(call->context->graph, &call->args[i], x))
        return OPF_REFUSE(call, CONST, "%s must be a constant of one element", opf_rule_arg_name(call, i));
    return !isnan(*x) || OPF_REFUSE(call, CONST, "%s is no number", opf_rule_arg_name(call, i));
}

/* No bound at all is absent. */
static bool give_bound(const opf_rule_call *call, double x)
{
    if (isfinite(x))
        return opf_function_give_number(call, x);
    *call->result = (opf_item){.kind = OPF_ITEM_ABSENT};
    return true;
}

/* Of lower bounds, one that is absent is minus infinity; so is the result when both are. */
bool opf_rule_max(const opf_rule_call *call)
{
    double a, b;
    if (!get_bound(call, 0, -HUGE_VAL, &a) || !get_bound(call, 1, -HUGE_VAL, &b))
        return false;
    const double larger = a > b ? a : b;
    if (isinf(larger) && larger > 0)
        return OPF_REFUSE(call, CONST, "a bound is infinite");
    return give_bound(call, larger);
}

/* An upper bound after min(max(., lo), hi); absent bounds are infinities. */
bool opf_rule_clamp(const opf_rule_call *call)
{
    double x, lo, hi;
    if (!get_bound(call, 0, HUGE_VAL, &x) || !get_bound(call, 1, -HUGE_VAL, &lo) ||
        !get_bound(call, 2, HUGE_VAL, &hi))
        return false;
    x = x > lo ? x : lo;
    x = x < hi ? x : hi;
    if (isinf(x) && x < 0)
        return OPF_REFUSE(call, CONST, "a bound is infinite");
    return give_bound(call, x);
}

bool opf_rule_length(const opf_rule_call *call)
{
    const opf_const *c;
    return opf_function_constant(call, 0, &c) && opf_function_give_number(call, (double)c->count);
}

bool opf_rule_first_of(const opf_rule_call *call)
{
    const opf_const *c;
    if (!opf_function_constant(call, 0, &c))
        return false;
    if (c->count == 0 || !opf_types_have(OPF_TYPES_INT, c->type))
        return OPF_REFUSE(call, CONST, "%s is no list of integers", opf_rule_arg_name(call, 0));
    return opf_function_give_number(call, (double)opf_const_i64_at(c, 0));
}

/* ---- weights ---- */

/* A half-precision weight may leave its range where its channel grows. */
static bool fits_half(const opf_rule_call *call, const opf_const *w, const opf_const *k, int32_t axis)
{
    int64_t start[OPF_MAX_RANK] = {0}, count[OPF_MAX_RANK] = {0};
    for (int32_t i = 0; i < w->rank; i++)
        count[i] = w->dims[i];
    count[axis] = 1;
    size_t n = w->dims[axis] != 0 ? w->count / (size_t)w->dims[axis] : 0;
    double *channel = NULL;
    for (int64_t c = 0; n != 0 && c < w->dims[axis]; c++) {
        double factor = fabs(opf_const_f64_at(k, k->count == 1 ? 0 : (size_t)c));
        if (factor <= 1)
            continue;
        if (channel == NULL && (channel = OPF_NEW(call->context->scratch, double, n)) == NULL)
            return opf_function_out_of_memory(call);
        start[axis] = c;
        opf_const_read_f64(w, start, count, channel);
        for (size_t i = 0; i < n; i++)
            if (fabs(channel[i]) * factor >= 65520)
                return OPF_REFUSE(call, CONST, "a scaled weight of channel %lld leaves the range of float16",
                                  (long long)c);
    }
    return true;
}

static bool scale(const opf_rule_call *call, int32_t axis)
{
    const opf_const *w, *k;
    opf_const_pool *pool = call->context->graph->consts;
    if (!opf_function_constant(call, 0, &w) || !opf_function_floats(call, 1, &k))
        return false;
    if (!opf_types_have(OPF_TYPES_FLOAT, w->type))
        return OPF_REFUSE(call, DTYPE, "%s is %s, must be a float", opf_rule_arg_name(call, 0), opf_type_name(w->type));
    if (axis < 0 || axis >= w->rank)
        return OPF_REFUSE(call, RANK, "%s has %d dimensions", opf_rule_arg_name(call, 0), w->rank);
    if (k->count != (size_t)w->dims[axis] || k->count != (size_t)(k->rank > 0 ? k->dims[k->rank - 1] : 1))
        return OPF_REFUSE(call, SHAPE, "%s has %zu factors for %lld channels", opf_rule_arg_name(call, 1), k->count,
                          (long long)w->dims[axis]);
    if (w->type == OPF_FLOAT16 && !fits_half(call, w, k, axis))
        return false;
    if (k->rank != 1) {
        const int64_t dims[] = {w->dims[axis]};
        k = opf_const_reshape(pool, k, 1, dims);
        if (k == NULL)
            return opf_function_out_of_memory(call);
    }
    return opf_function_give_constant(call, opf_const_scale(pool, w, k, axis));
}

bool opf_rule_scale_outputs(const opf_rule_call *call)
{
    return scale(call, 0);
}

bool opf_rule_scale_axis(const opf_rule_call *call)
{
    double axis;
    if (!opf_item_number(call->context->graph, &call->args[2], &axis) || !(axis >= 0 && axis < OPF_MAX_RANK))
        return OPF_REFUSE(call, CONST, "the axis must be a number from 0");
    return scale(call, (int32_t)axis);
}

bool opf_rule_first_axis(const opf_rule_call *call)
{
    opf_info x;
    int32_t first;
    return opf_function_ranked(call, 0, &x) && opf_function_first_axis(call, &x, 1, &first) &&
           opf_function_give_number(call, first - x.rank);
}

/* v as an operand over the axes of x: with exactly their dimensions, a constant stretched where it has one element.
   Absent: a constant of the number that argument 3 gives, if there is one. */
bool opf_rule_over_axes(const opf_rule_call *call)
{
    opf_info x, v = {.rank = 0};
    opf_const_pool *pool = call->context->graph->consts;
    int32_t first;
    bool absent = call->args[0].kind == OPF_ITEM_ABSENT, same = true;
    if (absent && call->n_args < 4)
        return true;
    if (!opf_function_ranked(call, 1, &x) || !opf_function_first_axis(call, &x, 2, &first) ||
        (!absent && !opf_function_ranked(call, 0, &v)))
        return false;
    int32_t rank = x.rank - first;
    int64_t dims[OPF_MAX_RANK] = {0};
    same = !absent && v.rank == rank;
    for (int32_t k = 0; same && k < rank; k++)
        same = opf_dim_equal(v.dims[k], x.dims[first + k]);
    if (same) {
        *call->result = call->args[0];
        return true;
    }
    for (int32_t k = 0; k < rank; k++) {
        if (!opf_dim_is_number(x.dims[first + k]))
            return OPF_REFUSE(call, SHAPE_UNKNOWN, "the size of the axes of %s is not known",
                              opf_function_show(call, &x));
        dims[k] = x.dims[first + k].n;
    }
    if (absent) {
        double fill;
        unsigned char element[16] = {0};
        if (!opf_item_number(call->context->graph, &call->args[3], &fill))
            return OPF_REFUSE(call, CONST, "what fills an absent operand must be a number");
        opf_store_f64(x.type, element, 0, fill);
        const void *copy = opf_arena_copy(pool->arena, element, sizeof element);
        return copy == NULL ? opf_function_out_of_memory(call)
                            : opf_function_give_constant(call, opf_const_splat(pool, x.type, rank, dims, copy));
    }
    const opf_const *c;
    size_t count = 1;
    if (!opf_function_constant(call, 0, &c))
        return false;
    for (int32_t k = 0; k < rank; k++)
        if (!opf_mul_size(count, (size_t)dims[k], &count))
            return OPF_REFUSE(call, BUDGET, "%s is too large", opf_function_show(call, &x));
    if (c->count == count)
        return opf_function_give_constant(call, opf_const_reshape(pool, c, rank, dims));
    if (c->count != 1 || !opf_types_have(OPF_TYPES_FLOAT, c->type))
        return OPF_REFUSE(call, SHAPE, "%s is %s, which does not cover the axes of %s", opf_rule_arg_name(call, 0),
                          opf_function_show(call, &v), opf_function_show(call, &x));
    unsigned char element[16] = {0};
    opf_store_f64(c->type, element, 0, opf_const_f64_at(c, 0));
    const void *copy = opf_arena_copy(pool->arena, element, sizeof element);
    return copy == NULL ? opf_function_out_of_memory(call)
                        : opf_function_give_constant(call, opf_const_splat(pool, c->type, rank, dims, copy));
}
