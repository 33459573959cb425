/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss over [batch, classes, …] and one class for each [batch, …]. The
 * second takes scores that are made log-probabilities first. A mean divides by the sum of the weights that counted.
 */
#include "ops/check.h"
#include "ops/lift.h"
#include "ops/reference.h"

#include <math.h>
#include <string.h>

enum { INPUT, TARGET, WEIGHT };
enum { LOSS, LOG_PROB };

/* ---- inference ---- */

static opf_status check_target(opf_infer *infer, opf_dim *dims, opf_error *error)
{
    const opf_info *x = infer->in[INPUT], *target = infer->in[TARGET];
    bool            fits = target->rank < 0 || target->rank == x->rank - 1;
    for (int32_t i = 0; i < x->rank - 1; i++) {
        dims[i] = x->dims[i == 0 ? 0 : i + 1];
        if (!fits || target->rank < 0)
            continue;
        fits    = !opf_dims_clash(dims[i], target->dims[i]);
        dims[i] = opf_dim_is_number(target->dims[i]) ? target->dims[i] : dims[i];
    }
    return fits ? OPF_OK : opf_refuse_shapes(infer, INPUT, TARGET, error, "the latter must be the former without its classes");
}

static opf_status infer_loss(opf_infer *infer, opf_error *error)
{
    const opf_info *x         = infer->in[INPUT];
    const char     *reduction = opf_node_string(infer->node, "reduction", "mean");
    const bool      none      = strcmp(reduction, "none") == 0;
    opf_dim         dims[OPF_MAX_RANK];
    OPF_FAIL_IF(error, !none && strcmp(reduction, "mean") != 0 && strcmp(reduction, "sum") != 0, OPF_INVALID_MODEL,
                "reduction is \"%s\", must be \"none\", \"sum\" or \"mean\"", reduction);
    if (!none)
        OPF_TRY(opf_infer_set(infer, LOSS, 0, dims, error));
    if (x->rank < 0)
        return none ? opf_infer_same(infer, LOSS, TARGET, error) : OPF_OK;
    if (x->rank < 2)
        return opf_refuse_shapes(infer, INPUT, INPUT, error, "must have rank 2 or more");
    OPF_TRY(check_target(infer, dims, error));
    OPF_TRY(opf_check_vector(infer, WEIGHT, x->dims[1], INPUT, error));
    if (infer->n_out > LOG_PROB)
        OPF_TRY(opf_infer_same(infer, LOG_PROB, INPUT, error));
    return none ? opf_infer_set(infer, LOSS, x->rank - 1, dims, error) : OPF_OK;
}

/* ---- reference ---- */

typedef struct loss_job {
    const opf_view *x, *target, *weight; /* weight NULL: all are 1 */
    opf_view        samples;             /* x without its classes */
    bool            has_ignored, is_softmax;
    int64_t         ignored;
    opf_view       *log_prob; /* NULL: not wanted */
} loss_job;

static double class_at(const loss_job *l, int64_t offset, int64_t c)
{
    return opf_view_f64(l->x, offset + c * l->x->strides[1]);
}

/* log(sum(exp(x))) over the classes of a sample, as a maximum and the rest. */
static void log_sum(const loss_job *l, int64_t offset, double *max, double *rest)
{
    double sum = 0;
    *max       = -(double)INFINITY;
    for (int64_t c = 0; c < l->x->dims[1]; c++)
        *max = fmax(*max, class_at(l, offset, c));
    for (int64_t c = 0; c < l->x->dims[1]; c++)
        sum += exp(class_at(l, offset, c) - *max);
    *rest = log(sum);
}

static opf_status check_classes(const loss_job *l, opf_error *error)
{
    const opf_view *views[] = {l->target};
    opf_walk        walk;
    for (opf_walk_init(&walk, l->target->rank, l->target->dims, 1, views); walk.left > 0; opf_walk_next(&walk)) {
        const int64_t c = opf_view_i64(l->target, walk.offset[0]);
        if (l->has_ignored && c == l->ignored)
            continue;
        OPF_FAIL_IF(error, c < 0 || c >= l->x->dims[1], OPF_INVALID_INPUT, "class %lld of target, must be 0 to %lld", (long long)c,
                    (long long)l->x->dims[1] - 1);
    }
    return OPF_OK;
}

/* The loss of one sample, at these offsets of x and target, and its weight. */
static double sample_loss(const loss_job *l, int64_t offset, int64_t target, double *weight)
{
    const int64_t c = opf_view_i64(l->target, target);
    double        max, rest;
    *weight = 0;
    if (l->has_ignored && c == l->ignored)
        return 0;
    *weight = l->weight != NULL ? opf_view_f64(l->weight, c * l->weight->strides[0]) : 1;
    if (!l->is_softmax)
        return -class_at(l, offset, c) * *weight;
    log_sum(l, offset, &max, &rest);
    return -(class_at(l, offset, c) - max - rest) * *weight;
}

static void put_log_prob(const loss_job *l)
{
    opf_view        samples = l->samples;
    const opf_view *views[] = {&l->samples, &samples};
    opf_walk        walk;
    double          max, rest;
    for (int32_t i = 0; i < samples.rank; i++)
        samples.strides[i] = l->log_prob->strides[i == 0 ? 0 : i + 1];
    for (opf_walk_init(&walk, samples.rank, samples.dims, 2, views); walk.left > 0; opf_walk_next(&walk)) {
        log_sum(l, walk.offset[0], &max, &rest);
        for (int64_t c = 0; c < l->x->dims[1]; c++)
            opf_view_put_f64(l->log_prob, walk.offset[1] + c * l->log_prob->strides[1],
                             class_at(l, walk.offset[0], c) - max - rest);
    }
}

static void put_losses(const loss_job *l, opf_view *loss, bool is_mean)
{
    const bool      none    = loss->rank > 0;
    const opf_view *views[] = {&l->samples, l->target, loss};
    double          sum = 0, weights = 0, weight;
    opf_walk        walk;
    for (opf_walk_init(&walk, l->samples.rank, l->samples.dims, none ? 3 : 2, views); walk.left > 0; opf_walk_next(&walk)) {
        const double x = sample_loss(l, walk.offset[0], walk.offset[1], &weight);
        if (none)
            opf_view_put_f64(loss, walk.offset[2], x);
        sum += x;
        weights += weight;
    }
    if (!none)
        opf_view_put_f64(loss, 0, is_mean ? sum / weights : sum);
}

static opf_status run_loss(const opf_call *call, bool is_softmax, opf_error *error)
{
    const opf_attr *ignored = opf_call_attr(call, "ignore_index");
    loss_job        l       = {.x           = &call->in[INPUT],
                               .target      = &call->in[TARGET],
                               .weight      = call->n_in > WEIGHT && call->in[WEIGHT].data != NULL ? &call->in[WEIGHT] : NULL,
                               .has_ignored = ignored != NULL,
                               .is_softmax  = is_softmax,
                               .ignored     = ignored != NULL ? ignored->i : 0,
                               .log_prob    = call->n_out > LOG_PROB && call->out[LOG_PROB].data != NULL ? &call->out[LOG_PROB] : NULL};
    l.samples.rank = l.x->rank - 1;
    for (int32_t i = 0; i < l.samples.rank; i++) {
        l.samples.dims[i]    = l.x->dims[i == 0 ? 0 : i + 1];
        l.samples.strides[i] = l.x->strides[i == 0 ? 0 : i + 1];
    }
    OPF_TRY(check_classes(&l, error));
    if (call->out[LOSS].data != NULL)
        put_losses(&l, &call->out[LOSS], strcmp(opf_call_string(call, "reduction", "mean"), "mean") == 0);
    if (l.log_prob != NULL)
        put_log_prob(&l);
    return OPF_OK;
}

static opf_status run_nll(const opf_call *call, opf_error *error)
{
    return run_loss(call, false, error);
}

static opf_status run_cross_entropy(const opf_call *call, opf_error *error)
{
    return run_loss(call, true, error);
}

/* ---- signatures ---- */

#define INDEX_TYPES (OPF_TYPE_BIT(OPF_INT32) | OPF_TYPE_BIT(OPF_INT64))

static const opf_param      nll_inputs[]  = {{"input", 'T', OPF_TYPES_FLOAT, 0},
                                             {"target", 0, INDEX_TYPES, 0},
                                             {"weight", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL}};
static const opf_param      nll_outputs[] = {{"loss", 'T', OPF_TYPES_FLOAT, 0}};
static const opf_param      sce_inputs[]  = {{"scores", 'T', OPF_TYPES_FLOAT, 0},
                                             {"labels", 0, INDEX_TYPES, 0},
                                             {"weights", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL}};
static const opf_param      sce_outputs[] = {{"output", 'T', OPF_TYPES_FLOAT, 0}, {"log_prob", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL}};
static const opf_attr_def   attrs[]       = {{.name = "ignore_index", .type = OPF_ATTR_INT},
                                             {.name = "reduction", .type = OPF_ATTR_STRING, .s = "mean"}};
static const opf_import_row nll_rows[]    = {{22, opf_import_same, opf_lower_no_bfloat16}};
static const opf_import_row sce_rows[]    = {{13, opf_import_same, opf_lower_no_bfloat16}};

const opf_op opf_op_NegativeLogLikelihoodLoss = {.name      = "NegativeLogLikelihoodLoss",
                                                 .domain    = "",
                                                 .since     = 12,
                                                 .inputs    = nll_inputs,
                                                 .n_inputs  = OPF_COUNT(nll_inputs),
                                                 .outputs   = nll_outputs,
                                                 .n_outputs = OPF_COUNT(nll_outputs),
                                                 .attrs     = attrs,
                                                 .n_attrs   = OPF_COUNT(attrs),
                                                 .rows      = nll_rows,
                                                 .n_rows    = OPF_COUNT(nll_rows),
                                                 .infer     = infer_loss,
                                                 .reference = run_nll};

const opf_op opf_op_SoftmaxCrossEntropyLoss = {.name      = "SoftmaxCrossEntropyLoss",
                                               .domain    = "",
                                               .since     = 12,
                                               .inputs    = sce_inputs,
                                               .n_inputs  = OPF_COUNT(sce_inputs),
                                               .outputs   = sce_outputs,
                                               .n_outputs = OPF_COUNT(sce_outputs),
                                               .attrs     = attrs,
                                               .n_attrs   = OPF_COUNT(attrs),
                                               .rows      = sce_rows,
                                               .n_rows    = OPF_COUNT(sce_rows),
                                               .infer     = infer_loss,
                                               .reference = run_cross_entropy};
