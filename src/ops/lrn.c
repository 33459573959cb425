/* SPDX-License-Identifier: Apache-2.0 */
/* LRN: each element over a power of the squares of its neighbours along the channels. */
#include "ops/check.h"
#include "ops/elementwise.h"
#include "ops/lift.h"

#include <math.h>

static opf_status infer_lrn(opf_infer *infer, opf_error *error)
{
    const int64_t size = opf_node_int(infer->node, "size", 1);
    OPF_FAIL_IF(error, size < 1, OPF_INVALID_MODEL, "size is %lld, must be at least 1", (long long)size);
    if (infer->in[0]->rank == 0 || infer->in[0]->rank == 1)
        return opf_refuse_shapes(infer, 0, 0, error, "must have rank 2 or more");
    return opf_infer_same(infer, 0, 0, error);
}

static opf_status run_lrn(const opf_call *call, opf_error *error)
{
    const opf_view *x      = &call->in[0];
    opf_view       *y      = &call->out[0];
    const int64_t   size   = opf_call_int(call, "size", 1);
    const double    alpha  = (double)opf_call_float(call, "alpha", 1e-4f),
                 beta      = (double)opf_call_float(call, "beta", 0.75f);
    const double    bias   = (double)opf_call_float(call, "bias", 1);
    const int64_t   before = (size - 1) / 2, after = size - 1 - before;
    const opf_view *views[] = {x, y};
    opf_walk        walk;
    (void)error;
    for (opf_walk_init(&walk, x->rank, x->dims, 2, views); walk.left > 0; opf_walk_next(&walk)) {
        const int64_t c = walk.index[1], last = x->dims[1] - 1;
        const int64_t low = c > before ? c - before : 0, high = last - c > after ? c + after : last;
        double        sum = 0;
        for (int64_t i = low; i <= high; i++) {
            const double value = opf_view_f64(x, walk.offset[0] + (i - c) * x->strides[1]);
            sum += value * value;
        }
        opf_view_put_f64(y, walk.offset[1],
                         opf_view_f64(x, walk.offset[0]) / pow(bias + alpha / (double)size * sum, beta));
    }
    return OPF_OK;
}

static const opf_import_row rows[]  = {{13, opf_import_same, opf_lower_no_bfloat16}};
static const opf_attr_def   attrs[] = {{.name = "alpha", .type = OPF_ATTR_FLOAT, .f = 1e-4f},
                                       {.name = "beta", .type = OPF_ATTR_FLOAT, .f = 0.75f},
                                       {.name = "bias", .type = OPF_ATTR_FLOAT, .f = 1},
                                       {.name = "size", .type = OPF_ATTR_INT, .required = true}};

const opf_op opf_op_LRN = {.name      = "LRN",
                           .domain    = "",
                           .since     = 1,
                           .traits    = OPF_NORMALIZATION,
                           .inputs    = OPF_PARAMS({"X", 'T', OPF_TYPES_FLOAT, 0}),
                           .n_inputs  = 1,
                           .outputs   = OPF_PARAMS({"Y", 'T', OPF_TYPES_FLOAT, 0}),
                           .n_outputs = 1,
                           .attrs     = attrs,
                           .n_attrs   = OPF_COUNT(attrs),
                           .rows      = rows,
                           .n_rows    = OPF_COUNT(rows),
                           .infer     = infer_lrn,
                           .reference = run_lrn};
