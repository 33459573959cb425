/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For each batch and class, boxes by falling score (by rising index where scores are equal); one that overlaps a chosen
 * box of its class by more than the threshold is left out.
 */
#include "ops/call.h"
#include "ops/check.h"

#include <math.h>
#include <stdlib.h>

static opf_status infer_non_max_suppression(opf_infer *infer, opf_error *error)
{
    const opf_info *boxes = infer->in[0], *scores = infer->in[1];
    opf_dim         dims[2] = {opf_dim_unknown(infer->dims), opf_dim_number(3)};
    OPF_FAIL_IF(error, boxes->rank >= 0 && boxes->rank != 3, OPF_INVALID_MODEL, "boxes has rank %d, must be 3",
                boxes->rank);
    OPF_FAIL_IF(error, scores->rank >= 0 && scores->rank != 3, OPF_INVALID_MODEL, "scores has rank %d, must be 3",
                scores->rank);
    if (boxes->rank == 3 && opf_dims_clash(boxes->dims[2], opf_dim_number(4)))
        return opf_refuse_shapes(infer, 0, 0, error, "the last dimension must be 4");
    if (boxes->rank == 3 && scores->rank == 3 &&
        (opf_dims_clash(boxes->dims[0], scores->dims[0]) || opf_dims_clash(boxes->dims[1], scores->dims[2])))
        return opf_refuse_shapes(infer, 0, 1, error, "batches and boxes must be as many in both");
    for (uint32_t i = 2; i < 5 && i < infer->n_in; i++) {
        const opf_info *in = infer->in[i];
        bool fits = in->rank <= 0 || (in->rank == 1 && !opf_dims_clash(in->dims[0], opf_dim_number(1)));
        if (opf_infer_has(infer, i) && !fits)
            return opf_refuse_shapes(infer, i, i, error, "must have 1 element");
    }
    return opf_infer_set(infer, 0, 2, dims, error);
}

/* ---- boxes ---- */

typedef struct box {
    double low[2], high[2];
} box;

/* Corners in any order, or a centre with sizes. */
static box get_box(const opf_view *boxes, int64_t batch, int64_t index, bool is_centred)
{
    double v[4];
    box    b;
    for (int32_t i = 0; i < 4; i++)
        v[i] = opf_view_f64(boxes, batch * boxes->strides[0] + index * boxes->strides[1] + i * boxes->strides[2]);
    for (int32_t i = 0; i < 2; i++) {
        b.low[i]  = is_centred ? v[i] - v[i + 2] / 2 : fmin(v[i], v[i + 2]);
        b.high[i] = is_centred ? v[i] + v[i + 2] / 2 : fmax(v[i], v[i + 2]);
    }
    return b;
}

static double area(const box *b)
{
    return (b->high[0] - b->low[0]) * (b->high[1] - b->low[1]);
}

static bool overlaps(const box *a, const box *b, double threshold)
{
    box common;
    for (int32_t i = 0; i < 2; i++) {
        common.low[i]  = fmax(a->low[i], b->low[i]);
        common.high[i] = fmin(a->high[i], b->high[i]);
        if (common.high[i] <= common.low[i])
            return false;
    }
    double shared = area(&common), all = area(a) + area(b) - shared;
    return shared > 0 && area(a) > 0 && area(b) > 0 && all > 0 && shared / all > threshold;
}

/* ---- choosing ---- */

typedef struct candidate {
    double  score;
    int64_t index;
} candidate;

static int compare(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

typedef struct choice {
    const opf_call *call;
    bool            is_centred, has_least;
    int64_t         most;
    double          threshold, least_score;
    candidate      *candidates; /* one for each box; the chosen ones move to the front */
    opf_view       *out;        /* NULL: they are only counted */
    int64_t         n;          /* chosen so far, of all classes */
} choice;

static void choose_class(choice *c, int64_t batch, int64_t class)
{
    const opf_view *boxes = &c->call->in[0], *scores = &c->call->in[1];
    int64_t         n = 0, kept = 0;
    for (int64_t i = 0; i < scores->dims[2]; i++) {
        const int64_t at    = batch * scores->strides[0] + class * scores->strides[1] + i * scores->strides[2];
        const double  score = opf_view_f64(scores, at);
        if (!isnan(score) && (!c->has_least || score > c->least_score))
            c->candidates[n++] = (candidate){score, i};
    }
    qsort(c->candidates, (size_t)n, sizeof *c->candidates, compare);
    for (int64_t i = 0; i < n && kept < c->most; i++) {
        const candidate next = c->candidates[i];
        const box       b    = get_box(boxes, batch, next.index, c->is_centred);
        bool            free = true;
        for (int64_t k = 0; k < kept && free; k++) {
            const box chosen = get_box(boxes, batch, c->candidates[k].index, c->is_centred);
            free             = !overlaps(&b, &chosen, c->threshold);
        }
        if (!free)
            continue;
        c->candidates[kept++] = next;
        const int64_t row[3]  = {batch, class, next.index};
        for (int32_t k = 0; k < 3 && c->out != NULL && c->n < c->out->dims[0]; k++)
            opf_view_put_i64(c->out, c->n * c->out->strides[0] + k * c->out->strides[1], row[k]);
        c->n++;
    }
}

static opf_status choose(const opf_call *call, opf_view *out, int64_t *n, opf_error *error)
{
    const opf_view *scores = &call->in[1];
    choice          c      = {.call        = call,
                              .is_centred  = opf_call_int(call, "center_point_box", 0) != 0,
                              .has_least   = opf_call_has(call, 4),
                              .most        = opf_call_has(call, 2) ? opf_view_i64(&call->in[2], 0) : 0,
                              .threshold   = opf_call_has(call, 3) ? opf_view_f64(&call->in[3], 0) : 0,
                              .least_score = opf_call_has(call, 4) ? opf_view_f64(&call->in[4], 0) : 0,
                              .out         = out};
    size_t          bytes;
    OPF_OOM_IF(error, !opf_mul_size((size_t)scores->dims[2], sizeof(candidate), &bytes));
    c.candidates = opf_heap_alloc(call->heap, bytes);
    OPF_OOM_IF(error, c.candidates == NULL);
    for (int64_t batch = 0; batch < scores->dims[0] && c.most > 0; batch++)
        for (int64_t class = 0; class < scores->dims[1]; class++)
            choose_class(&c, batch, class);
    opf_heap_free(call->heap, c.candidates, bytes);
    *n = c.n;
    return OPF_OK;
}

static opf_status resolve_non_max_suppression(const opf_call *call, opf_info *out, opf_arena *arena, opf_error *error)
{
    int64_t dims[2] = {0, 3};
    OPF_TRY(choose(call, NULL, &dims[0], error));
    return opf_resolve_set(&out[0], 2, dims, arena, error);
}

static opf_status reference_non_max_suppression(const opf_call *call, opf_error *error)
{
    int64_t n;
    return choose(call, &call->out[0], &n, error);
}

const opf_op opf_op_NonMaxSuppression = {
    .name      = "NonMaxSuppression",
    .domain    = "",
    .since     = 10,
    .inputs    = (const opf_param[]){{"boxes", 0, OPF_TYPE_BIT(OPF_FLOAT), 0},
                                     {"scores", 0, OPF_TYPE_BIT(OPF_FLOAT), 0},
                                     {"max_output_boxes_per_class", 0, OPF_TYPE_BIT(OPF_INT64), OPF_OPTIONAL},
                                     {"iou_threshold", 0, OPF_TYPE_BIT(OPF_FLOAT), OPF_OPTIONAL},
                                     {"score_threshold", 0, OPF_TYPE_BIT(OPF_FLOAT), OPF_OPTIONAL}},
    .n_inputs  = 5,
    .outputs   = (const opf_param[]){{"selected_indices", 0, OPF_TYPE_BIT(OPF_INT64), 0}},
    .n_outputs = 1,
    .attrs     = (const opf_attr_def[]){{.name = "center_point_box", .type = OPF_ATTR_INT}},
    .n_attrs   = 1,
    .infer     = infer_non_max_suppression,
    .reference = reference_non_max_suppression,
    .resolve   = resolve_non_max_suppression,
};
