/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/elementwise.h"

#include <math.h>

/* ---- known values ---- */

bool opf_value_of_integer(opf_type type, int64_t n, opf_dim *result)
{
    int64_t wrapped = 0;
    opf_store_i64(type, &wrapped, 0, n);
    *result = opf_dim_number(opf_load_i64(type, &wrapped, 0));
    return type != OPF_UINT64 || n >= 0;
}

bool opf_value_of_float(opf_type type, double x, opf_dim *result)
{
    double rounded = 0;
    opf_store_f64(type, &rounded, 0, x);
    rounded = opf_load_f64(type, &rounded, 0);
    if (!(fabs(rounded) < 0x1p53) || rounded != trunc(rounded) || (rounded == 0 && signbit(rounded)))
        return false;
    *result = opf_dim_number((int64_t)rounded);
    return true;
}

bool opf_infer_floats(const opf_infer *infer, uint32_t i, double *numbers, int32_t room, int32_t *n)
{
    const opf_const *constant = i < infer->n_in ? infer->constants[i] : NULL;
    const opf_dim   *values;
    if (constant != NULL && constant->count <= (size_t)room && opf_types_have(OPF_TYPES_FLOAT, constant->type)) {
        *n = (int32_t)constant->count;
        for (int32_t k = 0; k < *n; k++)
            numbers[k] = opf_const_f64_at(constant, (size_t)k);
        return true;
    }
    if (!opf_infer_values(infer, i, &values, n) || *n > room)
        return false;
    for (int32_t k = 0; k < *n; k++) {
        if (!opf_dim_is_number(values[k]))
            return false;
        numbers[k] = (double)values[k].n;
    }
    return true;
}

/* Views that carry offsets only: which element of each input meets element i of the output. */
static bool index_view(const opf_info *info, opf_view *view)
{
    size_t count;
    if (!opf_info_count(info, &count) || count > OPF_MAX_KNOWN_VALUES)
        return false;
    *view = (opf_view){.rank = info->rank};
    for (int32_t i = 0; i < info->rank; i++)
        view->dims[i] = info->dims[i].n;
    opf_view_set_dense(view);
    return true;
}

typedef struct {
    opf_dim dims[OPF_MAX_KNOWN_VALUES];     /* of integers */
    double  numbers[OPF_MAX_KNOWN_VALUES];  /* of floats */
} elements;

static bool is_float_input(const opf_infer *infer, uint32_t i)
{
    return opf_types_have(OPF_TYPES_FLOAT, infer->in[i]->type);
}

/* Element k of input i, as the next operand of the fold. */
static bool fold_integer(opf_infer *infer, const opf_value_rule *rule, uint32_t i, opf_dim x, opf_dim *result)
{
    if (i == 0 && !rule->is_unary) {
        *result = x;
        return true;
    }
    opf_dim folded;
    if (!rule->integers(infer->dims, i == 0 ? x : *result, x, &folded))
        return false;
    *result = folded;
    return !opf_dim_is_number(folded) || opf_value_of_integer(infer->out[0].type, folded.n, result);
}

static bool fold_input(opf_infer *infer, const opf_value_rule *rule, uint32_t i, const opf_view *out, size_t count, elements *acc,
                       bool *known)
{
    opf_view       view, wide;
    const opf_dim *values = NULL;
    double         numbers[OPF_MAX_KNOWN_VALUES];
    int32_t        n;
    bool           is_float = is_float_input(infer, i);
    if (!index_view(infer->in[i], &view))
        return false;
    if (is_float ? rule->floats == NULL || !opf_infer_floats(infer, i, numbers, OPF_MAX_KNOWN_VALUES, &n)
                 : rule->integers == NULL || !opf_infer_values(infer, i, &values, &n))
        return false;
    if ((size_t)n != opf_view_count(&view))
        return false;
    wide = opf_view_broadcast(&view, out->rank, out->dims);
    for (size_t k = 0; k < count; k++) {
        int64_t at = opf_view_offset(&wide, k);
        if (!is_float)
            known[k] = known[k] && fold_integer(infer, rule, i, values[at], &acc->dims[k]);
        else if (rule->is_unary)
            acc->numbers[k] = rule->floats(numbers[at], 0);
        else
            acc->numbers[k] = i == 0 ? numbers[at] : rule->floats(acc->numbers[k], numbers[at]);
    }
    return true;
}

/* An element that is not known becomes an unknown that equals nothing; if none is known, nothing is said. */
static opf_status set_known(opf_infer *infer, const elements *acc, const bool *known, size_t count, opf_error *error)
{
    opf_dim  values[OPF_MAX_KNOWN_VALUES];
    opf_type type     = infer->out[0].type;
    bool     is_float = is_float_input(infer, 0), any = count == 0;
    for (size_t k = 0; k < count; k++) {
        bool is_known = known[k];
        if (!is_float)
            values[k] = acc->dims[k];
        else if (opf_types_have(OPF_TYPES_FLOAT, type))
            is_known = opf_value_of_float(type, acc->numbers[k], &values[k]);
        else
            values[k] = opf_dim_number(acc->numbers[k] != 0);
        if (is_known && !opf_dim_is_number(values[k]) && opf_type_size(type) < 4)
            is_known = false; /* a symbol might wrap */
        if (!is_known)
            values[k] = opf_dim_unknown(infer->dims);
        any = any || is_known;
    }
    return any ? opf_infer_set_values(infer, 0, (int32_t)count, values, error) : OPF_OK;
}

opf_status opf_infer_elementwise(opf_infer *infer, const opf_value_rule *rule, opf_error *error)
{
    OPF_TRY(opf_infer_broadcast(infer, infer->n_in, error));
    opf_view out;
    opf_types carried = OPF_TYPES_ALL & ~OPF_TYPE_BIT(OPF_UINT64);
    if (rule == NULL || infer->n_out == 0 || !opf_types_have(carried, infer->out[0].type) || !index_view(&infer->out[0], &out))
        return OPF_OK;
    elements acc = {0};
    bool     known[OPF_MAX_KNOWN_VALUES];
    size_t   count = opf_view_count(&out);
    for (size_t k = 0; k < count; k++)
        known[k] = true;
    for (uint32_t i = 0; i < infer->n_in; i++)
        if (!opf_infer_has(infer, i) || !fold_input(infer, rule, i, &out, count, &acc, known))
            return OPF_OK;
    return set_known(infer, &acc, known, count, error);
}

opf_status opf_infer_shape_only(opf_infer *infer, opf_error *error)
{
    return opf_infer_elementwise(infer, NULL, error);
}

/* ---- numbers ---- */

int64_t opf_double_to_int(double x)
{
    if (isnan(x))
        return 0;
    if (x >= 0x1p63)
        return INT64_MAX;
    return x < -0x1p63 ? INT64_MIN : (int64_t)x;
}

uint64_t opf_double_to_uint(double x)
{
    if (!(x > 0))
        return 0;
    return x >= 0x1p64 ? UINT64_MAX : (uint64_t)x;
}

/* Truncated; the least integer of 32 or 64 bits stands for NaN and all that these bits cannot hold. */
static int64_t truncate_to(int bits, double x)
{
    const double limit = bits == 32 ? 0x1p31 : 0x1p63;
    return x > -limit - 1 && x < limit ? (int64_t)x : bits == 32 ? INT32_MIN : INT64_MIN;
}

int64_t opf_cast_to_integer(opf_type type, double x)
{
    if (type == OPF_BOOL)
        return x != 0;
    if (type == OPF_UINT64 && x >= 0x1p63)
        return truncate_to(64, x - 0x1p63) ^ INT64_MIN;
    return truncate_to(type == OPF_INT64 || type == OPF_UINT64 || type == OPF_UINT32 ? 64 : 32, x);
}

/* ---- reference kernels ---- */

void opf_reference_unary_int(const opf_call *call, int64_t (*f)(int64_t))
{
    const opf_view *x = &call->in[0];
    opf_view       *y = &call->out[0];
    opf_walk        walk;
    for (opf_walk_init(&walk, y->rank, y->dims, 2, (const opf_view *const[]){x, y}); walk.left != 0; opf_walk_next(&walk))
        opf_view_put_i64(y, walk.offset[1], f(opf_view_i64(x, walk.offset[0])));
}

typedef union {
    double   f;
    int64_t  i;
    uint64_t u;
} number;

opf_status opf_reference_fold(const opf_call *call, double (*ff)(double, double), int64_t (*fi)(int64_t, int64_t),
                              uint64_t (*fu)(uint64_t, uint64_t), double divisor, opf_error *error)
{
    opf_view *y        = &call->out[0];
    size_t    count    = opf_view_count(y), bytes, k;
    bool      is_float = opf_types_have(OPF_TYPES_FLOAT, y->type), is_signed = opf_types_have(OPF_TYPES_SINT, y->type);
    OPF_OOM_IF(error, !opf_mul_size(count, sizeof(number), &bytes));
    number *acc = opf_heap_alloc(call->heap, bytes);
    OPF_OOM_IF(error, acc == NULL);
    opf_walk walk;
    for (uint32_t i = 0; i < call->n_in; i++) {
        opf_view x = opf_view_broadcast(&call->in[i], y->rank, y->dims);
        k          = 0;
        for (opf_walk_init(&walk, y->rank, y->dims, 1, (const opf_view *const[]){&x}); walk.left != 0; opf_walk_next(&walk), k++) {
            if (is_float) {
                double element = opf_view_f64(&x, walk.offset[0]);
                acc[k].f       = i == 0 ? element : ff(acc[k].f, element);
            } else {
                int64_t element = opf_view_i64(&x, walk.offset[0]);
                if (i == 0)
                    acc[k].i = element;
                else if (is_signed)
                    acc[k].i = fi(acc[k].i, element);
                else
                    acc[k].u = fu(acc[k].u, (uint64_t)element);
            }
        }
    }
    k = 0;
    for (opf_walk_init(&walk, y->rank, y->dims, 1, (const opf_view *const[]){y}); walk.left != 0; opf_walk_next(&walk), k++) {
        if (is_float)
            opf_view_put_f64(y, walk.offset[0], acc[k].f / divisor);
        else
            opf_view_put_i64(y, walk.offset[0], acc[k].i);
    }
    opf_heap_free(call->heap, acc, bytes);
    return OPF_OK;
}

opf_status opf_check_divisor(const opf_call *call, uint32_t i, opf_error *error)
{
    const opf_view *b = &call->in[i];
    if (!opf_types_have(OPF_TYPES_INT, b->type) || opf_view_count(&call->out[0]) == 0)
        return OPF_OK;
    opf_walk walk;
    for (opf_walk_init(&walk, b->rank, b->dims, 1, (const opf_view *const[]){b}); walk.left != 0; opf_walk_next(&walk))
        OPF_FAIL_IF(error, opf_view_i64(b, walk.offset[0]) == 0, OPF_INVALID_INPUT, "division of integers by zero");
    return OPF_OK;
}
