/* SPDX-License-Identifier: Apache-2.0 */
/* CumSum and CumProd: floats in double, each result rounded once; integers wrap. */
#include "ops/call.h"
#include "ops/lift.h"

#define CUMULATE_TYPES                                                                                                 \
    (OPF_TYPES_FLOAT | OPF_TYPE_BIT(OPF_INT32) | OPF_TYPE_BIT(OPF_INT64) | OPF_TYPE_BIT(OPF_UINT32) |                  \
     OPF_TYPE_BIT(OPF_UINT64))

static opf_status infer_cumulate(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[0], *axis = infer->in[1];
    int64_t         number;
    int32_t         n, normal;
    bool            fits = axis->rank <= 0 ||
                (axis->rank == 1 && (!opf_dim_is_number(axis->dims[0]) || axis->dims[0].n == 1));
    OPF_FAIL_IF(error, !fits, OPF_INVALID_MODEL, "axis must have 1 element");
    if (x->rank >= 0 && opf_infer_numbers(infer, 1, &number, 1, &n) && n == 1)
        OPF_TRY(opf_normalize_axis(number, x->rank, &normal, error));
    return opf_infer_same(infer, 0, 0, error);
}

typedef struct span {
    int64_t n, src, dst, src_step, dst_step; /* steps are negative in reverse */
    bool    exclusive, is_product;
} span;

static void cumulate_floats(const opf_view *x, opf_view *y, const span *s)
{
    double sum = s->is_product ? 1 : 0;
    for (int64_t i = 0; i < s->n; i++) {
        double before = sum, element = opf_view_f64(x, s->src + i * s->src_step);
        sum = s->is_product ? sum * element : sum + element;
        opf_view_put_f64(y, s->dst + i * s->dst_step, s->exclusive ? before : sum);
    }
}

static void cumulate_integers(const opf_view *x, opf_view *y, const span *s)
{
    uint64_t sum = s->is_product ? 1 : 0;
    for (int64_t i = 0; i < s->n; i++) {
        uint64_t before = sum, element = (uint64_t)opf_view_i64(x, s->src + i * s->src_step);
        sum = s->is_product ? sum * element : sum + element;
        opf_view_put_i64(y, s->dst + i * s->dst_step, (int64_t)(s->exclusive ? before : sum));
    }
}

static opf_status run_cumulate(const opf_call *call, bool is_product, opf_error *error)
{
    const opf_view *x       = &call->in[0];
    opf_view       *y       = &call->out[0];
    const bool      reverse = opf_call_int(call, "reverse", 0) != 0;
    const opf_view *views[] = {x, y};
    int64_t         dims[OPF_MAX_RANK];
    int32_t         axis;
    opf_walk        walk;
    OPF_TRY(opf_normalize_axis(opf_view_i64(&call->in[1], 0), x->rank, &axis, error));
    for (int32_t i = 0; i < x->rank; i++)
        dims[i] = i == axis ? 1 : x->dims[i];
    span s = {.n          = x->dims[axis],
              .src_step   = reverse ? -x->strides[axis] : x->strides[axis],
              .dst_step   = reverse ? -y->strides[axis] : y->strides[axis],
              .exclusive  = opf_call_int(call, "exclusive", 0) != 0,
              .is_product = is_product};
    if (s.n == 0)
        return OPF_OK;
    for (opf_walk_init(&walk, x->rank, dims, 2, views); walk.left != 0; opf_walk_next(&walk)) {
        s.src = walk.offset[0] + (reverse ? (s.n - 1) * x->strides[axis] : 0);
        s.dst = walk.offset[1] + (reverse ? (s.n - 1) * y->strides[axis] : 0);
        if (opf_types_have(OPF_TYPES_FLOAT, x->type))
            cumulate_floats(x, y, &s);
        else
            cumulate_integers(x, y, &s);
    }
    return OPF_OK;
}

static opf_status reference_cum_sum(const opf_call *call, opf_error *error)
{
    return run_cumulate(call, false, error);
}

static opf_status reference_cum_prod(const opf_call *call, opf_error *error)
{
    return run_cumulate(call, true, error);
}

static opf_status lower_cum_sum_14(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    const opf_type  type = opf_graph_value(graph, node->inputs[0])->info.type;
    OPF_FAIL_IF(error, type == OPF_FLOAT16 || type == OPF_BFLOAT16, OPF_UNSUPPORTED,
                "%s (%s): %s needs an opset above %d", node->name, node->op_type, opf_type_name(type), (int)opset);
    return OPF_OK;
}

static const opf_param    inputs[]  = {{"x", 'T', CUMULATE_TYPES, 0}, {"axis", 'I', OPF_TYPES_INDEX, 0}};
static const opf_param    outputs[] = {{"y", 'T', CUMULATE_TYPES, 0}};
static const opf_attr_def attrs[]   = {{.name = "exclusive", .type = OPF_ATTR_INT},
                                       {.name = "reverse", .type = OPF_ATTR_INT}};

const opf_op opf_op_CumSum = {
    .name      = "CumSum",
    .domain    = "",
    .since     = 11,
    .inputs    = inputs,
    .n_inputs  = 2,
    .outputs   = outputs,
    .n_outputs = 1,
    .attrs     = attrs,
    .n_attrs   = 2,
    .rows      = (const opf_import_row[]){{14, opf_import_same, lower_cum_sum_14}},
    .n_rows    = 1,
    .infer     = infer_cumulate,
    .reference = reference_cum_sum,
};

const opf_op opf_op_CumProd = {
    .name      = "CumProd",
    .domain    = "",
    .since     = 26,
    .inputs    = inputs,
    .n_inputs  = 2,
    .outputs   = outputs,
    .n_outputs = 1,
    .attrs     = attrs,
    .n_attrs   = 2,
    .infer     = infer_cumulate,
    .reference = reference_cum_prod,
};
