/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators. One file an operator (or tight family) defines one `const opf_op`: its newest signature, shape inference,
 * reference kernel, and rows that lift older opsets to the newest form. ops.def lists them all.
 */
#ifndef OPF_OPS_OP_H
#define OPF_OPS_OP_H

#include "graph/graph.h"

/* ---- signature ---- */

enum { OPF_OPTIONAL = 1, OPF_VARIADIC = 2, OPF_OWN = 4 /* fusion's: no model may have it */ };

typedef struct opf_param {
    const char *name;
    char        var;   /* inputs and outputs of one letter have one type; 0: by itself */
    opf_types   types;
    uint8_t     flags;
} opf_param;

typedef struct opf_attr_def {
    const char   *name;
    opf_attr_type type;
    bool          required;
    int64_t       i; /* default, where there is one */
    float         f;
    const char   *s;
} opf_attr_def;

/* Traits: generic passes rely on them. */
enum {
    OPF_ELEMENTWISE   = 1 << 0, /* each element of the result from the elements at its place, numpy broadcasting */
    OPF_COMMUTATIVE   = 1 << 1, /* inputs 0 and 1 may be exchanged */
    OPF_CONTRACTION   = 1 << 2, /* Conv, MatMul, Gemm…: FLOPs that must not grow */
    OPF_MOVEMENT      = 1 << 3, /* moves or selects elements, computes nothing */
    OPF_NORMALIZATION = 1 << 4,
    OPF_RANDOM        = 1 << 5, /* never folded, never merged */
    OPF_SHAPE_ONLY    = 1 << 6, /* reads only the shape of input 0 */
    OPF_REDUCTION     = 1 << 7, /* elements along some axes to one: Reduce… */
};

/* ---- inference ---- */

/* One call: infos of the inputs (absent: type NONE and rank -1), to be filled for the outputs. Types are checked and,
   where the signature tells, outputs' types set before the call. Works on symbols and on numbers alike. */
typedef struct opf_infer {
    opf_arena             *arena; /* for dims and values */
    opf_dims              *dims;
    const opf_node        *node;
    const opf_info *const *in; /* never NULL entries */
    uint32_t               n_in;
    opf_info              *out; /* rank -1, n_values -1 at first; leave so what is not known */
    uint32_t               n_out;
    const opf_const *const *constants; /* constants[i]: input i when it is a constant, else NULL */
} opf_infer;

/* ---- reference kernels ---- */

/* A tensor on any strides (in elements, may be 0 or negative); data is the element [0,0,…]. Sub-byte types are dense. */
typedef struct opf_view {
    opf_type type;
    int32_t  rank;
    int64_t  dims[OPF_MAX_RANK];
    int64_t  strides[OPF_MAX_RANK];
    void    *data; /* NULL: an absent optional input, or an output that is not wanted */
} opf_view;

typedef struct opf_call {
    const opf_node *node;  /* attributes; for a step, op and attrs below win */
    const opf_attr *attrs;
    uint32_t        n_attrs;
    const opf_view *in;
    uint32_t        n_in;
    opf_view       *out; /* shapes as inferred */
    uint32_t        n_out;
    opf_heap       *heap;    /* for temporaries */
    void           *context; /* of the executor, for operators with bodies */
} opf_call;

/* ---- opsets ---- */

/* Lifts a node of the model's opset, if below `below`, to the newest form; rows are applied oldest first. lower is the
   inverse for writing an opset below `below`: OPF_UNSUPPORTED when the node has no such form. Either may add nodes. */
typedef struct opf_import_row {
    int32_t below;
    opf_status (*lift)(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);
    opf_status (*lower)(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);
} opf_import_row;

struct opf_op {
    const char           *name;
    const char           *domain; /* "" is ONNX's own */
    int32_t               since;  /* first opset that had the operator in a form we import */
    uint32_t              traits;
    const opf_param      *inputs;
    uint32_t              n_inputs;
    const opf_param      *outputs;
    uint32_t              n_outputs;
    const opf_attr_def   *attrs;
    uint32_t              n_attrs;
    const opf_import_row *rows;
    uint32_t              n_rows;
    opf_status (*infer)(opf_infer *infer, opf_error *error);
    opf_status (*reference)(const opf_call *call, opf_error *error); /* fails on data errors only, before it writes */
    /* Optional: computes the shapes of outputs from the data of the inputs, for shapes that depend on more than known
       values. in[] as for reference, call->out is not read; out[] has types set and gets rank and dims, all numbers. */
    opf_status (*resolve)(const opf_call *call, opf_info *out, opf_arena *arena, opf_error *error);
    const char *notes; /* for the list of operators, may be NULL */
};
#define OPF_COUNT(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

/* opf_op_Conv, opf_op_Relu, …: compare `node->op == &opf_op_Conv`. */
#define OPF_OP(name) extern const opf_op opf_op_##name;
#include "ops/ops.def"
#undef OPF_OP

const opf_op *opf_find_operator(const char *domain, const char *op_type); /* "ai.onnx" is "" */
const opf_op *const *opf_all_operators(uint32_t *n);                      /* in the order of ops.def */

/* An attribute of a call, with the default of the definition. */
int64_t opf_call_int(const opf_call *call, const char *name, int64_t otherwise);
float opf_call_float(const opf_call *call, const char *name, float otherwise);
const char *opf_call_string(const opf_call *call, const char *name, const char *otherwise);
const opf_attr *opf_call_attr(const opf_call *call, const char *name);

#endif
