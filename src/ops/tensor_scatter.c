/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/call.h"
#include "ops/check.h"

#include <string.h>

/* The newest types that the operator has: those of Pad without two bits. */
#define CACHE_TYPES (OPF_TYPES_ANY & ~(OPF_TYPE_BIT(OPF_UINT2) | OPF_TYPE_BIT(OPF_INT2)))

static opf_status get_mode(const char *mode, bool *circular, opf_error *error)
{
    *circular = strcmp(mode, "circular") == 0;
    OPF_FAIL_IF(error, !*circular && strcmp(mode, "linear") != 0, OPF_INVALID_MODEL, "mode \"%s\" does not exist",
                mode);
    return OPF_OK;
}

static opf_status infer_tensor_scatter(opf_infer *infer, opf_error *error)
{
    const opf_info *cache = infer->in[0], *update = infer->in[1];
    bool            circular;
    int32_t         axis;
    OPF_TRY(get_mode(opf_node_string(infer->node, "mode", "linear"), &circular, error));
    if (cache->rank < 0)
        return OPF_OK;
    OPF_TRY(opf_normalize_axis(opf_node_int(infer->node, "axis", -2), cache->rank, &axis, error));
    OPF_FAIL_IF(error, axis == 0, OPF_INVALID_MODEL, "axis is 0, the batch dimension");
    OPF_FAIL_IF(error, update->rank >= 0 && update->rank != cache->rank, OPF_INVALID_MODEL,
                "update has rank %d, must be %d", update->rank, cache->rank);
    for (int32_t i = 0; i < update->rank; i++) {
        bool fits = !opf_dims_clash(cache->dims[i], update->dims[i]) ||
                    (i == axis && update->dims[i].n < cache->dims[i].n);
        if (!fits)
            return opf_refuse_shapes(infer, 0, 1, error, "dimension %d of the latter must be %s%lld", i,
                                     i == axis ? "at most " : "", (long long)cache->dims[i].n);
    }
    OPF_TRY(opf_check_vector(infer, 2, cache->dims[0], 0, error));
    OPF_TRY(opf_infer_same(infer, 0, 0, error));
    return opf_infer_moved(infer, error);
}

/* Where sequence b begins in the cache. */
static opf_status get_start(const opf_call *call, int64_t b, bool circular, int64_t room, int64_t length,
                            int64_t *start, opf_error *error)
{
    *start = 0;
    if (opf_call_has(call, 2))
        *start = opf_view_i64(&call->in[2], b * call->in[2].strides[0]);
    if (circular) {
        *start = room == 0 ? 0 : *start % room;
        *start += *start < 0 ? room : 0;
        return OPF_OK;
    }
    OPF_FAIL_IF(error, *start < 0 || *start > room - length, OPF_INVALID_INPUT,
                "write_indices[%lld] is %lld: %lld elements do not fit a cache of %lld", (long long)b,
                (long long)*start, (long long)length, (long long)room);
    return OPF_OK;
}

static opf_status reference_tensor_scatter(const opf_call *call, opf_error *error)
{
    const opf_view *cache = &call->in[0], *update = &call->in[1], *out = &call->out[0];
    const size_t    bits = opf_type_bits(cache->type);
    int64_t         start, dims[OPF_MAX_RANK];
    int32_t         axis;
    bool            circular;
    OPF_TRY(get_mode(opf_call_string(call, "mode", "linear"), &circular, error));
    OPF_TRY(opf_normalize_axis(opf_call_int(call, "axis", -2), cache->rank, &axis, error));
    const int64_t room = cache->dims[axis], length = update->dims[axis];
    for (int64_t b = 0; b < cache->dims[0]; b++)
        OPF_TRY(get_start(call, b, circular, room, length, &start, error));
    opf_move_grid(bits, (opf_grid){out->data, 0, out->strides}, (opf_grid){cache->data, 0, cache->strides},
                  cache->rank, cache->dims);
    memcpy(dims, update->dims, sizeof dims);
    dims[axis] = 1;
    for (int64_t b = 0; b < cache->dims[0]; b++) {
        OPF_TRY(get_start(call, b, circular, room, length, &start, error));
        for (int64_t s = 0; s < length; s++) {
            int64_t place = start + s < room ? start + s : start + s - room;
            opf_move_grid(bits,
                          (opf_grid){out->data, b * out->strides[0] + place * out->strides[axis], out->strides + 1},
                          (opf_grid){update->data, b * update->strides[0] + s * update->strides[axis],
                                     update->strides + 1},
                          cache->rank - 1, dims + 1);
        }
    }
    return OPF_OK;
}

const opf_op opf_op_TensorScatter = {
    .name      = "TensorScatter",
    .domain    = "",
    .since     = 24,
    .traits    = OPF_MOVEMENT,
    .inputs    = (const opf_param[]){{"past_cache", 'T', CACHE_TYPES, 0},
                                     {"update", 'T', CACHE_TYPES, 0},
                                     {"write_indices", 0, OPF_TYPE_BIT(OPF_INT64), OPF_OPTIONAL}},
    .n_inputs  = 3,
    .outputs   = (const opf_param[]){{"present_cache", 'T', CACHE_TYPES, 0}},
    .n_outputs = 1,
    .attrs     = (const opf_attr_def[]){{.name = "mode", .type = OPF_ATTR_STRING, .s = "linear"},
                                        {.name = "axis", .type = OPF_ATTR_INT, .i = -2}},
    .n_attrs   = 2,
    .infer     = infer_tensor_scatter,
    .reference = reference_tensor_scatter,
};
