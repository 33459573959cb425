/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LinearAttention: a state S [size of a key, size of a value] for each head of keys, updated with each position:
 *   S = exp(decay) S,  v = beta (v - S'k) for the delta rules,  S = S + k v',  output = scale S'q
 * Several heads of queries may share a state. All of it in double.
 */
#include "ops/check.h"
#include "ops/heads.h"
#include "ops/reference.h"

#include <math.h>
#include <string.h>

enum { QUERY, KEY, VALUE, PAST_STATE, DECAY, BETA };

#define TYPES (OPF_TYPE_BIT(OPF_FLOAT) | OPF_TYPE_BIT(OPF_FLOAT16) | OPF_TYPE_BIT(OPF_BFLOAT16))

/* ---- inference ---- */

static opf_status read_rule(const char *name, bool *is_gated, bool *is_delta, opf_error *error)
{
    *is_gated = strcmp(name, "gated") == 0 || strcmp(name, "gated_delta") == 0;
    *is_delta = strcmp(name, "delta") == 0 || strcmp(name, "gated_delta") == 0;
    OPF_FAIL_IF(error, !*is_gated && !*is_delta && strcmp(name, "linear") != 0, OPF_INVALID_MODEL,
                "update_rule is \"%s\", must be \"linear\", \"gated\", \"delta\" or \"gated_delta\"", name);
    return OPF_OK;
}

static opf_status check_inputs(const opf_infer *infer, opf_error *error)
{
    const char *rule = opf_node_string(infer->node, "update_rule", "gated_delta");
    bool        is_gated, is_delta;
    OPF_TRY(read_rule(rule, &is_gated, &is_delta, error));
    OPF_FAIL_IF(error, opf_infer_has(infer, DECAY) != is_gated, OPF_INVALID_MODEL, "update_rule \"%s\" %s input decay", rule,
                is_gated ? "needs" : "has no");
    OPF_FAIL_IF(error, opf_infer_has(infer, BETA) != is_delta, OPF_INVALID_MODEL, "update_rule \"%s\" %s input beta", rule,
                is_delta ? "needs" : "has no");
    for (uint32_t i = QUERY; i <= BETA; i++)
        if (i != PAST_STATE && opf_infer_has(infer, i) && infer->in[i]->rank >= 0 && infer->in[i]->rank != 3)
            return opf_refuse_shapes(infer, i, i, error, "must have rank 3");
    return OPF_OK;
}

static opf_status check_packed(opf_infer *infer, uint32_t i, int64_t heads, opf_dim *size, opf_error *error)
{
    const opf_info *q = infer->in[QUERY], *x = infer->in[i];
    *size = opf_dim_unknown(infer->dims);
    if (x->rank < 0)
        return OPF_OK;
    if (q->rank == 3 && (opf_dims_clash(q->dims[0], x->dims[0]) || opf_dims_clash(q->dims[1], x->dims[1])))
        return opf_refuse_shapes(infer, QUERY, i, error, "batches and lengths must be equal");
    if (opf_dim_is_number(x->dims[2]) && x->dims[2].n % heads != 0)
        return opf_refuse_shapes(infer, i, i, error, "the last dimension is no multiple of %lld heads", (long long)heads);
    *size = opf_dim_div_exact(infer->dims, x->dims[2], opf_dim_number(heads));
    return OPF_OK;
}

/* decay has one number a head, or one for each number of its key; beta one a head, or one for all. */
static opf_status check_gates(opf_infer *infer, int64_t heads, opf_dim key_size, opf_error *error)
{
    for (uint32_t i = DECAY; i <= BETA; i++) {
        opf_dim size;
        if (!opf_infer_has(infer, i) || infer->in[i]->rank < 0)
            continue;
        const opf_dim last = infer->in[i]->dims[2];
        if (i == BETA && opf_dim_is(last, 1) && heads != 1) {
            OPF_TRY(check_packed(infer, i, 1, &size, error));
            continue;
        }
        OPF_TRY(check_packed(infer, i, heads, &size, error));
        if (opf_dim_is_number(size) && size.n != 1 && (i == BETA || opf_dims_clash(size, key_size)))
            return opf_refuse_shapes(infer, KEY, i, error, "the last dimension of the latter does not fit %lld heads",
                                     (long long)heads);
    }
    return OPF_OK;
}

static opf_status check_state(const opf_infer *infer, const opf_dim state[4], opf_error *error)
{
    if (!opf_infer_has(infer, PAST_STATE) || infer->in[PAST_STATE]->rank < 0)
        return OPF_OK;
    const opf_info *past = infer->in[PAST_STATE];
    bool            fits = past->rank == 4;
    for (int32_t i = 0; i < 4 && fits; i++)
        fits = !opf_dims_clash(past->dims[i], state[i]);
    return fits ? OPF_OK
                : opf_refuse_shapes(infer, VALUE, PAST_STATE, error, "the latter must be [batch, heads, size of a key, size of a value]");
}

static opf_status infer_linear_attention(opf_infer *infer, opf_error *error)
{
    const opf_info *q       = infer->in[QUERY];
    const int64_t   q_heads = opf_node_int(infer->node, "q_num_heads", 0), heads = opf_node_int(infer->node, "kv_num_heads", 0);
    opf_dim         q_size, key_size, value_size;
    OPF_FAIL_IF(error, heads < 1 || q_heads < 1 || q_heads % heads != 0, OPF_INVALID_MODEL,
                "q_num_heads is %lld, must be a positive multiple of kv_num_heads, %lld", (long long)q_heads, (long long)heads);
    OPF_TRY(check_inputs(infer, error));
    if (infer->n_out > 1 && infer->out[1].type == OPF_TYPE_NONE)
        infer->out[1].type = q->type;
    OPF_TRY(check_packed(infer, QUERY, q_heads, &q_size, error));
    OPF_TRY(check_packed(infer, KEY, heads, &key_size, error));
    OPF_TRY(check_packed(infer, VALUE, heads, &value_size, error));
    if (opf_dims_clash(q_size, key_size))
        return opf_refuse_shapes(infer, QUERY, KEY, error, "sizes of heads, %lld and %lld, must be equal", (long long)q_size.n,
                                 (long long)key_size.n);
    OPF_TRY(check_gates(infer, heads, key_size, error));
    if (q->rank < 0)
        return OPF_OK;
    const opf_dim state[4] = {q->dims[0], opf_dim_number(heads), opf_dim_is_number(key_size) ? key_size : q_size, value_size};
    const opf_dim y[3]     = {q->dims[0], q->dims[1], opf_dim_mul(infer->dims, opf_dim_number(q_heads), value_size)};
    OPF_TRY(check_state(infer, state, error));
    if (infer->n_out > 1)
        OPF_TRY(opf_infer_set(infer, 1, 4, state, error));
    return opf_infer_set(infer, 0, 3, y, error);
}

/* ---- reference ---- */

typedef struct memory {
    opf_view q, k, v, decay, beta, y; /* [batch, heads, length, size]; data NULL: absent */
    double   scale;
    double  *state; /* [size of a key, size of a value] of one head */
    double  *write; /* [size of a value]: what a position adds along its key */
} memory;

static double at(const opf_view *x, int64_t batch, int64_t head, int64_t i, int64_t c)
{
    const int64_t own_head = x->dims[1] == 1 ? 0 : head, own_c = x->dims[3] == 1 ? 0 : c;
    return opf_view_f64(x, batch * x->strides[0] + own_head * x->strides[1] + i * x->strides[2] + own_c * x->strides[3]);
}

static void update(memory *m, int64_t batch, int64_t head, int64_t i)
{
    const int64_t n = m->k.dims[3], width = m->v.dims[3];
    for (int64_t d = 0; m->decay.data != NULL && d < n; d++) {
        const double keep = exp(at(&m->decay, batch, head, i, d));
        for (int64_t c = 0; c < width; c++)
            m->state[d * width + c] *= keep;
    }
    for (int64_t c = 0; c < width; c++) {
        double recalled = 0;
        m->write[c]     = at(&m->v, batch, head, i, c);
        for (int64_t d = 0; m->beta.data != NULL && d < n; d++)
            recalled += m->state[d * width + c] * at(&m->k, batch, head, i, d);
        if (m->beta.data != NULL)
            m->write[c] = at(&m->beta, batch, head, i, 0) * (m->write[c] - recalled);
    }
    for (int64_t d = 0; d < n; d++) {
        const double k = at(&m->k, batch, head, i, d);
        for (int64_t c = 0; c < width; c++)
            m->state[d * width + c] += k * m->write[c];
    }
}

static void read_state(memory *m, int64_t batch, int64_t q_head, int64_t i)
{
    const int64_t n = m->k.dims[3], width = m->v.dims[3];
    opf_view     *y = &m->y;
    for (int64_t c = 0; c < width; c++) {
        double sum = 0;
        for (int64_t d = 0; d < n; d++)
            sum += at(&m->q, batch, q_head, i, d) * m->state[d * width + c];
        opf_view_put_f64(y, batch * y->strides[0] + q_head * y->strides[1] + i * y->strides[2] + c * y->strides[3],
                         m->scale * sum);
    }
}

static void run_head(memory *m, const opf_view *past, opf_view *present, int64_t batch, int64_t head, int64_t group)
{
    const int64_t n = m->k.dims[3], width = m->v.dims[3];
    for (int64_t d = 0; d < n; d++)
        for (int64_t c = 0; c < width; c++)
            m->state[d * width + c] =
                past == NULL ? 0
                             : opf_view_f64(past, batch * past->strides[0] + head * past->strides[1] + d * past->strides[2] +
                                                      c * past->strides[3]);
    for (int64_t i = 0; i < m->q.dims[2]; i++) {
        update(m, batch, head, i);
        for (int64_t g = 0; m->y.data != NULL && g < group; g++)
            read_state(m, batch, head * group + g, i);
    }
    for (int64_t d = 0; present != NULL && d < n; d++)
        for (int64_t c = 0; c < width; c++)
            opf_view_put_f64(present, batch * present->strides[0] + head * present->strides[1] + d * present->strides[2] +
                                          c * present->strides[3],
                             m->state[d * width + c]);
}

static opf_view packed(const opf_call *call, uint32_t i, int64_t heads)
{
    if (i >= call->n_in || call->in[i].data == NULL)
        return (opf_view){0};
    return opf_view_heads(&call->in[i], call->in[i].dims[2] == 1 ? 1 : heads);
}

static opf_status run_linear_attention(const opf_call *call, opf_error *error)
{
    const int64_t   q_heads = opf_call_int(call, "q_num_heads", 1), heads = opf_call_int(call, "kv_num_heads", 1);
    const opf_view *past    = call->n_in > PAST_STATE && call->in[PAST_STATE].data != NULL ? &call->in[PAST_STATE] : NULL;
    opf_view       *present = call->n_out > 1 && call->out[1].data != NULL ? &call->out[1] : NULL;
    memory          m       = {.q     = packed(call, QUERY, q_heads),
                               .k     = packed(call, KEY, heads),
                               .v     = packed(call, VALUE, heads),
                               .decay = packed(call, DECAY, heads),
                               .beta  = packed(call, BETA, heads),
                               .y     = opf_view_heads(&call->out[0], q_heads),
                               .scale = (double)opf_call_float(call, "scale", 0)};
    size_t          count, bytes;
    const size_t    n = (size_t)m.k.dims[3], width = (size_t)m.v.dims[3];
    if (m.scale == 0)
        m.scale = 1 / sqrt((double)n);
    OPF_OOM_IF(error, !opf_mul_size(n + 1, width, &count) || !opf_mul_size(count, sizeof(double), &bytes));
    m.state = opf_heap_alloc(call->heap, bytes);
    OPF_OOM_IF(error, m.state == NULL);
    m.write = m.state + n * width;
    for (int64_t batch = 0; batch < m.q.dims[0]; batch++)
        for (int64_t head = 0; head < heads; head++)
            run_head(&m, past, present, batch, head, q_heads / heads);
    opf_heap_free(call->heap, m.state, bytes);
    return OPF_OK;
}

/* ---- signature ---- */

static const opf_param inputs[]  = {{"query", 'T', TYPES, 0},
                                    {"key", 'T', TYPES, 0},
                                    {"value", 'T', TYPES, 0},
                                    {"past_state", 'S', TYPES, OPF_OPTIONAL},
                                    {"decay", 'T', TYPES, OPF_OPTIONAL},
                                    {"beta", 'T', TYPES, OPF_OPTIONAL}};
static const opf_param outputs[] = {{"output", 'T', TYPES, 0}, {"present_state", 'S', TYPES, 0}};

static const opf_attr_def attrs[] = {{.name = "chunk_size", .type = OPF_ATTR_INT, .i = 64},
                                     {.name = "kv_num_heads", .type = OPF_ATTR_INT, .required = true},
                                     {.name = "q_num_heads", .type = OPF_ATTR_INT, .required = true},
                                     {.name = "scale", .type = OPF_ATTR_FLOAT},
                                     {.name = "update_rule", .type = OPF_ATTR_STRING, .s = "gated_delta"}};

const opf_op opf_op_LinearAttention = {.name      = "LinearAttention",
                                       .domain    = "",
                                       .since     = 27,
                                       .traits    = OPF_CONTRACTION,
                                       .inputs    = inputs,
                                       .n_inputs  = OPF_COUNT(inputs),
                                       .outputs   = outputs,
                                       .n_outputs = OPF_COUNT(outputs),
                                       .attrs     = attrs,
                                       .n_attrs   = OPF_COUNT(attrs),
                                       .infer     = infer_linear_attention,
                                       .reference = run_linear_attention};
