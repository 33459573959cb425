/* SPDX-License-Identifier: Apache-2.0 */
/* GridSample of any number of spatial axes. The grid counts them from the last one: x, y, z. */
#include "ops/call.h"
#include "ops/check.h"
#include "ops/lift.h"

#include <math.h>
#include <string.h>

typedef enum grid_mode { MODE_LINEAR, MODE_NEAREST, MODE_CUBIC } grid_mode;
typedef enum grid_padding { PADDING_ZEROS, PADDING_BORDER, PADDING_REFLECTION } grid_padding;

typedef struct sampling {
    grid_mode    mode;
    grid_padding padding;
    bool         align_corners;
} sampling;

static opf_status find_name(const opf_call *call, const char *attr, const char *const names[3], int *found,
                            opf_error *error)
{
    const char *name = opf_call_string(call, attr, names[0]);
    for (*found = 0; *found < 3; (*found)++)
        if (strcmp(names[*found], name) == 0)
            return OPF_OK;
    return opf_fail(error, OPF_INVALID_MODEL, "%s \"%s\" does not exist", attr, name);
}

static opf_status read_sampling(const opf_attr *attrs, uint32_t n_attrs, opf_type type, sampling *s, opf_error *error)
{
    static const char *const modes[3]    = {"linear", "nearest", "cubic"};
    static const char *const paddings[3] = {"zeros", "border", "reflection"};
    const opf_call           call        = {.attrs = attrs, .n_attrs = n_attrs};
    int                      mode, padding;
    OPF_TRY(find_name(&call, "mode", modes, &mode, error));
    OPF_TRY(find_name(&call, "padding_mode", paddings, &padding, error));
    OPF_FAIL_IF(error, mode != MODE_NEAREST && type != OPF_TYPE_NONE && !opf_types_have(OPF_TYPES_FLOAT, type),
                OPF_UNSUPPORTED, "type %s is sampled in mode nearest only", opf_type_name(type));
    *s = (sampling){(grid_mode)mode, (grid_padding)padding, opf_call_int(&call, "align_corners", 0) != 0};
    return OPF_OK;
}

static opf_status infer_grid_sample(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[0], *grid = infer->in[1];
    sampling        s;
    opf_dim         dims[OPF_MAX_RANK];
    OPF_TRY(read_sampling(infer->node->attrs, infer->node->n_attrs, x->type, &s, error));
    OPF_FAIL_IF(error, x->rank >= 0 && x->rank < 3, OPF_INVALID_MODEL, "X has rank %d, must be 3 at least", x->rank);
    OPF_FAIL_IF(error, x->rank >= 0 && grid->rank >= 0 && x->rank != grid->rank, OPF_INVALID_MODEL,
                "grid has rank %d, X has %d: they must be equal", grid->rank, x->rank);
    if (x->rank < 0 || grid->rank < 0)
        return OPF_OK;
    if (opf_dims_clash(x->dims[0], grid->dims[0]))
        return opf_refuse_shapes(infer, 0, 1, error, "batches must be equal");
    if (opf_dims_clash(grid->dims[grid->rank - 1], opf_dim_number(x->rank - 2)))
        return opf_refuse_shapes(infer, 0, 1, error, "the last dimension of the latter must be %d", x->rank - 2);
    dims[0] = x->dims[0];
    dims[1] = x->dims[1];
    for (int32_t i = 2; i < x->rank; i++)
        dims[i] = grid->dims[i - 1];
    return opf_infer_set(infer, 0, x->rank, dims, error);
}

/* ---- coordinates ---- */

/* Mirrored at both ends of [low, high] until it lies inside. */
static double reflect(double x, double low, double high)
{
    const double range = high - low;
    if (range <= 0)
        return low;
    if (x >= low && x <= high)
        return x;
    double rest = fmod(x < low ? low - x : x - high, 2 * range);
    double from = rest <= range ? rest : 2 * range - rest;
    return x < low ? low + from : high - from;
}

/* The pixel of axis n that `place` reads, -1 for a zero. */
static int64_t get_pixel(const sampling *s, double place, int64_t n)
{
    const double last = (double)(n - 1);
    if (s->padding == PADDING_ZEROS)
        return place >= 0 && place <= last ? (int64_t)place : -1;
    if (s->padding == PADDING_REFLECTION)
        place = s->align_corners ? reflect(place, 0, last) : reflect(place, -0.5, last + 0.5);
    return (int64_t)fmax(0, fmin(place, last));
}

/* The pixel coordinate of a normalised one; what is no number lies outside. */
static double get_place(const sampling *s, double x, int64_t n)
{
    const double length = (double)n, last = length - 1;
    double       place  = s->align_corners ? (x + 1) / 2 * last : ((x + 1) * length - 1) / 2;
    if (!isfinite(place))
        place = -2;
    if (s->mode == MODE_NEAREST)
        place = rint(place);
    if (s->padding == PADDING_BORDER && s->mode != MODE_CUBIC) /* cubic taps are put to the border one by one */
        return fmax(0, fmin(place, last));
    if (s->padding == PADDING_REFLECTION)
        return s->align_corners ? reflect(place, 0, last) : reflect(place, -0.5, last + 0.5);
    return place;
}

static double cubic(double d)
{
    const double a = -0.75;
    d              = fabs(d);
    if (d <= 1)
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* What one axis contributes to one point of the result. */
typedef struct taps {
    int32_t n;
    int64_t offsets[4];
    double  weights[4]; /* 0 for pixels that are not there */
} taps;

static taps get_taps(const sampling *s, double x, int64_t n, int64_t stride)
{
    const double place = get_place(s, x, n);
    taps         t     = {.n = s->mode == MODE_NEAREST ? 1 : s->mode == MODE_LINEAR ? 2 : 4};
    const double first = s->mode == MODE_NEAREST ? place : floor(place) - (s->mode == MODE_CUBIC ? 1 : 0);
    for (int32_t k = 0; k < t.n; k++) {
        const double at = first + k, d = fabs(place - at);
        t.weights[k] = s->mode == MODE_NEAREST ? 1 : s->mode == MODE_LINEAR ? 1 - d : cubic(d);
        const int64_t pixel = get_pixel(s, at, n);
        t.offsets[k]        = pixel * stride;
        if (pixel < 0)
            t.weights[k] = 0;
    }
    return t;
}

/* ---- the kernel ---- */

/* Taps of weight 0 are not read. */
static double sum_taps(const opf_view *x, const taps *all, int32_t n, int64_t offset)
{
    double sum = 0;
    if (n == 0)
        return opf_view_f64(x, offset);
    for (int32_t k = 0; k < all->n; k++)
        if (all->weights[k] != 0)
            sum += all->weights[k] * sum_taps(x, all + 1, n - 1, offset + all->offsets[k]);
    return sum;
}

static void sample_point(const sampling *s, const opf_view *x, opf_view *y, const taps *all, int64_t from, int64_t to)
{
    const int32_t n = x->rank - 2;
    if (s->mode != MODE_NEAREST) {
        opf_view_put_f64(y, to, sum_taps(x, all, n, from));
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        if (all[i].weights[0] == 0) {
            memset((char *)y->data + to * (int64_t)opf_type_size(y->type), 0, opf_type_size(y->type));
            return;
        }
        from += all[i].offsets[0];
    }
    opf_move_element(y, to, x, from);
}

static opf_status reference_grid_sample(const opf_call *call, opf_error *error)
{
    const opf_view *x = &call->in[0], *grid = &call->in[1];
    opf_view       *y     = &call->out[0];
    const int32_t   n     = x->rank - 2;
    opf_view        place = {.rank = n + 1}; /* of y, by the axes that the grid shares with it */
    const opf_view *views[] = {grid, &place};
    taps            all[OPF_MAX_RANK];
    sampling        s;
    opf_walk        walk;
    OPF_TRY(read_sampling(call->attrs, call->n_attrs, x->type, &s, error));
    if (opf_view_count(y) == 0)
        return OPF_OK;
    for (int32_t i = 0; i < n; i++)
        OPF_FAIL_IF(error, x->dims[2 + i] == 0, OPF_INVALID_INPUT, "axis %d of X is empty: there is nothing to sample",
                    2 + i);
    for (int32_t i = 0; i <= n; i++)
        place.strides[i] = y->strides[i == 0 ? 0 : i + 1];
    for (opf_walk_init(&walk, n + 1, grid->dims, 2, views); walk.left != 0; opf_walk_next(&walk)) {
        for (int32_t i = 0; i < n; i++) {
            double at = opf_view_f64(grid, walk.offset[0] + (n - 1 - i) * grid->strides[n + 1]);
            all[i]    = get_taps(&s, at, x->dims[2 + i], x->strides[2 + i]);
        }
        for (int64_t c = 0; c < x->dims[1]; c++)
            sample_point(&s, x, y, all, walk.index[0] * x->strides[0] + c * x->strides[1],
                         walk.offset[1] + c * y->strides[1]);
    }
    return OPF_OK;
}

/* ---- older opsets ---- */

static opf_status rename_mode(opf_graph *graph, opf_node_id id, const char *const from[2], const char *const to[2],
                              opf_error *error)
{
    const char *mode = opf_node_string(opf_graph_node(graph, id), "mode", from[0]);
    for (int i = 0; i < 2; i++)
        if (strcmp(mode, from[i]) == 0) {
            opf_attr attr = {.name = "mode", .type = OPF_ATTR_STRING, .s = to[i], .n = (uint32_t)strlen(to[i])};
            OPF_OOM_IF(error, !opf_node_set_attr(graph, id, attr));
            break;
        }
    return OPF_OK;
}

static const char *const old_modes[2] = {"bilinear", "bicubic"}, *const new_modes[2] = {"linear", "cubic"};

static opf_status lift_grid_sample(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    return rename_mode(graph, node, old_modes, new_modes, error);
}

static opf_status lower_grid_sample(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    const int32_t   rank = opf_graph_value(graph, node->inputs[0])->info.rank;
    OPF_FAIL_IF(error, rank != 4, OPF_UNSUPPORTED, "%s (%s): rank %d needs an opset above %d, which has 4 only",
                node->name, node->op_type, rank, (int)opset);
    return rename_mode(graph, id, new_modes, old_modes, error);
}

const opf_op opf_op_GridSample = {
    .name      = "GridSample",
    .domain    = "",
    .since     = 16,
    .inputs    = (const opf_param[]){{"X", 'T', OPF_TYPES_MOVED, 0}, {"grid", 'G', OPF_TYPES_FLOAT, 0}},
    .n_inputs  = 2,
    .outputs   = (const opf_param[]){{"Y", 'T', OPF_TYPES_MOVED, 0}},
    .n_outputs = 1,
    .attrs     = (const opf_attr_def[]){{.name = "align_corners", .type = OPF_ATTR_INT},
                                        {.name = "mode", .type = OPF_ATTR_STRING, .s = "linear"},
                                        {.name = "padding_mode", .type = OPF_ATTR_STRING, .s = "zeros"}},
    .n_attrs   = 3,
    .rows      = (const opf_import_row[]){{20, lift_grid_sample, lower_grid_sample},
                                          {22, opf_import_same, opf_lower_no_bfloat16}},
    .n_rows    = 2,
    .infer     = infer_grid_sample,
    .reference = reference_grid_sample,
    .notes     = "modes linear and cubic: floats",
};
