/* SPDX-License-Identifier: Apache-2.0 */
/* ConvTranspose: any spatial rank. The reference multiplies weights [M/group * taps][C/group] with the image and folds
   the columns, some channels at a time. */
#include "ops/conv_transpose.h"

#include "ops/check.h"
#include "ops/elementwise.h"
#include "ops/fold.h"
#include "ops/lift.h"

#include <string.h>

enum { X = 0, W, B };

/* ---- geometry ---- */

typedef struct geometry {
    opf_windows    windows; /* its pads are valid once the sizes are known */
    int64_t        output_padding[OPF_MAX_RANK];
    const int64_t *output_shape; /* NULL: not given */
} geometry;

static opf_status read_list(const opf_attr *attrs, uint32_t n_attrs, const char *name, int32_t rank,
                            const int64_t **list, opf_error *error)
{
    const opf_attr *attr = opf_attrs_find(attrs, n_attrs, name);
    *list                = NULL;
    if (attr == NULL || attr->n == 0)
        return OPF_OK;
    OPF_FAIL_IF(error, attr->type != OPF_ATTR_INTS || attr->n != (uint32_t)rank, OPF_INVALID_MODEL,
                "%s has %u numbers, must have %d", name, attr->n, (int)rank);
    for (uint32_t i = 0; i < attr->n; i++)
        OPF_FAIL_IF(error, attr->ints[i] < 0 || attr->ints[i] > INT32_MAX, OPF_INVALID_MODEL,
                    "%s[%u] is %lld, must be at least 0 and below 2^31", name, i, (long long)attr->ints[i]);
    *list = attr->ints;
    return OPF_OK;
}

static opf_status read_geometry(const opf_attr *attrs, uint32_t n_attrs, int32_t rank, const int64_t *kernel,
                                geometry *g, opf_error *error)
{
    const int64_t *padding;
    OPF_TRY(opf_windows_read(attrs, n_attrs, rank, kernel, &g->windows, error));
    OPF_TRY(read_list(attrs, n_attrs, "output_padding", rank, &padding, error));
    OPF_TRY(read_list(attrs, n_attrs, "output_shape", rank, &g->output_shape, error));
    for (int32_t i = 0; i < rank; i++) {
        g->output_padding[i] = padding != NULL ? padding[i] : 0;
        const int64_t most =
            g->windows.stride[i] > g->windows.dilation[i] ? g->windows.stride[i] : g->windows.dilation[i];
        OPF_FAIL_IF(error, g->output_padding[i] >= most, OPF_INVALID_MODEL,
                    "output_padding[%d] is %lld, must be less than the stride or dilation %lld", (int)i,
                    (long long)g->output_padding[i], (long long)most);
    }
    return OPF_OK;
}

static bool is_same(const geometry *g)
{
    return g->windows.auto_pad == OPF_PAD_SAME_UPPER || g->windows.auto_pad == OPF_PAD_SAME_LOWER;
}

/* What the windows cover without any pads, along one axis. */
static opf_dim covered(const geometry *g, int32_t i, opf_dims *dims, opf_dim in)
{
    const opf_dim last =
        opf_dim_mul(dims, opf_dim_number(g->windows.stride[i]), opf_dim_sub(dims, in, opf_dim_number(1)));
    return opf_dim_add(dims, last, opf_dim_number(g->output_padding[i] + opf_windows_span(&g->windows, i)));
}

static opf_dim output_size(const geometry *g, int32_t i, opf_dims *dims, opf_dim in)
{
    if (g->output_shape != NULL)
        return opf_dim_number(g->output_shape[i]);
    /* What strides beyond the kernel leave uncovered at the end is no part of the output. */
    if (is_same(g) && g->output_padding[i] + opf_windows_span(&g->windows, i) >= g->windows.stride[i])
        return opf_dim_mul(dims, in, opf_dim_number(g->windows.stride[i]));
    if (opf_dim_is(in, 0))
        return in;
    return opf_dim_sub(dims, covered(g, i, dims, in), opf_dim_number(g->windows.pad_begin[i] + g->windows.pad_end[i]));
}

/* Where the output's size is given, the pads follow from it; an output beyond what is covered ends in zeros. */
static opf_status resolve_pads(geometry *g, const int64_t *in, const int64_t *out, opf_error *error)
{
    for (int32_t i = 0; i < g->windows.rank && (g->output_shape != NULL || is_same(g)); i++) {
        int64_t total;
        OPF_FAIL_IF(error, __builtin_mul_overflow(g->windows.stride[i], in[i] - 1, &total), OPF_LIMIT,
                    "spatial axis %d has size %lld", (int)i, (long long)in[i]);
        total += g->output_padding[i] + opf_windows_span(&g->windows, i) - out[i];
        total                   = total > 0 ? total : 0;
        g->windows.pad_begin[i] = g->windows.auto_pad == OPF_PAD_SAME_UPPER ? total / 2 : total - total / 2;
    }
    return OPF_OK;
}

opf_status opf_conv_transpose_windows(const opf_attr *attrs, uint32_t n_attrs, int32_t rank, const int64_t *kernel,
                                      const int64_t *in, const int64_t *out, opf_windows *windows, opf_error *error)
{
    geometry g;
    OPF_TRY(read_geometry(attrs, n_attrs, rank, kernel, &g, error));
    OPF_TRY(resolve_pads(&g, in, out, error));
    *windows = g.windows;
    return OPF_OK;
}

/* ---- inference ---- */

static opf_status check_channels(const opf_infer *infer, int64_t group, opf_error *error)
{
    const opf_info *x = infer->in[X], *w = infer->in[W];
    OPF_FAIL_IF(error, group < 1, OPF_INVALID_MODEL, "group is %lld, must be at least 1", (long long)group);
    if ((x->rank >= 0 && x->rank < 3) || (w->rank >= 0 && w->rank < 3))
        return opf_refuse_shapes(infer, X, W, error, "both must have rank 3 or more");
    if (x->rank < 0 || w->rank < 0)
        return OPF_OK;
    if (x->rank != w->rank)
        return opf_refuse_shapes(infer, X, W, error, "both must have the same rank");
    if (opf_dims_clash(x->dims[1], w->dims[0]))
        return opf_refuse_shapes(infer, X, W, error,
                                 "the channels of the former must be those of axis 0 of the latter");
    if (opf_dim_is_number(w->dims[0]) && w->dims[0].n % group != 0)
        return opf_refuse_shapes(infer, W, W, error, "%lld input channels do not divide into %lld groups",
                                 (long long)w->dims[0].n, (long long)group);
    return OPF_OK;
}

static opf_status infer_conv_transpose(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[X], *w = infer->in[W];
    const opf_attr *shape = opf_node_attr(infer->node, "kernel_shape");
    const int64_t   group = opf_node_int(infer->node, "group", 1);
    const int32_t   rank  = x->rank >= 0 ? x->rank : w->rank;
    int64_t         kernel[OPF_MAX_RANK];
    bool            has_kernel = w->rank >= 0;
    geometry        g;
    OPF_TRY(check_channels(infer, group, error));
    if (rank < 0)
        return OPF_OK;
    for (int32_t i = 2; i < w->rank; i++) {
        has_kernel    = has_kernel && opf_dim_is_number(w->dims[i]);
        kernel[i - 2] = w->dims[i].n;
    }
    opf_dim dims[OPF_MAX_RANK];
    for (int32_t i = 0; i < rank; i++)
        dims[i] = opf_dim_unknown(infer->dims);
    if (x->rank >= 0)
        dims[0] = x->dims[0];
    if (w->rank >= 0) {
        dims[1] = opf_dim_mul(infer->dims, w->dims[1], opf_dim_number(group));
        OPF_TRY(opf_check_vector(infer, B, dims[1], W, error));
    }
    if (x->rank >= 0 && (has_kernel || (shape != NULL && shape->n > 0))) {
        OPF_TRY(
            read_geometry(infer->node->attrs, infer->node->n_attrs, rank - 2, has_kernel ? kernel : NULL, &g, error));
        for (int32_t i = 2; i < rank; i++)
            dims[i] = output_size(&g, i - 2, infer->dims, x->dims[i]);
    }
    return opf_infer_set(infer, 0, rank, dims, error);
}

/* ---- reference ---- */

typedef struct transpose_job {
    const opf_call *call;
    opf_windows     windows;
    int64_t         c_group, m_group, taps, places, pixels;
    int64_t         n, group, first;           /* image, group and first channel of the group at work */
    opf_number     *columns, *image;           /* [channels * taps][places], [pixels] */
    opf_view        x_plane, w_plane, y_plane; /* the spatial axes */
} transpose_job;

static opf_view plane_of(const opf_view *view)
{
    opf_view plane = {.type = view->type, .rank = view->rank - 2};
    for (int32_t i = 0; i < plane.rank; i++) {
        plane.dims[i]    = view->dims[i + 2];
        plane.strides[i] = view->strides[i + 2];
    }
    return plane;
}

static void load_weights(void *user, size_t i, size_t rows, size_t p, size_t depth, opf_number *dst)
{
    const transpose_job *job = user;
    const opf_view      *w   = &job->call->in[W];
    for (size_t r = 0; r < rows; r++) {
        const int64_t m = job->first + (int64_t)(i + r) / job->taps, tap = (int64_t)(i + r) % job->taps;
        const int64_t offset = (job->group * job->c_group + (int64_t)p) * w->strides[0] + m * w->strides[1] +
                               opf_view_offset(&job->w_plane, (size_t)tap);
        opf_load_numbers(w, offset, w->strides[0], depth, &dst[r * depth], 1);
    }
}

static void load_image(void *user, size_t p, size_t depth, size_t j, size_t cols, opf_number *dst)
{
    const transpose_job *job  = user;
    const opf_view      *x    = &job->call->in[X];
    const int64_t        base = job->n * x->strides[0] + (job->group * job->c_group + (int64_t)p) * x->strides[1];
    for (size_t c = 0; c < cols; c++)
        opf_load_numbers(x, base + opf_view_offset(&job->x_plane, j + c), x->strides[1], depth, &dst[c],
                         OPF_PRODUCT_COLS);
}

static void store_columns(void *user, size_t i, size_t rows, size_t j, size_t cols, const opf_number *src)
{
    const transpose_job *job = user;
    for (size_t r = 0; r < rows; r++)
        memcpy(&job->columns[(i + r) * (size_t)job->places + j], &src[r * OPF_PRODUCT_COLS], cols * sizeof *src);
}

static void write_channel(transpose_job *job, int64_t k)
{
    const opf_view   *bias    = &job->call->in[B];
    opf_view         *y       = &job->call->out[0];
    const bool        has_b   = job->call->n_in > B && bias->data != NULL;
    const int64_t     m       = job->group * job->m_group + job->first + k;
    const int64_t     base    = job->n * y->strides[0] + m * y->strides[1];
    const double      shift   = has_b ? opf_view_f64(bias, m * bias->strides[0]) : 0;
    const opf_view   *views[] = {&job->y_plane};
    const opf_number *pixel   = job->image;
    opf_walk          walk;
    memset(job->image, 0, (size_t)job->pixels * sizeof *job->image);
    opf_fold_columns(&job->windows, job->x_plane.dims, &job->columns[k * job->taps * job->places], true,
                     job->y_plane.dims, job->image);
    for (opf_walk_init(&walk, job->y_plane.rank, job->y_plane.dims, 1, views); walk.left > 0;
         opf_walk_next(&walk), pixel++)
        opf_view_put_f64(y, base + walk.offset[0], pixel->f + shift);
}

static void run_groups(transpose_job *job, int64_t groups, int64_t at_once, opf_product_scratch *scratch)
{
    opf_product product = {.n        = (size_t)job->places,
                           .k        = (size_t)job->c_group,
                           .is_float = true,
                           .user     = job,
                           .load_a   = load_weights,
                           .load_b   = load_image,
                           .store    = store_columns};
    for (job->n = 0; job->n < job->call->out[0].dims[0]; job->n++)
        for (job->group = 0; job->group < groups; job->group++)
            for (job->first = 0; job->first < job->m_group; job->first += at_once) {
                const int64_t left = job->m_group - job->first, channels = left < at_once ? left : at_once;
                product.m = (size_t)(channels * job->taps);
                opf_product_run(&product, scratch);
                for (int64_t k = 0; k < channels; k++)
                    write_channel(job, k);
            }
}

static opf_status run_conv_transpose(const opf_call *call, opf_error *error)
{
    enum { COLUMNS = 1 << 21 }; /* numbers kept at once, if a channel needs no more */
    const opf_view *x = &call->in[X], *w = &call->in[W], *y = &call->out[0];
    const int64_t   groups = opf_call_int(call, "group", 1);
    size_t          numbers, bytes;
    if (opf_view_count(y) == 0)
        return OPF_OK;
    transpose_job job = {.call = call, .c_group = w->dims[0] / groups, .m_group = w->dims[1]};
    OPF_TRY(opf_conv_transpose_windows(call->attrs, call->n_attrs, x->rank - 2, w->dims + 2, x->dims + 2, y->dims + 2,
                                       &job.windows, error));
    job.x_plane = plane_of(x);
    job.w_plane = plane_of(w);
    job.y_plane = plane_of(y);
    job.places  = (int64_t)opf_view_count(&job.x_plane);
    job.taps    = (int64_t)opf_view_count(&job.w_plane);
    job.pixels  = (int64_t)opf_view_count(&job.y_plane);
    OPF_FAIL_IF(error, !opf_mul_size((size_t)job.taps, (size_t)job.places, &numbers), OPF_LIMIT,
                "the image is too large");
    int64_t at_once = numbers > COLUMNS || numbers == 0 ? 1 : COLUMNS / (int64_t)numbers;
    at_once         = at_once < job.m_group ? at_once : job.m_group;
    OPF_FAIL_IF(error,
                !opf_mul_size(numbers, (size_t)at_once, &numbers) ||
                    !opf_add_size(numbers, (size_t)job.pixels, &numbers) ||
                    !opf_mul_size(numbers, sizeof(opf_number), &bytes),
                OPF_LIMIT, "the image is too large");
    opf_product_scratch *scratch = opf_heap_alloc(call->heap, sizeof *scratch);
    opf_status           status  = OPF_OK;
    job.image                    = opf_heap_alloc(call->heap, bytes);
    if (scratch != NULL && job.image != NULL) {
        job.columns = job.image + job.pixels;
        run_groups(&job, groups, at_once, scratch);
    } else {
        status = opf_fail(error, OPF_OUT_OF_MEMORY, "out of memory");
    }
    opf_heap_free(call->heap, job.image, bytes);
    opf_heap_free(call->heap, scratch, sizeof *scratch);
    return status;
}

/* ---- signature ---- */

static const opf_import_row rows[]  = {{22, opf_import_same, opf_lower_no_bfloat16}};
static const opf_attr_def   attrs[] = {{.name = "auto_pad", .type = OPF_ATTR_STRING, .s = "NOTSET"},
                                       {.name = "dilations", .type = OPF_ATTR_INTS},
                                       {.name = "group", .type = OPF_ATTR_INT, .i = 1},
                                       {.name = "kernel_shape", .type = OPF_ATTR_INTS},
                                       {.name = "output_padding", .type = OPF_ATTR_INTS},
                                       {.name = "output_shape", .type = OPF_ATTR_INTS},
                                       {.name = "pads", .type = OPF_ATTR_INTS},
                                       {.name = "strides", .type = OPF_ATTR_INTS}};

const opf_op opf_op_ConvTranspose = {.name   = "ConvTranspose",
                                     .domain = "",
                                     .since  = 1,
                                     .traits = OPF_CONTRACTION,
                                     .inputs =
                                         OPF_PARAMS({"X", 'T', OPF_TYPES_FLOAT, 0}, {"W", 'T', OPF_TYPES_FLOAT, 0},
                                                    {"B", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL}),
                                     .n_inputs  = 3,
                                     .outputs   = OPF_PARAMS({"Y", 'T', OPF_TYPES_FLOAT, 0}),
                                     .n_outputs = 1,
                                     .attrs     = attrs,
                                     .n_attrs   = OPF_COUNT(attrs),
                                     .rows      = rows,
                                     .n_rows    = OPF_COUNT(rows),
                                     .infer     = infer_conv_transpose,
                                     .reference = run_conv_transpose};
