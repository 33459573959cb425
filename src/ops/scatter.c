/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/scatter.h"

#include "ops/import.h"

#include <math.h>
#include <string.h>

opf_status opf_scatter_read(const char *name, opf_type type, opf_scatter *reduction, opf_error *error)
{
    static const char *const names[OPF_SCATTER_COUNT] = {"none", "add", "mul", "min", "max"};
    int                      i                        = 0;
    while (i < OPF_SCATTER_COUNT && strcmp(names[i], name) != 0)
        i++;
    OPF_FAIL_IF(error, i == OPF_SCATTER_COUNT, OPF_INVALID_MODEL, "reduction \"%s\" does not exist", name);
    OPF_FAIL_IF(error, i != OPF_SCATTER_NONE && type == OPF_COMPLEX64, OPF_UNSUPPORTED, "no reduction of type %s",
                opf_type_name(type));
    *reduction = (opf_scatter)i;
    return OPF_OK;
}

static double reduce_f64(opf_scatter reduction, double a, double b)
{
    switch (reduction) {
    case OPF_SCATTER_ADD:
        return a + b;
    case OPF_SCATTER_MUL:
        return a * b;
    case OPF_SCATTER_MIN:
        return a < b || isnan(a) ? a : b;
    default:
        return a > b || isnan(a) ? a : b;
    }
}

static int64_t reduce_i64(opf_scatter reduction, bool is_unsigned, int64_t a, int64_t b)
{
    bool less = is_unsigned ? (uint64_t)a < (uint64_t)b : a < b;
    switch (reduction) {
    case OPF_SCATTER_ADD:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    case OPF_SCATTER_MUL:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case OPF_SCATTER_MIN:
        return less ? a : b;
    default:
        return less ? b : a;
    }
}

void opf_scatter_reduce(opf_scatter reduction, const opf_view *dst, int64_t to, const opf_view *src, int64_t from)
{
    opf_view target = *dst;
    if (opf_types_have(OPF_TYPES_FLOAT, dst->type))
        opf_view_put_f64(&target, to, reduce_f64(reduction, opf_view_f64(dst, to), opf_view_f64(src, from)));
    else
        opf_view_put_i64(
            &target, to,
            reduce_i64(reduction, dst->type == OPF_UINT64, opf_view_i64(dst, to), opf_view_i64(src, from)));
}

opf_status opf_scatter_lower(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    opf_scatter     reduction;
    OPF_TRY(opf_scatter_read(opf_node_string(node, "reduction", "none"), OPF_TYPE_NONE, &reduction, error));
    bool    is_extreme = reduction == OPF_SCATTER_MIN || reduction == OPF_SCATTER_MAX;
    int32_t first      = reduction == OPF_SCATTER_NONE ? 0 : is_extreme ? 18 : 16;
    OPF_FAIL_IF(error, opset < first, OPF_UNSUPPORTED, "%s (%s): this reduction came with opset %d", node->name,
                node->op_type, (int)first);
    return opset < 16 ? opf_drop_attr(graph, id, "reduction") : OPF_OK;
}
