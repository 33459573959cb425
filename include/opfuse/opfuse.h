/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opfuse: runs ONNX models on the CPU, fuses their operators and explains every fusion.
 *
 *     opf_model *model = NULL;
 *     opf_session *session = NULL;
 *     opf_error error;
 *     if (opf_model_open("m.onnx", NULL, &model, &error) ||
 *         opf_session_create(model, NULL, &session, &error) ||
 *         opf_session_run(session, inputs, n_inputs, outputs, n_outputs, &error))
 *         fprintf(stderr, "%s\n", error.message);
 *     opf_session_destroy(&session);
 *     opf_model_destroy(&model);
 *
 * A model is immutable: sessions and threads share it. A session is used by one thread at a time; sessions over one
 * model run side by side. Nothing here is global, aborts, prints or reads the environment. Every call that can fail
 * returns an opf_status and fills the optional opf_error with the node, the operator and the values at fault.
 */
#ifndef OPFUSE_OPFUSE_H
#define OPFUSE_OPFUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define OPF_API __attribute__((visibility("default")))
#else
#define OPF_API
#endif

#define OPF_MAX_RANK 16 /* dimensions of a tensor, at most; the limit "rank" can only lower it */

/* ---- status ---------------------------------------------------------------------------------------------------- */

#define OPF_STATUS_MAP(X)                                                                                              \
    X(OK, "ok")                                                                                                        \
    X(INVALID_ARGUMENT, "invalid argument")                                                                            \
    X(INVALID_MODEL, "invalid model")                                                                                  \
    X(UNSUPPORTED, "unsupported")                                                                                      \
    X(INVALID_INPUT, "invalid input")                                                                                  \
    X(BUFFER_TOO_SMALL, "buffer too small")                                                                            \
    X(LIMIT, "limit exceeded")                                                                                         \
    X(CHECK_FAILED, "check failed")                                                                                    \
    X(CANCELLED, "cancelled")                                                                                          \
    X(OUT_OF_MEMORY, "out of memory")                                                                                  \
    X(IO, "input/output error")                                                                                        \
    X(INTERNAL, "internal error")

typedef enum opf_status {
#define X(name, text) OPF_##name,
    OPF_STATUS_MAP(X)
#undef X
} opf_status;

typedef struct opf_error {
    opf_status  status;
    char        message[4096]; /* one line or more, no trailing newline */
    const char *file;          /* source position that reported it, for debugging */
    int         line;
} opf_error;

OPF_API const char *opf_status_text(opf_status status);
OPF_API const char *opf_version(void); /* "0.1.0" */

/* ---- tensors --------------------------------------------------------------------------------------------------- */

/* Numbered as in ONNX TensorProto.DataType. */
typedef enum opf_type {
    OPF_TYPE_NONE       = 0,
    OPF_FLOAT           = 1,
    OPF_UINT8           = 2,
    OPF_INT8            = 3,
    OPF_UINT16          = 4,
    OPF_INT16           = 5,
    OPF_INT32           = 6,
    OPF_INT64           = 7,
    OPF_STRING          = 8,
    OPF_BOOL            = 9,
    OPF_FLOAT16         = 10,
    OPF_DOUBLE          = 11,
    OPF_UINT32          = 12,
    OPF_UINT64          = 13,
    OPF_COMPLEX64       = 14,
    OPF_COMPLEX128      = 15,
    OPF_BFLOAT16        = 16,
    OPF_FLOAT8E4M3FN    = 17,
    OPF_FLOAT8E4M3FNUZ  = 18,
    OPF_FLOAT8E5M2      = 19,
    OPF_FLOAT8E5M2FNUZ  = 20,
    OPF_UINT4           = 21,
    OPF_INT4            = 22,
    OPF_FLOAT4E2M1      = 23,
    OPF_FLOAT8E8M0      = 24,
    OPF_UINT2           = 25,
    OPF_INT2            = 26,
    OPF_FLOAT6E2M3      = 27,
    OPF_FLOAT6E3M2      = 28,
    OPF_TYPE_COUNT
} opf_type;

OPF_API const char *opf_type_name(opf_type type); /* "float", "int64", …; "?" if unknown */
OPF_API size_t opf_type_bits(opf_type type);      /* bits of one element; 0 for strings and unknown types */

/* A dense row-major tensor in somebody's buffer. Elements of less than 8 bits are packed, low bits first. */
typedef struct opf_tensor {
    opf_type type;
    int32_t  rank;
    int64_t  dims[OPF_MAX_RANK];
    void    *data;
    size_t   bytes; /* size of the buffer at data */
} opf_tensor;

/* Reads a .npy file, or a serialized ONNX TensorProto (.pb). The caller frees with opf_tensor_free.
   name: receives the tensor's own name, "" if it has none; may be NULL. */
OPF_API opf_status opf_tensor_load(const char *path, opf_tensor *tensor, char *name, size_t name_bytes, opf_error *error);
/* The same from memory; is_npy tells the format. */
OPF_API opf_status opf_tensor_parse(const void *data, size_t bytes, bool is_npy, opf_tensor *tensor, char *name,
                                    size_t name_bytes, opf_error *error);
/* Writes .npy or .pb, told by the ending; the file appears whole or not at all. */
OPF_API opf_status opf_tensor_save(const char *path, const opf_tensor *tensor, const char *name, opf_error *error);
OPF_API void opf_tensor_free(opf_tensor *tensor);

/* ---- models ---------------------------------------------------------------------------------------------------- */

typedef struct opf_model   opf_model;
typedef struct opf_session opf_session;
typedef struct opf_report  opf_report;

typedef enum opf_cpu_level { OPF_CPU_AUTO = 0, OPF_CPU_SCALAR, OPF_CPU_AVX2, OPF_CPU_AVX512 } opf_cpu_level;
typedef enum opf_mode { OPF_MODE_FUSED = 0, OPF_MODE_UNFUSED, OPF_MODE_REFERENCE } opf_mode;

typedef struct opf_allocator {
    void *(*alloc)(void *user, size_t bytes, size_t alignment); /* NULL when there is no memory */
    void (*release)(void *user, void *pointer, size_t bytes);
    void *user;
} opf_allocator;

typedef struct opf_named_value {
    const char *name;
    int64_t     value;
} opf_named_value;

typedef struct opf_named_shape {
    const char *name;
    int32_t     rank;
    int64_t     dims[OPF_MAX_RANK];
} opf_named_shape;

/* Zero-initialise; every zero is a default. */
typedef struct opf_model_options {
    const char *const     *rules_files; /* rules of the user, tried after the built-in ones */
    size_t                 n_rules_files;
    const char *const     *only; /* rule names and families: nothing else fuses */
    size_t                 n_only;
    const char *const     *skip; /* rule names and families that do not fuse */
    size_t                 n_skip;
    const opf_named_value *dims; /* symbol = number, before simplify */
    size_t                 n_dims;
    const opf_named_shape *shapes; /* input = shape, before simplify */
    size_t                 n_shapes;
    const opf_named_value *limits; /* "model-bytes", "nodes", "rank", "depth", "tensor-bytes", "memory", "folding", "loop-trips" */
    size_t                 n_limits;
    const char *const     *overridable; /* before IR 4: initializers that callers may feed */
    size_t                 n_overridable;
    bool                   freeze;  /* from IR 4: initializers that are also inputs are constants, and no inputs; see opf_session_run */
    bool                   no_mmap; /* read the file instead of mapping it */
    bool                   exact;   /* direct kernels only */
    bool                   no_fuse; /* nothing fuses: the fused graph is the simplified one */
    opf_cpu_level          level;   /* lowers the level, never raises it */
    const opf_allocator   *allocator;
    void (*log)(void *user, const char *message); /* warnings, one line each */
    void *log_user;
} opf_model_options;

OPF_API opf_status opf_model_open(const char *path, const opf_model_options *options, opf_model **model, opf_error *error);
/* Borrows data until opf_model_destroy. folder: where external data lies, NULL if nowhere. */
OPF_API opf_status opf_model_from_memory(const void *data, size_t bytes, const char *folder, const opf_model_options *options,
                                         opf_model **model, opf_error *error);
OPF_API void opf_model_destroy(opf_model **model);

/* An input or output as the model declares it. */
typedef struct opf_port {
    const char *name;
    opf_type    type;
    int32_t     rank;                  /* -1: unknown */
    int64_t     dims[OPF_MAX_RANK];    /* -1: symbolic or unknown */
    const char *symbols[OPF_MAX_RANK]; /* NULL for a number; "?" where nothing is known */
    bool        has_default;           /* an input that need not be fed */
    bool        is_quantized;          /* an output that quantisation makes: see opf_tensor_compare_quantized */
} opf_port;

OPF_API size_t opf_model_input_count(const opf_model *model);
OPF_API size_t opf_model_output_count(const opf_model *model);
OPF_API opf_status opf_model_input(const opf_model *model, size_t index, opf_port *port);
OPF_API opf_status opf_model_output(const opf_model *model, size_t index, opf_port *port);

/* ---- sessions -------------------------------------------------------------------------------------------------- */

typedef struct opf_session_options {
    int32_t  threads; /* 0: usable cores by affinity and cgroup quota */
    opf_mode mode;
    bool     flush_denormals;
    bool     profile; /* record times per step for opf_session_profile */
} opf_session_options;

OPF_API opf_status opf_session_create(const opf_model *model, const opf_session_options *options, opf_session **session,
                                      opf_error *error);
OPF_API void opf_session_destroy(opf_session **session);

/*
 * Runs once. inputs[i] belongs to input i of the model: data NULL takes the default of an input that has one. A run that
 * feeds no such input is as fast as with `freeze`: it uses a graph in which all defaults are constants, fused by itself. One
 * that feeds any of them uses the graph that opf_model_explain tells of, where they are not.
 * outputs[i] belongs to output i: with data, the result is written there if bytes suffice (else OPF_BUFFER_TOO_SMALL,
 * bytes then holds the size needed); with data NULL, data points into the session until its next run. type, rank and
 * dims are filled in. An output may not overlap an input.
 */
OPF_API opf_status opf_session_run(opf_session *session, const opf_tensor *inputs, size_t n_inputs, opf_tensor *outputs,
                                   size_t n_outputs, opf_error *error);
/* Plans and packs weights for the shapes of these inputs (data is not read), so that the first run does not have to. An input
   with a default counts as fed if it has a type. */
OPF_API opf_status opf_session_prepare(opf_session *session, const opf_tensor *inputs, size_t n_inputs, opf_error *error);
/* From any thread: the run in progress returns OPF_CANCELLED at its next step. */
OPF_API void opf_session_cancel(opf_session *session);

typedef struct opf_step_profile {
    const char        *name;   /* of the node */
    const char        *op;     /* the anchor's operator */
    const char        *kernel; /* "gemm_f32_6x16", … */
    const char *const *origin; /* nodes of the model that the step stands for */
    size_t             n_origin;
    double             ms; /* minimum over the profiled runs */
    double             flops;
    double             bytes; /* read and written */
} opf_step_profile;

typedef struct opf_profile {
    const opf_step_profile *steps;
    size_t                  n_steps;
    size_t                  arena_bytes;  /* activations of the latest plan */
    size_t                  weight_bytes; /* packed weights of the model */
    double                  flops;        /* of one run */
    const char             *cpu;          /* level in use, "avx2" */
    int32_t                 threads;
} opf_profile;

/* Of the latest run; owned by the session until its next run. */
OPF_API opf_status opf_session_profile(opf_session *session, opf_profile *profile, opf_error *error);

/* ---- reports --------------------------------------------------------------------------------------------------- */

typedef struct opf_op_count {
    const char *op;
    size_t      count;
} opf_op_count;

typedef struct opf_fusion_entry {
    const char        *rule;
    const char        *anchor; /* the node that carries the fusion on */
    const char *const *origin;
    size_t             n_origin;
} opf_fusion_entry;

typedef struct opf_miss_entry {
    const char *rule;
    const char *start; /* the node where the attempt began */
    const char *code;  /* OP, CONST, ATTR, DTYPE, RANK, SHAPE, … */
    const char *node;  /* at fault */
    const char *reason;
    const char *remedy; /* what would make it fuse; NULL: nothing that a model's author can do */
    size_t      matched;
    size_t      of;
} opf_miss_entry;

typedef struct opf_kept_entry {
    const char *node;
    const char *op;
    const char *code;
    const char *other; /* the neighbour, NULL if none */
    const char *reason;
} opf_kept_entry;

typedef struct opf_graph_node_entry { /* a kernel of the fused graph, for drawings and --node */
    const char        *name;
    const char        *op;
    const char *const *origin;
    size_t             n_origin;
    const char        *text; /* the node with its steps, in the textual syntax */
    const uint32_t    *producers; /* indices of the nodes whose results it reads */
    size_t             n_producers;
    bool               is_kernel; /* false: a view, a constant or shape arithmetic */
} opf_graph_node_entry;

typedef struct opf_explanation {
    int64_t                     opset; /* of the default domain; 0 if not imported */
    int64_t                     ir_version;
    size_t                      nodes_before, nodes_after;
    size_t                      nodes_unfed; /* kernels of a run that feeds no input with a default; 0: there is none, or it is not known */
    const opf_fusion_entry     *fusions_unfed; /* in the graph of such a run */
    size_t                      n_fusions_unfed;
    const opf_op_count         *ops_before, *ops_after;
    size_t                      n_ops_before, n_ops_after;
    double                      bytes_before, bytes_after; /* activations read and written by one run; negative without sizes */
    const opf_fusion_entry     *fusions;
    size_t                      n_fusions;
    const opf_miss_entry       *missed;
    size_t                      n_missed;
    const opf_kept_entry       *kept;
    size_t                      n_kept;
    const opf_graph_node_entry *nodes;
    size_t                      n_nodes;
} opf_explanation;

OPF_API opf_status opf_model_explain(const opf_model *model, opf_report **report, opf_error *error);
OPF_API const opf_explanation *opf_report_explanation(const opf_report *report);

/* Figures of the model as loaded. */
typedef struct opf_model_info {
    const char         *producer;
    int64_t             ir_version, opset;
    const opf_op_count *ops;
    size_t              n_ops;
    int64_t             parameters;       /* elements of all weights */
    size_t              weight_bytes;     /* of all weights in the file */
    double              flops;            /* of one run; negative without sizes */
    double              activation_bytes; /* arena of one run, fused; negative without sizes */
    int32_t             usable_cores;
    const char         *cpu; /* level in use */
} opf_model_info;
OPF_API opf_status opf_model_describe(const opf_model *model, opf_report **report, opf_error *error);
OPF_API const opf_model_info *opf_report_info(const opf_report *report);

/* The graph after a stage ("load", "simplify", "fuse", "plan") in ONNX's textual syntax; "plan" is the step list. */
OPF_API opf_status opf_model_stage_text(const opf_model *model, const char *stage, opf_report **report, opf_error *error);
OPF_API const char *opf_report_text(const opf_report *report);

/* Fused against reference. Zero-initialise; every zero is a default. */
typedef struct opf_verify_options {
    double                 rtol, atol; /* 0: by type, 1e-3 and 1e-4 for float */
    int32_t                threads;
    uint64_t               seed;
    const opf_tensor      *inputs; /* as in opf_session_run, data NULL: random and adversarial; NULL: all random */
    size_t                 n_inputs;
    bool                   each; /* apply every rewrite alone, and name the wrong one */
    void (*progress)(void *user, size_t done, size_t of);
    void *progress_user;
} opf_verify_options;

typedef struct opf_verify_entry {
    const char *input;  /* which inputs: "random", "zeros", "large", …, with sizes */
    const char *output; /* graph output; of a node the value that it makes */
    double      max_abs, max_rel;
    size_t      n_wrong;
    bool        passed;
    const char *rewrite; /* with each: that was applied by itself; else NULL */
    const char *node;    /* of the fused graph, in the list of nodes; else NULL */
} opf_verify_entry;

typedef struct opf_verification {
    bool                    passed;
    const opf_verify_entry *entries;
    size_t                  n_entries;
    const opf_verify_entry *nodes; /* kernels' own results that the reference graph has too, in the order in which they run */
    size_t                  n_nodes;
    const char             *wrong_node;    /* the first of nodes that differs, else NULL */
    const char             *wrong_rewrite; /* with each: the first that is wrong, else NULL */
} opf_verification;
OPF_API opf_status opf_model_verify(const opf_model *model, const opf_verify_options *options, opf_report **report,
                                    opf_error *error);
OPF_API const opf_verification *opf_report_verification(const opf_report *report);

/* ---- writing back ---- */

typedef enum opf_target {
    OPF_TARGET_ONNX = 0, /* standard operators */
    OPF_TARGET_ORT,      /* and operators of com.microsoft, for ONNX Runtime: those that its CPU provider is faster with */
    OPF_TARGET_ORT_ALL   /* all that it has, for its other providers */
} opf_target;

/* Zero-initialise; every zero is a default. */
typedef struct opf_save_options {
    opf_target target;
    int64_t    opset;          /* 0: the lowest, at or above the model's, in which every node has a form */
    uint64_t   external_above; /* a file of more bytes has its weights in PATH.data; 0: what protobuf can bear, 2 GiB */
} opf_save_options;

typedef struct opf_saved {
    int64_t             opset, ir_version;
    const opf_op_count *ops; /* of the nodes written, bodies included */
    size_t              n_ops, nodes;
    size_t              weight_bytes;
    size_t              file_bytes; /* of the model file */
    const char         *external;   /* path of the file of weights; NULL: they are in the model file */
    const char         *raised;     /* what the model's own opset could not say; NULL: the opset is the model's */
} opf_saved;

/* Writes the fused graph as an ONNX model. Names, types and symbols of inputs and outputs stay, and so do documentation
   and metadata. The files appear whole or not at all; OPF_INVALID_ARGUMENT when path is a file that the model is mapped
   from. OPF_UNSUPPORTED: no opset, or not the one asked for, has a form of every node. report may be NULL. */
OPF_API opf_status opf_model_save_onnx(const opf_model *model, const char *path, const opf_save_options *options,
                                       opf_report **report, opf_error *error);
OPF_API const opf_saved *opf_report_saved(const opf_report *report);

/* One operator that opfuse supports, or refuses by decision: those come last. */
typedef struct opf_op_entry {
    const char *name; /* NULL: all operators of a refused domain */
    const char *domain; /* "" is ONNX's own */
    int32_t     since, until; /* first and last opset */
    const char *types;  /* "float, float16, …" of its main type variable */
    const char *notes;
    const char *refused; /* why, and then since, until and types are empty; NULL: it is supported */
} opf_op_entry;
OPF_API opf_status opf_ops_list(opf_report **report, opf_error *error);
OPF_API const opf_op_entry *opf_report_ops(const opf_report *report, size_t *n);

OPF_API void opf_report_destroy(opf_report **report);

/* ---- comparing ------------------------------------------------------------------------------------------------- */

/* |a-b| <= atol + rtol*|b|; NaN equals NaN, infinities equal their like; rtol < 0 or atol < 0: the default of the type. */
OPF_API opf_status opf_tensor_compare(const opf_tensor *actual, const opf_tensor *expected, double rtol, double atol,
                                      double *max_abs, double *max_rel, size_t *n_wrong, opf_error *error);
/* For results of quantisation, where the last bit before rounding decides: elements may be one level apart, which is 1 for
   integers and a neighbour for floats of 8 bits or less. max_levels: the largest distance found. */
OPF_API opf_status opf_tensor_compare_quantized(const opf_tensor *actual, const opf_tensor *expected, double *max_levels,
                                                size_t *n_wrong, opf_error *error);

#ifdef __cplusplus
}
#endif
#endif
