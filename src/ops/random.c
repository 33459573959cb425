/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that draw random numbers. ONNX demands a distribution and no generator; ours is splitmix64, started from
 * the bits of attribute `seed`, or from the node's name where there is none. So a model draws the same numbers in each
 * run, on each machine, fused or not, and elements are drawn in row-major order.
 */
#include "base/random.h"
#include "ops/check.h"
#include "ops/elementwise.h"
#include "ops/lift.h"

#include <string.h>

/* ---- what they share ---- */

static void start(const opf_call *call, opf_random *random)
{
    const opf_attr *seed  = opf_call_attr(call, "seed");
    uint64_t        state = 0;
    if (seed != NULL) {
        uint32_t bits;
        memcpy(&bits, &seed->f, sizeof bits);
        state = bits;
    } else if (call->node != NULL) {
        state = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
        for (const char *c = call->node->name; c != NULL && *c != '\0'; c++)
            state = (state ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    }
    opf_random_init(random, state);
}

/* The type that dtype asks for, one of the output's; without dtype it is `otherwise`. */
static opf_status infer_type(opf_infer *infer, opf_type otherwise, opf_error *error)
{
    const int64_t type  = opf_node_int(infer->node, "dtype", (int64_t)otherwise);
    const bool    known = type >= 0 && type < OPF_TYPE_COUNT;
    if (type == OPF_TYPE_NONE && opf_node_attr(infer->node, "dtype") == NULL)
        return OPF_OK;
    OPF_FAIL_IF(error, !known || !opf_types_have(infer->node->op->outputs[0].types, (opf_type)type), OPF_INVALID_MODEL,
                "the result would have type %s (%lld)", known ? opf_type_name((opf_type)type) : "?", (long long)type);
    infer->out[0].type = (opf_type)type;
    return OPF_OK;
}

static void put(opf_view *y, int64_t offset, double x)
{
    if (opf_types_have(OPF_TYPES_FLOAT, y->type))
        opf_view_put_f64(y, offset, x);
    else
        opf_view_put_i64(y, offset, (int64_t)x);
}

static opf_status lower_bfloat16(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    OPF_FAIL_IF(error, opf_node_int(node, "dtype", 0) == OPF_BFLOAT16, OPF_UNSUPPORTED, "%s (%s): bfloat16 needs an opset above %d",
                node->name, node->op_type, (int)opset);
    return opf_lower_no_bfloat16(graph, id, opset, error);
}

/* ---- normal and uniform ---- */

static opf_status infer_shape(opf_infer *infer, opf_error *error)
{
    const opf_attr *shape = opf_node_attr(infer->node, "shape");
    opf_dim         dims[OPF_MAX_RANK];
    OPF_TRY(infer_type(infer, OPF_FLOAT, error));
    OPF_FAIL_IF(error, shape->n > OPF_MAX_RANK, OPF_LIMIT, "shape has %u dimensions, at most %d are supported", shape->n,
                OPF_MAX_RANK);
    for (uint32_t i = 0; i < shape->n; i++)
        dims[i] = opf_dim_number(shape->ints[i]);
    return opf_infer_set(infer, 0, (int32_t)shape->n, dims, error);
}

static opf_status infer_like(opf_infer *infer, opf_error *error)
{
    OPF_TRY(infer_type(infer, infer->in[0]->type, error));
    return opf_infer_same(infer, 0, 0, error);
}

static opf_status run_normal(const opf_call *call, opf_error *error)
{
    const double    mean = (double)opf_call_float(call, "mean", 0), scale = (double)opf_call_float(call, "scale", 1);
    opf_view       *y       = &call->out[0];
    const opf_view *views[] = {y};
    opf_random      random;
    opf_walk        walk;
    (void)error;
    start(call, &random);
    for (opf_walk_init(&walk, y->rank, y->dims, 1, views); walk.left > 0; opf_walk_next(&walk))
        opf_view_put_f64(y, walk.offset[0], mean + scale * opf_random_normal(&random));
    return OPF_OK;
}

static opf_status run_uniform(const opf_call *call, opf_error *error)
{
    const double    low = (double)opf_call_float(call, "low", 0), high = (double)opf_call_float(call, "high", 1);
    opf_view       *y       = &call->out[0];
    const opf_view *views[] = {y};
    opf_random      random;
    opf_walk        walk;
    (void)error;
    start(call, &random);
    for (opf_walk_init(&walk, y->rank, y->dims, 1, views); walk.left > 0; opf_walk_next(&walk))
        opf_view_put_f64(y, walk.offset[0], low + (high - low) * opf_random_uniform(&random));
    return OPF_OK;
}

/* ---- Bernoulli ---- */

static opf_status run_bernoulli(const opf_call *call, opf_error *error)
{
    const opf_view *p       = &call->in[0];
    opf_view       *y       = &call->out[0];
    const opf_view *views[] = {p, y};
    opf_random      random;
    opf_walk        walk;
    for (opf_walk_init(&walk, p->rank, p->dims, 1, views); walk.left > 0; opf_walk_next(&walk)) {
        const double x = opf_view_f64(p, walk.offset[0]);
        OPF_FAIL_IF(error, !(x >= 0 && x <= 1), OPF_INVALID_INPUT, "a probability is %g, must be in [0, 1]", x);
    }
    start(call, &random);
    for (opf_walk_init(&walk, y->rank, y->dims, 2, views); walk.left > 0; opf_walk_next(&walk))
        put(y, walk.offset[1], opf_random_uniform(&random) < opf_view_f64(p, walk.offset[0]));
    return OPF_OK;
}

/* ---- Multinomial ---- */

static opf_status infer_multinomial(opf_infer *infer, opf_error *error)
{
    const opf_info *x       = infer->in[0];
    const int64_t   samples = opf_node_int(infer->node, "sample_size", 1);
    OPF_TRY(infer_type(infer, OPF_INT32, error));
    OPF_FAIL_IF(error, samples < 0, OPF_INVALID_MODEL, "sample_size is %lld", (long long)samples);
    if (x->rank < 0)
        return OPF_OK;
    if (x->rank != 2)
        return opf_refuse_shapes(infer, 0, 0, error, "must have rank 2");
    const opf_dim dims[2] = {x->dims[0], opf_dim_number(samples)};
    return opf_infer_set(infer, 0, 2, dims, error);
}

/* The largest log-probability of a row, and the sum of all probabilities relative to it. */
static double total_of(const opf_view *x, int64_t row, double *max)
{
    double total = 0;
    *max         = -(double)INFINITY;
    for (int64_t c = 0; c < x->dims[1]; c++)
        *max = fmax(*max, opf_view_f64(x, row * x->strides[0] + c * x->strides[1]));
    for (int64_t c = 0; c < x->dims[1]; c++)
        total += exp(opf_view_f64(x, row * x->strides[0] + c * x->strides[1]) - *max);
    return total;
}

static int64_t pick(const opf_view *x, int64_t row, double max, double point)
{
    int64_t last = 0; /* that is possible at all: rounding may leave the point beyond the sum */
    for (int64_t c = 0; c < x->dims[1]; c++) {
        const double p = exp(opf_view_f64(x, row * x->strides[0] + c * x->strides[1]) - max);
        if (p > 0)
            last = c;
        point -= p;
        if (point < 0)
            return c;
    }
    return last;
}

static opf_status run_multinomial(const opf_call *call, opf_error *error)
{
    const opf_view *x = &call->in[0];
    opf_view       *y = &call->out[0];
    opf_random      random;
    double          max;
    for (int64_t row = 0; row < y->dims[0] && y->dims[1] > 0; row++) {
        const double total = total_of(x, row, &max);
        OPF_FAIL_IF(error, !(total > 0 && total < (double)INFINITY), OPF_INVALID_INPUT,
                    "row %lld holds no log-probabilities: one must be finite, and none NaN or infinite", (long long)row);
    }
    start(call, &random);
    for (int64_t row = 0; row < y->dims[0]; row++) {
        const double total = total_of(x, row, &max);
        for (int64_t i = 0; i < y->dims[1]; i++)
            opf_view_put_i64(y, row * y->strides[0] + i * y->strides[1], pick(x, row, max, total * opf_random_uniform(&random)));
    }
    return OPF_OK;
}

/* ---- definitions ---- */

#define BERNOULLI_TYPES (OPF_TYPES_NUMERIC | OPF_TYPES_BOOL)
#define NOTE            "the same numbers in each run: from attribute seed, or from the node's name"

/* clang-format off */
#define SEED  {.name = "seed", .type = OPF_ATTR_FLOAT}
#define DTYPE {.name = "dtype", .type = OPF_ATTR_INT}
/* clang-format on */
static const opf_import_row rows[] = {{22, opf_import_same, lower_bfloat16}};

static const opf_param float_input[]       = {{"input", 0, OPF_TYPES_FLOAT, 0}};
static const opf_param any_input[]         = {{"input", 0, OPF_TYPES_ALL, 0}};
static const opf_param float_output[]      = {{"output", 0, OPF_TYPES_FLOAT, 0}};
static const opf_param bernoulli_output[]  = {{"output", 0, BERNOULLI_TYPES, 0}};
static const opf_param index_output[]      = {{"output", 0, OPF_TYPE_BIT(OPF_INT32) | OPF_TYPE_BIT(OPF_INT64), 0}};

static const opf_attr_def bernoulli_attrs[]    = {DTYPE, SEED};
static const opf_attr_def multinomial_attrs[]  = {{.name = "dtype", .type = OPF_ATTR_INT, .i = OPF_INT32},
                                                  {.name = "sample_size", .type = OPF_ATTR_INT, .i = 1},
                                                  SEED};
static const opf_attr_def normal_like_attrs[]  = {DTYPE,
                                                  {.name = "mean", .type = OPF_ATTR_FLOAT},
                                                  {.name = "scale", .type = OPF_ATTR_FLOAT, .f = 1},
                                                  SEED};
static const opf_attr_def uniform_like_attrs[] = {DTYPE,
                                                  {.name = "high", .type = OPF_ATTR_FLOAT, .f = 1},
                                                  {.name = "low", .type = OPF_ATTR_FLOAT},
                                                  SEED};
static const opf_attr_def normal_attrs[]       = {{.name = "dtype", .type = OPF_ATTR_INT, .i = OPF_FLOAT},
                                                  {.name = "mean", .type = OPF_ATTR_FLOAT},
                                                  {.name = "scale", .type = OPF_ATTR_FLOAT, .f = 1},
                                                  SEED,
                                                  {.name = "shape", .type = OPF_ATTR_INTS, .required = true}};
static const opf_attr_def uniform_attrs[]      = {{.name = "dtype", .type = OPF_ATTR_INT, .i = OPF_FLOAT},
                                                  {.name = "high", .type = OPF_ATTR_FLOAT, .f = 1},
                                                  {.name = "low", .type = OPF_ATTR_FLOAT},
                                                  SEED,
                                                  {.name = "shape", .type = OPF_ATTR_INTS, .required = true}};

#define DEFINE(op, version, trait_set, in, n_in, out, attr_list, infer_fn, run)                                        \
    const opf_op opf_op_##op = {.name      = #op,                                                                      \
                                .domain    = "",                                                                       \
                                .since     = (version),                                                                \
                                .traits    = OPF_RANDOM | (trait_set),                                                 \
                                .inputs    = (in),                                                                     \
                                .n_inputs  = (n_in),                                                                   \
                                .outputs   = (out),                                                                    \
                                .n_outputs = 1,                                                                        \
                                .attrs     = (attr_list),                                                              \
                                .n_attrs   = OPF_COUNT(attr_list),                                                     \
                                .rows      = rows,                                                                     \
                                .n_rows    = OPF_COUNT(rows),                                                          \
                                .infer     = (infer_fn),                                                               \
                                .reference = (run),                                                                    \
                                .notes     = NOTE}
DEFINE(Bernoulli, 15, 0, float_input, 1, bernoulli_output, bernoulli_attrs, infer_like, run_bernoulli);
DEFINE(Multinomial, 7, 0, float_input, 1, index_output, multinomial_attrs, infer_multinomial, run_multinomial);
DEFINE(RandomNormal, 1, 0, NULL, 0, float_output, normal_attrs, infer_shape, run_normal);
DEFINE(RandomNormalLike, 1, OPF_SHAPE_ONLY, any_input, 1, float_output, normal_like_attrs, infer_like, run_normal);
DEFINE(RandomUniform, 1, 0, NULL, 0, float_output, uniform_attrs, infer_shape, run_uniform);
DEFINE(RandomUniformLike, 1, OPF_SHAPE_ONLY, any_input, 1, float_output, uniform_like_attrs, infer_like, run_uniform);
