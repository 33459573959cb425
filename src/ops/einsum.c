/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Einsum. An operand is a stride for each label (a letter that it repeats walks its diagonal). Two operands are matrix
 * products; other counts go through all labels one by one.
 */
#include "ops/einsum.h"

#include "ops/check.h"
#include "ops/lift.h"
#include "ops/product.h"

#include <string.h>

/* ---- inference ---- */

static opf_status infer_einsum(opf_infer *infer, opf_error *error)
{
    const char         *text = opf_node_string(infer->node, "equation", "");
    int32_t             ranks[OPF_EINSUM_OPERANDS];
    opf_dim             of_label[OPF_EINSUM_LABELS], dims[OPF_MAX_RANK];
    bool                seen[OPF_EINSUM_LABELS] = {false};
    opf_einsum_equation e;
    for (uint32_t i = 0; i < infer->n_in && i < OPF_EINSUM_OPERANDS; i++) {
        if (infer->in[i]->rank < 0)
            return OPF_OK;
        ranks[i] = infer->in[i]->rank;
    }
    OPF_TRY(opf_einsum_parse(text, ranks, infer->n_in, &e, error));
    for (uint32_t i = 0; i < e.n_in; i++)
        for (int32_t k = 0; k < e.in[i].n; k++) {
            const int32_t label = e.in[i].labels[k];
            const opf_dim d     = infer->in[i]->dims[k];
            if (!seen[label])
                of_label[label] = d;
            else if (opf_broadcast_dim(infer->dims, of_label[label], d, &of_label[label]) != OPF_OK)
                return opf_fail(error, OPF_INVALID_INPUT, "dimension %d of input %u is %lld, must be %lld as before", k,
                                i, (long long)d.n, (long long)of_label[label].n);
            seen[label] = true;
        }
    for (int32_t k = 0; k < e.out.n; k++)
        dims[k] = of_label[e.out.labels[k]];
    return opf_infer_set(infer, 0, e.out.n, dims, error);
}

/* ---- reference ---- */

typedef struct einsum {
    const opf_call *call;
    bool            is_float;
    int64_t         dims[OPF_EINSUM_LABELS];
    int64_t         strides[OPF_EINSUM_OPERANDS][OPF_EINSUM_LABELS];
    int64_t         out[OPF_EINSUM_LABELS]; /* strides of the result */
    bool            in_out[OPF_EINSUM_LABELS], in_any[OPF_EINSUM_LABELS];
} einsum;

static opf_status prepare(const opf_call *call, einsum *s, opf_einsum_equation *e, opf_error *error)
{
    int32_t ranks[OPF_EINSUM_OPERANDS];
    memset(s, 0, sizeof *s);
    s->call     = call;
    s->is_float = opf_types_have(OPF_TYPES_FLOAT, call->out[0].type);
    for (uint32_t i = 0; i < call->n_in && i < OPF_EINSUM_OPERANDS; i++)
        ranks[i] = call->in[i].rank;
    OPF_TRY(opf_einsum_parse(opf_call_string(call, "equation", ""), ranks, call->n_in, e, error));
    for (uint32_t i = 0; i < e->n_in; i++)
        for (int32_t k = 0; k < e->in[i].n; k++) {
            const int32_t label = e->in[i].labels[k];
            const int64_t d     = call->in[i].dims[k];
            if (!s->in_any[label] || s->dims[label] == 1)
                s->dims[label] = d;
            s->in_any[label] = true;
            s->strides[i][label] += d == 1 ? 0 : call->in[i].strides[k];
        }
    for (int32_t k = 0; k < e->out.n; k++) {
        s->in_out[e->out.labels[k]] = true;
        s->out[e->out.labels[k]]    = call->out[0].strides[k];
    }
    return OPF_OK;
}

static opf_number load(const opf_view *view, int64_t offset, bool is_float)
{
    if (is_float)
        return (opf_number){.f = opf_view_f64(view, offset)};
    return (opf_number){.u = (uint64_t)opf_view_i64(view, offset)};
}

static void store(opf_view *view, int64_t offset, opf_number x, bool is_float)
{
    if (is_float)
        opf_view_put_f64(view, offset, x.f);
    else
        opf_view_put_i64(view, offset, (int64_t)x.u);
}

/* A list of labels to count through, the last one fastest. */
typedef struct label_list {
    int32_t n;
    int32_t labels[OPF_EINSUM_LABELS];
    size_t  count; /* of all combinations */
} label_list;

static bool add_label(label_list *list, const einsum *s, int32_t label)
{
    list->labels[list->n++] = label;
    return opf_mul_size(list->count, (size_t)s->dims[label], &list->count);
}

/* offsets[i]: where combination i lies, by the strides of the labels. */
static void list_offsets(const einsum *s, const label_list *list, const int64_t *strides, int64_t *offsets)
{
    int64_t index[OPF_EINSUM_LABELS] = {0}, at = 0;
    for (size_t i = 0; i < list->count; i++) {
        offsets[i] = at;
        for (int32_t k = list->n - 1; k >= 0; k--) {
            const int32_t label = list->labels[k];
            at += strides[label];
            if (++index[k] < s->dims[label])
                break;
            at -= strides[label] * s->dims[label];
            index[k] = 0;
        }
    }
}

/* ---- any number of operands ---- */

/* The sum over all combinations of `summed`, of products of the operands at their offsets. */
static opf_number sum_products(const einsum *s, const label_list *summed, const int64_t *start)
{
    int64_t    index[OPF_EINSUM_LABELS] = {0}, at[OPF_EINSUM_OPERANDS];
    opf_number sum           = {.u = 0};
    if (s->is_float)
        sum.f = 0;
    memcpy(at, start, s->call->n_in * sizeof *at);
    for (size_t i = 0; i < summed->count; i++) {
        opf_number product = load(&s->call->in[0], at[0], s->is_float);
        for (uint32_t p = 1; p < s->call->n_in; p++) {
            opf_number x = load(&s->call->in[p], at[p], s->is_float);
            if (s->is_float)
                product.f *= x.f;
            else
                product.u *= x.u;
        }
        if (s->is_float)
            sum.f += product.f;
        else
            sum.u += product.u;
        for (int32_t k = summed->n - 1; k >= 0; k--) {
            const int32_t label = summed->labels[k];
            const bool    wraps = ++index[k] == s->dims[label];
            for (uint32_t p = 0; p < s->call->n_in; p++)
                at[p] += s->strides[p][label] * (wraps ? 1 - s->dims[label] : 1);
            if (!wraps)
                break;
            index[k] = 0;
        }
    }
    return sum;
}

static opf_status run_any(const einsum *s, const opf_einsum_equation *e, opf_error *error)
{
    opf_view       *y       = &s->call->out[0];
    const opf_view *views[] = {y};
    label_list      summed  = {.count = 1};
    int64_t         start[OPF_EINSUM_OPERANDS];
    opf_walk        walk;
    for (int32_t label = 0; label < OPF_EINSUM_LABELS; label++)
        OPF_FAIL_IF(error, s->in_any[label] && !s->in_out[label] && !add_label(&summed, s, label), OPF_LIMIT,
                    "the sum has too many terms");
    for (opf_walk_init(&walk, y->rank, y->dims, 1, views); walk.left != 0; opf_walk_next(&walk)) {
        for (uint32_t p = 0; p < s->call->n_in; p++) {
            start[p] = 0;
            for (int32_t k = 0; k < e->out.n; k++)
                start[p] += walk.index[k] * s->strides[p][e->out.labels[k]];
        }
        store(y, walk.offset[0], sum_products(s, &summed, start), s->is_float);
    }
    return OPF_OK;
}

/* ---- two operands ---- */

enum { BATCH_A, BATCH_B, BATCH_Y, ROW_A, ROW_Y, COLUMN_B, COLUMN_Y, DEPTH_A, DEPTH_B, OFFSETS };

typedef struct two {
    const einsum *s;
    int64_t      *offsets[OFFSETS];
    size_t        batch;
} two;

static void load_a(void *user, size_t i, size_t rows, size_t p, size_t depth, opf_number *dst)
{
    const two *t = user;
    for (size_t r = 0; r < rows; r++)
        for (size_t d = 0; d < depth; d++)
            dst[r * depth + d] =
                load(&t->s->call->in[0],
                     t->offsets[BATCH_A][t->batch] + t->offsets[ROW_A][i + r] + t->offsets[DEPTH_A][p + d],
                     t->s->is_float);
}

static void load_b(void *user, size_t p, size_t depth, size_t j, size_t cols, opf_number *dst)
{
    const two *t = user;
    for (size_t d = 0; d < depth; d++)
        for (size_t c = 0; c < cols; c++)
            dst[d * OPF_PRODUCT_COLS + c] =
                load(&t->s->call->in[1],
                     t->offsets[BATCH_B][t->batch] + t->offsets[DEPTH_B][p + d] + t->offsets[COLUMN_B][j + c],
                     t->s->is_float);
}

static void store_y(void *user, size_t i, size_t rows, size_t j, size_t cols, const opf_number *src)
{
    const two *t = user;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            store(&t->s->call->out[0],
                  t->offsets[BATCH_Y][t->batch] + t->offsets[ROW_Y][i + r] + t->offsets[COLUMN_Y][j + c],
                  src[r * OPF_PRODUCT_COLS + c], t->s->is_float);
}

/* Labels of the result are batches when both operands have them, else rows or columns; all others are summed. */
static opf_status run_two(const einsum *s, const opf_einsum_equation *e, opf_error *error)
{
    enum { BATCH, ROW, COLUMN, DEPTH, KINDS };
    static const uint8_t kind_of[OFFSETS] = {BATCH, BATCH, BATCH, ROW, ROW, COLUMN, COLUMN, DEPTH, DEPTH};
    const int64_t *const strides[OFFSETS] = {s->strides[0], s->strides[1], s->out,        s->strides[0], s->out,
                                             s->strides[1], s->out,        s->strides[0], s->strides[1]};
    label_list           kinds[KINDS]     = {{.count = 1}, {.count = 1}, {.count = 1}, {.count = 1}};
    two                  t                = {.s = s};
    size_t               total            = 0, bytes;
    bool                 fits             = true;
    for (int32_t k = 0; k < e->out.n; k++) {
        const int32_t label = e->out.labels[k];
        const bool    a = opf_einsum_has(&e->in[0], label), b = opf_einsum_has(&e->in[1], label);
        fits = fits && add_label(&kinds[a && b ? BATCH : a ? ROW : COLUMN], s, label);
    }
    for (int32_t label = 0; label < OPF_EINSUM_LABELS; label++)
        if (s->in_any[label] && !s->in_out[label])
            fits = fits && add_label(&kinds[DEPTH], s, label);
    for (int32_t i = 0; i < OFFSETS; i++)
        fits = fits && opf_add_size(total, kinds[kind_of[i]].count, &total);
    OPF_OOM_IF(error, !fits || !opf_mul_size(total, sizeof(int64_t), &bytes) ||
                          !opf_add_size(bytes, sizeof(opf_product_scratch), &bytes));
    opf_product_scratch *scratch = opf_heap_alloc(s->call->heap, bytes);
    OPF_OOM_IF(error, scratch == NULL);
    int64_t *next = (int64_t *)(void *)(scratch + 1);
    for (int32_t i = 0; i < OFFSETS; i++) {
        t.offsets[i] = next;
        list_offsets(s, &kinds[kind_of[i]], strides[i], next);
        next += kinds[kind_of[i]].count;
    }
    const opf_product product = {.m        = kinds[ROW].count,
                                 .n        = kinds[COLUMN].count,
                                 .k        = kinds[DEPTH].count,
                                 .is_float = s->is_float,
                                 .user     = &t,
                                 .load_a   = load_a,
                                 .load_b   = load_b,
                                 .store    = store_y};
    for (t.batch = 0; t.batch < kinds[BATCH].count; t.batch++)
        opf_product_run(&product, scratch);
    opf_heap_free(s->call->heap, scratch, bytes);
    return OPF_OK;
}

static opf_status reference_einsum(const opf_call *call, opf_error *error)
{
    opf_einsum_equation e;
    einsum  *s = opf_heap_alloc(call->heap, sizeof *s);
    OPF_OOM_IF(error, s == NULL);
    opf_status status = prepare(call, s, &e, error);
    if (status == OPF_OK && opf_view_count(&call->out[0]) != 0)
        status = call->n_in == 2 ? run_two(s, &e, error) : run_any(s, &e, error);
    opf_heap_free(call->heap, s, sizeof *s);
    return status;
}

const opf_op opf_op_Einsum = {
    .name      = "Einsum",
    .domain    = "",
    .since     = 12,
    .traits    = OPF_CONTRACTION,
    .inputs    = (const opf_param[]){{"Inputs", 'T', OPF_TYPES_NUMERIC, OPF_VARIADIC}},
    .n_inputs  = 1,
    .outputs   = (const opf_param[]){{"Output", 'T', OPF_TYPES_NUMERIC, 0}},
    .n_outputs = 1,
    .attrs     = (const opf_attr_def[]){{.name = "equation", .type = OPF_ATTR_STRING, .required = true}},
    .n_attrs   = 1,
    .rows      = (const opf_import_row[]){{28, opf_import_same, opf_lower_no_bfloat16}},
    .n_rows    = 1,
    .infer     = infer_einsum,
    .reference = reference_einsum,
};
