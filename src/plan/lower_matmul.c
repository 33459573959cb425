/* SPDX-License-Identifier: Apache-2.0 */
/* MatMul and Gemm: rows times a packed matrix when B is constant, batched products packed by the run otherwise. */
#include "ops/stored.h"
#include "plan/gemm.h"

#include <string.h>

/* A as images of m rows of k, B as images of k x n, the result as images of m rows of n. */
typedef struct {
    opf_place        a, b, y; /* a: [batch…, m, k]; b: [batch…, k, n] when not constant */
    opf_place       *parts;   /* of the columns, where each lies for itself: y is a shape only then */
    size_t           n_parts;
    const opf_const *w;       /* constant B of rank 2 */
    bool             transposed; /* w is [n, k] */
    const opf_const *bias;
    int64_t          m, n, k;
} product;

/* One axis more at `at`, of size 1. */
static void insert_axis(opf_place *place, int32_t at)
{
    for (int32_t i = place->rank; i > at; i--) {
        place->dims[i]    = place->dims[i - 1];
        place->strides[i] = place->strides[i - 1];
    }
    place->dims[at]    = 1;
    place->strides[at] = 0;
    place->rank++;
}

/* Offsets of images: axes [0, batch) of a place broadcast to dims. */
static opf_status image_offsets(opf_planner *planner, const opf_place *place, int32_t batch, const int64_t *dims, size_t images,
                                const int64_t **offsets, opf_error *error)
{
    int64_t *list = OPF_NEW(planner->arena, int64_t, images);
    OPF_OOM_IF(error, list == NULL);
    int32_t own = place->rank - 2;
    for (size_t i = 0; i < images; i++) {
        size_t left = i;
        for (int32_t axis = batch; axis-- > 0;) {
            int64_t index = (int64_t)(left % (size_t)dims[axis]);
            left /= (size_t)dims[axis];
            int32_t at = axis - (batch - own);
            if (at >= 0 && place->dims[at] != 1)
                list[i] += index * place->strides[at];
        }
    }
    *offsets = list;
    return OPF_OK;
}

/* The order of axes for the result: what its reader wants, where columns stay last and no step is stored beside it. */
static const int32_t *result_order(const opf_planner *planner, opf_value_id value, const opf_lowered *lowered)
{
    const int32_t *order = planner->order_of[value];
    int32_t        rank  = planner->infos[value].rank;
    return order != NULL && rank > 2 && order[rank - 1] == rank - 1 && lowered->program.n_stores == 0 ? order : NULL;
}

/* The same for a whole result, which may also be written column by column, where a transposed matrix goes to the caller. */
static const int32_t *whole_order(const opf_planner *planner, opf_value_id value, const opf_lowered *lowered)
{
    const int32_t *order = planner->order_of[value];
    const opf_use *use   = opf_graph_single_use(planner->graph, value);
    if (order == NULL || planner->infos[value].rank != 2 || use == NULL || use->node == 0)
        return result_order(planner, value, lowered);
    return planner->output_of[opf_graph_node(planner->graph, use->node)->outputs[0]] != 0 ? order : NULL;
}

/* Places for the result, or for the parts that a Split makes of it: opf_lower_view finds them placed. */
static opf_status place_result(opf_planner *planner, const opf_node *node, const opf_lowered *lowered, product *p, opf_error *error)
{
    const opf_info *info    = &planner->infos[node->outputs[0]];
    const bool      vectors = planner->infos[node->inputs[0]].rank < 2 || planner->infos[node->inputs[1]].rank < 2;
    const opf_node *split   = vectors ? NULL : opf_plan_split_of(planner, node->outputs[0], info->rank - 1);
    if (split == NULL)
        return opf_plan_alloc(planner, node->outputs[0], whole_order(planner, node->outputs[0], lowered), &p->y, error);
    p->y = (opf_place){.type = info->type, .rank = info->rank};
    for (int32_t i = 0; i < info->rank; i++)
        p->y.dims[i] = info->dims[i].n;
    opf_place_set_dense(&p->y, NULL);
    p->n_parts = split->n_outputs;
    p->parts   = OPF_NEW(planner->arena, opf_place, p->n_parts);
    OPF_OOM_IF(error, p->parts == NULL);
    for (uint32_t o = 0; o < split->n_outputs; o++)
        OPF_TRY(opf_plan_alloc(planner, split->outputs[o], result_order(planner, split->outputs[o], lowered), &p->parts[o], error));
    return OPF_OK;
}

/* The rows of all images follow one another, in every part. */
static bool is_linear(const product *p, int32_t batch)
{
    int64_t row;
    for (size_t i = 0; i < p->n_parts; i++)
        if (!opf_place_linear(&p->parts[i], 0, batch, &row))
            return false;
    return opf_place_linear(&p->y, 0, batch, &row);
}

/* Where the result is written: joined, its images are just more rows of one. */
static opf_status set_result(opf_planner *planner, const product *p, int32_t batch, bool joined, opf_gemm_args *args, opf_error *error)
{
    const int32_t  outer = joined ? 0 : batch;
    int64_t        row   = p->y.strides[batch];
    opf_gemm_part *parts = OPF_NEW(planner->arena, opf_gemm_part, p->n_parts);
    OPF_OOM_IF(error, parts == NULL);
    if (joined)
        (void)opf_place_linear(&p->y, 0, batch, &row);
    args->c_row = (ptrdiff_t)row;
    args->c_col = p->y.dims[batch + 1] == 1 || row != 1 ? 1 : (ptrdiff_t)p->y.strides[batch + 1];
    args->parts = parts;
    OPF_TRY(image_offsets(planner, &p->y, outer, p->y.dims, args->images, &args->c_images, error));
    size_t first = 0;
    for (size_t i = 0; i < p->n_parts; i++) {
        const opf_place *place = &p->parts[i];
        opf_gemm_part   *part  = &parts[args->n_parts];
        row                    = place->strides[batch];
        if (place->dims[batch + 1] == 0)
            continue;
        if (joined)
            (void)opf_place_linear(place, 0, batch, &row);
        *part = (opf_gemm_part){.first = first, .c = opf_place_ref(place), .c_row = (ptrdiff_t)row};
        OPF_TRY(image_offsets(planner, place, outer, p->y.dims, args->images, &part->c_images, error));
        first += (size_t)place->dims[batch + 1];
        args->n_parts++;
    }
    return OPF_OK;
}

/* Whether every operand of the steps has one stride over all rows of all images: positions added to each batch do not. What
   the product beside makes has the result's rows. */
static opf_status rows_join(opf_planner *planner, const opf_place *y, const opf_lowered *lowered, opf_value_id beside, bool *join,
                            opf_error *error)
{
    for (uint32_t i = 0; i < lowered->program.n_operands; i++) {
        opf_place place;
        int64_t   stride;
        if (beside != 0 && lowered->operands[i] == beside)
            continue;
        OPF_TRY(opf_plan_place(planner, lowered->operands[i], &place, error));
        place = opf_place_broadcast(&place, y->rank, y->dims);
        *join = *join && opf_place_linear(&place, 0, y->rank - 2, &stride);
    }
    return OPF_OK;
}

static bool is_float_constant(const opf_planner *planner, opf_value_id value, int32_t rank)
{
    const opf_const *c = opf_graph_value(planner->graph, value)->constant;
    return c != NULL && c->type == OPF_FLOAT && c->rank == rank;
}

static opf_status get_panels(opf_planner *planner, const product *p, const float **b, opf_error *error)
{
    opf_weight_format format = opf_format_panels(p->k, p->n, (int64_t)planner->options->kern->nr, p->transposed);
    *b                       = opf_weights_get(planner->options->weights, p->w, &format);
    OPF_OOM_IF(error, *b == NULL);
    return OPF_OK;
}

static void set_weights(const opf_planner *planner, const opf_node *node, product *p)
{
    p->w          = opf_graph_value(planner->graph, node->inputs[1])->constant;
    p->transposed = node->op == &opf_op_Gemm && opf_node_int(node, "transB", 0) != 0;
    p->k          = p->w->dims[p->transposed ? 1 : 0];
    p->n          = p->w->dims[p->transposed ? 0 : 1];
}

/* ---- a product beside ---- */

/* The first operand of the steps that a product of the same rows is still to make. */
static opf_node_id find_beside(const opf_planner *planner, const product *p, const opf_lowered *lowered)
{
    for (uint32_t i = 0; p->w != NULL && i < lowered->program.n_operands; i++)
        if (lowered->operands[i] != 0 && planner->beside[lowered->operands[i]] != 0)
            return planner->beside[lowered->operands[i]];
    return 0;
}

static opf_status take_beside(opf_planner *planner, opf_node_id id, opf_gemm_beside **result, opf_error *error)
{
    const opf_node  *node   = opf_graph_node(planner->graph, id);
    opf_gemm_beside *beside = OPF_NEW(planner->arena, opf_gemm_beside, 1);
    OPF_OOM_IF(error, beside == NULL);
    beside->value = node->outputs[0];
    if (node->op == &opf_op_Gemm && node->n_own_inputs > 2 && node->inputs[2] != 0)
        beside->bias = opf_graph_value(planner->graph, node->inputs[2])->constant;
    OPF_FAIL_IF(error, !opf_lower_steps(planner, node, &node->epilogue, &beside->lowered), OPF_INTERNAL, "%s has no kernel", node->name);
    planner->beside[beside->value] = 0;
    *result                        = beside;
    return OPF_OK;
}

/* All but the rows, which are those of the product behind it. */
static opf_status set_beside(opf_planner *planner, opf_node_id id, opf_gemm_args *args, opf_error *error)
{
    product        p = {0};
    opf_gemm_args *g = opf_arena_copy(planner->arena, args, sizeof *args);
    OPF_OOM_IF(error, g == NULL);
    set_weights(planner, opf_graph_node(planner->graph, id), &p);
    g->beside          = NULL;
    args->beside->args = g;
    return get_panels(planner, &p, &g->b, error);
}

/* ---- lowering ---- */

/* The step for a product whose places are known. y is the result as [batch…, m, n]. */
static opf_status lower_product(opf_planner *planner, const opf_node *node, product *p, const opf_lowered *lowered, opf_error *error)
{
    const opf_kern *kern  = planner->options->kern;
    opf_place      *y     = &p->y;
    int32_t         batch = y->rank - 2;
    opf_gemm_args   args  = {.groups = 1, .m = (size_t)p->m, .n = (size_t)p->n, .kc = (size_t)p->k, .taps = 1};
    args.images           = 1;
    for (int32_t i = 0; i < batch; i++)
        args.images *= (size_t)y->dims[i];
    opf_split split = {.outer_first = 0, .outer_last = batch - 1, .row_first = batch, .row_last = batch, .col = batch + 1};
    /* With one B for all images the images are just more rows, if A's rows follow one another. */
    int64_t row = 0;
    bool    join = true;
    const opf_node_id other = find_beside(planner, p, lowered);
    if (other != 0) {
        OPF_TRY(take_beside(planner, other, &args.beside, error));
        OPF_TRY(rows_join(planner, y, &args.beside->lowered, 0, &join, error));
    }
    OPF_TRY(rows_join(planner, y, lowered, other != 0 ? args.beside->value : 0, &join, error));
    join = join && p->w != NULL && opf_place_linear(&p->a, 0, p->a.rank - 2, &row) && is_linear(p, batch);
    if (join) {
        split       = (opf_split){.outer_first = 0, .outer_last = -1, .row_first = 0, .row_last = batch, .col = batch + 1};
        args.m      = args.images * args.m;
        args.images = 1;
        args.a_row  = (ptrdiff_t)row;
        OPF_TRY(image_offsets(planner, &p->a, 0, NULL, 1, &args.a_images, error));
    } else {
        args.a_row = (ptrdiff_t)p->a.strides[p->a.rank - 2];
        OPF_TRY(image_offsets(planner, &p->a, batch, y->dims, args.images, &args.a_images, error));
    }
    args.rows  = p->a.strides[p->a.rank - 1] == 1 || p->k <= 1 ? OPF_ROWS_LINEAR : OPF_ROWS_GATHER;
    args.a_col = (ptrdiff_t)p->a.strides[p->a.rank - 1];
    args.a     = opf_place_ref(&p->a);
    if (p->w != NULL) {
        OPF_TRY(get_panels(planner, p, &args.b, error));
    } else {
        args.b_ref = opf_place_ref(&p->b);
        args.b_row = (ptrdiff_t)p->b.strides[p->b.rank - 2];
        args.b_col = (ptrdiff_t)p->b.strides[p->b.rank - 1];
        OPF_TRY(image_offsets(planner, &p->b, batch, y->dims, args.images, &args.b_images, error));
    }
    OPF_TRY(set_result(planner, p, batch, join, &args, error));
    if (other != 0)
        OPF_TRY(set_beside(planner, other, &args, error));
    OPF_TRY(opf_gemm_finish(planner, node, &args, &p->a, p->w == NULL ? &p->b : NULL, p->bias, y, split, lowered, kern->gemm_name, error));
    for (size_t i = 0; i < p->n_parts; i++)
        opf_plan_writes(planner, &p->parts[i]);
    return OPF_OK;
}

static opf_status lower_matmul(opf_planner *planner, const opf_node *node, const opf_lowered *lowered, opf_error *error)
{
    product p = {0};
    OPF_TRY(opf_plan_place(planner, node->inputs[0], &p.a, error));
    if (is_float_constant(planner, node->inputs[1], 2)) {
        set_weights(planner, node, &p);
    } else {
        OPF_TRY(opf_plan_place(planner, node->inputs[1], &p.b, error));
        if (p.b.rank == 1)
            insert_axis(&p.b, 1);
        p.k = p.b.dims[p.b.rank - 2];
        p.n = p.b.dims[p.b.rank - 1];
    }
    OPF_TRY(place_result(planner, node, lowered, &p, error));
    if (p.a.rank == 1) {
        insert_axis(&p.a, 0);
        insert_axis(&p.y, p.y.rank - (p.w == NULL && planner->infos[node->inputs[1]].rank == 1 ? 0 : 1));
    }
    if (p.w == NULL && planner->infos[node->inputs[1]].rank == 1)
        insert_axis(&p.y, p.y.rank);
    p.m = p.a.dims[p.a.rank - 2];
    return lower_product(planner, node, &p, lowered, error);
}

/* alpha*A'*B' + beta*C; only alpha 1, and beta 1 with C or no C, have a kernel: others run by reference. */
static opf_status lower_gemm(opf_planner *planner, const opf_node *node, const opf_lowered *lowered, bool *done, opf_error *error)
{
    bool        has_c   = node->n_own_inputs > 2 && node->inputs[2] != 0;
    opf_lowered program = *lowered;
    *done               = false;
    if (opf_node_float(node, "alpha", 1) != 1 || (has_c && opf_node_float(node, "beta", 1) != 1) ||
        !is_float_constant(planner, node->inputs[1], 2))
        return OPF_OK;
    product p = {0};
    set_weights(planner, node, &p);
    if (has_c) {
        const opf_const *c = opf_graph_value(planner->graph, node->inputs[2])->constant;
        bool columns = c != NULL && (c->count == 1 || (c->count == (size_t)p.n && c->dims[c->rank - 1] == p.n));
        if (columns) {
            p.bias = c;
        } else { /* the first step adds C, like a residual */
            opf_program *q = &program.program;
            if (q->n == OPF_PROGRAM_MAX || q->n_operands == OPF_PROGRAM_OPERANDS)
                return OPF_OK;
            memmove(&q->instr[1], &q->instr[0], q->n * sizeof *q->instr);
            for (uint32_t i = 1; i <= q->n; i++)
                for (int k = 0; k < 2; k++)
                    if (q->instr[i].args[k] >= 0)
                        q->instr[i].args[k]++;
            program.operands[q->n_operands++] = node->inputs[2];
            q->instr[0] = (opf_instr){.op = OPF_EW_ADD, .args = {0, (int16_t)-(int)q->n_operands}, .store = -1};
            q->n++;
        }
    }
    *done = true;
    OPF_TRY(opf_plan_place(planner, node->inputs[0], &p.a, error));
    if (opf_node_int(node, "transA", 0) != 0) {
        opf_place a    = p.a;
        p.a.dims[0]    = a.dims[1];
        p.a.dims[1]    = a.dims[0];
        p.a.strides[0] = a.strides[1];
        p.a.strides[1] = a.strides[0];
    }
    p.m = p.a.dims[0];
    OPF_TRY(place_result(planner, node, lowered, &p, error));
    return lower_product(planner, node, &p, &program, error);
}

static opf_status lower_stored(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    opf_lowered     lowered;
    if ((node->op != &opf_op_MatMul && node->op != &opf_op_Gemm) || node->prologue.n != 0 ||
        planner->infos[node->inputs[0]].type != OPF_FLOAT || !opf_lower_steps(planner, node, &node->epilogue, &lowered))
        return OPF_OK;
    if (node->op == &opf_op_Gemm)
        return lower_gemm(planner, node, &lowered, done, error);
    /* A vector operand's axis is gone from the result: steps would not line up with rows and columns. */
    if (lowered.program.n != 0 && (planner->infos[node->inputs[0]].rank == 1 || planner->infos[node->inputs[1]].rank == 1))
        return OPF_OK;
    *done = true;
    return lower_matmul(planner, node, &lowered, error);
}

opf_status opf_plan_store_beside(opf_planner *planner, opf_value_id value, opf_error *error)
{
    const opf_node_id node = planner->node;
    bool              done = false;
    planner->node          = planner->beside[value];
    planner->beside[value] = 0;
    OPF_TRY(lower_stored(planner, planner->node, &done, error));
    planner->node = node;
    OPF_FAIL_IF(error, !done, OPF_INTERNAL, "a product without a kernel");
    return OPF_OK;
}

/* Whether the step behind the product may compute it: it has a kernel, and its result goes nowhere else. */
static bool may_wait(const opf_planner *planner, const opf_node *node)
{
    opf_lowered lowered;
    return opf_product_is_beside(node) && planner->output_of[node->outputs[0]] == 0 &&
           planner->infos[node->inputs[0]].type == OPF_FLOAT && is_float_constant(planner, node->inputs[1], 2) &&
           opf_lower_steps(planner, node, &node->epilogue, &lowered);
}

opf_status opf_lower_matmul(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    if (!may_wait(planner, node))
        return lower_stored(planner, id, done, error);
    planner->beside[node->outputs[0]] = id;
    *done                             = true;
    return OPF_OK;
}
