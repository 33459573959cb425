/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between strided places of any type: reorders, materialised operands, outputs, Concat. */
#include "plan/planner.h"

#include <string.h>

typedef struct {
    opf_ref src, dst;
    size_t  size; /* bytes of an element */
    int32_t outer; /* axes before the last two */
    int64_t dims[OPF_MAX_RANK];
    int64_t src_stride[OPF_MAX_RANK], dst_stride[OPF_MAX_RANK];
    size_t  rows, cols, block; /* a unit is `block` rows of one outer index */
    size_t  units;
    int64_t src_row, src_col, dst_row, dst_col;
} copy_args;

typedef struct {
    copy_args *parts;
    size_t     n;
    bool       together; /* a unit is that of every part: elements of one go between those of another */
    bool       zipped;   /* and there are two, of floats, one element of each in turn */
} copies_args;

static inline void copy_column(char *dst, int64_t dst_step, const char *src, int64_t src_step, size_t n, size_t size)
{
    for (size_t k = 0; k < n; k++)
        memcpy(dst + (int64_t)k * dst_step * (int64_t)size, src + (int64_t)k * src_step * (int64_t)size, size);
}

static void copy_elements(const copy_args *c, const char *src, char *dst, size_t rows)
{
    for (size_t r = 0; r < rows; r++) {
        const char *s = src + (int64_t)r * c->src_row * (int64_t)c->size;
        char       *d = dst + (int64_t)r * c->dst_row * (int64_t)c->size;
        if (c->src_col == 1 && c->dst_col == 1) {
            memcpy(d, s, c->cols * c->size);
            continue;
        }
        switch (c->size) { /* numbers that the compiler knows: no calls */
        case 1:
            copy_column(d, c->dst_col, s, c->src_col, c->cols, 1);
            break;
        case 2:
            copy_column(d, c->dst_col, s, c->src_col, c->cols, 2);
            break;
        case 4:
            copy_column(d, c->dst_col, s, c->src_col, c->cols, 4);
            break;
        case 8:
            copy_column(d, c->dst_col, s, c->src_col, c->cols, 8);
            break;
        default:
            copy_column(d, c->dst_col, s, c->src_col, c->cols, c->size);
        }
    }
}

typedef struct {
    const char *src;
    char       *dst;
    size_t      rows;
} piece;

/* Unit `unit` of one copy. */
static piece find_piece(const opf_run_env *env, const copy_args *c, size_t unit)
{
    size_t  blocks = (c->rows + c->block - 1) / c->block, left = unit / blocks, first = unit % blocks * c->block;
    int64_t src = (int64_t)first * c->src_row, dst = (int64_t)first * c->dst_row;
    for (int32_t i = c->outer; i-- > 0;) {
        int64_t index = (int64_t)(left % (size_t)c->dims[i]);
        left /= (size_t)c->dims[i];
        src += index * c->src_stride[i];
        dst += index * c->dst_stride[i];
    }
    return (piece){.src  = (const char *)opf_ref_data(env, c->src) + src * (int64_t)c->size,
                   .dst  = (char *)opf_ref_data(env, c->dst) + dst * (int64_t)c->size,
                   .rows = c->rows - first < c->block ? c->rows - first : c->block};
}

static bool is_aligned(const piece *p)
{
    return ((uintptr_t)p->src | (uintptr_t)p->dst) % sizeof(float) == 0;
}

static void copy_unit(const opf_run_env *env, const copy_args *c, size_t unit)
{
    const piece p = find_piece(env, c, unit);
    if (c->size == sizeof(float) && c->dst_col == 1 && is_aligned(&p))
        env->kern->copy_2d((const float *)(const void *)p.src, (ptrdiff_t)c->src_row, (ptrdiff_t)c->src_col, (float *)(void *)p.dst,
                           (ptrdiff_t)c->dst_row, p.rows, c->cols);
    else
        copy_elements(c, p.src, p.dst, p.rows);
}

static void zip_unit(const opf_run_env *env, const copies_args *list, size_t unit)
{
    const copy_args *c = list->parts;
    const piece      a = find_piece(env, &c[0], unit), b = find_piece(env, &c[1], unit);
    if (is_aligned(&a) && is_aligned(&b) && b.dst == a.dst + sizeof(float)) {
        env->kern->zip((const float *)(const void *)a.src, (ptrdiff_t)c[0].src_row, (const float *)(const void *)b.src, (ptrdiff_t)c[1].src_row,
                       (float *)(void *)a.dst, (ptrdiff_t)c[0].dst_row, a.rows, c[0].cols);
        return;
    }
    copy_unit(env, &c[0], unit);
    copy_unit(env, &c[1], unit);
}

/* Units of all parts are numbered through, or done together. */
static void run_copies(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const copies_args *list = args;
    (void)scratch;
    for (size_t unit = begin; unit < end && list->together; unit++)
        for (size_t i = 0; i < list->n; i++)
            if (!list->zipped)
                copy_unit(env, &list->parts[i], unit);
            else if (i == 0)
                zip_unit(env, list, unit);
    for (size_t i = 0, first = 0; i < list->n && !list->together; first += list->parts[i++].units)
        for (size_t unit = begin > first ? begin - first : 0; unit < list->parts[i].units && first + unit < end; unit++)
            copy_unit(env, &list->parts[i], unit);
}

/* Axes in the order of dst's strides, neighbours joined where both sides allow. */
static void collapse(const opf_place *src, const opf_place *dst, copy_args *c)
{
    int32_t order[OPF_MAX_RANK], n = 0;
    int64_t dims[OPF_MAX_RANK], s[OPF_MAX_RANK], d[OPF_MAX_RANK];
    opf_place_order(dst, order);
    for (int32_t i = 0; i < dst->rank; i++) {
        int32_t axis = order[i];
        if (dst->dims[axis] == 1)
            continue;
        if (n > 0 && s[n - 1] == src->strides[axis] * dst->dims[axis] && d[n - 1] == dst->strides[axis] * dst->dims[axis]) {
            dims[n - 1] *= dst->dims[axis];
            s[n - 1] = src->strides[axis];
            d[n - 1] = dst->strides[axis];
            continue;
        }
        dims[n] = dst->dims[axis];
        s[n]    = src->strides[axis];
        d[n]    = dst->strides[axis];
        n++;
    }
    c->cols    = n > 0 ? (size_t)dims[n - 1] : 1;
    c->src_col = n > 0 ? s[n - 1] : 1;
    c->dst_col = n > 0 ? d[n - 1] : 1;
    /* The rows of a 2-D piece are the axis along which src is contiguous, so that a transpose works on tiles. */
    int32_t row = n - 2;
    for (int32_t i = n - 2; i >= 0 && c->src_col != 1; i--)
        if (s[i] == 1)
            row = i;
    c->rows    = row >= 0 ? (size_t)dims[row] : 1;
    c->src_row = row >= 0 ? s[row] : 0;
    c->dst_row = row >= 0 ? d[row] : 0;
    c->outer   = 0;
    for (int32_t i = 0; i < n - 1; i++)
        if (i != row) {
            c->dims[c->outer]         = dims[i];
            c->src_stride[c->outer]   = s[i];
            c->dst_stride[c->outer++] = d[i];
        }
}

static opf_status describe(const opf_place *src, const opf_place *dst, copy_args *c, opf_error *error)
{
    c->src  = opf_place_ref(src);
    c->dst  = opf_place_ref(dst);
    c->size = opf_type_size(dst->type);
    if (c->size == 0) { /* packed elements are always dense: their bytes are copied */
        opf_place bytes = {.type = OPF_UINT8, .rank = 1, .strides = {1}};
        size_t    n     = 0;
        OPF_FAIL_IF(error, !opf_type_bytes(dst->type, opf_place_elements(dst), &n) || !opf_place_is_row_major(src) || !opf_place_is_row_major(dst),
                    OPF_UNSUPPORTED, "copies of type %s", opf_type_name(dst->type));
        bytes.dims[0] = (int64_t)n;
        c->size       = 1;
        collapse(&bytes, &bytes, c);
    } else {
        collapse(src, dst, c);
    }
    c->block = c->cols == 0 ? 1 : 4096 / c->cols;
    c->block = c->block < 16 ? 16 : c->block;
    c->units = opf_place_elements(dst) == 0 ? 0 : (c->rows + c->block - 1) / c->block;
    for (int32_t i = 0; i < c->outer; i++)
        c->units *= (size_t)c->dims[i];
    return OPF_OK;
}

/* The value that lies there: an operand or result of the node being lowered; 0: none. */
static opf_value_id value_at(const opf_planner *planner, const opf_place *place)
{
    const opf_node *node = opf_graph_node(planner->graph, planner->node);
    for (uint32_t i = 0; i < node->n_inputs + node->n_outputs; i++) {
        opf_value_id     value = i < node->n_inputs ? node->inputs[i] : node->outputs[i - node->n_inputs];
        const opf_place *other = &planner->places[value];
        if (value != 0 && other->buffer == place->buffer && other->offset == place->offset)
            return value;
    }
    return 0;
}

/* A copy whose axes could all be joined, cut into the rows of another. */
static void cut_like(copy_args *c, const copy_args *other)
{
    if (c->rows != 1 || c->outer != 0 || other->outer != 0 || c->cols != other->rows * other->cols)
        return;
    c->rows    = other->rows;
    c->cols    = other->cols;
    c->src_row = (int64_t)c->cols * c->src_col;
    c->dst_row = (int64_t)c->cols * c->dst_col;
    c->block   = other->block;
    c->units   = other->units;
}

static bool is_zip(const copy_args *a, const copy_args *b)
{
    return a->size == sizeof(float) && b->size == sizeof(float) && a->src_col == 1 && b->src_col == 1 && a->dst_col == 2 && b->dst_col == 2 &&
           a->cols == b->cols && a->rows == b->rows && a->dst_row == b->dst_row && a->block == b->block;
}

static opf_status add_copies(opf_planner *planner, const char *kernel, const opf_place *src, const opf_place *dst, uint32_t n, bool together,
                             opf_error *error)
{
    copies_args *list = OPF_NEW(planner->arena, copies_args, 1);
    OPF_OOM_IF(error, list == NULL);
    list->n        = n;
    list->together = together;
    list->parts = OPF_NEW(planner->arena, copy_args, n);
    OPF_OOM_IF(error, list->parts == NULL);
    const opf_node *node = opf_graph_node(planner->graph, planner->node);
    opf_plan_step   step = {.kernel = kernel, .run = run_copies, .args = list};
    step.is_copy         = node->op == NULL || (node->op->traits & OPF_MOVEMENT) == 0;
    step.copied          = step.is_copy && n == 1 ? value_at(planner, src) : 0;
    for (uint32_t i = 0; i < n; i++) {
        OPF_TRY(describe(&src[i], &dst[i], &list->parts[i], error));
    }
    if (together && n == 2) {
        cut_like(&list->parts[0], &list->parts[1]);
        cut_like(&list->parts[1], &list->parts[0]);
    }
    for (uint32_t i = 0; i < n; i++) {
        list->together = list->together && list->parts[i].units == list->parts[0].units;
        step.units += list->parts[i].units;
    }
    step.units   = list->together ? list->parts[0].units : step.units;
    list->zipped = list->together && n == 2 && is_zip(&list->parts[0], &list->parts[1]);
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    for (uint32_t i = 0; i < n; i++) {
        opf_plan_reads(planner, &src[i]);
        opf_plan_writes(planner, &dst[i]);
    }
    return OPF_OK;
}

opf_status opf_plan_copies(opf_planner *planner, const char *kernel, const opf_place *src, const opf_place *dst, uint32_t n, opf_error *error)
{
    return add_copies(planner, kernel, src, dst, n, false, error);
}

opf_status opf_plan_interleave(opf_planner *planner, const char *kernel, const opf_place *src, const opf_place *dst, uint32_t n,
                               opf_error *error)
{
    return add_copies(planner, kernel, src, dst, n, true, error);
}

opf_status opf_plan_copy(opf_planner *planner, const char *kernel, const opf_place *src, const opf_place *dst, opf_error *error)
{
    return opf_plan_copies(planner, kernel, src, dst, 1, error);
}

opf_status opf_plan_dense(opf_planner *planner, opf_place *place, const int32_t *order, opf_error *error)
{
    opf_place wanted = *place;
    opf_place_set_dense(&wanted, order);
    bool same = true;
    for (int32_t i = 0; i < place->rank; i++)
        same = same && (place->dims[i] == 1 || place->strides[i] == wanted.strides[i]);
    if (same || opf_place_elements(place) == 0)
        return OPF_OK;
    OPF_TRY(opf_plan_alloc_temporary(planner, place->type, place->rank, place->dims, order, &wanted, error));
    OPF_TRY(opf_plan_copy(planner, "reorder", place, &wanted, error));
    *place = wanted;
    return OPF_OK;
}
