/* SPDX-License-Identifier: Apache-2.0 */
/* SwiGLU: swish(A) * B, of equal shapes. */
#include "ops/check.h"
#include "ops/elementwise.h"

#include <math.h>

static opf_status infer_swiglu(opf_infer *infer, opf_error *error)
{
    const opf_info *a = infer->in[0], *b = infer->in[1];
    opf_dim         dims[OPF_MAX_RANK];
    if (a->rank < 0 || b->rank < 0)
        return opf_infer_same(infer, 0, a->rank < 0, error);
    bool same = a->rank == b->rank;
    for (int32_t i = 0; i < a->rank && same; i++) {
        same    = !opf_dims_clash(a->dims[i], b->dims[i]);
        dims[i] = opf_dim_is_number(b->dims[i]) ? b->dims[i] : a->dims[i];
    }
    return same ? opf_infer_set(infer, 0, a->rank, dims, error) : opf_refuse_shapes(infer, 0, 1, error, "must be equal");
}

static opf_status run_swiglu(const opf_call *call, opf_error *error)
{
    const double    alpha   = (double)opf_call_float(call, "alpha", 1);
    opf_view       *y       = &call->out[0];
    const opf_view *views[] = {&call->in[0], &call->in[1], y};
    opf_walk        walk;
    (void)error;
    for (opf_walk_init(&walk, y->rank, y->dims, 3, views); walk.left > 0; opf_walk_next(&walk)) {
        const double a = opf_view_f64(views[0], walk.offset[0]), e = exp(-fabs(alpha * a));
        const double sigmoid = alpha * a >= 0 ? 1 / (1 + e) : e / (1 + e);
        opf_view_put_f64(y, walk.offset[2], a * sigmoid * opf_view_f64(views[1], walk.offset[1]));
    }
    return OPF_OK;
}

static const opf_attr_def attrs[] = {{.name = "alpha", .type = OPF_ATTR_FLOAT, .f = 1}};

const opf_op opf_op_SwiGLU = {.name      = "SwiGLU",
                              .domain    = "",
                              .since     = 28,
                              .traits    = OPF_ELEMENTWISE,
                              .inputs    = OPF_PARAMS({"A", 'T', OPF_TYPES_FLOAT, 0}, {"B", 'T', OPF_TYPES_FLOAT, 0}),
                              .n_inputs  = 2,
                              .outputs   = OPF_PARAMS({"Y", 'T', OPF_TYPES_FLOAT, 0}),
                              .n_outputs = 1,
                              .attrs     = attrs,
                              .n_attrs   = OPF_COUNT(attrs),
                              .infer     = infer_swiglu,
                              .reference = run_swiglu};
