/* SPDX-License-Identifier: Apache-2.0 */
/* Operators on large constants that become recipes: nothing is copied until a kernel packs its weights. */
#include "simplify/slices.h"

#include "ops/slice.h"

#include <string.h>

/* Up to this many bytes a constant is computed instead. */
enum { RECIPE_BYTES = 16384 };

typedef struct request {
    opf_const_pool *pool;
    opf_graph *graph;
    const opf_node *node;
    const opf_const *a;   /* input 0 */
    const opf_info *info; /* of output 0, and its numbers */
    int64_t dims[OPF_MAX_RANK];
} request;

static const opf_const *constant_of(const request *r, uint32_t input)
{
    const opf_value_id value = opf_simplify_input(r->node, input);
    return value != 0 ? opf_graph_value(r->graph, value)->constant : NULL;
}

/* Numbers of a shape; false where one is not known, or there are too many. */
static bool read_dims(const opf_info *info, int64_t *dims)
{
    if (info->type == OPF_TYPE_NONE || info->rank < 0 || info->rank > OPF_MAX_RANK)
        return false;
    for (int32_t i = 0; i < info->rank; i++) {
        if (!opf_dim_is_number(info->dims[i]) || info->dims[i].n < 0)
            return false;
        dims[i] = info->dims[i].n;
    }
    return true;
}

static const opf_const *fill(const request *r)
{
    static const float zero = 0.0F;
    const opf_attr *value = opf_node_attr(r->node, "value");
    const void *data = value == NULL                                        ? &zero
                       : value->tensor != NULL && value->tensor->count == 1 ? value->tensor->data
                                                                            : NULL;
    return data != NULL ? opf_const_splat(r->pool, r->info->type, r->info->rank, r->dims, data) : NULL;
}

static const opf_const *reshape(const request *r)
{
    return opf_const_reshape(r->pool, r->a, r->info->rank, r->dims);
}

static const opf_const *transpose(const request *r)
{
    int64_t perm[OPF_MAX_RANK];
    int32_t axes[OPF_MAX_RANK], rank;
    if (!opf_simplify_perm(r->graph, r->node, perm, &rank) || rank != r->a->rank)
        return NULL;
    for (int32_t i = 0; i < rank; i++)
        axes[i] = (int32_t)perm[i];
    return opf_const_transpose(r->pool, r->a, axes);
}

static const opf_const *concat(const request *r)
{
    const opf_const **parts = OPF_NEW(r->graph->arena, const opf_const *, r->node->n_own_inputs);
    int64_t axis = opf_node_int(r->node, "axis", 0);
    if (axis < 0)
        axis += r->info->rank;
    if (parts == NULL || axis < 0 || axis >= r->info->rank)
        return NULL;
    for (uint32_t i = 0; i < r->node->n_own_inputs; i++)
        parts[i] = constant_of(r, i);
    return opf_const_concat(r->pool, parts, r->node->n_own_inputs, (int32_t)axis);
}

static const opf_const *cast(const request *r)
{
    if (!opf_types_have(OPF_TYPES_FLOAT, r->a->type) || !opf_types_have(OPF_TYPES_FLOAT, r->info->type))
        return NULL;
    return opf_const_cast(r->pool, r->a, r->info->type);
}

static const opf_const *expand(const request *r)
{
    int64_t dims[OPF_MAX_RANK];
    const int32_t more = r->info->rank - r->a->rank;
    for (int32_t i = 0; i < r->info->rank; i++)
        dims[i] = i < more ? 1 : r->a->dims[i - more];
    const opf_const *a = more != 0 ? opf_const_reshape(r->pool, r->a, r->info->rank, dims) : r->a;
    return a != NULL ? opf_const_expand(r->pool, a, r->dims) : NULL;
}

/* Axis d of n repetitions is the axes (n, d), of which the first is repeated. */
static const opf_const *tile(const request *r)
{
    int64_t single[OPF_MAX_RANK], repeated[OPF_MAX_RANK];
    int32_t rank = 0;
    for (int32_t i = 0; i < r->info->rank; i++) {
        const int64_t d = r->a->dims[i];
        const int64_t times = d != 0 ? r->dims[i] / d : 1;
        if (rank + 2 > OPF_MAX_RANK)
            return NULL;
        if (times != 1) {
            single[rank] = 1;
            repeated[rank++] = times;
        }
        single[rank] = repeated[rank] = d;
        rank++;
    }
    const opf_const *a = opf_const_reshape(r->pool, r->a, rank, single);
    a = a != NULL ? opf_const_expand(r->pool, a, repeated) : NULL;
    return a != NULL ? opf_const_reshape(r->pool, a, r->info->rank, r->dims) : NULL;
}

static const opf_const *slice(const request *r)
{
    int64_t start[OPF_MAX_RANK] = {0}, count = 0;
    opf_slice s;
    if (!opf_slice_read(r->graph, r->node, &s))
        return NULL;
    for (uint32_t k = 0; k < s.n; k++) {
        const opf_bounds b = s.bounds[k];
        if (b.step != 1)
            return NULL;
        opf_slice_range(r->a->dims[s.axes[k]], b.start, b.end, 1, &start[s.axes[k]], &count);
    }
    return opf_const_slice(r->pool, r->a, start, r->dims);
}

static const struct {
    const opf_op *op;
    const opf_const *(*make)(const request *r);
} table[] = {
    {&opf_op_Cast, cast},       {&opf_op_Concat, concat},       {&opf_op_ConstantOfShape, fill},
    {&opf_op_Expand, expand},   {&opf_op_Flatten, reshape},     {&opf_op_Identity, reshape},
    {&opf_op_Reshape, reshape}, {&opf_op_Slice, slice},         {&opf_op_Squeeze, reshape},
    {&opf_op_Tile, tile},       {&opf_op_Transpose, transpose}, {&opf_op_Unsqueeze, reshape},
};

/* The parts of a constant, one behind the other. */
static bool split(const request *r, const opf_const **constants)
{
    int64_t axis = opf_node_int(r->node, "axis", 0), start[OPF_MAX_RANK] = {0};
    if (axis < 0)
        axis += r->a->rank;
    if (axis < 0 || axis >= r->a->rank)
        return false;
    for (uint32_t o = 0; o < r->node->n_outputs; o++) {
        int64_t dims[OPF_MAX_RANK];
        if (r->node->outputs[o] == 0 || !read_dims(&opf_graph_value(r->graph, r->node->outputs[o])->info, dims) ||
            start[axis] > r->a->dims[axis] - dims[axis])
            return false;
        constants[o] = opf_const_slice(r->pool, r->a, start, dims);
        if (constants[o] == NULL)
            return false;
        start[axis] += dims[axis];
    }
    return true;
}

bool opf_make_recipes(opf_graph *graph, const opf_node *node, const opf_const **constants)
{
    request r = {.pool = graph->consts, .graph = graph, .node = node};
    size_t count = 0, bytes = 0;
    if (node->n_outputs == 0 || node->outputs[0] == 0)
        return false;
    r.info = &opf_graph_value(graph, node->outputs[0])->info;
    r.a = constant_of(&r, 0);
    if (!read_dims(r.info, r.dims) || !opf_info_count(r.info, &count) || !opf_type_bytes(r.info->type, count, &bytes) ||
        bytes <= RECIPE_BYTES || opf_type_size(r.info->type) == 0 || r.a == NULL)
        return false;
    if (node->op == &opf_op_Split)
        return split(&r, constants);
    for (uint32_t i = 0; i < OPF_COUNT(table) && node->n_outputs == 1; i++)
        if (table[i].op == node->op) {
            constants[0] = table[i].make(&r);
            return constants[0] != NULL;
        }
    return false;
}
