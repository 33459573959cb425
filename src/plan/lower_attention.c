/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention as one kernel. A unit is a block of query rows of one head: its scores stay in scratch, from the product with
 * the packed keys over the softmax to the product with the packed values, which is stored where it belongs. Units of one
 * head of K and V follow one another, so that a thread packs it once. Q, K, V and the mask are read with any strides:
 * heads are split and joined by strides alone. Queries and keys that are to be turned are turned as they are read.
 */
#include "cpu/cpu.h"
#include "plan/attention_cache.h"
#include "plan/rotation.h"
#include "plan/steps.h"
#include "ops/attention.h"
#include "base/round.h"

#include <math.h>
#include <string.h>

enum { Q, K, V, MASK, PAST_KEY, NONPAD = 6, Q_COS = OPF_ATTENTION_Q_COS, K_COS = OPF_ATTENTION_K_COS, CHOICE = OPF_ATTENTION_CHOICE, END = OPF_ATTENTION_INPUTS };
enum { PRESENT_KEY = 1, PRESENT_VALUE, SCORES };
enum { BATCH, HEAD, ROW, COL };

typedef struct {
    size_t      batches, heads, kv_heads, rows, keys, size, v_size;
    size_t      past;    /* keys before those that rows stand beside */
    size_t      windows; /* batches of the mask: they repeat */
    opf_ref     q, k, v, y, mask, choice; /* choice: a boolean mask before one that is added */
    int64_t     q_strides[4], k_strides[4], v_strides[4], y_strides[4], mask_strides[4], choice_strides[4];
    opf_rotation q_rotation, k_rotation;
    bool        is_bool, is_causal, is_plain; /* plain: masked_score is set, see ops/attention.c */
    bool        nan_is_zero;
    float       scale, softcap, masked_score;
    bool        is_joined; /* the result is [batch, row, head * col]: how its steps see it */
    opf_bound   epilogue;
    size_t      block, blocks; /* rows of a block at most, blocks of a head */
    size_t      row_floats; /* from one row of scores to the next */
} attention_args;

typedef struct {
    const opf_run_env    *env;
    const attention_args *args;
    const float         **pointers; /* [mr] */
    float                *keys;     /* [keys/nr][size][nr] */
    float                *values;   /* [v_size/nr][keys][nr] */
    float                *query;    /* [block][size], scaled */
    float                *turned;   /* [keys][size], where keys are turned */
    float                *scores;   /* [block][row_floats] */
    float                *tile;     /* [mr][nr] for the epilogue */
    float                *program;
    size_t                batch, head, first, rows; /* of the unit */
} worker;

static size_t round_up(size_t a, size_t b)
{
    return opf_divide_up(a, b) * b;
}

static size_t scratch_layout(const attention_args *t, const opf_kern *kern, worker *w, char *scratch)
{
    const size_t line = 64 / sizeof(float);
    size_t       at   = round_up(kern->mr * sizeof(float *), 64);
    w->pointers       = (const float **)(void *)scratch;
    const struct {
        float **at;
        size_t  floats;
    } parts[] = {{&w->keys, round_up(t->keys, kern->nr) * t->size},
                 {&w->values, round_up(t->v_size, kern->nr) * t->keys},
                 {&w->query, t->block * t->size},
                 {&w->turned, t->k_rotation.turn.n != 0 ? t->keys * t->size : 0},
                 {&w->scores, t->block * t->row_floats},
                 {&w->tile, kern->mr * kern->nr},
                 {&w->program, t->epilogue.program.n != 0 ? opf_program_scratch(&t->epilogue.program) : 0}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i].at = (float *)(void *)(scratch + at);
        at += round_up(parts[i].floats, line) * sizeof(float);
    }
    return at;
}

/* ---- run ---- */

static ptrdiff_t place_of(const int64_t *strides, size_t batch, size_t head, size_t row)
{
    return (ptrdiff_t)((int64_t)batch * strides[BATCH] + (int64_t)head * strides[HEAD] + (int64_t)row * strides[ROW]);
}

static void turn_keys(const worker *w, const float *k, size_t kv_head)
{
    const attention_args *t = w->args;
    w->env->kern->copy_2d(k, (ptrdiff_t)t->k_strides[ROW], (ptrdiff_t)t->k_strides[COL], w->turned, (ptrdiff_t)t->size, t->keys, t->size);
    for (size_t r = 0; r < t->keys; r++) {
        const int64_t index[] = {(int64_t)w->batch, (int64_t)kv_head, (int64_t)r};
        opf_turn_row(w->env, &t->k_rotation, index, w->turned + r * t->size, w->turned + r * t->size);
    }
}

static void pack(const worker *w, size_t kv_head)
{
    const attention_args *t = w->args;
    const float          *k = (const float *)opf_ref_data(w->env, t->k) + place_of(t->k_strides, w->batch, kv_head, 0);
    const float          *v = opf_ref_data(w->env, t->v);
    if (t->k_rotation.turn.n == 0) {
        w->env->kern->pack_b(k, (ptrdiff_t)t->k_strides[COL], (ptrdiff_t)t->k_strides[ROW], t->size, t->keys, w->keys);
    } else {
        turn_keys(w, k, kv_head);
        w->env->kern->pack_b(w->turned, 1, (ptrdiff_t)t->size, t->size, t->keys, w->keys);
    }
    w->env->kern->pack_b(v + place_of(t->v_strides, w->batch, kv_head, 0), (ptrdiff_t)t->v_strides[ROW],
                         (ptrdiff_t)t->v_strides[COL], t->keys, t->v_size, w->values);
}

/* The queries of the block, times the scale; divided by softcap, as they are before tanh. */
static void load_queries(const worker *w)
{
    const attention_args *t     = w->args;
    const float          *q     = (const float *)opf_ref_data(w->env, t->q) + place_of(t->q_strides, w->batch, w->head, w->first);
    const float           scale = t->softcap > 0 ? t->scale / t->softcap : t->scale;
    const ptrdiff_t       col   = (ptrdiff_t)t->q_strides[COL];
    for (size_t r = 0; r < w->rows; r++) {
        const float *src = q + (ptrdiff_t)r * (ptrdiff_t)t->q_strides[ROW];
        float       *dst = w->query + r * t->size;
        if (col == 1)
            for (size_t i = 0; i < t->size; i++)
                dst[i] = src[i] * scale;
        else
            for (size_t i = 0; i < t->size; i++)
                dst[i] = src[(ptrdiff_t)i * col] * scale;
        const int64_t index[] = {(int64_t)w->batch, (int64_t)w->head, (int64_t)(w->first + r)};
        if (t->q_rotation.turn.n != 0)
            opf_turn_row(w->env, &t->q_rotation, index, dst, dst);
    }
}

/* A float mask without gaps is added by the product itself, unless tanh or a choice comes first. */
static bool product_adds_mask(const attention_args *t)
{
    return t->mask.buffer != 0 && t->choice.buffer == 0 && !t->is_bool && t->softcap <= 0 && (t->mask_strides[COL] == 1 || t->keys <= 1);
}

/* The mask of a row of the block. */
static const void *mask_row(const worker *w, size_t r)
{
    const attention_args *t = w->args;
    return (const char *)opf_ref_data(w->env, t->mask) +
           place_of(t->mask_strides, w->batch % t->windows, w->head, w->first + r) * (ptrdiff_t)(t->is_bool ? 1 : sizeof(float));
}

/* rows x n times panels of nr columns, tile by tile: dst row by row, or through the epilogue. */
typedef struct {
    const float *a, *b;
    size_t       a_row, k, n;
    float       *dst;
    ptrdiff_t    dst_row;
    const float *added; /* or NULL */
    ptrdiff_t    added_row;
    bool         is_result;
} product;

/* Tiles differ by one row at most, so that none is left with one or two. */
static void multiply_tile(const worker *w, const product *p, size_t panel, size_t first, size_t rows)
{
    const attention_args *t    = w->args;
    const opf_kern       *kern = w->env->kern;
    const size_t          nr = kern->nr, col = panel * nr, cols = p->n - col < nr ? p->n - col : nr;
    float                *c    = p->dst + (ptrdiff_t)first * p->dst_row + col;
    const bool            has_steps = p->is_result && t->epilogue.program.n != 0;
    for (size_t r = 0; r < kern->mr; r++)
        w->pointers[r] = p->a + (first + (r < rows ? r : rows - 1)) * p->a_row;
    const opf_gemm_tile tile = {.a               = w->pointers,
                                .taps            = 1,
                                .kc              = p->k,
                                .b               = p->b + panel * p->k * nr,
                                .c               = has_steps ? w->tile : c,
                                .c_stride        = has_steps ? (ptrdiff_t)nr : p->dst_row,
                                .residual        = p->added == NULL ? NULL : p->added + (ptrdiff_t)first * p->added_row + col,
                                .residual_stride = p->added_row,
                                .lo              = -INFINITY,
                                .hi              = INFINITY};
    kern->gemm(&tile, rows, cols);
    if (!has_steps)
        return;
    opf_operand  operands[OPF_PROGRAM_OPERANDS];
    opf_store    stores[OPF_PROGRAM_OPERANDS];
    const size_t outer = t->is_joined ? w->batch : w->batch * t->heads + w->head;
    opf_bound_at(w->env, &t->epilogue, outer, w->first + first, t->is_joined ? w->head * t->v_size + col : col, operands, stores);
    opf_program_run(kern, &t->epilogue.program, operands, stores, w->tile, (ptrdiff_t)nr, c, p->dst_row, rows, cols, w->program);
}

static void multiply(const worker *w, const product *p)
{
    const opf_kern *kern = w->env->kern;
    const size_t    tiles = opf_divide_up(w->rows, kern->mr), panels = opf_divide_up(p->n, kern->nr);
    for (size_t panel = 0; panel < panels; panel++)
        for (size_t i = 0; i < tiles; i++) {
            const size_t first = w->rows * i / tiles;
            multiply_tile(w, p, panel, first, w->rows * (i + 1) / tiles - first);
        }
}

static void add_mask(const attention_args *t, const void *mask, float *row)
{
    const ptrdiff_t col = (ptrdiff_t)t->mask_strides[COL];
    if (!t->is_bool) {
        const float *m = mask;
        for (size_t j = 0; j < t->keys; j++)
            row[j] += m[(ptrdiff_t)j * col];
    } else {
        const uint8_t *m = mask;
        for (size_t j = 0; j < t->keys; j++)
            if (m[(ptrdiff_t)j * col] == 0)
                row[j] = t->is_plain ? t->masked_score : row[j] - INFINITY;
    }
}

static void choose(const worker *w, size_t r, float *row)
{
    const attention_args *t      = w->args;
    const uint8_t        *choice = (const uint8_t *)opf_ref_data(w->env, t->choice) + place_of(t->choice_strides, w->batch, w->head, w->first + r);
    for (size_t j = 0; j < t->keys; j++)
        if (choice[(ptrdiff_t)j * (ptrdiff_t)t->choice_strides[COL]] == 0)
            row[j] = t->masked_score;
}

/* Nothing but -inf is added to the row. */
static bool is_hidden(const worker *w, size_t r)
{
    const attention_args *t = w->args;
    const ptrdiff_t       col = (ptrdiff_t)t->mask_strides[COL];
    const size_t          place = t->past + w->first + r;
    const size_t          seen = t->is_causal && place < t->keys ? place + 1 : t->keys;
    if (t->mask.buffer == 0)
        return false;
    const void *mask = mask_row(w, r);
    for (size_t j = 0; j < seen; j++)
        if (t->is_bool ? ((const uint8_t *)mask)[(ptrdiff_t)j * col] != 0 : !(((const float *)mask)[(ptrdiff_t)j * col] <= -INFINITY))
            return false;
    return true;
}

/* From products to probabilities. */
static void finish_row(const worker *w, size_t r)
{
    const attention_args *t    = w->args;
    const opf_kern       *kern = w->env->kern;
    float                *row  = w->scores + r * t->row_floats;
    if (t->softcap > 0) {
        kern->ew[OPF_EW_TANH](row, row, NULL, t->keys, NULL);
        for (size_t j = 0; j < t->keys; j++)
            row[j] *= t->softcap;
    }
    if (t->choice.buffer != 0)
        choose(w, r, row);
    if (t->mask.buffer != 0 && !product_adds_mask(t))
        add_mask(t, mask_row(w, r), row);
    for (size_t j = t->past + w->first + r + 1; t->is_causal && j < t->keys; j++)
        row[j] -= INFINITY;
    if (!t->is_plain) { /* a row without a key becomes zeros */
        const float max = t->keys == 0 ? 0 : kern->reduce_max(row, t->keys);
        if (max <= -INFINITY || (isnan(max) && is_hidden(w, r))) {
            memset(row, 0, t->keys * sizeof *row);
            return;
        }
    }
    kern->softmax(row, row, t->keys);
    if (t->nan_is_zero && t->keys != 0 && isnan(row[0])) /* then all are */
        memset(row, 0, t->keys * sizeof *row);
}

static void run_block(const worker *w)
{
    const attention_args *t = w->args;
    load_queries(w);
    product scores = {.a       = w->query,
                      .a_row   = t->size,
                      .b       = w->keys,
                      .k       = t->size,
                      .n       = t->keys,
                      .dst     = w->scores,
                      .dst_row = (ptrdiff_t)t->row_floats};
    if (product_adds_mask(t)) {
        scores.added     = mask_row(w, 0);
        scores.added_row = (ptrdiff_t)t->mask_strides[ROW];
    }
    multiply(w, &scores);
    for (size_t r = 0; r < w->rows; r++)
        finish_row(w, r);
    const product result = {.a         = w->scores,
                            .a_row     = t->row_floats,
                            .b         = w->values,
                            .k         = t->keys,
                            .n         = t->v_size,
                            .dst       = (float *)opf_ref_data(w->env, t->y) + place_of(t->y_strides, w->batch, w->head, w->first),
                            .dst_row   = (ptrdiff_t)t->y_strides[ROW],
                            .is_result = true};
    multiply(w, &result);
}

static void run_attention(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const attention_args *t = args;
    worker                w = {.env = env, .args = t};
    (void)scratch_layout(t, env->kern, &w, scratch);
    const size_t group = t->heads / t->kv_heads;
    size_t       packed = SIZE_MAX;
    for (size_t unit = begin; unit < end; unit++) {
        const size_t head = unit / t->blocks, pair = head / group; /* of all batches */
        w.batch = head / t->heads;
        w.head  = head % t->heads;
        w.first = unit % t->blocks * t->rows / t->blocks;
        w.rows  = (unit % t->blocks + 1) * t->rows / t->blocks - w.first;
        if (packed != pair)
            pack(&w, w.head / group);
        packed = pair;
        run_block(&w);
    }
}

/* ---- lowering ---- */

/* [batch, row, heads * col] seen as [batch, heads, row, col]; rank 4 as it is. */
static opf_place split_heads(const opf_place *x, int64_t heads)
{
    if (x->rank != 3)
        return *x;
    const int64_t size = heads > 0 ? x->dims[2] / heads : 0;
    opf_place     y    = *x;
    y.rank             = 4;
    memcpy(y.dims, (const int64_t[]){x->dims[0], heads, x->dims[1], size}, 4 * sizeof *y.dims);
    memcpy(y.strides, (const int64_t[]){x->strides[0], size * x->strides[2], x->strides[1], x->strides[2]}, 4 * sizeof *y.strides);
    return y;
}

static bool has(const opf_node *node, uint32_t input)
{
    return input < node->n_own_inputs && node->inputs[input] != 0;
}

static bool keeps(const opf_node *node, uint32_t output)
{
    return output < node->n_own_outputs && node->outputs[output] != 0;
}

/* A float attention without a window, an end of keys, or scores as an output; its mask covers all keys. Keys that are kept
   would be turned before. */
static bool is_supported(const opf_planner *planner, const opf_node *node)
{
    const bool is_kept = has(node, PAST_KEY) || keeps(node, PRESENT_KEY) || keeps(node, PRESENT_VALUE);
    if (has(node, NONPAD) || keeps(node, SCORES) || (is_kept && opf_node_int(node, "k_rotated", 0) != 0))
        return false;
    for (uint32_t i = Q; i <= V; i++)
        if (planner->infos[node->inputs[i]].type != OPF_FLOAT)
            return false;
    if (node->prologue.n != 0 || opf_node_int(node, "left_window_size", -1) >= 0 || opf_node_int(node, "right_window_size", -1) >= 0)
        return false;
    if (!has(node, MASK))
        return true;
    const opf_info *mask = &planner->infos[node->inputs[MASK]], *k = &planner->infos[node->inputs[K]];
    const int64_t columns = mask->rank > 0 ? mask->dims[mask->rank - 1].n : 0;
    const int64_t keys    = k->dims[k->rank - 2].n + opf_attention_past(planner, node);
    return (mask->type == OPF_FLOAT || mask->type == OPF_BOOL) &&
           (columns == keys || (columns == 1 && opf_node_attr(node, "masked_score") != NULL));
}

static void size_blocks(attention_args *t, const opf_kern *kern)
{
    const size_t most = 96, line = 64 / sizeof(float);
    /* One line more than full ones: rows a power of two apart would share few sets of the cache. */
    t->row_floats = round_up(t->keys, line) + line;
    size_t rows   = opf_cpu_l2_bytes() / 4 / (t->row_floats * sizeof(float)) / kern->mr * kern->mr;
    rows          = rows > most ? most / kern->mr * kern->mr : rows < kern->mr ? kern->mr : rows;
    t->blocks     = opf_divide_up(t->rows, rows);
    t->block      = opf_divide_up(t->rows, t->blocks);
}

/* An input that broadcasts to the scores of so many images. */
static opf_status place_scores(opf_planner *planner, const opf_node *node, uint32_t input, const attention_args *t, size_t images,
                               opf_place *place, opf_ref *ref, int64_t *strides, opf_error *error)
{
    if (!has(node, input))
        return OPF_OK;
    const int64_t full[] = {(int64_t)images, (int64_t)t->heads, (int64_t)t->rows, (int64_t)t->keys};
    OPF_TRY(opf_plan_place(planner, node->inputs[input], place, error));
    const opf_place seen = opf_place_broadcast(place, 4, full);
    *ref                 = opf_place_ref(place);
    memcpy(strides, seen.strides, 4 * sizeof *strides);
    return OPF_OK;
}

/* Of x, the operand seen as [batch, heads, row, col], by the angles from input `cos` on. */
static opf_status place_rotation(opf_planner *planner, const opf_node *node, const char *rotated, const char *interleaved, uint32_t cos,
                                 const opf_place *x, opf_rotation *rotation, opf_place *tables, opf_error *error)
{
    const opf_rotation_request request = {.cos         = has(node, cos) ? node->inputs[cos] : 0,
                                          .sin         = has(node, cos + 1) ? node->inputs[cos + 1] : 0,
                                          .rotated     = opf_node_int(node, rotated, 0),
                                          .interleaved = opf_node_int(node, interleaved, 0) != 0,
                                          .rank        = 4,
                                          .dims        = x->dims,
                                          .x_col       = 1,
                                          .y_col       = 1};
    return request.rotated != 0 ? opf_plan_rotation(planner, &request, rotation, tables, error) : OPF_OK;
}

/* The order of axes for the result: what its reader wants, where columns stay last and no step is stored beside it. */
static const int32_t *result_order(const opf_planner *planner, opf_value_id value, const opf_lowered *lowered)
{
    const int32_t *order = planner->order_of[value];
    const int32_t  last  = planner->infos[value].rank - 1;
    return order != NULL && order[last] == last && lowered->program.n_stores == 0 ? order : NULL;
}

static void read_attributes(const opf_node *node, attention_args *t)
{
    const opf_attr *masked = opf_node_attr(node, "masked_score");
    t->scale               = opf_node_float(node, "scale", (float)(1 / sqrt((double)t->size)));
    t->softcap             = opf_node_float(node, "softcap", 0);
    t->is_causal           = opf_node_int(node, "is_causal", 0) != 0;
    t->is_plain            = masked != NULL;
    t->nan_is_zero         = opf_node_int(node, "nan_is_zero", 0) != 0;
    t->masked_score        = masked != NULL ? masked->f : 0;
}

opf_status opf_lower_attention(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    opf_lowered     lowered;
    if (node->op != &opf_op_Attention || !is_supported(planner, node) || !opf_lower_steps(planner, node, &node->epilogue, &lowered))
        return OPF_OK;
    *done = true;
    attention_args t = {.is_joined = planner->infos[node->inputs[Q]].rank == 3};
    const int64_t  q_heads = opf_node_int(node, "q_num_heads", 0), kv_heads = opf_node_int(node, "kv_num_heads", 0);
    opf_place      x[END] = {0}, y, operands[OPF_PROGRAM_OPERANDS], stores[OPF_PROGRAM_OPERANDS];
    for (uint32_t i = Q; i <= V; i++)
        OPF_TRY(opf_plan_place(planner, node->inputs[i], &x[i], error));
    OPF_TRY(opf_plan_alloc(planner, node->outputs[0], result_order(planner, node->outputs[0], &lowered), &y, error));
    const opf_place q = split_heads(&x[Q], q_heads), heads = split_heads(&y, q_heads);
    for (uint32_t i = K; i <= V; i++)
        x[i] = split_heads(&x[i], kv_heads);
    OPF_TRY(opf_plan_attention_cache(planner, node, &x[K], error));
    const opf_place k = x[K], v = x[V];
    t.past                = (size_t)opf_attention_past(planner, node);
    t.batches             = (size_t)q.dims[BATCH];
    t.windows             = (size_t)opf_node_int(node, "mask_windows", q.dims[BATCH]);
    t.heads               = (size_t)q.dims[HEAD];
    t.kv_heads            = (size_t)k.dims[HEAD];
    t.rows                = (size_t)q.dims[ROW];
    t.size                = (size_t)q.dims[COL];
    t.keys                = (size_t)k.dims[ROW];
    t.v_size              = (size_t)v.dims[COL];
    t.q                   = opf_place_ref(&x[Q]);
    t.k                   = opf_place_ref(&x[K]);
    t.v                   = opf_place_ref(&x[V]);
    t.y                   = opf_place_ref(&y);
    memcpy(t.q_strides, q.strides, sizeof t.q_strides);
    memcpy(t.k_strides, k.strides, sizeof t.k_strides);
    memcpy(t.v_strides, v.strides, sizeof t.v_strides);
    memcpy(t.y_strides, heads.strides, sizeof t.y_strides);
    read_attributes(node, &t);
    OPF_TRY(place_scores(planner, node, MASK, &t, t.windows, &x[MASK], &t.mask, t.mask_strides, error));
    t.is_bool = x[MASK].type == OPF_BOOL;
    OPF_TRY(place_scores(planner, node, CHOICE, &t, t.batches, &x[CHOICE], &t.choice, t.choice_strides, error));
    OPF_TRY(place_rotation(planner, node, "q_rotated", "q_interleaved", Q_COS, &q, &t.q_rotation, &x[Q_COS], error));
    OPF_TRY(place_rotation(planner, node, "k_rotated", "k_interleaved", K_COS, &k, &t.k_rotation, &x[K_COS], error));
    const opf_split split = {.outer_first = 0, .outer_last = y.rank - 3, .row_first = y.rank - 2, .row_last = y.rank - 2, .col = y.rank - 1};
    if (lowered.program.n != 0)
        OPF_TRY(opf_bind(planner, &lowered, &y, split, &t.epilogue, operands, stores, error));
    size_blocks(&t, planner->options->kern);
    worker          w;
    attention_args *kept = opf_arena_copy(planner->arena, &t, sizeof t);
    OPF_OOM_IF(error, kept == NULL);
    const opf_plan_step step = {.kernel        = "attention_f32",
                                .run           = run_attention,
                                .args          = kept,
                                .units         = t.batches * t.heads * t.blocks,
                                .scratch_bytes = scratch_layout(&t, planner->options->kern, &w, NULL),
                                .flops         = 2.0 * (double)(t.batches * t.heads * t.rows) * (double)t.keys * (double)(t.size + t.v_size)};
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    for (uint32_t i = Q; i < END; i++)
        if (x[i].buffer != 0)
            opf_plan_reads(planner, &x[i]);
    opf_plan_writes(planner, &y);
    if (lowered.program.n != 0)
        opf_bound_touch(planner, &t.epilogue, operands, stores);
    return OPF_OK;
}
