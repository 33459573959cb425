/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ConvInteger, MatMulInteger, QLinearConv, QLinearMatMul: Conv or MatMul of operands less their zero points. The
 * reference is that of Conv and MatMul on doubles, which hold such products and sums exactly.
 */
#include "ops/check.h"
#include "ops/elementwise.h"
#include "ops/import.h"
#include "ops/movement.h"
#include "ops/quantize.h"

/* Inputs by their roles; NONE: there is no such input. */
#define NONE UINT32_MAX
typedef struct roles {
    const opf_op *plain; /* Conv or MatMul */
    uint32_t      a, a_scale, a_zero, b, b_scale, b_zero, bias, y_scale, y_zero;
} roles;

static const roles conv_integer   = {&opf_op_Conv, 0, NONE, 2, 1, NONE, 3, NONE, NONE, NONE};
static const roles matmul_integer = {&opf_op_MatMul, 0, NONE, 2, 1, NONE, 3, NONE, NONE, NONE};
static const roles qlinear_conv   = {&opf_op_Conv, 0, 1, 2, 3, 4, 5, 8, 6, 7};
static const roles qlinear_matmul = {&opf_op_MatMul, 0, 1, 2, 3, 4, 5, NONE, 6, 7};

/* ---- inference ---- */

static opf_status infer_plain(opf_infer *infer, const roles *r, opf_error *error)
{
    const uint32_t   role[3]      = {r->a, r->b, r->bias};
    const opf_const *constants[3] = {NULL};
    const opf_info  *in[3];
    opf_value_id     inputs[3];
    opf_node         node = *infer->node;
    uint32_t         n    = 0;
    for (; n < 3 && opf_infer_has(infer, role[n]); n++) {
        in[n]     = infer->in[role[n]];
        inputs[n] = infer->node->inputs[role[n]];
    }
    node.op         = r->plain;
    node.inputs     = inputs;
    opf_infer plain = *infer;
    plain.node      = &node;
    plain.in        = in;
    plain.n_in      = n;
    plain.constants = constants;
    return r->plain->infer(&plain, error);
}

/* Input i is one number, or a vector along `axis` of input `of`, or (for MatMul) broadcasts to it. */
static opf_status check_grain(const opf_infer *infer, uint32_t i, uint32_t of, int32_t axis, bool is_matmul,
                              opf_error *error)
{
    if (i == NONE || !opf_infer_has(infer, i) || infer->in[i]->rank <= 0 || infer->in[of]->rank < 0)
        return OPF_OK;
    const opf_info *grain = infer->in[i], *x = infer->in[of];
    if (grain->rank == 1 && axis >= 0 && !opf_dim_is_number(grain->dims[0]))
        opf_dims_state_one_or(infer->dims, grain->dims[0], x->dims[axis]);
    if (grain->rank == 1 && !opf_dims_clash(grain->dims[0], opf_dim_number(1)))
        return OPF_OK;
    if (axis < 0)
        return opf_refuse_shapes(infer, of, i, error, "the latter must be one number");
    if (grain->rank == 1)
        return opf_check_vector(infer, i, x->dims[axis], of, error);
    if (!is_matmul || grain->rank != x->rank)
        return opf_refuse_shapes(infer, of, i, error, "the latter must be one number or a vector");
    return opf_check_broadcast_to(infer, i, of, error);
}

static opf_status infer_product(opf_infer *infer, const roles *r, opf_error *error)
{
    const bool    is_matmul = r->plain == &opf_op_MatMul;
    const int32_t a_rank = infer->in[r->a]->rank, b_rank = infer->in[r->b]->rank;
    /* Rows of a and columns of b; with vectors the result has no axis for them. */
    const bool    has_both = is_matmul && a_rank > 1 && b_rank > 1;
    const int32_t rows = has_both ? a_rank - 2 : -1, columns = !is_matmul ? 0 : has_both ? b_rank - 1 : -1;
    OPF_TRY(check_grain(infer, r->a_zero, r->a, rows, is_matmul, error));
    OPF_TRY(check_grain(infer, r->a_scale, r->a, rows, is_matmul, error));
    OPF_TRY(check_grain(infer, r->b_zero, r->b, columns, is_matmul, error));
    OPF_TRY(check_grain(infer, r->b_scale, r->b, columns, is_matmul, error));
    OPF_TRY(infer_plain(infer, r, error));
    for (uint32_t i = r->y_scale; i != NONE && i <= r->y_zero; i++)
        if (infer->in[i]->rank > 1 ||
            (infer->in[i]->rank == 1 && opf_dims_clash(infer->in[i]->dims[0], opf_dim_number(1))))
            return opf_refuse_shapes(infer, i, i, error, "must be one number");
    return OPF_OK;
}

/* ---- reference ---- */

typedef struct dense {
    opf_view view; /* of doubles; data NULL: none */
    size_t   bytes;
} dense;

static opf_status open_dense(const opf_call *call, const opf_view *like, dense *d, opf_error *error)
{
    d->view      = *like;
    d->view.type = OPF_DOUBLE;
    d->view.data = NULL;
    opf_view_set_dense(&d->view);
    OPF_FAIL_IF(error, !opf_type_bytes(OPF_DOUBLE, opf_view_count(like), &d->bytes), OPF_LIMIT,
                "a tensor is too large");
    d->view.data = opf_heap_alloc(call->heap, d->bytes);
    OPF_OOM_IF(error, d->view.data == NULL);
    return OPF_OK;
}

static void close_dense(const opf_call *call, dense *d)
{
    opf_heap_free(call->heap, d->view.data, d->bytes);
}

/* Input i as it broadcasts to `target`: a vector lies along `axis`. An absent one is that number. */
static opf_view spread(const opf_call *call, uint32_t i, const double *absent, const opf_view *target, int32_t axis)
{
    opf_view grain = {.type = OPF_DOUBLE, .data = (void *)(uintptr_t)absent};
    if (i < call->n_in && call->in[i].data != NULL)
        grain = call->in[i];
    if (grain.rank == 1 && grain.dims[0] != 1 && axis >= 0)
        for (grain.rank = target->rank - axis; axis + 1 < target->rank; axis++) {
            grain.dims[target->rank - 1 - axis]    = 1; /* behind the vector's own axis, which stays the first */
            grain.strides[target->rank - 1 - axis] = 0;
        }
    if (grain.rank == 1 && grain.dims[0] == 1)
        grain.rank = 0;
    return opf_view_broadcast(&grain, target->rank, target->dims);
}

static opf_status open_centred(const opf_call *call, uint32_t i, uint32_t zero, int32_t axis, dense *d,
                               opf_error *error)
{
    static const double none = 0;
    const opf_view     *x    = &call->in[i];
    OPF_TRY(open_dense(call, x, d, error));
    const opf_view  origin  = spread(call, zero, &none, x, axis);
    const opf_view *views[] = {x, &origin, &d->view};
    opf_walk        walk;
    for (opf_walk_init(&walk, x->rank, x->dims, 3, views); walk.left > 0; opf_walk_next(&walk))
        opf_view_put_f64(&d->view, walk.offset[2],
                         opf_view_number(x, walk.offset[0]) - opf_view_number(&origin, walk.offset[1]));
    return OPF_OK;
}

static void store_integers(const opf_view *sum, opf_view *y)
{
    const opf_view *views[] = {sum, y};
    opf_walk        walk;
    for (opf_walk_init(&walk, y->rank, y->dims, 2, views); walk.left > 0; opf_walk_next(&walk))
        opf_view_put_i64(y, walk.offset[1], (int64_t)opf_view_f64(sum, walk.offset[0]));
}

/* The factor is a float, computed as other implementations do: ties depend on it. */
static void store_quantized(const opf_call *call, const roles *r, const opf_view *sum, opf_view *y)
{
    static const double one       = 1;
    const bool          is_matmul = r->plain == &opf_op_MatMul;
    const opf_view      a         = spread(call, r->a_scale, &one, y, is_matmul ? y->rank - 2 : -1);
    const opf_view      b         = spread(call, r->b_scale, &one, y, is_matmul ? y->rank - 1 : 1);
    const opf_view     *views[]   = {sum, &a, &b, y};
    const float         y_scale   = (float)opf_view_number(&call->in[r->y_scale], 0);
    const double        y_zero    = opf_view_number(&call->in[r->y_zero], 0);
    opf_walk            walk;
    for (opf_walk_init(&walk, y->rank, y->dims, 4, views); walk.left > 0; opf_walk_next(&walk)) {
        const float product = (float)opf_view_number(&a, walk.offset[1]) * (float)opf_view_number(&b, walk.offset[2]);
        const float factor  = product / y_scale;
        opf_view_put_quantized(y, walk.offset[3], opf_view_f64(sum, walk.offset[0]) * (double)factor, y_zero, true);
    }
}

static opf_status run_plain(const opf_call *call, const roles *r, dense *a, dense *b, dense *sum, opf_error *error)
{
    const bool is_matmul = r->plain == &opf_op_MatMul;
    OPF_TRY(open_centred(call, r->a, r->a_zero, is_matmul ? call->in[r->a].rank - 2 : -1, a, error));
    OPF_TRY(open_centred(call, r->b, r->b_zero, is_matmul ? call->in[r->b].rank - 1 : 0, b, error));
    OPF_TRY(open_dense(call, &call->out[0], sum, error));
    const opf_view bias  = r->bias < call->n_in ? call->in[r->bias] : (opf_view){.rank = 0};
    opf_view       in[3] = {a->view, b->view, bias};
    opf_call       plain = *call;
    plain.in             = in;
    plain.n_in           = is_matmul ? 2 : 3;
    plain.out            = &sum->view;
    plain.n_out          = 1;
    return r->plain->reference(&plain, error);
}

static opf_status run_product(const opf_call *call, const roles *r, opf_error *error)
{
    dense      a = {.bytes = 0}, b = {.bytes = 0}, sum = {.bytes = 0};
    opf_status status = run_plain(call, r, &a, &b, &sum, error);
    if (status == OPF_OK && r->y_scale == NONE)
        store_integers(&sum.view, &call->out[0]);
    else if (status == OPF_OK)
        store_quantized(call, r, &sum.view, &call->out[0]);
    close_dense(call, &a);
    close_dense(call, &b);
    close_dense(call, &sum);
    return status;
}

#define DEFINE_FUNCTIONS(name)                                                                                         \
    static opf_status infer_##name(opf_infer *infer, opf_error *error)                                                 \
    {                                                                                                                  \
        return infer_product(infer, &name, error);                                                                     \
    }                                                                                                                  \
    static opf_status run_##name(const opf_call *call, opf_error *error)                                               \
    {                                                                                                                  \
        return run_product(call, &name, error);                                                                        \
    }
DEFINE_FUNCTIONS(conv_integer)
DEFINE_FUNCTIONS(matmul_integer)
DEFINE_FUNCTIONS(qlinear_conv)
DEFINE_FUNCTIONS(qlinear_matmul)

/* ---- older opsets ---- */

/* Before opset 21 QLinearMatMul had 8-bit integers and float scales only. */
static opf_status lower_matmul(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node  = opf_graph_node(graph, id);
    const opf_types known = OPF_TYPE_BIT(OPF_FLOAT) | OPF_TYPE_BIT(OPF_INT8) | OPF_TYPE_BIT(OPF_UINT8);
    for (uint32_t i = 0; i < node->n_own_inputs; i++) {
        const opf_type type = opf_graph_value(graph, node->inputs[i])->info.type;
        OPF_FAIL_IF(error, type != OPF_TYPE_NONE && !opf_types_have(known, type), OPF_UNSUPPORTED,
                    "%s (%s): type %s needs an opset above %d", node->name, node->op_type, opf_type_name(type),
                    (int)opset);
    }
    return OPF_OK;
}
static const opf_import_row matmul_rows[] = {{21, opf_import_same, lower_matmul}};

/* ---- signatures ---- */

#define BYTES  (OPF_TYPE_BIT(OPF_INT8) | OPF_TYPE_BIT(OPF_UINT8))
#define NARROW (BYTES | (OPF_TYPES_FLOAT8 & ~OPF_TYPE_BIT(OPF_FLOAT8E8M0)))
#define SCALES (OPF_TYPES_FLOAT & ~OPF_TYPE_BIT(OPF_DOUBLE))

static const opf_param conv_integer_in[]   = {{"x", 'A', BYTES, 0},
                                              {"w", 'B', BYTES, 0},
                                              {"x_zero_point", 'A', BYTES, OPF_OPTIONAL},
                                              {"w_zero_point", 'B', BYTES, OPF_OPTIONAL}};
static const opf_param matmul_integer_in[] = {{"A", 'A', BYTES, 0},
                                              {"B", 'B', BYTES, 0},
                                              {"a_zero_point", 'A', BYTES, OPF_OPTIONAL},
                                              {"b_zero_point", 'B', BYTES, OPF_OPTIONAL}};
static const opf_param qlinear_conv_in[]   = {{"x", 'A', BYTES, 0},
                                              {"x_scale", 'S', OPF_TYPE_BIT(OPF_FLOAT), 0},
                                              {"x_zero_point", 'A', BYTES, 0},
                                              {"w", 'B', BYTES, 0},
                                              {"w_scale", 'S', OPF_TYPE_BIT(OPF_FLOAT), 0},
                                              {"w_zero_point", 'B', BYTES, 0},
                                              {"y_scale", 'S', OPF_TYPE_BIT(OPF_FLOAT), 0},
                                              {"y_zero_point", 'Y', BYTES, 0},
                                              {"B", 0, OPF_TYPE_BIT(OPF_INT32), OPF_OPTIONAL}};
static const opf_param qlinear_matmul_in[] = {
    {"a", 'A', NARROW, 0},       {"a_scale", 'S', SCALES, 0},     {"a_zero_point", 'A', NARROW, 0},
    {"b", 'B', NARROW, 0},       {"b_scale", 'S', SCALES, 0},     {"b_zero_point", 'B', NARROW, 0},
    {"y_scale", 'S', SCALES, 0}, {"y_zero_point", 'Y', NARROW, 0}};
static const opf_param integer_out[]        = {{"y", 0, OPF_TYPE_BIT(OPF_INT32), 0}};
static const opf_param qlinear_conv_out[]   = {{"y", 'Y', BYTES, 0}};
static const opf_param qlinear_matmul_out[] = {{"y", 'Y', NARROW, 0}};

static const opf_attr_def conv_attrs[] = {{.name = "auto_pad", .type = OPF_ATTR_STRING, .s = "NOTSET"},
                                          {.name = "dilations", .type = OPF_ATTR_INTS},
                                          {.name = "group", .type = OPF_ATTR_INT, .i = 1},
                                          {.name = "kernel_shape", .type = OPF_ATTR_INTS},
                                          {.name = "pads", .type = OPF_ATTR_INTS},
                                          {.name = "strides", .type = OPF_ATTR_INTS}};

#define DEFINE_PRODUCT(op_name, functions, in, outs, attr_list, attr_count, op_rows, row_count)                        \
    const opf_op opf_op_##op_name = {.name      = #op_name,                                                            \
                                     .domain    = "",                                                                  \
                                     .since     = 10,                                                                  \
                                     .traits    = OPF_CONTRACTION,                                                     \
                                     .inputs    = in,                                                                  \
                                     .n_inputs  = OPF_COUNT(in),                                                       \
                                     .outputs   = outs,                                                                \
                                     .n_outputs = OPF_COUNT(outs),                                                     \
                                     .attrs     = attr_list,                                                           \
                                     .n_attrs   = attr_count,                                                          \
                                     .rows      = op_rows,                                                             \
                                     .n_rows    = row_count,                                                           \
                                     .infer     = infer_##functions,                                                   \
                                     .reference = run_##functions}
DEFINE_PRODUCT(ConvInteger, conv_integer, conv_integer_in, integer_out, conv_attrs, OPF_COUNT(conv_attrs), NULL, 0);
DEFINE_PRODUCT(MatMulInteger, matmul_integer, matmul_integer_in, integer_out, NULL, 0, NULL, 0);
DEFINE_PRODUCT(QLinearConv, qlinear_conv, qlinear_conv_in, qlinear_conv_out, conv_attrs, OPF_COUNT(conv_attrs), NULL,
               0);
DEFINE_PRODUCT(QLinearMatMul, qlinear_matmul, qlinear_matmul_in, qlinear_matmul_out, NULL, 0, matmul_rows,
               OPF_COUNT(matmul_rows));
