/* SPDX-License-Identifier: Apache-2.0 */
/* RotaryEmbedding: pairs of numbers of each head turned by an angle that depends on the position. */
#include "ops/check.h"
#include "ops/heads.h"
#include "ops/reference.h"

enum { X, COS, SIN, POSITIONS };

#define TYPES (OPF_TYPE_BIT(OPF_FLOAT) | OPF_TYPE_BIT(OPF_FLOAT16) | OPF_TYPE_BIT(OPF_BFLOAT16))

/* ---- inference ---- */

/* Batch, length and size of a head, from [batch, heads, length, size] or [batch, length, heads * size]. */
static opf_status read_input(opf_infer *infer, opf_dim *batch, opf_dim *length, opf_dim *size, opf_error *error)
{
    const opf_info *x     = infer->in[X];
    const int64_t   heads = opf_node_int(infer->node, "num_heads", 0);
    if (x->rank != 3 && x->rank != 4)
        return opf_refuse_shapes(infer, X, X, error, "must have rank 3 or 4");
    *batch  = x->dims[0];
    *length = x->dims[x->rank - 2];
    *size   = x->dims[x->rank - 1];
    if (x->rank == 4) {
        *length = x->dims[2];
        return OPF_OK;
    }
    *length = x->dims[1];
    OPF_FAIL_IF(error, heads < 1, OPF_INVALID_MODEL, "num_heads is %lld, an input of rank 3 needs it, at least 1",
                (long long)heads);
    if (opf_dim_is_number(*size) && size->n % heads != 0)
        return opf_refuse_shapes(infer, X, X, error, "the last dimension is no multiple of num_heads, %lld", (long long)heads);
    *size = opf_dim_div_exact(infer->dims, *size, opf_dim_number(heads));
    return OPF_OK;
}

static opf_status check_rotated(const opf_infer *infer, opf_dim size, opf_dim *half, opf_error *error)
{
    int64_t rotated = opf_node_int(infer->node, "rotary_embedding_dim", 0);
    if (rotated == 0 && !opf_dim_is_number(size)) {
        *half = opf_dim_unknown(infer->dims);
        return OPF_OK;
    }
    const char *what = rotated == 0 ? "the size of a head" : "rotary_embedding_dim";
    rotated          = rotated == 0 ? size.n : rotated;
    OPF_FAIL_IF(error, rotated < 0 || rotated % 2 != 0, OPF_INVALID_MODEL, "%s is %lld, must be even", what, (long long)rotated);
    OPF_FAIL_IF(error, opf_dim_is_number(size) && rotated > size.n, OPF_INVALID_MODEL,
                "rotary_embedding_dim is %lld, heads have size %lld", (long long)rotated, (long long)size.n);
    *half = opf_dim_number(rotated / 2);
    return OPF_OK;
}

/* Caches are [positions, half] when there are position_ids, [batch, length, half] when there are none. */
static opf_status check_cache(const opf_infer *infer, uint32_t i, opf_dim batch, opf_dim length, opf_dim half, opf_error *error)
{
    const opf_info *cache = infer->in[i];
    const int32_t   rank  = opf_infer_has(infer, POSITIONS) ? 2 : 3;
    if (cache->rank < 0)
        return OPF_OK;
    if (cache->rank != rank)
        return opf_refuse_shapes(infer, i, i, error, "must have rank %d %s position_ids", (int)rank, rank == 2 ? "with" : "without");
    if (opf_dims_clash(cache->dims[rank - 1], half))
        return opf_refuse_shapes(infer, X, i, error, "the last dimension of the latter must be %lld", (long long)half.n);
    if (rank == 3 && (opf_dims_clash(cache->dims[0], batch) || opf_dims_clash(cache->dims[1], length)))
        return opf_refuse_shapes(infer, X, i, error, "batches and lengths must be equal");
    return OPF_OK;
}

static opf_status infer_rotary(opf_infer *infer, opf_error *error)
{
    const opf_info *positions = infer->in[POSITIONS < infer->n_in ? POSITIONS : X];
    opf_dim         batch, length, size, half;
    if (infer->in[X]->rank < 0)
        return OPF_OK;
    OPF_TRY(read_input(infer, &batch, &length, &size, error));
    OPF_TRY(check_rotated(infer, size, &half, error));
    OPF_TRY(check_cache(infer, COS, batch, length, half, error));
    OPF_TRY(check_cache(infer, SIN, batch, length, half, error));
    if (opf_infer_has(infer, POSITIONS) && positions->rank >= 0 &&
        (positions->rank != 2 || opf_dims_clash(positions->dims[0], batch) || opf_dims_clash(positions->dims[1], length)))
        return opf_refuse_shapes(infer, X, POSITIONS, error, "the latter must be [batch, length]");
    return opf_infer_same(infer, 0, X, error);
}

/* ---- reference ---- */

typedef struct rotary {
    opf_view        x, y; /* [batch, heads, length, size] */
    const opf_view *cos, *sin, *positions; /* positions NULL: absent */
    int64_t         half;
    bool            interleaved;
} rotary;

static int64_t position_at(const rotary *r, int64_t batch, int64_t i)
{
    return opf_view_i64(r->positions, batch * r->positions->strides[0] + i * r->positions->strides[1]);
}

/* Where the angles of a position start in a cache. */
static int64_t angles_at(const rotary *r, const opf_view *cache, int64_t batch, int64_t i)
{
    return r->positions != NULL ? position_at(r, batch, i) * cache->strides[0] : batch * cache->strides[0] + i * cache->strides[1];
}

static void turn_head(rotary *r, int64_t batch, int64_t head, int64_t i)
{
    const opf_view *x = &r->x;
    opf_view       *y = &r->y;
    const int64_t   from  = batch * x->strides[0] + head * x->strides[1] + i * x->strides[2];
    const int64_t   to    = batch * y->strides[0] + head * y->strides[1] + i * y->strides[2];
    const int64_t   cos_at = angles_at(r, r->cos, batch, i), sin_at = angles_at(r, r->sin, batch, i);
    for (int64_t k = 0; k < r->half; k++) {
        const int64_t first = r->interleaved ? 2 * k : k, second = r->interleaved ? 2 * k + 1 : k + r->half;
        const double  a = opf_view_f64(x, from + first * x->strides[3]), b = opf_view_f64(x, from + second * x->strides[3]);
        const double  c = opf_view_f64(r->cos, cos_at + k * r->cos->strides[r->cos->rank - 1]);
        const double  s = opf_view_f64(r->sin, sin_at + k * r->sin->strides[r->sin->rank - 1]);
        opf_view_put_f64(y, to + first * y->strides[3], c * a - s * b);
        opf_view_put_f64(y, to + second * y->strides[3], s * a + c * b);
    }
    for (int64_t k = 2 * r->half; k < x->dims[3]; k++)
        opf_view_put_f64(y, to + k * y->strides[3], opf_view_f64(x, from + k * x->strides[3]));
}

static opf_status check_positions(const rotary *r, opf_error *error)
{
    const int64_t n = r->cos->dims[0] < r->sin->dims[0] ? r->cos->dims[0] : r->sin->dims[0];
    for (int64_t batch = 0; r->positions != NULL && batch < r->positions->dims[0]; batch++)
        for (int64_t i = 0; i < r->positions->dims[1]; i++) {
            const int64_t at = position_at(r, batch, i);
            OPF_FAIL_IF(error, at < 0 || at >= n, OPF_INVALID_INPUT, "position %lld is outside of the caches' %lld", (long long)at,
                        (long long)n);
        }
    return OPF_OK;
}

static opf_status run_rotary(const opf_call *call, opf_error *error)
{
    const int64_t heads   = opf_call_int(call, "num_heads", 0), rotated = opf_call_int(call, "rotary_embedding_dim", 0);
    rotary        r       = {.x           = opf_view_heads(&call->in[X], heads),
                             .y           = opf_view_heads(&call->out[0], heads),
                             .cos         = &call->in[COS],
                             .sin         = &call->in[SIN],
                             .positions   = call->n_in > POSITIONS && call->in[POSITIONS].data != NULL ? &call->in[POSITIONS] : NULL,
                             .interleaved = opf_call_int(call, "interleaved", 0) != 0};
    r.half = (rotated == 0 ? r.x.dims[3] : rotated) / 2;
    OPF_TRY(check_positions(&r, error));
    for (int64_t batch = 0; batch < r.x.dims[0]; batch++)
        for (int64_t head = 0; head < r.x.dims[1]; head++)
            for (int64_t i = 0; i < r.x.dims[2]; i++)
                turn_head(&r, batch, head, i);
    return OPF_OK;
}

static const opf_param    inputs[]  = {{"X", 'T', TYPES, 0},
                                       {"cos_cache", 'T', TYPES, 0},
                                       {"sin_cache", 'T', TYPES, 0},
                                       {"position_ids", 0, OPF_TYPE_BIT(OPF_INT64), OPF_OPTIONAL}};
static const opf_param    outputs[] = {{"Y", 'T', TYPES, 0}};
static const opf_attr_def attrs[]   = {{.name = "interleaved", .type = OPF_ATTR_INT},
                                       {.name = "num_heads", .type = OPF_ATTR_INT},
                                       {.name = "rotary_embedding_dim", .type = OPF_ATTR_INT}};

const opf_op opf_op_RotaryEmbedding = {.name      = "RotaryEmbedding",
                                       .domain    = "",
                                       .since     = 23,
                                       .inputs    = inputs,
                                       .n_inputs  = OPF_COUNT(inputs),
                                       .outputs   = outputs,
                                       .n_outputs = OPF_COUNT(outputs),
                                       .attrs     = attrs,
                                       .n_attrs   = OPF_COUNT(attrs),
                                       .infer     = infer_rotary,
                                       .reference = run_rotary};
