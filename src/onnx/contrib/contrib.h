/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that are made of others: those that ONNX Runtime's optimizer writes into the models it saves, and some that
 * exporters and ONNX's preview domain have. While a model is lifted each is taken apart into standard operators of the
 * newest opset, so that simplify and fuse see one spelling of everything and put it together again their own way. The
 * names of outputs and the origin survive.
 */
#ifndef OPF_ONNX_CONTRIB_H
#define OPF_ONNX_CONTRIB_H

#include "ops/op.h"

#include <string.h>

/* An operator while it is taken apart. */
typedef struct opf_contrib {
    opf_graph *graph;
    opf_node_id node, first_new;
    const char *name;
    const opf_value_id *inputs, *outputs; /* of the node; 0: absent */
    uint32_t n_inputs, n_outputs;
    const opf_attr *attrs;
    uint32_t n_attrs;
    int32_t opset;     /* of the model that is written; 0: one is loaded, to the newest */
    opf_status status; /* of the first failure: all later calls do nothing and give 0 */
    opf_error *error;
} opf_contrib;

typedef struct opf_contrib_op {
    const char *domain, *name;
    int32_t below;                     /* only in opsets of the domain below this; 0: in all */
    uint32_t required;                 /* bit i: input i must be there */
    uint32_t n_inputs;                 /* at most; UINT32_MAX: any number */
    void (*decompose)(opf_contrib *c); /* NULL: it is what the standard operator of its name is */
} opf_contrib_op;

const opf_contrib_op *opf_all_contrib(uint32_t *n); /* by name */
const opf_contrib_op *opf_contrib_find(const char *domain, const char *op_type, int64_t version);
/* Replaces the node. OPF_UNSUPPORTED says which form of the operator is not supported. opset: as above. */
opf_status opf_contrib_lift(const opf_contrib_op *op, opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);

/* ---- for decompositions ---- */

void opf_contrib_fail(opf_contrib *c, opf_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
static inline bool opf_contrib_failed(const opf_contrib *c)
{
    return c->status != OPF_OK;
}

static inline opf_value_id opf_contrib_in(const opf_contrib *c, uint32_t i)
{
    return i < c->n_inputs ? c->inputs[i] : 0;
}
static inline bool opf_contrib_wants(const opf_contrib *c, uint32_t o)
{
    return o < c->n_outputs && c->outputs[o] != 0;
}
/* What is known of a value by now. */
static inline const opf_info *opf_contrib_info(const opf_contrib *c, opf_value_id value)
{
    return &opf_graph_value(c->graph, value)->info;
}
/* Fail when it is not known. `what` names the input in the message. */
int32_t opf_contrib_rank(opf_contrib *c, opf_value_id value, const char *what);
opf_type opf_contrib_type(opf_contrib *c, opf_value_id value, const char *what);
int64_t opf_contrib_dim(opf_contrib *c, opf_value_id value, int32_t axis, const char *what); /* axis may be negative */

/* Attributes of the node; one of another type fails. */
int64_t opf_contrib_int(opf_contrib *c, const char *name, int64_t otherwise);
float opf_contrib_float(opf_contrib *c, const char *name, float otherwise);
const char *opf_contrib_string(opf_contrib *c, const char *name, const char *otherwise);
/* Fails unless the attribute is absent or has this value. */
void opf_contrib_demand_int(opf_contrib *c, const char *name, int64_t value);
/* The attribute as it is, to be given to a new node: type NONE when it is not there. */
opf_attr opf_contrib_attr(const opf_contrib *c, const char *name);

static inline opf_attr opf_contrib_int_attr(const char *name, int64_t i)
{
    return (opf_attr){.name = name, .type = OPF_ATTR_INT, .i = i};
}
static inline opf_attr opf_contrib_float_attr(const char *name, float f)
{
    return (opf_attr){.name = name, .type = OPF_ATTR_FLOAT, .f = f};
}
static inline opf_attr opf_contrib_string_attr(const char *name, const char *s)
{
    return (opf_attr){.name = name, .type = OPF_ATTR_STRING, .s = s, .n = (uint32_t)strlen(s)};
}

/* Constants. */
opf_value_id opf_contrib_ints(opf_contrib *c, uint32_t n, const int64_t *ints); /* int64, rank 1 */
opf_value_id opf_contrib_integer(opf_contrib *c, opf_type type, int64_t x);     /* rank 0 */
opf_value_id opf_contrib_number(opf_contrib *c, opf_type type, double x);       /* a float, rank 0 */

/* New nodes: absent inputs are 0, attributes of type NONE are left out. They are inferred at once. */
void opf_contrib_add_many(opf_contrib *c, const opf_op *op, uint32_t n_inputs, const opf_value_id *inputs,
                          uint32_t n_attrs, const opf_attr *attrs, uint32_t n_outputs, opf_value_id *outputs);
opf_value_id opf_contrib_add(opf_contrib *c, const opf_op *op, uint32_t n_inputs, const opf_value_id *inputs,
                             uint32_t n_attrs, const opf_attr *attrs);
/* What frequently comes up. perm: rank axes. */
opf_value_id opf_contrib_transpose(opf_contrib *c, opf_value_id x, uint32_t rank, const int64_t *perm);
opf_value_id opf_contrib_channels_first(opf_contrib *c, opf_value_id x, bool channels_last,
                                        const char *what);                                  /* as it is if not last */
opf_value_id opf_contrib_channels_last(opf_contrib *c, opf_value_id x, bool channels_last); /* back */
opf_value_id opf_contrib_cast(opf_contrib *c, opf_value_id x, opf_type type);
opf_value_id opf_contrib_size(opf_contrib *c, opf_value_id x, int64_t axis); /* int64[1] */
opf_value_id opf_contrib_range(opf_contrib *c, opf_value_id size);           /* 0, 1, … size - 1 of an int64[1] */
/* flattens: over all axes from `axis` on, as before opset 13; else along `axis`. */
opf_value_id opf_contrib_softmax(opf_contrib *c, opf_value_id x, int64_t axis, bool flattens);
/* One of the activations that fused operators name, "" for none. params NULL: they are attributes activation_alpha, …
 */
opf_value_id opf_contrib_activate(opf_contrib *c, opf_value_id x, const char *name, uint32_t n_params,
                                  const float *params);
/* The real product of two quantized matrices, computed in integers; a and b are tensor, scale, zero point (0: none). */
opf_value_id opf_contrib_integer_product(opf_contrib *c, const opf_value_id a[3], const opf_value_id b[3],
                                         opf_value_id bias);

/* Output o of the node is this value. Comes last: the value goes by the output's own id from then on. */
void opf_contrib_bind(opf_contrib *c, uint32_t o, opf_value_id value);

/* Lists, each as a count and a pointer. */
#define OPF_LIST_OF(type, ...)                                                                                         \
    (uint32_t)(sizeof((type[]){__VA_ARGS__}) / sizeof(type)), (const type[])                                           \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define OPF_INPUTS(...) OPF_LIST_OF(opf_value_id, __VA_ARGS__)
#define OPF_ATTRS(...)  OPF_LIST_OF(opf_attr, __VA_ARGS__)
#define OPF_INTS(...)   OPF_LIST_OF(int64_t, __VA_ARGS__)
/* The result of a new node without attributes. */
#define OPF_APPLY(c, op, ...) opf_contrib_add(c, &opf_op_##op, OPF_INPUTS(__VA_ARGS__), 0, NULL)

#define OPF_CONTRIB(domain, name, required, n_inputs)            void opf_decompose_##name(opf_contrib *c);
#define OPF_CONTRIB_OLD(domain, name, below, required, n_inputs) OPF_CONTRIB(domain, name, required, n_inputs)
#define OPF_CONTRIB_SAME(domain, name)
#include "onnx/contrib/contrib.def"
#undef OPF_CONTRIB
#undef OPF_CONTRIB_OLD
#undef OPF_CONTRIB_SAME

#endif
