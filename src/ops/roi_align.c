/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/call.h"
#include "ops/check.h"
#include "ops/lift.h"

#include <math.h>
#include <string.h>

enum { MAX_SAMPLES = 1 << 12 }; /* along an axis of a bin: what no sane region reaches */

typedef struct pooling {
    bool    is_max, half_pixel;
    int64_t samples; /* 0: as many as a bin has pixels */
    int64_t size[2]; /* of the result */
    double  scale;
} pooling;

static opf_status read_pooling(const opf_attr *attrs, uint32_t n_attrs, pooling *p, opf_error *error)
{
    const opf_call call  = {.attrs = attrs, .n_attrs = n_attrs};
    const char    *mode  = opf_call_string(&call, "mode", "avg");
    const char    *place = opf_call_string(&call, "coordinate_transformation_mode", "half_pixel");
    *p                   = (pooling){.is_max     = strcmp(mode, "max") == 0,
                                     .half_pixel = strcmp(place, "half_pixel") == 0,
                                     .samples    = opf_call_int(&call, "sampling_ratio", 0),
                                     .size       = {opf_call_int(&call, "output_height", 1),
                                                    opf_call_int(&call, "output_width", 1)},
                                     .scale      = (double)opf_call_float(&call, "spatial_scale", 1)};
    OPF_FAIL_IF(error, !p->is_max && strcmp(mode, "avg") != 0, OPF_INVALID_MODEL, "mode \"%s\" does not exist", mode);
    OPF_FAIL_IF(error, !p->half_pixel && strcmp(place, "output_half_pixel") != 0, OPF_INVALID_MODEL,
                "coordinate_transformation_mode \"%s\" does not exist", place);
    OPF_FAIL_IF(error, p->size[0] < 1 || p->size[1] < 1, OPF_INVALID_MODEL, "the output is %lld x %lld",
                (long long)p->size[0], (long long)p->size[1]);
    OPF_FAIL_IF(error, p->samples < 0 || p->samples > MAX_SAMPLES, OPF_INVALID_MODEL,
                "sampling_ratio is %lld, must be in [0, %d]", (long long)p->samples, MAX_SAMPLES);
    return OPF_OK;
}

static opf_status infer_roi_align(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[0], *rois = infer->in[1], *batches = infer->in[2];
    opf_dim         dims[4];
    pooling         p;
    OPF_TRY(read_pooling(infer->node->attrs, infer->node->n_attrs, &p, error));
    OPF_FAIL_IF(error, x->rank >= 0 && x->rank != 4, OPF_INVALID_MODEL, "X has rank %d, must be 4", x->rank);
    if (rois->rank >= 0 && (rois->rank != 2 || opf_dims_clash(rois->dims[1], opf_dim_number(4))))
        return opf_refuse_shapes(infer, 1, 1, error, "must have shape [n,4]");
    if (rois->rank >= 0)
        OPF_TRY(opf_check_vector(infer, 2, rois->dims[0], 1, error));
    dims[0] = rois->rank >= 0 ? rois->dims[0] : batches->rank == 1 ? batches->dims[0] : opf_dim_unknown(infer->dims);
    dims[1] = x->rank >= 0 ? x->dims[1] : opf_dim_unknown(infer->dims);
    dims[2] = opf_dim_number(p.size[0]);
    dims[3] = opf_dim_number(p.size[1]);
    return opf_infer_set(infer, 0, 4, dims, error);
}

/* ---- reference ---- */

typedef struct region {
    int64_t batch;
    double  start[2], bin[2]; /* height, width */
    int64_t samples[2];
} region;

static opf_status get_region(const opf_call *call, const pooling *p, int64_t i, region *r, opf_error *error)
{
    const opf_view *x = &call->in[0], *rois = &call->in[1], *batches = &call->in[2];
    r->batch = opf_view_i64(batches, i * batches->strides[0]);
    OPF_FAIL_IF(error, r->batch < 0 || r->batch >= x->dims[0], OPF_INVALID_INPUT,
                "batch_indices[%lld] is %lld, X has %lld images", (long long)i, (long long)r->batch,
                (long long)x->dims[0]);
    for (int32_t axis = 0; axis < 2; axis++) {
        const double  shift = p->half_pixel ? 0.5 : 0;
        const int64_t at    = i * rois->strides[0];
        r->start[axis]      = opf_view_f64(rois, at + (1 - axis) * rois->strides[1]) * p->scale - shift;
        double end          = opf_view_f64(rois, at + (3 - axis) * rois->strides[1]) * p->scale - shift;
        double length       = end - r->start[axis];
        OPF_FAIL_IF(error, !isfinite(length), OPF_INVALID_INPUT, "region %lld is not finite", (long long)i);
        if (!p->half_pixel)
            length = fmax(length, 1);
        r->bin[axis]   = length / (double)p->size[axis];
        double samples = p->samples > 0 ? (double)p->samples : fmax(ceil(r->bin[axis]), 0);
        OPF_FAIL_IF(error, samples > MAX_SAMPLES, OPF_INVALID_INPUT, "region %lld needs %g samples a bin, at most %d",
                    (long long)i, samples, MAX_SAMPLES);
        r->samples[axis] = (int64_t)samples;
    }
    return OPF_OK;
}

/* The two pixels around a place of an axis of n, and the weight of the second; false: outside. */
static bool get_pair(double place, int64_t n, int64_t pixels[2], double *weight)
{
    if (!(place >= -1 && place <= (double)n))
        return false;
    place     = fmax(place, 0);
    pixels[0] = (int64_t)place;
    if (pixels[0] >= n - 1) {
        pixels[0] = pixels[1] = n - 1;
        *weight               = 0;
        return true;
    }
    pixels[1] = pixels[0] + 1;
    *weight   = place - (double)pixels[0];
    return true;
}

/* The maximum is taken of the four weighted pixels, not of their sum: so the operator is defined. */
static double sample(const opf_view *x, int64_t base, const double at[2], bool is_max)
{
    int64_t rows[2], columns[2];
    double  v, u, result = 0;
    if (!get_pair(at[0], x->dims[2], rows, &v) || !get_pair(at[1], x->dims[3], columns, &u))
        return 0;
    for (int32_t k = 0; k < 4; k++) {
        double weight = (k < 2 ? 1 - v : v) * (k % 2 == 0 ? 1 - u : u);
        double pixel  = opf_view_f64(x, base + rows[k / 2] * x->strides[2] + columns[k % 2] * x->strides[3]);
        double term   = weight * pixel;
        if (!is_max)
            result += weight == 0 ? 0 : term;
        else
            result = k == 0 || term > result ? term : result;
    }
    return result;
}

static double pool_bin(const opf_view *x, const pooling *p, const region *r, int64_t base, const int64_t bin[2])
{
    const int64_t count  = r->samples[0] * r->samples[1];
    double        result = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t index[2] = {i / r->samples[1], i % r->samples[1]};
        double        at[2];
        for (int32_t axis = 0; axis < 2; axis++)
            at[axis] = r->start[axis] + (double)bin[axis] * r->bin[axis] +
                       ((double)index[axis] + 0.5) * r->bin[axis] / (double)r->samples[axis];
        double value = sample(x, base, at, p->is_max);
        if (!p->is_max)
            result += value;
        else
            result = i == 0 || value > result ? value : result;
    }
    return p->is_max || count == 0 ? result : result / (double)count;
}

static opf_status reference_roi_align(const opf_call *call, opf_error *error)
{
    const opf_view *x       = &call->in[0];
    opf_view       *y       = &call->out[0];
    const opf_view *views[] = {y};
    region          r       = {.batch = 0};
    pooling         p;
    opf_walk        walk;
    OPF_TRY(read_pooling(call->attrs, call->n_attrs, &p, error));
    for (int64_t i = 0; i < y->dims[0]; i++)
        OPF_TRY(get_region(call, &p, i, &r, error));
    OPF_FAIL_IF(error, opf_view_count(y) != 0 && (x->dims[2] == 0 || x->dims[3] == 0), OPF_INVALID_INPUT,
                "the image is empty: there is nothing to pool");
    for (opf_walk_init(&walk, 4, y->dims, 1, views); walk.left != 0; opf_walk_next(&walk)) {
        if (walk.index[1] == 0 && walk.index[2] == 0 && walk.index[3] == 0)
            OPF_TRY(get_region(call, &p, walk.index[0], &r, error));
        opf_view_put_f64(y, walk.offset[0],
                         pool_bin(x, &p, &r, r.batch * x->strides[0] + walk.index[1] * x->strides[1], &walk.index[2]));
    }
    return OPF_OK;
}

/* ---- older opsets ---- */

static opf_status lift_roi_align(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    static const char text[] = "output_half_pixel";
    const opf_attr attr = {
        .name = "coordinate_transformation_mode", .type = OPF_ATTR_STRING, .s = text, .n = sizeof text - 1};
    OPF_OOM_IF(error, !opf_node_set_attr(graph, node, attr));
    return OPF_OK;
}

static opf_status lower_roi_align(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node = opf_graph_node(graph, id);
    const char     *mode = opf_node_string(node, "coordinate_transformation_mode", "half_pixel");
    OPF_FAIL_IF(error, strcmp(mode, "output_half_pixel") != 0, OPF_UNSUPPORTED,
                "%s (%s): half_pixel came with opset 16", node->name, node->op_type);
    return opf_drop_attr(graph, id, "coordinate_transformation_mode");
}

static const opf_attr_def attrs[] = {
    {.name = "coordinate_transformation_mode", .type = OPF_ATTR_STRING, .s = "half_pixel"},
    {.name = "mode", .type = OPF_ATTR_STRING, .s = "avg"},
    {.name = "output_height", .type = OPF_ATTR_INT, .i = 1},
    {.name = "output_width", .type = OPF_ATTR_INT, .i = 1},
    {.name = "sampling_ratio", .type = OPF_ATTR_INT},
    {.name = "spatial_scale", .type = OPF_ATTR_FLOAT, .f = 1},
};

const opf_op opf_op_RoiAlign = {
    .name      = "RoiAlign",
    .domain    = "",
    .since     = 10,
    .inputs    = (const opf_param[]){{"X", 'T', OPF_TYPES_FLOAT, 0},
                                     {"rois", 'T', OPF_TYPES_FLOAT, 0},
                                     {"batch_indices", 0, OPF_TYPE_BIT(OPF_INT64), 0}},
    .n_inputs  = 3,
    .outputs   = (const opf_param[]){{"Y", 'T', OPF_TYPES_FLOAT, 0}},
    .n_outputs = 1,
    .attrs     = attrs,
    .n_attrs   = OPF_COUNT(attrs),
    .rows      = (const opf_import_row[]){{16, lift_roi_align, lower_roi_align},
                                          {22, opf_import_same, opf_lower_no_bfloat16}},
    .n_rows    = 2,
    .infer     = infer_roi_align,
    .reference = reference_roi_align,
};
