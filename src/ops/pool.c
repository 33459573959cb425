/* SPDX-License-Identifier: Apache-2.0 */
/* AveragePool, MaxPool, LpPool, GlobalAveragePool, GlobalMaxPool, GlobalLpPool. The reference kernels see each window as
   a strided view. */
#include "ops/infer.h"
#include "ops/lift.h"
#include "ops/reference.h"
#include "ops/window.h"

#include <math.h>

/* ---- inference ---- */

static opf_status check_rank(const opf_infer *infer, opf_error *error)
{
    if (infer->in[0]->rank < 0 || infer->in[0]->rank >= 3)
        return OPF_OK;
    const char *text = opf_info_string(infer->in[0], infer->dims, infer->arena);
    OPF_OOM_IF(error, text == NULL);
    return opf_fail(error, OPF_INVALID_INPUT, "input %s must have rank 3 or more", text);
}

static opf_status infer_pool(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[0];
    OPF_TRY(check_rank(infer, error));
    if (x->rank < 0)
        return OPF_OK;
    opf_windows windows;
    opf_dim     dims[OPF_MAX_RANK] = {x->dims[0], x->dims[1]};
    OPF_TRY(opf_windows_read(infer->node->attrs, infer->node->n_attrs, x->rank - 2, NULL, &windows, error));
    for (int32_t i = 2; i < x->rank; i++)
        OPF_TRY(opf_windows_infer(&windows, i - 2, infer->dims, x->dims[i], &dims[i], error));
    for (uint32_t o = 0; o < infer->n_out; o++)
        OPF_TRY(opf_infer_set(infer, o, x->rank, dims, error));
    return OPF_OK;
}

static opf_status infer_global(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[0];
    OPF_TRY(check_rank(infer, error));
    if (x->rank < 0)
        return OPF_OK;
    opf_dim dims[OPF_MAX_RANK] = {x->dims[0], x->dims[1]};
    for (int32_t i = 2; i < x->rank; i++)
        dims[i] = opf_dim_number(1);
    return opf_infer_set(infer, 0, x->rank, dims, error);
}

static opf_status check_order(const opf_infer *infer, opf_error *error)
{
    const int64_t p = opf_node_int(infer->node, "p", 2);
    OPF_FAIL_IF(error, p < 1, OPF_INVALID_MODEL, "p is %lld, must be at least 1", (long long)p);
    return OPF_OK;
}

static opf_status infer_lp_pool(opf_infer *infer, opf_error *error)
{
    OPF_TRY(check_order(infer, error));
    return infer_pool(infer, error);
}

static opf_status infer_global_lp(opf_infer *infer, opf_error *error)
{
    OPF_TRY(check_order(infer, error));
    return infer_global(infer, error);
}

/* ---- one window ---- */

static bool is_float(const opf_view *view)
{
    return opf_types_have(OPF_TYPES_FLOAT, view->type);
}

static double sum_of(const opf_view *window)
{
    opf_walk walk;
    double   sum = 0;
    for (opf_walk_init(&walk, window->rank, window->dims, 1, &window); walk.left > 0; opf_walk_next(&walk))
        sum += opf_view_f64(window, walk.offset[0]);
    return sum;
}

static double norm_of(const opf_view *window, double p)
{
    opf_walk walk;
    double   sum = 0;
    for (opf_walk_init(&walk, window->rank, window->dims, 1, &window); walk.left > 0; opf_walk_next(&walk)) {
        double x = fabs(opf_view_f64(window, walk.offset[0]));
        sum += p == 1 ? x : p == 2 ? x * x : pow(x, p);
    }
    return p == 1 ? sum : p == 2 ? sqrt(sum) : pow(sum, 1 / p);
}

/* The first maximum and its index; a NaN wins. An empty window has the least value of the type, and index -1. 8-bit
   integers are exact in double. */
static double max_of(const opf_view *window, int64_t *index)
{
    double   max   = is_float(window) ? -(double)INFINITY : window->type == OPF_INT8 ? INT8_MIN : 0;
    bool     found = false;
    opf_walk walk;
    for (int32_t i = 0; i < window->rank; i++)
        index[i] = -1;
    for (opf_walk_init(&walk, window->rank, window->dims, 1, &window); walk.left > 0 && !isnan(max);
         opf_walk_next(&walk)) {
        double x =
            is_float(window) ? opf_view_f64(window, walk.offset[0]) : (double)opf_view_i64(window, walk.offset[0]);
        if (found && !(x > max) && !isnan(x))
            continue;
        found = true;
        max   = x;
        for (int32_t i = 0; i < window->rank; i++)
            index[i] = walk.index[i];
    }
    return max;
}

static void put(opf_view *view, int64_t offset, double x)
{
    if (is_float(view))
        opf_view_put_f64(view, offset, x);
    else
        opf_view_put_i64(view, offset, (int64_t)x);
}

/* ---- reference ---- */

typedef struct pool_job {
    const opf_view *x;
    opf_windows     windows;
    int64_t         first[OPF_MAX_RANK], last[OPF_MAX_RANK]; /* taps of the window inside the image */
    opf_view        window;                                  /* those taps */
} pool_job;

/* The window of output index [n, c, places]. */
static void place_window(pool_job *pool, const int64_t *index)
{
    const opf_view    *x      = pool->x;
    const opf_windows *w      = &pool->windows;
    int64_t            offset = index[0] * x->strides[0] + index[1] * x->strides[1];
    pool->window              = (opf_view){.type = x->type, .rank = w->rank};
    for (int32_t i = 0; i < w->rank; i++) {
        opf_windows_taps(w, i, index[i + 2], x->dims[i + 2], &pool->first[i], &pool->last[i]);
        int64_t start           = index[i + 2] * w->stride[i] - w->pad_begin[i] + pool->first[i] * w->dilation[i];
        pool->window.dims[i]    = pool->last[i] - pool->first[i];
        pool->window.strides[i] = w->dilation[i] * x->strides[i + 2];
        offset += pool->window.dims[i] > 0 ? start * x->strides[i + 2] : 0;
    }
    pool->window.data = (char *)x->data + offset * (int64_t)opf_type_size(x->type);
}

/* Taps that an average with count_include_pad divides by: not those that ceil_mode put behind the padding. */
static double padded_count(const opf_windows *w, const int64_t *in, const int64_t *places)
{
    double count = 1;
    for (int32_t i = 0; i < w->rank; i++) {
        int64_t start = places[i] * w->stride[i] - w->pad_begin[i];
        int64_t taps  = (in[i] + w->pad_end[i] - start - 1) / w->dilation[i] + 1;
        count *= (double)(taps < w->kernel[i] ? taps : w->kernel[i]);
    }
    return count;
}

static opf_status start_pool(const opf_call *call, pool_job *pool, opf_error *error)
{
    int64_t out[OPF_MAX_RANK];
    pool->x = &call->in[0];
    OPF_TRY(opf_windows_read(call->attrs, call->n_attrs, pool->x->rank - 2, NULL, &pool->windows, error));
    return opf_windows_resolve(&pool->windows, pool->x->dims + 2, out, error);
}

static opf_status run_average_pool(const opf_call *call, opf_error *error)
{
    const bool      include_pad = opf_call_int(call, "count_include_pad", 0) != 0;
    opf_view       *y           = &call->out[0];
    const opf_view *views[]     = {y};
    pool_job        pool;
    opf_walk        walk;
    OPF_TRY(start_pool(call, &pool, error));
    for (opf_walk_init(&walk, y->rank, y->dims, 1, views); walk.left > 0; opf_walk_next(&walk)) {
        place_window(&pool, walk.index);
        const double inside = (double)opf_view_count(&pool.window);
        const double count  = include_pad ? padded_count(&pool.windows, pool.x->dims + 2, walk.index + 2) : inside;
        opf_view_put_f64(y, walk.offset[0], inside > 0 ? sum_of(&pool.window) / count : 0);
    }
    return OPF_OK;
}

/* The number of an element of x: row-major over all axes, or (storage_order 1) column-major over the spatial ones. */
static int64_t flat_index(const opf_view *x, const int64_t *index, bool column_major)
{
    int64_t flat = index[0] * x->dims[1] + index[1], column = 0, step = 1;
    for (int32_t i = 2; i < x->rank; i++) {
        flat = flat * x->dims[i] + (column_major ? 0 : index[i]);
        column += index[i] * step;
        step *= x->dims[i];
    }
    return column_major ? flat + column : flat;
}

static opf_status run_max_pool(const opf_call *call, opf_error *error)
{
    const bool      column_major = opf_call_int(call, "storage_order", 0) != 0;
    opf_view       *y            = &call->out[0];
    opf_view       *indices      = call->n_out > 1 && call->out[1].data != NULL ? &call->out[1] : NULL;
    const opf_view *shape        = y->data != NULL || indices == NULL ? y : indices;
    const opf_view *views[]      = {y, indices};
    pool_job        pool;
    opf_walk        walk;
    OPF_TRY(start_pool(call, &pool, error));
    for (opf_walk_init(&walk, shape->rank, shape->dims, indices != NULL ? 2 : 1, views); walk.left > 0;
         opf_walk_next(&walk)) {
        int64_t index[OPF_MAX_RANK] = {walk.index[0], walk.index[1]};
        place_window(&pool, walk.index);
        const double max = max_of(&pool.window, index + 2);
        if (y->data != NULL)
            put(y, walk.offset[0], max);
        if (indices == NULL)
            continue;
        bool found = index[2] >= 0;
        for (int32_t i = 0; i < pool.windows.rank; i++)
            index[i + 2] = walk.index[i + 2] * pool.windows.stride[i] - pool.windows.pad_begin[i] +
                           (pool.first[i] + index[i + 2]) * pool.windows.dilation[i];
        opf_view_put_i64(indices, walk.offset[1], found ? flat_index(pool.x, index, column_major) : -1);
    }
    return OPF_OK;
}

static opf_status run_lp_pool(const opf_call *call, opf_error *error)
{
    const double    p       = (double)opf_call_int(call, "p", 2);
    opf_view       *y       = &call->out[0];
    const opf_view *views[] = {y};
    pool_job        pool;
    opf_walk        walk;
    OPF_TRY(start_pool(call, &pool, error));
    for (opf_walk_init(&walk, y->rank, y->dims, 1, views); walk.left > 0; opf_walk_next(&walk)) {
        place_window(&pool, walk.index);
        opf_view_put_f64(y, walk.offset[0], norm_of(&pool.window, p));
    }
    return OPF_OK;
}

static opf_status run_global(const opf_call *call, double (*reduce)(const opf_call *call, const opf_view *plane))
{
    const opf_view *x     = &call->in[0];
    opf_view       *y     = &call->out[0];
    opf_view        plane = {.type = x->type, .rank = x->rank - 2};
    for (int32_t i = 0; i < plane.rank; i++) {
        plane.dims[i]    = x->dims[i + 2];
        plane.strides[i] = x->strides[i + 2];
    }
    for (int64_t n = 0; n < x->dims[0]; n++) {
        for (int64_t c = 0; c < x->dims[1]; c++) {
            plane.data = (char *)x->data + (n * x->strides[0] + c * x->strides[1]) * (int64_t)opf_type_size(x->type);
            opf_view_put_f64(y, n * y->strides[0] + c * y->strides[1], reduce(call, &plane));
        }
    }
    return OPF_OK;
}

static double mean_of(const opf_call *call, const opf_view *plane)
{
    (void)call;
    return sum_of(plane) / (double)opf_view_count(plane);
}

static double norm_of_plane(const opf_call *call, const opf_view *plane)
{
    return norm_of(plane, (double)opf_call_int(call, "p", 2));
}

static double max_of_plane(const opf_call *call, const opf_view *plane)
{
    int64_t index[OPF_MAX_RANK];
    (void)call;
    return max_of(plane, index);
}

static opf_status run_global_average(const opf_call *call, opf_error *error)
{
    (void)error;
    return run_global(call, mean_of);
}

static opf_status run_global_max(const opf_call *call, opf_error *error)
{
    (void)error;
    return run_global(call, max_of_plane);
}

static opf_status run_global_lp(const opf_call *call, opf_error *error)
{
    (void)error;
    return run_global(call, norm_of_plane);
}

/* ---- older opsets ---- */

/* In opset 1 the order of LpPool and GlobalLpPool was a float. */
static opf_status lift_order(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node = opf_graph_node(graph, id);
    const opf_attr *p    = opf_node_attr(node, "p");
    if (p == NULL || p->type != OPF_ATTR_FLOAT)
        return OPF_OK;
    OPF_FAIL_IF(error, !(p->f >= 1 && p->f <= (float)INT32_MAX) || p->f != truncf(p->f), OPF_UNSUPPORTED,
                "%s (%s): p is %g, must be a whole number and at least 1", node->name, node->op_type, (double)p->f);
    OPF_OOM_IF(error, !opf_node_set_int(graph, id, "p", (int64_t)p->f));
    return OPF_OK;
}

static opf_status lower_order(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    OPF_OOM_IF(error, !opf_node_set_float(graph, id, "p", (float)opf_node_int(opf_graph_node(graph, id), "p", 2)));
    return OPF_OK;
}

static opf_status lower_count_include_pad(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_lower_attr(graph, node, "count_include_pad", 0, error);
}

static opf_status lower_ceil_mode(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_lower_attr(graph, node, "ceil_mode", 0, error);
}

static opf_status lower_dilations(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_lower_attr(graph, node, "dilations", 1, error);
}

static opf_status lower_max_pool_10(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    OPF_TRY(lower_ceil_mode(graph, node, opset, error));
    return lower_dilations(graph, node, opset, error);
}

static opf_status lower_max_pool_8(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    OPF_FAIL_IF(error, node->n_own_outputs > 1 && node->outputs[1] != 0, OPF_UNSUPPORTED,
                "%s (MaxPool): indices need opset 8, not %d", node->name, (int)opset);
    return opf_lower_attr(graph, id, "storage_order", 0, error);
}

static const opf_import_row lp_pool_rows[]      = {{2, lift_order, lower_order},
                                                   {18, opf_import_same, lower_max_pool_10},
                                                   {22, opf_import_same, opf_lower_no_bfloat16}};
static const opf_import_row average_pool_rows[] = {{7, opf_import_same, lower_count_include_pad},
                                                   {10, opf_import_same, lower_ceil_mode},
                                                   {19, opf_import_same, lower_dilations},
                                                   {22, opf_import_same, opf_lower_no_bfloat16}};
static const opf_import_row max_pool_rows[]     = {{8, opf_import_same, lower_max_pool_8},
                                                   {10, opf_import_same, lower_max_pool_10},
                                                   {12, opf_import_same, opf_lower_no_8_bit},
                                                   {22, opf_import_same, opf_lower_no_bfloat16}};
static const opf_import_row global_rows[]       = {{22, opf_import_same, opf_lower_no_bfloat16}};
static const opf_import_row global_lp_rows[]    = {{2, lift_order, lower_order}, {22, opf_import_same, opf_lower_no_bfloat16}};

/* ---- signatures ---- */

#define MAX_POOL_TYPES (OPF_TYPES_FLOAT | OPF_TYPE_BIT(OPF_INT8) | OPF_TYPE_BIT(OPF_UINT8))

static const opf_param float_input[]      = {{"X", 'T', OPF_TYPES_FLOAT, 0}};
static const opf_param float_output[]     = {{"Y", 'T', OPF_TYPES_FLOAT, 0}};
static const opf_param max_pool_input[]   = {{"X", 'T', MAX_POOL_TYPES, 0}};
static const opf_param max_pool_outputs[] = {{"Y", 'T', MAX_POOL_TYPES, 0},
                                             {"Indices", 'I', OPF_TYPE_BIT(OPF_INT64), OPF_OPTIONAL}};

/* clang-format off */
#define WINDOW_ATTRS                                                                                                   \
    {.name = "auto_pad", .type = OPF_ATTR_STRING, .s = "NOTSET"},                                                      \
    {.name = "ceil_mode", .type = OPF_ATTR_INT},                                                                       \
    {.name = "dilations", .type = OPF_ATTR_INTS},                                                                      \
    {.name = "kernel_shape", .type = OPF_ATTR_INTS, .required = true},                                                 \
    {.name = "pads", .type = OPF_ATTR_INTS},                                                                           \
    {.name = "strides", .type = OPF_ATTR_INTS}
/* clang-format on */
static const opf_attr_def average_pool_attrs[] = {{.name = "count_include_pad", .type = OPF_ATTR_INT}, WINDOW_ATTRS};
static const opf_attr_def lp_attrs[]           = {{.name = "p", .type = OPF_ATTR_INT, .i = 2}};
static const opf_attr_def lp_pool_attrs[]      = {{.name = "p", .type = OPF_ATTR_INT, .i = 2}, WINDOW_ATTRS};
static const opf_attr_def max_pool_attrs[]     = {{.name = "storage_order", .type = OPF_ATTR_INT}, WINDOW_ATTRS};

const opf_op opf_op_AveragePool = {.name      = "AveragePool",
                                   .domain    = "",
                                   .since     = 1,
                                   .inputs    = float_input,
                                   .n_inputs  = OPF_COUNT(float_input),
                                   .outputs   = float_output,
                                   .n_outputs = OPF_COUNT(float_output),
                                   .attrs     = average_pool_attrs,
                                   .n_attrs   = OPF_COUNT(average_pool_attrs),
                                   .rows      = average_pool_rows,
                                   .n_rows    = OPF_COUNT(average_pool_rows),
                                   .infer     = infer_pool,
                                   .reference = run_average_pool};

const opf_op opf_op_MaxPool = {.name      = "MaxPool",
                               .domain    = "",
                               .since     = 1,
                               .inputs    = max_pool_input,
                               .n_inputs  = OPF_COUNT(max_pool_input),
                               .outputs   = max_pool_outputs,
                               .n_outputs = OPF_COUNT(max_pool_outputs),
                               .attrs     = max_pool_attrs,
                               .n_attrs   = OPF_COUNT(max_pool_attrs),
                               .rows      = max_pool_rows,
                               .n_rows    = OPF_COUNT(max_pool_rows),
                               .infer     = infer_pool,
                               .reference = run_max_pool};

const opf_op opf_op_LpPool = {.name      = "LpPool",
                              .domain    = "",
                              .since     = 1,
                              .inputs    = float_input,
                              .n_inputs  = OPF_COUNT(float_input),
                              .outputs   = float_output,
                              .n_outputs = OPF_COUNT(float_output),
                              .attrs     = lp_pool_attrs,
                              .n_attrs   = OPF_COUNT(lp_pool_attrs),
                              .rows      = lp_pool_rows,
                              .n_rows    = OPF_COUNT(lp_pool_rows),
                              .infer     = infer_lp_pool,
                              .reference = run_lp_pool};

#define DEFINE_GLOBAL(op_name, attr_list, attr_count, row_list, infer_fn, run)                                         \
    const opf_op opf_op_##op_name = {.name      = #op_name,                                                            \
                                     .domain    = "",                                                                  \
                                     .since     = 1,                                                                   \
                                     .inputs    = float_input,                                                         \
                                     .n_inputs  = OPF_COUNT(float_input),                                              \
                                     .outputs   = float_output,                                                        \
                                     .n_outputs = OPF_COUNT(float_output),                                             \
                                     .attrs     = (attr_list),                                                         \
                                     .n_attrs   = (attr_count),                                                        \
                                     .rows      = (row_list),                                                          \
                                     .n_rows    = OPF_COUNT(row_list),                                                 \
                                     .infer     = infer_fn,                                                            \
                                     .reference = run}
DEFINE_GLOBAL(GlobalAveragePool, NULL, 0, global_rows, infer_global, run_global_average);
DEFINE_GLOBAL(GlobalMaxPool, NULL, 0, global_rows, infer_global, run_global_max);
DEFINE_GLOBAL(GlobalLpPool, lp_attrs, OPF_COUNT(lp_attrs), global_lp_rows, infer_global_lp, run_global_lp);
