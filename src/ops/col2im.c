/* SPDX-License-Identifier: Apache-2.0 */
/* Col2Im, and the folding of columns that ConvTranspose shares. */
#include "ops/check.h"
#include "ops/elementwise.h"
#include "ops/fold.h"
#include "ops/movement.h"

#include <string.h>

/* ---- folding ---- */

static void add(opf_number *to, opf_number x, bool is_float)
{
    if (is_float)
        to->f += x.f;
    else
        to->u += x.u;
}

/* The places of one axis whose tap lies inside the image: [*first, *last). */
static void places_inside(const opf_windows *w, int32_t axis, int64_t tap, int64_t n_places, int64_t size,
                          int64_t *first, int64_t *last)
{
    const int64_t start = tap * w->dilation[axis] - w->pad_begin[axis], stride = w->stride[axis];
    const int64_t low  = start >= 0 ? 0 : (-start + stride - 1) / stride;
    const int64_t high = start >= size ? 0 : (size - 1 - start) / stride + 1;
    *last              = high < n_places ? high : n_places;
    *first             = low < *last ? low : *last;
}

static void fold_tap(const opf_windows *w, const int64_t *tap, const int64_t *places, const opf_number *column,
                     bool is_float, const int64_t *dims, opf_number *image)
{
    int64_t first[OPF_MAX_RANK], last[OPF_MAX_RANK], place[OPF_MAX_RANK];
    for (int32_t i = 0; i < w->rank; i++) {
        places_inside(w, i, tap[i], places[i], dims[i], &first[i], &last[i]);
        if (first[i] >= last[i])
            return;
        place[i] = first[i];
    }
    for (;;) {
        int64_t from = 0, to = 0;
        for (int32_t i = 0; i < w->rank; i++) {
            from = from * places[i] + place[i];
            to   = to * dims[i] + place[i] * w->stride[i] - w->pad_begin[i] + tap[i] * w->dilation[i];
        }
        const int32_t inner = w->rank - 1;
        const int64_t run = w->rank > 0 ? last[inner] - first[inner] : 1, stride = w->rank > 0 ? w->stride[inner] : 1;
        for (int64_t k = 0; k < run; k++)
            add(&image[to + k * stride], column[from + k], is_float);
        int32_t i = inner - 1;
        for (; i >= 0 && ++place[i] == last[i]; i--)
            place[i] = first[i];
        if (i < 0)
            return;
    }
}

void opf_fold_columns(const opf_windows *w, const int64_t *places, const opf_number *columns, bool is_float,
                      const int64_t *dims, opf_number *image)
{
    int64_t tap[OPF_MAX_RANK] = {0}, n_places = 1;
    for (int32_t i = 0; i < w->rank; i++)
        n_places *= places[i];
    for (;; columns += n_places) {
        fold_tap(w, tap, places, columns, is_float, dims, image);
        int32_t i = w->rank - 1;
        for (; i >= 0 && ++tap[i] == w->kernel[i]; i--)
            tap[i] = 0;
        if (i < 0)
            return;
    }
}

/* ---- Col2Im ---- */

enum { INPUT = 0, IMAGE_SHAPE, BLOCK_SHAPE };

typedef struct blocks {
    opf_windows windows;
    int64_t     places[OPF_MAX_RANK], n_places, taps;
} blocks;

static opf_status read_blocks(const opf_attr *attrs, uint32_t n_attrs, int32_t rank, const int64_t *image,
                              const int64_t *block, blocks *b, opf_error *error)
{
    b->n_places = b->taps = 1;
    OPF_TRY(opf_windows_read(attrs, n_attrs, rank, block, &b->windows, error));
    OPF_TRY(opf_windows_resolve(&b->windows, image, b->places, error));
    for (int32_t i = 0; i < rank; i++)
        OPF_FAIL_IF(error,
                    __builtin_mul_overflow(b->taps, block[i], &b->taps) ||
                        __builtin_mul_overflow(b->n_places, b->places[i], &b->n_places),
                    OPF_LIMIT, "the blocks are too large");
    return OPF_OK;
}

static opf_status check_columns(const opf_infer *infer, int32_t rank, const int64_t *image, const int64_t *block,
                                opf_dim *channels, opf_error *error)
{
    const opf_info *x = infer->in[INPUT];
    blocks          b;
    OPF_TRY(read_blocks(infer->node->attrs, infer->node->n_attrs, rank, image, block, &b, error));
    if (opf_dims_clash(x->dims[2], opf_dim_number(b.n_places)))
        return opf_refuse_shapes(infer, INPUT, INPUT, error, "the image has %lld places for the block",
                                 (long long)b.n_places);
    if (opf_dim_is_number(x->dims[1]) && x->dims[1].n % b.taps != 0)
        return opf_refuse_shapes(infer, INPUT, INPUT, error, "axis 1 is no multiple of the %lld elements of a block",
                                 (long long)b.taps);
    *channels = opf_dim_div_exact(infer->dims, x->dims[1], opf_dim_number(b.taps));
    return OPF_OK;
}

static opf_status infer_col2im(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[INPUT];
    int64_t         image[OPF_MAX_RANK], block[OPF_MAX_RANK];
    int32_t         n = 0, n_block = 0;
    if (x->rank >= 0 && x->rank != 3)
        return opf_refuse_shapes(infer, INPUT, INPUT, error, "must have rank 3");
    const bool has_image = opf_infer_numbers(infer, IMAGE_SHAPE, image, OPF_MAX_RANK - 2, &n);
    const bool has_block = opf_infer_numbers(infer, BLOCK_SHAPE, block, OPF_MAX_RANK - 2, &n_block);
    if (!has_image) {
        const opf_info *shape = infer->in[IMAGE_SHAPE];
        const bool      counted =
            shape->rank == 1 && opf_dim_is_number(shape->dims[0]) && shape->dims[0].n < OPF_MAX_RANK - 1;
        return counted ? opf_infer_unknown_dims(infer, 0, (int32_t)shape->dims[0].n + 2, error) : OPF_OK;
    }
    OPF_FAIL_IF(error, has_block && n != n_block, OPF_INVALID_INPUT,
                "image_shape has %d numbers and block_shape has %d", (int)n, (int)n_block);
    opf_dim dims[OPF_MAX_RANK] = {x->rank == 3 ? x->dims[0] : opf_dim_unknown(infer->dims),
                                  opf_dim_unknown(infer->dims)};
    if (has_block && x->rank == 3)
        OPF_TRY(check_columns(infer, n, image, block, &dims[1], error));
    for (int32_t i = 0; i < n; i++)
        dims[i + 2] = opf_dim_number(image[i]);
    return opf_infer_set(infer, 0, n + 2, dims, error);
}

/* One channel of one sample. */
static void fold_channel(const opf_call *call, const blocks *b, int64_t n, int64_t c, opf_number *columns,
                         opf_number *image)
{
    const opf_view *x        = &call->in[INPUT];
    opf_view       *y        = &call->out[0];
    const bool      is_float = opf_types_have(OPF_TYPES_FLOAT, x->type);
    opf_view        plane    = {.type = y->type, .rank = y->rank - 2};
    for (int32_t i = 0; i < plane.rank; i++) {
        plane.dims[i]    = y->dims[i + 2];
        plane.strides[i] = y->strides[i + 2];
    }
    const opf_view *views[] = {&plane};
    opf_walk        walk;
    for (int64_t tap = 0; tap < b->taps; tap++)
        opf_load_numbers(x, n * x->strides[0] + (c * b->taps + tap) * x->strides[1], x->strides[2], (size_t)x->dims[2],
                         &columns[tap * x->dims[2]], 1);
    memset(image, 0, opf_view_count(&plane) * sizeof *image);
    opf_fold_columns(&b->windows, b->places, columns, is_float, plane.dims, image);
    const int64_t base = n * y->strides[0] + c * y->strides[1];
    for (opf_walk_init(&walk, plane.rank, plane.dims, 1, views); walk.left > 0; opf_walk_next(&walk), image++) {
        if (is_float)
            opf_view_put_f64(y, base + walk.offset[0], image->f);
        else
            opf_view_put_i64(y, base + walk.offset[0], (int64_t)image->u);
    }
}

static opf_status run_col2im(const opf_call *call, opf_error *error)
{
    const opf_view *x = &call->in[INPUT], *shape = &call->in[BLOCK_SHAPE], *y = &call->out[0];
    const int32_t   rank = y->rank - 2;
    int64_t         block[OPF_MAX_RANK];
    size_t          numbers, bytes, pixels = 1;
    blocks          b;
    OPF_FAIL_IF(error, opf_view_count(shape) != (size_t)rank, OPF_INVALID_INPUT,
                "block_shape has %zu numbers, must have %d", opf_view_count(shape), (int)rank);
    opf_view_ints(shape, block);
    OPF_TRY(read_blocks(call->attrs, call->n_attrs, rank, y->dims + 2, block, &b, error));
    OPF_FAIL_IF(
        error, b.n_places != x->dims[2] || x->dims[1] % b.taps != 0 || x->dims[1] / b.taps != y->dims[1],
        OPF_INVALID_INPUT, "the input has shape [%lld,%lld,%lld], but the block has %lld elements and %lld places",
        (long long)x->dims[0], (long long)x->dims[1], (long long)x->dims[2], (long long)b.taps, (long long)b.n_places);
    if (opf_view_count(y) == 0)
        return OPF_OK;
    for (int32_t i = 0; i < rank; i++)
        pixels *= (size_t)y->dims[i + 2];
    OPF_FAIL_IF(error,
                !opf_mul_size((size_t)b.taps, (size_t)b.n_places, &numbers) || !opf_add_size(numbers, pixels, &bytes) ||
                    !opf_mul_size(bytes, sizeof(opf_number), &bytes),
                OPF_LIMIT, "the image is too large");
    opf_number *columns = opf_heap_alloc(call->heap, bytes);
    OPF_OOM_IF(error, columns == NULL);
    for (int64_t n = 0; n < y->dims[0]; n++)
        for (int64_t c = 0; c < y->dims[1]; c++)
            fold_channel(call, &b, n, c, columns, columns + numbers);
    opf_heap_free(call->heap, columns, bytes);
    return OPF_OK;
}

static const opf_attr_def attrs[] = {{.name = "dilations", .type = OPF_ATTR_INTS},
                                     {.name = "pads", .type = OPF_ATTR_INTS},
                                     {.name = "strides", .type = OPF_ATTR_INTS}};

const opf_op opf_op_Col2Im = {.name      = "Col2Im",
                              .domain    = "",
                              .since     = 18,
                              .inputs    = OPF_PARAMS({"input", 'T', OPF_TYPES_ALL, 0},
                                                      {"image_shape", 0, OPF_TYPE_BIT(OPF_INT64), 0},
                                                      {"block_shape", 0, OPF_TYPE_BIT(OPF_INT64), 0}),
                              .n_inputs  = 3,
                              .outputs   = OPF_PARAMS({"output", 'T', OPF_TYPES_ALL, 0}),
                              .n_outputs = 1,
                              .attrs     = attrs,
                              .n_attrs   = OPF_COUNT(attrs),
                              .infer     = infer_col2im,
                              .reference = run_col2im,
                              .notes     = "no complex numbers or strings"};
