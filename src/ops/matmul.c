/* SPDX-License-Identifier: Apache-2.0 */
/* MatMul (numpy's rules) and Gemm. */
#include "ops/check.h"
#include "ops/lift.h"
#include "ops/product.h"

#include <math.h>

#define MATMUL_TYPES                                                                                                   \
    (OPF_TYPES_FLOAT | OPF_TYPE_BIT(OPF_INT32) | OPF_TYPE_BIT(OPF_INT64) | OPF_TYPE_BIT(OPF_UINT32) |                  \
     OPF_TYPE_BIT(OPF_UINT64))

/* ---- inference ---- */

static opf_status infer_matmul(opf_infer *infer, opf_error *error)
{
    const opf_info *a = infer->in[0], *b = infer->in[1];
    if (a->rank == 0 || b->rank == 0)
        return opf_refuse_shapes(infer, 0, 1, error, "both must have rank 1 or more");
    if (a->rank < 0 || b->rank < 0)
        return OPF_OK;
    if (opf_dims_clash(a->dims[a->rank - 1], b->dims[b->rank > 1 ? b->rank - 2 : 0]))
        return opf_refuse_shapes(infer, 0, 1, error, "the inner sizes differ");
    /* Batch axes of both, aligned at their ends. */
    int32_t a_batch = a->rank > 2 ? a->rank - 2 : 0, b_batch = b->rank > 2 ? b->rank - 2 : 0;
    int32_t rank = a_batch > b_batch ? a_batch : b_batch;
    opf_dim dims[OPF_MAX_RANK + 2];
    for (int32_t i = 0; i < rank; i++) {
        int32_t i_a = i - (rank - a_batch), i_b = i - (rank - b_batch);
        opf_dim x = i_a >= 0 ? a->dims[i_a] : opf_dim_number(1), y = i_b >= 0 ? b->dims[i_b] : opf_dim_number(1);
        if (opf_broadcast_dim(infer->dims, x, y, &dims[i]) != OPF_OK)
            return opf_refuse_shapes(infer, 0, 1, error, "the batches do not broadcast");
    }
    if (a->rank > 1)
        dims[rank++] = a->dims[a->rank - 2];
    if (b->rank > 1)
        dims[rank++] = b->dims[b->rank - 1];
    return opf_infer_set(infer, 0, rank, dims, error);
}

static opf_status check_gemm_factor(const opf_infer *infer, const char *name, opf_error *error)
{
    double factor = (double)opf_node_float(infer->node, name, 1);
    bool   whole  = factor == floor(factor) && fabs(factor) < 0x1p63;
    OPF_FAIL_IF(error, !whole && opf_types_have(OPF_TYPES_INT, infer->in[0]->type), OPF_UNSUPPORTED,
                "%s is %g: integers take whole numbers only", name, factor);
    return OPF_OK;
}

static opf_status check_gemm_c(const opf_infer *infer, const opf_dim *dims, opf_error *error)
{
    if (!opf_infer_has(infer, 2) || infer->in[2]->rank < 0)
        return OPF_OK;
    const opf_info *c    = infer->in[2];
    bool            fits = c->rank <= 2;
    for (int32_t i = 0; i < c->rank && fits; i++)
        fits = opf_dim_is(c->dims[i], 1) || !opf_dims_clash(c->dims[i], dims[2 - c->rank + i]);
    if (fits)
        return OPF_OK;
    const char *rows    = opf_dim_string(infer->dims, dims[0], infer->arena);
    const char *columns = opf_dim_string(infer->dims, dims[1], infer->arena);
    OPF_OOM_IF(error, rows == NULL || columns == NULL);
    return opf_refuse_shapes(infer, 2, 2, error, "does not broadcast to the result [%s,%s]", rows, columns);
}

static opf_status infer_gemm(opf_infer *infer, opf_error *error)
{
    const opf_info *a = infer->in[0], *b = infer->in[1];
    OPF_TRY(check_gemm_factor(infer, "alpha", error));
    OPF_TRY(check_gemm_factor(infer, "beta", error));
    if ((a->rank >= 0 && a->rank != 2) || (b->rank >= 0 && b->rank != 2))
        return opf_refuse_shapes(infer, 0, 1, error, "both must have rank 2");
    const int32_t k_a = opf_node_int(infer->node, "transA", 0) != 0 ? 0 : 1;
    const int32_t k_b = opf_node_int(infer->node, "transB", 0) != 0 ? 1 : 0;
    opf_dim       dims[2];
    if (a->rank == 2 && b->rank == 2 && opf_dims_clash(a->dims[k_a], b->dims[k_b]))
        return opf_refuse_shapes(infer, 0, 1, error, "the inner sizes differ (after transA and transB)");
    dims[0] = a->rank == 2 ? a->dims[1 - k_a] : opf_dim_unknown(infer->dims);
    dims[1] = b->rank == 2 ? b->dims[1 - k_b] : opf_dim_unknown(infer->dims);
    OPF_TRY(check_gemm_c(infer, dims, error));
    return opf_infer_set(infer, 0, 2, dims, error);
}

/* ---- reference ---- */

static opf_status run_product(const opf_call *call, opf_matrix_product *product, size_t batches,
                              const opf_view *const views[3], const opf_view *batch, opf_error *error)
{
    opf_product_scratch *scratch = opf_heap_alloc(call->heap, sizeof *scratch);
    OPF_OOM_IF(error, scratch == NULL);
    opf_walk walk;
    opf_walk_init(&walk, batch->rank, batch->dims, 3, views);
    for (size_t i = 0; i < batches; i++, opf_walk_next(&walk)) {
        product->a.offset = walk.offset[0];
        product->b.offset = walk.offset[1];
        product->y.offset = walk.offset[2];
        opf_matrix_product_run(product, scratch);
    }
    opf_heap_free(call->heap, scratch, sizeof *scratch);
    return OPF_OK;
}

/* The view's axes before its last n. */
static opf_view leading_axes(const opf_view *view, int32_t n)
{
    opf_view batch = *view;
    batch.rank     = view->rank > n ? view->rank - n : 0;
    return batch;
}

static opf_status run_matmul(const opf_call *call, opf_error *error)
{
    const opf_view *a = &call->in[0], *b = &call->in[1];
    opf_view       *y = &call->out[0];
    if (opf_view_count(y) == 0)
        return OPF_OK;
    const bool    a_is_row = a->rank == 1, b_is_column = b->rank == 1;
    const int32_t b_k     = b_is_column ? 0 : b->rank - 2;
    opf_view      y_batch = leading_axes(y, (a_is_row ? 0 : 1) + (b_is_column ? 0 : 1));
    opf_view      a_batch = leading_axes(a, 2), b_batch = leading_axes(b, 2);
    a_batch = opf_view_broadcast(&a_batch, y_batch.rank, y_batch.dims);
    b_batch = opf_view_broadcast(&b_batch, y_batch.rank, y_batch.dims);

    opf_matrix_product product = {.m     = a_is_row ? 1 : (size_t)a->dims[a->rank - 2],
                                  .n     = b_is_column ? 1 : (size_t)b->dims[b->rank - 1],
                                  .k     = (size_t)b->dims[b_k],
                                  .alpha = 1,
                                  .a     = {.view = *a, .col = a->strides[a->rank - 1]},
                                  .b     = {.view = *b, .row = b->strides[b_k]},
                                  .y     = {.view = *y}};
    product.a.row              = a_is_row ? 0 : a->strides[a->rank - 2];
    product.b.col              = b_is_column ? 0 : b->strides[b->rank - 1];
    product.y.row              = a_is_row ? 0 : y->strides[y_batch.rank];
    product.y.col              = b_is_column ? 0 : y->strides[y->rank - 1];
    const opf_view *views[3]   = {&a_batch, &b_batch, &y_batch};
    return run_product(call, &product, opf_view_count(&y_batch), views, &y_batch, error);
}

static opf_status run_gemm(const opf_call *call, opf_error *error)
{
    const opf_view *a = &call->in[0], *b = &call->in[1];
    opf_view       *y   = &call->out[0];
    const int32_t   k_a = opf_call_int(call, "transA", 0) != 0 ? 0 : 1;
    const int32_t   k_b = opf_call_int(call, "transB", 0) != 0 ? 1 : 0;
    if (opf_view_count(y) == 0)
        return OPF_OK;
    opf_matrix_product product = {.m     = (size_t)y->dims[0],
                                  .n     = (size_t)y->dims[1],
                                  .k     = (size_t)a->dims[k_a],
                                  .alpha = (double)opf_call_float(call, "alpha", 1),
                                  .beta  = (double)opf_call_float(call, "beta", 1),
                                  .a     = {.view = *a, .row = a->strides[1 - k_a], .col = a->strides[k_a]},
                                  .b     = {.view = *b, .row = b->strides[k_b], .col = b->strides[1 - k_b]},
                                  .y     = {.view = *y, .row = y->strides[0], .col = y->strides[1]}};
    /* With beta 0 C is not read: a NaN in it does not show. */
    if (call->n_in > 2 && call->in[2].data != NULL && product.beta != 0) {
        opf_view c = opf_view_broadcast(&call->in[2], 2, y->dims);
        product.c  = (opf_matrix){.view = c, .row = c.strides[0], .col = c.strides[1]};
    }
    const opf_view  one      = {.rank = 0};
    const opf_view *views[3] = {&one, &one, &one};
    return run_product(call, &product, 1, views, &one, error);
}

/* ---- older opsets ---- */

static opf_status lift_gemm_7(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    (void)error;
    return opf_drop_attr(graph, node, "broadcast"); /* now C always broadcasts */
}

static opf_status lower_gemm_7(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    OPF_OOM_IF(error, !opf_node_set_int(graph, node, "broadcast", 1));
    return OPF_OK;
}

/* Before opset 11 C was required: a zero stands for none. */
static opf_status lower_gemm_11(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    static const uint64_t zero     = 0; /* of any type */
    const opf_node       *node     = opf_graph_node(graph, id);
    const bool            has_slot = node->n_own_inputs > 2;
    (void)opset;
    if (has_slot && node->inputs[2] != 0)
        return OPF_OK;
    const opf_type type = opf_graph_value(graph, node->inputs[0])->info.type;
    OPF_FAIL_IF(error, type == OPF_TYPE_NONE, OPF_UNSUPPORTED, "%s (Gemm): the type of A is not known", node->name);
    const int64_t    dims[1] = {1};
    const char      *name    = opf_arena_printf(graph->arena, "%s/C", node->name);
    const opf_const *c       = opf_const_bytes(graph->consts, type, 1, dims, &zero, opf_type_size(type));
    OPF_OOM_IF(error, name == NULL || c == NULL);
    opf_value_id value = opf_graph_add_constant(graph, name, c);
    OPF_OOM_IF(error, value == 0);
    bool appended = has_slot ? opf_graph_set_input(graph, id, 2, value) : opf_graph_append_input(graph, id, value);
    OPF_OOM_IF(error, !appended);
    return OPF_OK;
}

static const opf_import_row matmul_rows[] = {{9, opf_import_same, opf_lower_no_integers},
                                             {13, opf_import_same, opf_lower_no_bfloat16}};
static const opf_import_row gemm_rows[]   = {{7, lift_gemm_7, lower_gemm_7},
                                             {9, opf_import_same, opf_lower_no_integers},
                                             {11, opf_import_same, lower_gemm_11},
                                             {13, opf_import_same, opf_lower_no_bfloat16}};

/* ---- signatures ---- */

static const opf_param matmul_inputs[] = {{"A", 'T', MATMUL_TYPES, 0}, {"B", 'T', MATMUL_TYPES, 0}};
static const opf_param gemm_inputs[]   = {
    {"A", 'T', MATMUL_TYPES, 0}, {"B", 'T', MATMUL_TYPES, 0}, {"C", 'T', MATMUL_TYPES, OPF_OPTIONAL}};
static const opf_param matmul_outputs[] = {{"Y", 'T', MATMUL_TYPES, 0}};

static const opf_attr_def gemm_attrs[] = {{.name = "alpha", .type = OPF_ATTR_FLOAT, .f = 1},
                                          {.name = "beta", .type = OPF_ATTR_FLOAT, .f = 1},
                                          {.name = "transA", .type = OPF_ATTR_INT},
                                          {.name = "transB", .type = OPF_ATTR_INT}};

const opf_op opf_op_MatMul = {.name      = "MatMul",
                              .domain    = "",
                              .since     = 1,
                              .traits    = OPF_CONTRACTION,
                              .inputs    = matmul_inputs,
                              .n_inputs  = OPF_COUNT(matmul_inputs),
                              .outputs   = matmul_outputs,
                              .n_outputs = OPF_COUNT(matmul_outputs),
                              .rows      = matmul_rows,
                              .n_rows    = OPF_COUNT(matmul_rows),
                              .infer     = infer_matmul,
                              .reference = run_matmul};

const opf_op opf_op_Gemm = {.name      = "Gemm",
                            .domain    = "",
                            .since     = 1,
                            .traits    = OPF_CONTRACTION,
                            .inputs    = gemm_inputs,
                            .n_inputs  = OPF_COUNT(gemm_inputs),
                            .outputs   = matmul_outputs,
                            .n_outputs = OPF_COUNT(matmul_outputs),
                            .attrs     = gemm_attrs,
                            .n_attrs   = OPF_COUNT(gemm_attrs),
                            .rows      = gemm_rows,
                            .n_rows    = OPF_COUNT(gemm_rows),
                            .infer     = infer_gemm,
                            .reference = run_gemm};
