/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention: softmax(softcap(scale * Q K') + bias) V for each head, where several heads of Q may share one of K and V,
 * and keys and values may be preceded by those of earlier calls. Shapes below are [batch, heads, length, size].
 *
 * Fusion sets one more attribute, "masked_score": a score that a boolean mask hides becomes that, instead of -inf being
 * added, and the softmax is a plain one; a mask broadcasts in its last dimension too, instead of hiding the keys that it
 * has no column for. So it computes exactly what was matched, rows without a key included.
 * "nan_is_zero" makes rows of probabilities zeros that are NaN, as those without a key are in a plain softmax.
 * "mask_windows" says that the mask is one for so many batches, and starts again behind them. "q_rotated" and "k_rotated"
 * say how many elements of Q and K are turned before the product (rotary.h), with four more inputs: their angles. One
 * more, "choice", is a boolean mask beside one that is added.
 */
#include "ops/check.h"
#include "ops/heads.h"
#include "ops/attention.h"
#include "ops/lift.h"
#include "ops/reference.h"
#include "ops/rotary.h"

#include <math.h>

enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE, NONPAD, Q_COS = OPF_ATTENTION_Q_COS, K_COS = OPF_ATTENTION_K_COS, CHOICE = OPF_ATTENTION_CHOICE };
enum { Y, PRESENT_KEY, PRESENT_VALUE, SCORES };
enum { BATCH, HEADS, LENGTH, SIZE };

/* ---- inference ---- */

/* Input i as [batch, heads, length, size]; one of rank 3 is [batch, length, heads * size]. */
static opf_status split_heads(opf_infer *infer, uint32_t i, const char *heads_name, opf_dim dims[4], opf_error *error)
{
    const opf_info *x     = infer->in[i];
    const int64_t   heads = opf_node_int(infer->node, heads_name, 0);
    const bool      given = opf_node_attr(infer->node, heads_name) != NULL;
    if (x->rank != 3 && x->rank != 4)
        return opf_refuse_shapes(infer, i, i, error, "must have rank 3 or 4");
    if (x->rank == 4) {
        for (int32_t k = 0; k < 4; k++)
            dims[k] = x->dims[k];
        if (given && opf_dims_clash(dims[HEADS], opf_dim_number(heads)))
            return opf_refuse_shapes(infer, i, i, error, "%s is %lld", heads_name, (long long)heads);
        return OPF_OK;
    }
    OPF_FAIL_IF(error, heads < 1, OPF_INVALID_MODEL, "%s is %lld, inputs of rank 3 need it, at least 1", heads_name,
                (long long)heads);
    const opf_dim hidden = x->dims[2];
    if (opf_dim_is_number(hidden) && hidden.n % heads != 0)
        return opf_refuse_shapes(infer, i, i, error, "the last dimension is no multiple of %s, %lld", heads_name,
                                 (long long)heads);
    dims[BATCH]  = x->dims[0];
    dims[HEADS]  = opf_dim_number(heads);
    dims[LENGTH] = x->dims[1];
    dims[SIZE]   = opf_dim_div_exact(infer->dims, hidden, dims[HEADS]);
    return OPF_OK;
}

/* Two numbers that differ are refused; of two that may agree, the one that is known. */
static opf_status agree(opf_infer *infer, uint32_t i, uint32_t j, opf_dim *a, opf_dim b, const char *what, opf_error *error)
{
    if (opf_dims_clash(*a, b))
        return opf_refuse_shapes(infer, i, j, error, "%s must be equal", what);
    if (opf_dim_is_number(b))
        *a = b;
    return OPF_OK;
}

static opf_status check_heads(opf_infer *infer, opf_dim q, opf_dim kv, opf_error *error)
{
    const bool known = opf_dim_is_number(q) && opf_dim_is_number(kv);
    if (known && (kv.n < 1 ? q.n != kv.n : q.n % kv.n != 0))
        return opf_refuse_shapes(infer, Q, K, error, "%lld heads of the former are no multiple of %lld", (long long)q.n,
                                 (long long)kv.n);
    return OPF_OK;
}

/* The length of the past: that of both its tensors. */
static opf_status infer_past(opf_infer *infer, const opf_dim k[4], const opf_dim v[4], opf_dim *past, opf_error *error)
{
    const bool has_key = opf_infer_has(infer, PAST_KEY), has_value = opf_infer_has(infer, PAST_VALUE);
    *past = opf_dim_number(0);
    OPF_FAIL_IF(error, has_key != has_value, OPF_INVALID_MODEL, "past_key and past_value must be given together");
    OPF_FAIL_IF(error, has_key && opf_infer_has(infer, NONPAD), OPF_INVALID_MODEL,
                "nonpad_kv_seqlen must not be given together with past_key and past_value");
    if (!has_key)
        return OPF_OK;
    *past = opf_dim_unknown(infer->dims);
    for (uint32_t i = PAST_KEY; i <= PAST_VALUE; i++) {
        const opf_info *x    = infer->in[i];
        const opf_dim  *like = i == PAST_KEY ? k : v;
        if (x->rank < 0)
            continue;
        if (x->rank != 4)
            return opf_refuse_shapes(infer, i, i, error, "must have rank 4");
        if (opf_dims_clash(x->dims[BATCH], like[BATCH]) || opf_dims_clash(x->dims[HEADS], like[HEADS]) ||
            opf_dims_clash(x->dims[SIZE], like[SIZE]))
            return opf_refuse_shapes(infer, i == PAST_KEY ? K : V, i, error, "batches, heads and sizes must be equal");
        if (opf_dims_clash(*past, x->dims[LENGTH]))
            return opf_refuse_shapes(infer, PAST_KEY, PAST_VALUE, error, "lengths must be equal");
        if (!opf_dim_is_number(*past))
            *past = x->dims[LENGTH];
    }
    return OPF_OK;
}

static opf_status check_choice(const opf_infer *infer, const opf_dim scores[4], opf_error *error)
{
    const opf_info *choice = infer->in[CHOICE < infer->n_in ? CHOICE : Q];
    for (int32_t i = 0; opf_infer_has(infer, CHOICE) && i < choice->rank; i++) {
        const opf_dim own = choice->dims[choice->rank - 1 - i];
        if (i > 3 || (!opf_dim_is(own, 1) && opf_dims_clash(own, scores[3 - i])))
            return opf_refuse_shapes(infer, Q, CHOICE, error, "the latter does not broadcast to the scores");
    }
    return OPF_OK;
}

/* The mask broadcasts to [batch, heads of Q, length of Q, total], but its last dimension may be shorter. */
static opf_status check_mask(opf_infer *infer, const opf_dim scores[4], opf_error *error)
{
    const opf_info *mask = infer->in[MASK], *nonpad = infer->in[NONPAD < infer->n_in ? NONPAD : Q];
    if (opf_infer_has(infer, NONPAD) && nonpad->rank >= 0 &&
        (nonpad->rank != 1 || opf_dims_clash(nonpad->dims[0], scores[BATCH])))
        return opf_refuse_shapes(infer, Q, NONPAD, error, "the latter must have one element a batch");
    if (!opf_infer_has(infer, MASK) || mask->rank < 0)
        return OPF_OK;
    if (mask->rank > 4)
        return opf_refuse_shapes(infer, MASK, MASK, error, "must have rank 4 at most");
    const int64_t windows  = opf_node_int(infer->node, "mask_windows", 0);
    const bool    is_plain = opf_node_attr(infer->node, "masked_score") != NULL;
    for (int32_t i = 0; i < mask->rank; i++) {
        const opf_dim own = mask->dims[mask->rank - 1 - i];
        const opf_dim full = i == 3 && windows > 0 ? opf_dim_number(windows) : scores[3 - i];
        const bool    fits = i == 0 && !is_plain ? !opf_dims_clash(own, full) || own.n < full.n
                                    : opf_dim_is(own, 1) || !opf_dims_clash(own, full);
        if (!fits)
            return opf_refuse_shapes(infer, Q, MASK, error, "the latter does not fit %lld scores in dimension %d from the end",
                                     (long long)full.n, (int)i + 1);
    }
    return OPF_OK;
}

static opf_status check_attrs(const opf_infer *infer, opf_error *error)
{
    static const char *const sides[] = {"left_window_size", "right_window_size"};
    for (int i = 0; i < 2; i++)
        OPF_FAIL_IF(error, opf_node_int(infer->node, sides[i], -1) < -1, OPF_INVALID_MODEL, "%s is %lld, must be -1 or more",
                    sides[i], (long long)opf_node_int(infer->node, sides[i], -1));
    const int64_t mode = opf_node_int(infer->node, "qk_matmul_output_mode", 0);
    OPF_FAIL_IF(error, mode < 0 || mode > 3, OPF_INVALID_MODEL, "qk_matmul_output_mode is %lld, must be 0 to 3", (long long)mode);
    const int64_t precision = opf_node_int(infer->node, "softmax_precision", OPF_FLOAT);
    OPF_FAIL_IF(error, precision < 0 || precision >= OPF_TYPE_COUNT || !opf_types_have(OPF_TYPES_FLOAT, (opf_type)precision),
                OPF_INVALID_MODEL, "softmax_precision is %lld, must be a float type", (long long)precision);
    return OPF_OK;
}

/* Angles of Q or of K, from input `cos` on. */
static opf_status check_angles(const opf_infer *infer, const char *rotated, uint32_t cos, const opf_dim dims[4], opf_error *error)
{
    const int64_t n = opf_node_int(infer->node, rotated, 0);
    if (n == 0)
        return OPF_OK;
    OPF_FAIL_IF(error, !opf_infer_has(infer, cos) || !opf_infer_has(infer, cos + 1), OPF_INVALID_MODEL, "%s without angles", rotated);
    return opf_infer_angles(infer, cos, cos + 1, 4, dims, n, error);
}

static opf_status infer_attention(opf_infer *infer, opf_error *error)
{
    opf_dim q[4], k[4], v[4], past;
    OPF_TRY(check_attrs(infer, error));
    const int32_t rank = infer->in[Q]->rank;
    if (rank < 0 || infer->in[K]->rank < 0 || infer->in[V]->rank < 0)
        return OPF_OK;
    OPF_TRY(split_heads(infer, Q, "q_num_heads", q, error));
    OPF_TRY(split_heads(infer, K, "kv_num_heads", k, error));
    OPF_TRY(split_heads(infer, V, "kv_num_heads", v, error));
    for (uint32_t i = K; i <= V; i++)
        if (infer->in[i]->rank != rank)
            return opf_refuse_shapes(infer, Q, i, error, "ranks must be equal");
    OPF_TRY(agree(infer, Q, K, &q[BATCH], k[BATCH], "batches", error));
    OPF_TRY(agree(infer, Q, V, &q[BATCH], v[BATCH], "batches", error));
    OPF_TRY(agree(infer, Q, K, &k[SIZE], q[SIZE], "sizes of heads", error));
    OPF_TRY(agree(infer, K, V, &k[HEADS], v[HEADS], "heads", error));
    OPF_TRY(agree(infer, K, V, &k[LENGTH], v[LENGTH], "lengths", error));
    OPF_TRY(check_heads(infer, q[HEADS], k[HEADS], error));
    OPF_TRY(check_angles(infer, "q_rotated", Q_COS, q, error));
    OPF_TRY(check_angles(infer, "k_rotated", K_COS, k, error));
    OPF_TRY(infer_past(infer, k, v, &past, error));
    const opf_dim total     = opf_dim_add(infer->dims, past, k[LENGTH]);
    const opf_dim scores[4] = {q[BATCH], q[HEADS], q[LENGTH], total};
    OPF_TRY(check_mask(infer, scores, error));
    OPF_TRY(check_choice(infer, scores, error));
    const opf_dim y4[4] = {q[BATCH], q[HEADS], q[LENGTH], v[SIZE]};
    const opf_dim y3[3] = {q[BATCH], q[LENGTH], opf_dim_mul(infer->dims, q[HEADS], v[SIZE])};
    const opf_dim present_key[4] = {q[BATCH], k[HEADS], total, k[SIZE]}, present_value[4] = {q[BATCH], k[HEADS], total, v[SIZE]};
    const opf_dim *const present[] = {NULL, present_key, present_value, scores};
    for (uint32_t o = 1; o < infer->n_out; o++)
        OPF_TRY(opf_infer_set(infer, o, 4, present[o], error));
    return opf_infer_set(infer, Y, rank, rank == 4 ? y4 : y3, error);
}

/* ---- reference ---- */

typedef struct attention {
    opf_view q, k, v, past_key, past_value, mask, choice, nonpad, y, present_key, present_value, scores; /* data NULL: absent */
    int64_t  past, total, masked_length; /* keys from masked_length on are masked out */
    int64_t  windows;                    /* batches of the mask: they repeat */
    int64_t  left, right;                /* of the window; -1: no bound */
    int64_t  mode;
    bool     is_causal, is_plain;        /* plain: see masked_score */
    bool     nan_is_zero;
    opf_angles q_angles, k_angles;       /* no pairs: nothing is turned */
    double   scale, softcap, masked_score;
    double  *keys, *values;       /* [total, size] of one head */
    double  *query, *row, *result; /* [size], [total], [size of a value] */
} attention;

static int64_t line_of(const opf_view *x, int64_t batch, int64_t head, int64_t i)
{
    return batch * x->strides[BATCH] + head * x->strides[HEADS] + i * x->strides[LENGTH];
}

static void load_line(const opf_view *x, int64_t batch, int64_t head, int64_t i, double *dst)
{
    const int64_t at = line_of(x, batch, head, i);
    for (int64_t c = 0; c < x->dims[SIZE]; c++)
        dst[c] = opf_view_f64(x, at + c * x->strides[SIZE]);
}

static void turn_line(const opf_angles *angles, int64_t batch, int64_t head, int64_t i, double *line)
{
    if (angles->pairs.n != 0)
        opf_angles_turn(angles, line, line_of(&angles->cos, batch, head, i), line_of(&angles->sin, batch, head, i));
}

static void store_line(const double *src, opf_view *x, int64_t batch, int64_t head, int64_t i)
{
    const int64_t at = line_of(x, batch, head, i);
    for (int64_t c = 0; c < x->dims[SIZE]; c++)
        opf_view_put_f64(x, at + c * x->strides[SIZE], src[c]);
}

/* Past and new lines of one head, the new ones turned, to dst and to the present. */
static void load_head(const attention *a, const opf_view *past, const opf_view *x, const opf_angles *angles, opf_view *present,
                      int64_t batch, int64_t head, double *dst)
{
    for (int64_t i = 0; i < a->total; i++, dst += x->dims[SIZE]) {
        load_line(i < a->past ? past : x, batch, head, i < a->past ? i : i - a->past, dst);
        if (i >= a->past)
            turn_line(angles, batch, head, i - a->past, dst);
        if (present->data != NULL)
            store_line(dst, present, batch, head, i);
    }
}

/* The element of the mask for query i and key j. */
static int64_t mask_at(const attention *a, int64_t batch, int64_t head, int64_t i, int64_t j)
{
    return line_of(&a->mask, batch % a->windows, head, i) + j * a->mask.strides[SIZE];
}

/* What is added to the score of query i and key j. */
static double bias_at(const attention *a, int64_t batch, int64_t head, int64_t i, int64_t j)
{
    const opf_view *m      = &a->mask;
    double          bias   = 0;
    int64_t         place  = a->past + i, valid = a->total;
    if (a->nonpad.data != NULL) {
        valid = opf_view_i64(&a->nonpad, batch * a->nonpad.strides[0]);
        place = valid - a->q.dims[LENGTH] + i;
    }
    if (m->data != NULL && j < a->masked_length) {
        const int64_t at = mask_at(a, batch, head, i, j);
        if (m->type == OPF_BOOL)
            bias = opf_view_i64(m, at) != 0 ? 0 : -(double)INFINITY;
        else
            bias = opf_view_f64(m, at);
    }
    const bool hidden = j >= a->masked_length || j >= valid || (a->is_causal && j > place) ||
                        (a->left >= 0 && j < place && place - j > a->left) ||
                        (a->right >= 0 && j > place && j - place > a->right);
    return hidden ? bias - (double)INFINITY : bias;
}

/* What hides by standing in the place of the score, before a mask is added. */
static bool is_not_chosen(const attention *a, int64_t batch, int64_t head, int64_t i, int64_t j)
{
    const opf_view *c = &a->choice;
    return c->data != NULL && opf_view_i64(c, line_of(c, batch, head, i) + j * c->strides[SIZE]) == 0;
}

/* With masked_score, a boolean mask puts it in the place of scores. */
static bool is_replaced(const attention *a, int64_t batch, int64_t head, int64_t i, int64_t j)
{
    const opf_view *m = &a->mask;
    return a->is_plain && m->data != NULL && m->type == OPF_BOOL && j < a->masked_length &&
           opf_view_i64(m, mask_at(a, batch, head, i, j)) == 0;
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* A row of nothing but -inf has no key to attend to, and becomes zeros; in a plain softmax, NaN. */
static void softmax(double *row, int64_t n, bool is_masked, bool is_plain)
{
    double max = -(double)INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++)
        max = row[j] > max || isnan(row[j]) ? row[j] : max;
    const bool none = !is_plain && (is_masked || (isinf(max) && max < 0));
    for (int64_t j = 0; j < n; j++) {
        row[j] = none ? 0 : exp(row[j] - max);
        sum += row[j];
    }
    for (int64_t j = 0; j < n && !none; j++)
        row[j] /= sum;
}

/* Scores of one query, up to and with the softmax; a->mode tells which stage is an output. */
static void run_scores(attention *a, int64_t batch, int64_t head, int64_t i)
{
    const int64_t size      = a->q.dims[SIZE];
    bool          is_masked = true;
    for (int64_t j = 0; j < a->total; j++) {
        const double bias    = bias_at(a, batch, head, i, j);
        const double product = a->scale * dot(a->query, a->keys + j * size, size);
        const double seen    = a->softcap > 0 ? a->softcap * tanh(product / a->softcap) : product;
        const double capped  = is_not_chosen(a, batch, head, i, j) ? a->masked_score : seen;
        a->row[j]            = is_replaced(a, batch, head, i, j) ? a->masked_score : capped + bias;
        is_masked            = is_masked && isinf(bias) && bias < 0;
        if (a->scores.data != NULL && a->mode < 3)
            opf_view_put_f64(&a->scores, line_of(&a->scores, batch, head, i) + j * a->scores.strides[SIZE],
                             a->mode == 0 ? product : a->mode == 1 ? capped : a->row[j]);
    }
    softmax(a->row, a->total, is_masked, a->is_plain);
    for (int64_t j = 0; j < a->total && a->nan_is_zero; j++)
        a->row[j] = isnan(a->row[j]) ? 0 : a->row[j];
    if (a->scores.data != NULL && a->mode == 3)
        store_line(a->row, &a->scores, batch, head, i);
}

static void run_head(attention *a, int64_t batch, int64_t head)
{
    const int64_t size = a->v.dims[SIZE];
    for (int64_t i = 0; i < a->q.dims[LENGTH]; i++) {
        load_line(&a->q, batch, head, i, a->query);
        turn_line(&a->q_angles, batch, head, i, a->query);
        run_scores(a, batch, head, i);
        if (a->y.data == NULL)
            continue;
        for (int64_t c = 0; c < size; c++)
            a->result[c] = 0;
        for (int64_t j = 0; j < a->total; j++)
            for (int64_t c = 0; c < size; c++)
                a->result[c] += a->row[j] * a->values[j * size + c];
        store_line(a->result, &a->y, batch, head, i);
    }
}

static opf_view part_of(const opf_view *views, uint32_t n, uint32_t i)
{
    return i < n ? views[i] : (opf_view){0};
}

static void set_mask(attention *a, const opf_view *mask)
{
    int64_t dims[4] = {a->windows, a->q.dims[HEADS], a->q.dims[LENGTH], a->total};
    const bool is_short = mask->data != NULL && mask->rank > 0 && !a->is_plain;
    if (is_short)
        dims[SIZE] = mask->dims[mask->rank - 1];
    a->masked_length = dims[SIZE];
    a->mask          = opf_view_broadcast(mask, 4, dims);
    if (is_short)
        a->mask.strides[SIZE] = mask->strides[mask->rank - 1];
}

/* Of x, from input `cos` on. */
static opf_angles read_angles(const opf_call *call, const char *rotated, const char *interleaved, uint32_t cos, const opf_view *x)
{
    const int64_t n = opf_call_int(call, rotated, 0);
    if (n == 0)
        return (opf_angles){.pairs.n = 0};
    return opf_angles_view(&call->in[cos], &call->in[cos + 1], 4, x->dims, n, opf_call_int(call, interleaved, 0) != 0);
}

static void read_call(const opf_call *call, attention *a)
{
    const int64_t q_heads = opf_call_int(call, "q_num_heads", 0), kv_heads = opf_call_int(call, "kv_num_heads", 0);
    const opf_view y = part_of(call->out, call->n_out, Y), mask = part_of(call->in, call->n_in, MASK);
    *a = (attention){.q             = opf_view_heads(&call->in[Q], q_heads),
                     .k             = opf_view_heads(&call->in[K], kv_heads),
                     .v             = opf_view_heads(&call->in[V], kv_heads),
                     .past_key      = part_of(call->in, call->n_in, PAST_KEY),
                     .past_value    = part_of(call->in, call->n_in, PAST_VALUE),
                     .nonpad        = part_of(call->in, call->n_in, NONPAD),
                     .y             = opf_view_heads(&y, q_heads),
                     .present_key   = part_of(call->out, call->n_out, PRESENT_KEY),
                     .present_value = part_of(call->out, call->n_out, PRESENT_VALUE),
                     .scores        = part_of(call->out, call->n_out, SCORES),
                     .left          = opf_call_int(call, "left_window_size", -1),
                     .right         = opf_call_int(call, "right_window_size", -1),
                     .mode          = opf_call_int(call, "qk_matmul_output_mode", 0),
                     .is_causal     = opf_call_int(call, "is_causal", 0) != 0,
                     .softcap       = (double)opf_call_float(call, "softcap", 0)};
    const opf_attr *scale = opf_call_attr(call, "scale"), *masked = opf_call_attr(call, "masked_score");
    a->is_plain           = masked != NULL;
    a->nan_is_zero        = opf_call_int(call, "nan_is_zero", 0) != 0;
    a->masked_score       = masked != NULL ? (double)masked->f : 0;
    a->scale              = scale != NULL ? (double)scale->f : 1 / sqrt((double)a->q.dims[SIZE]);
    a->past               = a->past_key.data != NULL ? a->past_key.dims[LENGTH] : 0;
    a->total              = a->past + a->k.dims[LENGTH];
    a->windows            = opf_call_int(call, "mask_windows", a->q.dims[BATCH]);
    a->q_angles           = read_angles(call, "q_rotated", "q_interleaved", Q_COS, &a->q);
    a->k_angles           = read_angles(call, "k_rotated", "k_interleaved", K_COS, &a->k);
    set_mask(a, &mask);
    const opf_view choice = part_of(call->in, call->n_in, CHOICE);
    const int64_t  scores[4] = {a->q.dims[BATCH], a->q.dims[HEADS], a->q.dims[LENGTH], a->total};
    a->choice = choice.data != NULL ? opf_view_broadcast(&choice, 4, scores) : choice;
}

static opf_status check_nonpad(const attention *a, opf_error *error)
{
    for (int64_t b = 0; a->nonpad.data != NULL && b < a->nonpad.dims[0]; b++) {
        const int64_t n = opf_view_i64(&a->nonpad, b * a->nonpad.strides[0]);
        OPF_FAIL_IF(error, n < 0 || n > a->total, OPF_INVALID_INPUT, "nonpad_kv_seqlen is %lld for batch %lld, must be 0 to %lld",
                    (long long)n, (long long)b, (long long)a->total);
    }
    return OPF_OK;
}

static opf_status run_attention(const opf_call *call, opf_error *error)
{
    attention a;
    size_t    sizes, count, bytes;
    read_call(call, &a);
    OPF_TRY(check_nonpad(&a, error));
    const size_t total = (size_t)a.total, size = (size_t)a.q.dims[SIZE], v_size = (size_t)a.v.dims[SIZE];
    OPF_OOM_IF(error, !opf_add_size(size, v_size, &sizes) || !opf_add_size(sizes, 1, &sizes) ||
                          !opf_mul_size(sizes, total + 1, &count) || !opf_mul_size(count, sizeof(double), &bytes));
    a.keys = opf_heap_alloc(call->heap, bytes);
    OPF_OOM_IF(error, a.keys == NULL);
    a.values = a.keys + total * size;
    a.query  = a.values + total * v_size;
    a.result = a.query + size;
    a.row    = a.result + v_size;
    const int64_t kv_heads = a.k.dims[HEADS], group = kv_heads > 0 ? a.q.dims[HEADS] / kv_heads : 0;
    for (int64_t batch = 0; batch < a.q.dims[BATCH]; batch++) {
        for (int64_t head = 0; head < kv_heads; head++) {
            load_head(&a, &a.past_key, &a.k, &a.k_angles, &a.present_key, batch, head, a.keys);
            load_head(&a, &a.past_value, &a.v, &(opf_angles){.pairs.n = 0}, &a.present_value, batch, head, a.values);
            for (int64_t g = 0; g < group; g++)
                run_head(&a, batch, head * group + g);
        }
    }
    opf_heap_free(call->heap, a.keys, bytes);
    return OPF_OK;
}

/* ---- older opsets ---- */

static opf_status lower_24(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    OPF_FAIL_IF(error, node->n_own_inputs > NONPAD && node->inputs[NONPAD] != 0, OPF_UNSUPPORTED,
                "%s (%s): nonpad_kv_seqlen needs an opset above %d", node->name, node->op_type, (int)opset);
    return OPF_OK;
}

static opf_status lower_25(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    OPF_TRY(opf_lower_attr(graph, node, "left_window_size", -1, error));
    return opf_lower_attr(graph, node, "right_window_size", -1, error);
}

/* ---- signature ---- */

static const opf_param inputs[]  = {{"Q", 'T', OPF_TYPES_FLOAT, 0},
                                    {"K", 'T', OPF_TYPES_FLOAT, 0},
                                    {"V", 'V', OPF_TYPES_FLOAT, 0},
                                    {"attn_mask", 0, OPF_TYPES_ALL, OPF_OPTIONAL},
                                    {"past_key", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL},
                                    {"past_value", 'V', OPF_TYPES_FLOAT, OPF_OPTIONAL},
                                    {"nonpad_kv_seqlen", 0, OPF_TYPE_BIT(OPF_INT64), OPF_OPTIONAL},
                                    {"q_cos", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL | OPF_OWN},
                                    {"q_sin", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL | OPF_OWN},
                                    {"k_cos", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL | OPF_OWN},
                                    {"k_sin", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL | OPF_OWN},
                                    {"choice", 0, OPF_TYPE_BIT(OPF_BOOL), OPF_OPTIONAL | OPF_OWN}};
static const opf_param outputs[] = {{"Y", 'T', OPF_TYPES_FLOAT, 0},
                                    {"present_key", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL},
                                    {"present_value", 'V', OPF_TYPES_FLOAT, OPF_OPTIONAL},
                                    {"qk_matmul_output", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL}};

static const opf_attr_def   attrs[] = {{.name = "is_causal", .type = OPF_ATTR_INT},
                                       {.name = "kv_num_heads", .type = OPF_ATTR_INT},
                                       {.name = "left_window_size", .type = OPF_ATTR_INT, .i = -1},
                                       {.name = "q_num_heads", .type = OPF_ATTR_INT},
                                       {.name = "qk_matmul_output_mode", .type = OPF_ATTR_INT},
                                       {.name = "right_window_size", .type = OPF_ATTR_INT, .i = -1},
                                       {.name = "scale", .type = OPF_ATTR_FLOAT},
                                       {.name = "softcap", .type = OPF_ATTR_FLOAT},
                                       {.name = "softmax_precision", .type = OPF_ATTR_INT}};
static const opf_import_row rows[]  = {{24, opf_import_same, lower_24}, {25, opf_import_same, lower_25}};

const opf_op opf_op_Attention = {.name      = "Attention",
                                 .domain    = "",
                                 .since     = 23,
                                 .traits    = OPF_CONTRACTION,
                                 .inputs    = inputs,
                                 .n_inputs  = OPF_COUNT(inputs),
                                 .outputs   = outputs,
                                 .n_outputs = OPF_COUNT(outputs),
                                 .attrs     = attrs,
                                 .n_attrs   = OPF_COUNT(attrs),
                                 .rows      = rows,
                                 .n_rows    = OPF_COUNT(rows),
                                 .infer     = infer_attention,
                                 .reference = run_attention,
                                 .notes     = "computes in double, whatever softmax_precision"};
