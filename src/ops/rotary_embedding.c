/* SPDX-License-Identifier: Apache-2.0 */
/* RotaryEmbedding: pairs of numbers of each head turned by an angle that depends on the position. */
#include "ops/check.h"
#include "ops/heads.h"
#include "ops/reference.h"
#include "ops/rotary.h"

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

/* ---- angles that broadcast ---- */

static bool broadcasts(opf_dim own, opf_dim full)
{
    return opf_dim_is(own, 1) || !opf_dims_clash(own, full);
}

opf_status opf_infer_angles(const opf_infer *infer, uint32_t cos, uint32_t sin, int32_t rank, const opf_dim *dims,
                            int64_t rotated, opf_error *error)
{
    const uint32_t tables[] = {cos, sin};
    const opf_dim  size     = dims[rank - 1];
    OPF_FAIL_IF(error, rotated < 2 || rotated % 2 != 0 || (opf_dim_is_number(size) && rotated > size.n), OPF_INVALID_MODEL,
                "%lld elements are turned, must be an even number that is there", (long long)rotated);
    for (int i = 0; i < 2; i++) {
        const opf_info *table = infer->in[tables[i]];
        const int32_t   n     = table->rank;
        if (n < 0)
            continue;
        if (n < 1 || n > rank)
            return opf_refuse_shapes(infer, tables[i], tables[i], error, "must have 1 to %d dimensions", (int)rank);
        const opf_dim width = table->dims[n - 1];
        if (opf_dims_clash(width, opf_dim_number(rotated)) && opf_dims_clash(width, opf_dim_number(rotated / 2)))
            return opf_refuse_shapes(infer, tables[i], tables[i], error, "the last dimension must be %lld or half of that",
                                     (long long)rotated);
        for (int32_t k = 0; k < n - 1; k++)
            if (!broadcasts(table->dims[k], dims[rank - n + k]))
                return opf_refuse_shapes(infer, 0, tables[i], error, "the latter does not broadcast");
    }
    return OPF_OK;
}

static opf_status infer_broadcast(opf_infer *infer, opf_error *error)
{
    const opf_info *x       = infer->in[X];
    int64_t         rotated = opf_node_int(infer->node, "rotary_embedding_dim", 0);
    if (x->rank < 1)
        return opf_refuse_shapes(infer, X, X, error, "must have dimensions");
    const opf_dim size = x->dims[x->rank - 1];
    rotated            = rotated == 0 && opf_dim_is_number(size) ? size.n : rotated;
    if (rotated != 0 || opf_dim_is_number(size))
        OPF_TRY(opf_infer_angles(infer, COS, SIN, x->rank, x->dims, rotated, error));
    return opf_infer_same(infer, 0, X, error);
}

static bool is_broadcast(const opf_attr *attrs, uint32_t n)
{
    return opf_attrs_int(attrs, n, "broadcast", 0) != 0;
}

static opf_status infer_rotary(opf_infer *infer, opf_error *error)
{
    const opf_info *positions = infer->in[POSITIONS < infer->n_in ? POSITIONS : X];
    opf_dim         batch, length, size, half;
    if (infer->in[X]->rank < 0)
        return OPF_OK;
    if (is_broadcast(infer->node->attrs, infer->node->n_attrs))
        return infer_broadcast(infer, error);
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

static opf_view table_view(const opf_view *table, int32_t rank, const int64_t *dims)
{
    int64_t       full[OPF_MAX_RANK];
    const int64_t width = table->dims[table->rank - 1];
    for (int32_t i = 0; i < rank; i++)
        full[i] = i + 1 < rank ? dims[i] : width;
    opf_view view          = opf_view_broadcast(table, rank, full);
    view.strides[rank - 1] = table->strides[table->rank - 1];
    return view;
}

opf_angles opf_angles_view(const opf_view *cos, const opf_view *sin, int32_t rank, const int64_t *dims, int64_t rotated,
                           bool interleaved)
{
    return (opf_angles){.cos       = table_view(cos, rank, dims),
                        .sin       = table_view(sin, rank, dims),
                        .pairs     = opf_pairs_of(rotated, interleaved),
                        .cos_pairs = opf_angle_pairs(cos->dims[cos->rank - 1], rotated, interleaved),
                        .sin_pairs = opf_angle_pairs(sin->dims[sin->rank - 1], rotated, interleaved)};
}

static double angle_at(const opf_view *table, const opf_pairs *pairs, int64_t at, int64_t k, bool second)
{
    return opf_view_f64(table, at + (k * pairs->step + (second ? pairs->gap : 0)) * table->strides[table->rank - 1]);
}

void opf_angles_turn(const opf_angles *t, double *row, int64_t cos_at, int64_t sin_at)
{
    for (int64_t k = 0; k < t->pairs.n; k++) {
        double *first = row + k * t->pairs.step, *second = first + t->pairs.gap;
        const double a = *first, b = *second;
        *first  = a * angle_at(&t->cos, &t->cos_pairs, cos_at, k, false) - b * angle_at(&t->sin, &t->sin_pairs, sin_at, k, false);
        *second = b * angle_at(&t->cos, &t->cos_pairs, cos_at, k, true) + a * angle_at(&t->sin, &t->sin_pairs, sin_at, k, true);
    }
}

/* A cache as [batch, heads, length, half] of x; one that positions choose from varies by those alone. */
static opf_view cache_view(const opf_view *cache, const opf_view *x)
{
    const int32_t first = cache->rank - 1;
    return (opf_view){.type    = cache->type,
                      .rank    = 4,
                      .dims    = {x->dims[0], x->dims[1], x->dims[2], cache->dims[first]},
                      .strides = {first == 1 ? 0 : cache->strides[0], 0, first == 1 ? 0 : cache->strides[1], cache->strides[first]},
                      .data    = cache->data};
}

typedef struct rotary {
    opf_view        x, y;      /* the standard form: [batch, heads, length, size] */
    const opf_view *positions; /* NULL: absent */
    opf_angles      angles;
} rotary;

static int64_t position_of(const opf_view *positions, int64_t batch, int64_t i)
{
    return opf_view_i64(positions, batch * positions->strides[0] + i * positions->strides[1]);
}

/* Where the row of a position begins; a negative one counts from the end. */
static int64_t row_of(const opf_view *cache, int64_t position)
{
    return (position < 0 ? position + cache->dims[0] : position) * cache->strides[0];
}

static opf_status check_positions(const opf_call *call, const opf_view *positions, opf_error *error)
{
    const int64_t n = call->in[COS].dims[0] < call->in[SIN].dims[0] ? call->in[COS].dims[0] : call->in[SIN].dims[0];
    for (int64_t batch = 0; positions != NULL && batch < positions->dims[0]; batch++)
        for (int64_t i = 0; i < positions->dims[1]; i++) {
            const int64_t at = position_of(positions, batch, i);
            OPF_FAIL_IF(error, at < -n || at >= n, OPF_INVALID_INPUT, "position %lld is outside of the caches' %lld", (long long)at,
                        (long long)n);
        }
    return OPF_OK;
}

static void load_row(const opf_view *x, int64_t at, double *row)
{
    for (int64_t k = 0; k < x->dims[x->rank - 1]; k++)
        row[k] = opf_view_f64(x, at + k * x->strides[x->rank - 1]);
}

static void store_row(const double *row, opf_view *y, int64_t at)
{
    for (int64_t k = 0; k < y->dims[y->rank - 1]; k++)
        opf_view_put_f64(y, at + k * y->strides[y->rank - 1], row[k]);
}

static rotary read_call(const opf_call *call)
{
    const int64_t  heads   = opf_call_int(call, "num_heads", 0), rotated = opf_call_int(call, "rotary_embedding_dim", 0);
    const bool     interleaved = opf_call_int(call, "interleaved", 0) != 0, broadcast = is_broadcast(call->attrs, call->n_attrs);
    const opf_view *cos = &call->in[COS], *sin = &call->in[SIN];
    rotary          r   = {.x         = broadcast ? call->in[X] : opf_view_heads(&call->in[X], heads),
                           .y         = broadcast ? call->out[0] : opf_view_heads(&call->out[0], heads),
                           .positions = !broadcast && call->n_in > POSITIONS && call->in[POSITIONS].data != NULL ? &call->in[POSITIONS] : NULL};
    const int64_t turned = rotated == 0 ? r.x.dims[r.x.rank - 1] : rotated;
    r.angles             = opf_angles_view(cos, sin, r.x.rank, r.x.dims, turned, interleaved);
    if (!broadcast) {
        r.angles.cos = cache_view(cos, &r.x);
        r.angles.sin = cache_view(sin, &r.x);
    }
    return r;
}

static opf_status run_rotary(const opf_call *call, opf_error *error)
{
    rotary       r     = read_call(call);
    const size_t bytes = ((size_t)r.x.dims[r.x.rank - 1] + 1) * sizeof(double);
    opf_walk     walk;
    OPF_TRY(check_positions(call, r.positions, error));
    double *row = opf_heap_alloc(call->heap, bytes);
    OPF_OOM_IF(error, row == NULL);
    opf_walk_init(&walk, r.x.rank - 1, r.x.dims, 4, (const opf_view *const[]){&r.x, &r.y, &r.angles.cos, &r.angles.sin});
    for (; walk.left != 0; opf_walk_next(&walk)) {
        int64_t cos = walk.offset[2], sin = walk.offset[3];
        if (r.positions != NULL) {
            const int64_t position = position_of(r.positions, walk.index[0], walk.index[2]);
            cos += row_of(&call->in[COS], position);
            sin += row_of(&call->in[SIN], position);
        }
        load_row(&r.x, walk.offset[0], row);
        opf_angles_turn(&r.angles, row, cos, sin);
        store_row(row, &r.y, walk.offset[1]);
    }
    opf_heap_free(call->heap, row, bytes);
    return OPF_OK;
}

static const opf_param    inputs[]  = {{"X", 'T', TYPES, 0},
                                       {"cos_cache", 'T', TYPES, 0},
                                       {"sin_cache", 'T', TYPES, 0},
                                       {"position_ids", 0, OPF_TYPE_BIT(OPF_INT64), OPF_OPTIONAL}};
static const opf_param    outputs[] = {{"Y", 'T', TYPES, 0}};
static const opf_attr_def attrs[]   = {{.name = "broadcast", .type = OPF_ATTR_INT}, /* opfuse's own; rotary.h */
                                       {.name = "interleaved", .type = OPF_ATTR_INT},
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
