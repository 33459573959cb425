/* SPDX-License-Identifier: Apache-2.0 */
/* Models written back: the same results and the same kernels when they are opened again, and what must not change. */
#include "text_model.h"

#include "onnx/save/protobuf.h"
#include "onnx/save/weights.h"

#include <sys/stat.h>
#include <unistd.h>

/* ---- a folder of its own ---- */

static char folder[] = "opfuse_save_XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    char command[128];
    (void)state;
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static const char *path_of(const char *name)
{
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static bool exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static opf_text read_file(const char *path, opf_arena *arena)
{
    opf_text text;
    char block[4096];
    size_t n;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    opf_text_init(&text, arena);
    while ((n = fread(block, 1, sizeof block, file)) > 0)
        opf_text_add_bytes(&text, block, n);
    assert_int_equal(fclose(file), 0);
    return text;
}

/* ---- there and back ---- */

typedef struct subject {
    const char *text, *sizes;
} subject;

/* Weights begin with w, positive ones with p. */
static const subject subjects[] = {
    {"g (float[N,8,6,6] x, float[8,8,3,3] w1, float[8,8,3,3] w2, float[8] p1, float[8] w3, float[8] w4, float[8] p2) "
     "=> (y) {"
     " a = Conv <pads = [1, 1, 1, 1]> (x, w1) n = BatchNormalization(a, p1, w3, w4, p2) r = Relu(n)"
     " b = Conv <pads = [1, 1, 1, 1]> (r, w2) s = Add(x, b) y = Relu(s) }",
     "N=2"},
    {"g (float[N,S,16] x, float[N,S,16] z, float[16] w1, float[16] w2) => (y, s) {"
     " s = Add(x, z) y = LayerNormalization(s, w1, w2) }",
     "N=2 S=3"},
    {"g (float[N,S,16] x, float[16] w1) => (y) { y = RMSNormalization <epsilon = 0.001> (x, w1) }", "N=2 S=3"},
    {"g (float[N,S,16] x, float[16,24] w1, float[24] w2, float[24] w3) => (y, z, u, v, t) {"
     " a = MatMul(x, w1) b = Add(a, w2) y = Gelu(b) z = Gelu <approximate = \"tanh\"> (b) c = Swish(b) u = Mul(c, w3)"
     " v = HardSwish(a) d = Mish(a) t = Swish <alpha = 1.7> (d) }",
     "N=1 S=5"},
    {"g (float[N,S,16] x, float[16,16] w1, float[16,16] w2, float[16,16] w3, float[16] w4, float[N,1,1,S] m) => (y) {"
     " q0 = MatMul(x, w1) q1 = Add(q0, w4) k0 = MatMul(x, w2) v0 = MatMul(x, w3) h = Constant <value_ints = [0, 0, 4, "
     "-1]> ()"
     " q2 = Reshape(q1, h) q = Transpose <perm = [0, 2, 1, 3]> (q2) k2 = Reshape(k0, h) k = Transpose <perm = [0, 2, "
     "3, 1]> (k2)"
     " v2 = Reshape(v0, h) v = Transpose <perm = [0, 2, 1, 3]> (v2) s = MatMul(q, k) f = Constant <value_float = 0.5> "
     "()"
     " t = Mul(s, f) u = Add(t, m) p = Softmax(u) o = MatMul(p, v) r = Transpose <perm = [0, 2, 1, 3]> (o)"
     " j = Constant <value_ints = [0, 0, 16]> () y = Reshape(r, j) }",
     "N=2 S=5"},
    {"g (float[N,4,S,8] q, float[N,4,T,8] k, float[N,4,T,8] v, bool[S,T] m) => (y) { t = Transpose <perm = [0, 1, 3, "
     "2]> (k)"
     " s = MatMul(q, t) f = Constant <value_float = 0.3> () z = Mul(s, f) c = Constant <value_float = -100.0> ()"
     " u = Where(m, z, c) p = Softmax(u) y = MatMul(p, v) }",
     "N=2 S=3 T=5"},
    {"g (float[N,4,S,8] q, float[N,4,8,T] k, float[N,4,T,8] v, bool[S,T] m) => (y) { a = MatMul(q, k) none = Constant "
     "<value_float = -inf> () zero = Constant <value_float = 0.0> () b = Where(m, a, none) c = Softmax(b) n = IsNaN(c) "
     "d = Where(n, zero, c) y = MatMul(d, v) }",
     "N=2 S=3 T=5"},
    {"g (float[N,4,2,3,4] q0, float[N,4,2,3,4] k0, float[N,4,2,3,4] v0, float[1,4,1,3,3] m) => (y) {"
     " r = Constant <value_ints = [-1, 2, 3, 4]> () q = Reshape(q0, r) k = Reshape(k0, r) v = Reshape(v0, r)"
     " t = Transpose <perm = [0, 1, 3, 2]> (k) s = MatMul(q, t) a = Constant <value_ints = [-1, 4, 2, 3, 3]> ()"
     " b = Constant <value_ints = [-1, 2, 3, 3]> () z = Reshape(s, a) d = Add(z, m) u = Reshape(d, b)"
     " p = Softmax(u) y = MatMul(p, v) }",
     "N=2"},
    {"g (float[N,6,4,4] x, float[6] w1, float[6] w2) => (y) { y = GroupNormalization <num_groups = 3> (x, w1, w2) }",
     "N=2"},
    {"g (bool c, float[N] x, float[N] z) => (y, k) {"
     " k = Constant <value_floats = [1.0, 2.0]> ()"
     " y = If <then_branch = t () => (a) { b = Exp(x) a = Add(b, z) },"
     " else_branch = e () => (d) { d = Constant <value_floats = [1.0, 2.0, 3.0]> () }> (c) }",
     "N=3"},
    {"g (float[N] x, float[N] z) => (y, t) { a = Sqrt(x) t = Add(a, z) b = Exp(t) y = Mul(b, x) }", "N=9"},
    {"g (float[N,4] x) => (y, x) { y = Softmax(x) }", "N=3"},
    /* The product takes bias and residual, whichever is named first. */
    {"g (float[2,3,8] x, float[2,3,8] z, float[8,8] w1, float[8] w2, float[8] w3) => (y, t) {"
     " m = MatMul(x, w1) b = Add(m, w2) t = Add(z, b) y = LayerNormalization(t, w3) }",
     ""},
    {"g (float[2,3,8] x, float[2,3,8] z, float[8,8] w1, float[8] w2, float[8] w3) => (y) {"
     " m = MatMul(x, w1) b = Add(m, w2) t = Add(b, z) n = RMSNormalization(t, w3) y = Add(n, t) }",
     ""},
    {"g (int64[N,S] i, int32[S] j, float[7,16] w1, float[5,16] w2, float[16] w3) => (y) {"
     " a = Gather(w1, i) b = Gather(w2, j) s = Add(a, b) y = LayerNormalization(s, w3) }",
     "N=2 S=3"},
};

typedef struct saved_model {
    opf_model *model;
    opf_explanation explanation;
    opf_report *report;
} saved_model;

static void explain(saved_model *m)
{
    opf_error error;
    if (opf_model_explain(m->model, &m->report, &error) != OPF_OK)
        fail_msg("%s", error.message);
    m->explanation = *opf_report_explanation(m->report);
}

static void same_kernels(const opf_explanation *a, const opf_explanation *b, const char *text)
{
    for (size_t i = 0; i < a->n_ops_after; i++) {
        size_t count = 0;
        for (size_t k = 0; k < b->n_ops_after; k++)
            if (strcmp(a->ops_after[i].op, b->ops_after[k].op) == 0)
                count = b->ops_after[k].count;
        if (count != a->ops_after[i].count)
            fail_msg("%zu kernels %s, %zu after\n%s", a->ops_after[i].count, a->ops_after[i].op, count, text);
    }
    if (a->nodes_after != b->nodes_after)
        fail_msg("%zu kernels, %zu after\n%s", a->nodes_after, b->nodes_after, text);
    if (a->bytes_after != b->bytes_after)
        fail_msg("%lld bytes, %lld after\n%s", (long long)a->bytes_after, (long long)b->bytes_after, text);
}

static void check_subject(const subject *s, const opf_save_options *options)
{
    text_model before;
    saved_model a = {0}, b = {0};
    opf_error error;
    tensors inputs;
    results want, have;
    const char *path = path_of("model.onnx");
    text_model_open(&before, s->text, NULL, 7);
    if (opf_model_save_onnx(before.model, path, options, NULL, &error) != OPF_OK)
        fail_msg("opset %d, target %d: %s\n%s", (int)options->opset, (int)options->target, error.message, s->text);
    if (opf_model_open(path, NULL, &b.model, &error) != OPF_OK)
        fail_msg("opset %d, target %d: %s\n%s", (int)options->opset, (int)options->target, error.message, s->text);
    a.model = before.model;
    explain(&a);
    explain(&b);
    same_kernels(&a.explanation, &b.explanation, s->text);
    make_inputs(before.model, s->sizes, 5, &inputs);
    run_model(before.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, s->text, &want);
    run_model(b.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, s->text, &have);
    compare_results(&have, &want, 1e-4, 1e-5, "saved", s->sizes, s->text);
    free_results(&have);
    free_results(&want);
    free_tensors(&inputs);
    opf_report_destroy(&a.report);
    opf_report_destroy(&b.report);
    opf_model_destroy(&b.model);
    text_model_close(&before);
    assert_int_equal(unlink(path), 0);
}

static void there_and_back(void **state)
{
    static const int64_t opsets[] = {0, 24, 20, 17, 13, 11, 9};
    (void)state;
    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++)
        for (size_t k = 0; k < sizeof opsets / sizeof opsets[0]; k++)
            for (int target = OPF_TARGET_ONNX; target <= OPF_TARGET_ORT_ALL; target++)
                check_subject(&subjects[i], &(opf_save_options){.opset = opsets[k], .target = (opf_target)target});
}

/* Masks whose sizes are known by no symbol of the scores: the standard operators say less of them than the one that
   they were written from, and are read back as an attention all the same. */
static void masks_of_other_sizes(void **state)
{
    static const subject masks[] = {
        {"g (float[N,S,8] q, float[N,T,8] k, float[N,T,8] v, int32[M,U] m) => (y) {"
         " y = com.microsoft.MultiHeadAttention <num_heads = 2, mask_filter_value = -50.0> (q, k, v, , m) }",
         "N=2 S=3 T=5 M=2 U=5"},
        {"g (float[N,S,8] q, float[N,T,8] k, float[N,T,8] v, int32[L] m) => (y) {"
         " y = com.microsoft.MultiHeadAttention <num_heads = 2, mask_filter_value = -50.0> (q, k, v, , m) }",
         "N=2 S=3 T=5 L=4"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++)
        for (int target = OPF_TARGET_ONNX; target <= OPF_TARGET_ORT_ALL; target++)
            check_subject(&masks[i], &(opf_save_options){.target = (opf_target)target});
}

/* ---- com.microsoft ---- */

typedef struct exchange {
    const char *text, *sizes, *op; /* op: what the file then has; with a minus before it, has not */
    bool is_for_cpu;               /* target ort, else ort-all */
} exchange;

static const exchange exchanges[] = {
    {"g (float[N,S,8] x, float[N,S,8] z, float[8] w0, float[8] w1, float[8] w2) => (y, t) { s = Add(x, w0) t = Add(s, "
     "z)"
     " y = LayerNormalization(t, w1, w2) }",
     "N=2 S=3", "SkipLayerNormalization", false},
    {"g (float[N,S,8] x, float[N,S,8] z, float[8] w1) => (y) { t = Add(x, z) y = RMSNormalization(t, w1) }", "N=2 S=3",
     "SkipSimplifiedLayerNormalization", false},
    {"g (float[N,S,8] x, float[N,S,8] z, float[8] w1) => (y) { t = Add(x, z) y = RMSNormalization(t, w1) }", "N=2 S=3",
     "-SkipSimplifiedLayerNormalization", true},
    /* The sum is larger than what is added. */
    {"g (float[N,S,8] x, float[S,8] z, float[8] w1) => (y) { t = Add(x, z) y = RMSNormalization(t, w1) }", "N=2 S=3",
     "-SkipSimplifiedLayerNormalization", false},
    {"g (float[N,8] x, float[8] w1) => (y) { t = Add(x, w1) y = Gelu(t) }", "N=3", "BiasGelu", false},
    {"g (float[N,8] x, float[8] w1) => (y, t) { t = Add(x, w1) y = Gelu(t) }", "N=3", "-BiasGelu", false},
    {"g (float[N,8] x, float[8] w1) => (y) { t = Add(w1, x) y = Gelu <approximate = \"tanh\"> (t) }", "N=3",
     "FastGelu", false},
    {"g (double[N,8] x) => (y) { y = Gelu(x) }", "N=3", "-FastGelu", false},
    {"g (float[N,8] x) => (y) { y = Swish <alpha = 1.7> (x) }", "N=3", "QuickGelu", false},
    {"g (float[N,4,5] x, float[N,6,5] z) => (y) { t = Transpose <perm = [0, 2, 1]> (z) p = MatMul(x, t)"
     " f = Constant <value_float = 0.25> () y = Mul(p, f) }",
     "N=3", "FusedMatMul", false},
    {"g (float[N,4,9] x, float[4,4,3] w) => (y) { c = Conv <pads = [1, 1]> (x, w) s = Add(c, x) y = LeakyRelu <alpha = "
     "0.3> (s) }",
     "N=3", "FusedConv", false},
    {"g (float[N,16,9,9] x, float[16,16,3,3] w) => (y) { c = Conv <pads = [1, 1, 1, 1]> (x, w) s = Add(c, x) y = "
     "Relu(s) }",
     "N=3", "-FusedConv", true},
    {"g (float[N,S,8] q, float[N,S,4] k, float[N,S,4] v) => (y) {"
     " y = Attention <is_causal = 1, q_num_heads = 4, kv_num_heads = 2> (q, k, v) }",
     "N=2 S=5", "GroupQueryAttention", false},
    {"g (float[N,S,8] q, float[N,T,8] k, float[N,T,8] v) => (y) {"
     " y = Attention <q_num_heads = 4, kv_num_heads = 4, scale = 0.4> (q, k, v) }",
     "N=2 S=5 T=3", "MultiHeadAttention", false},
    {"g (float[N,S,8] x, float[8,24] w1, float[24] w2) => (y) { a = MatMul(x, w1) b = Add(a, w2)"
     " q, k, v = Split <axis = -1, num_outputs = 3> (b) y = Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, v) }",
     "N=2 S=5", "-Split", false},
};

static bool has_op(const opf_saved *saved, const char *op)
{
    for (size_t i = 0; i < saved->n_ops; i++)
        if (strcmp(saved->ops[i].op, op) == 0)
            return true;
    return false;
}

static void operators_of_microsoft(void **state)
{
    const char *path = path_of("ort.onnx");
    (void)state;
    for (size_t i = 0; i < sizeof exchanges / sizeof exchanges[0]; i++) {
        const exchange *e = &exchanges[i];
        const bool wants = e->op[0] != '-';
        const opf_save_options options = {.target = e->is_for_cpu ? OPF_TARGET_ORT : OPF_TARGET_ORT_ALL};
        text_model before;
        opf_model *after = NULL;
        opf_report *report = NULL;
        opf_error error;
        tensors inputs;
        results want, have;
        text_model_open(&before, e->text, NULL, 7);
        if (opf_model_save_onnx(before.model, path, &options, &report, &error) != OPF_OK ||
            opf_model_open(path, NULL, &after, &error) != OPF_OK)
            fail_msg("%s\n%s", error.message, e->text);
        if (has_op(opf_report_saved(report), e->op + !wants) != wants)
            fail_msg("%s\n%s", e->op, e->text);
        make_inputs(before.model, e->sizes, 5, &inputs);
        run_model(before.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, e->text, &want);
        run_model(after, OPF_MODE_REFERENCE, 1, &inputs, NULL, e->text, &have);
        compare_results(&have, &want, 1e-4, 1e-5, e->op, e->sizes, e->text);
        free_results(&have);
        free_results(&want);
        free_tensors(&inputs);
        opf_report_destroy(&report);
        opf_model_destroy(&after);
        text_model_close(&before);
        assert_int_equal(unlink(path), 0);
    }
}

/* ---- the opset ---- */

static opf_status save_text(const char *text, const opf_save_options *options, const char *path, opf_saved *saved,
                            opf_error *error)
{
    text_model m;
    opf_report *report = NULL;
    text_model_open(&m, text, NULL, 1);
    const opf_status status = opf_model_save_onnx(m.model, path, options, &report, error);
    assert_true((status == OPF_OK) == (report != NULL));
    if (report != NULL) {
        *saved = *opf_report_saved(report);
        saved->raised = saved->raised != NULL ? "raised" : NULL;
        saved->ops = NULL;
    }
    opf_report_destroy(&report);
    text_model_close(&m);
    return status;
}

static void an_opset_that_cannot_say_it(void **state)
{
    const char *path = path_of("none.onnx");
    opf_saved saved;
    opf_error error;
    (void)state;
    const char *text = "g (float[N] x, int64[N] i) => (y) { y = GatherElements(x, i) }";
    assert_int_equal(save_text(text, &(opf_save_options){.opset = 8}, path, &saved, &error), OPF_UNSUPPORTED);
    assert_non_null(strstr(error.message, "GatherElements"));
    assert_false(exists(path));
    assert_int_equal(save_text(text, &(opf_save_options){.opset = 99}, path, &saved, &error), OPF_INVALID_ARGUMENT);
    assert_int_equal(save_text(text, &(opf_save_options){.opset = 11}, path, &saved, &error), OPF_OK);
    assert_int_equal(saved.opset, 11);
    assert_int_equal(saved.nodes, 1);
    assert_null(saved.raised);
}

/* A file of an old opset with an operator of com.microsoft: what it stands for came later, so the opset goes up. */
static void the_opset_goes_up_when_it_must(void **state)
{
    static const char tail[] = "com.microsoft";
    opf_heap heap;
    opf_arena arena;
    opf_model *model = NULL;
    opf_report *report = NULL;
    opf_error error;
    (void)state;
    opf_heap_init(&heap, NULL, 0);
    opf_arena_init(&arena, &heap);
    opf_text t = pb_begin(&arena), graph = pb_begin(&arena), node = pb_begin(&arena), opset = pb_begin(&arena), port,
             type, tensor, shape, dim;
    const char *names[] = {"x", "y"};
    pb_string(&node, 1, "x"), pb_string(&node, 2, "y"), pb_string(&node, 4, "Trilu"), pb_string(&node, 7, tail);
    pb_message(&graph, 1, &node);
    pb_string(&graph, 2, "g");
    for (unsigned i = 0; i < 2; i++) {
        port = pb_begin(&arena), type = pb_begin(&arena), tensor = pb_begin(&arena), shape = pb_begin(&arena),
        dim = pb_begin(&arena);
        pb_int(&dim, 1, 4);
        pb_message(&shape, 1, &dim), pb_message(&shape, 1, &dim);
        pb_int(&tensor, 1, OPF_FLOAT), pb_message(&tensor, 2, &shape), pb_message(&type, 1, &tensor);
        pb_string(&port, 1, names[i]), pb_message(&port, 2, &type);
        pb_message(&graph, 11 + i, &port);
    }
    pb_int(&t, 1, 7), pb_message(&t, 7, &graph);
    pb_string(&opset, 1, ""), pb_int(&opset, 2, 11), pb_message(&t, 8, &opset);
    opset = pb_begin(&arena);
    pb_string(&opset, 1, tail), pb_int(&opset, 2, 1), pb_message(&t, 8, &opset);
    if (opf_model_from_memory(t.data, t.length, NULL, NULL, &model, &error) != OPF_OK ||
        opf_model_save_onnx(model, path_of("raised.onnx"), NULL, &report, &error) != OPF_OK)
        fail_msg("%s", error.message);
    assert_int_equal(opf_report_saved(report)->opset, 14);
    assert_non_null(strstr(opf_report_saved(report)->raised, "Trilu"));
    opf_report_destroy(&report);
    opf_model_destroy(&model);
    opf_arena_fini(&arena);
}

/* ---- what is kept ---- */

static bool holds(const opf_text *file, const char *text)
{
    return memmem(file->data, file->length, text, strlen(text)) != NULL;
}

static void documentation_stays(void **state)
{
    static const char *const kept[] = {"who made it",  "what it is",  "a key",     "a value",
                                       "of the graph", "of the node", "the input", "batch"};
    opf_heap heap;
    opf_arena arena;
    opf_model *model = NULL;
    opf_error error;
    (void)state;
    opf_heap_init(&heap, NULL, 0);
    opf_arena_init(&arena, &heap);
    opf_text t = pb_begin(&arena), graph = pb_begin(&arena), node = pb_begin(&arena), opset = pb_begin(&arena),
             entry = pb_begin(&arena);
    opf_text port = pb_begin(&arena), type = pb_begin(&arena), tensor = pb_begin(&arena), shape = pb_begin(&arena),
             dim = pb_begin(&arena);
    pb_string(&node, 1, "x"), pb_string(&node, 2, "y"), pb_string(&node, 3, "n"), pb_string(&node, 4, "Relu"),
        pb_string(&node, 6, "of the node");
    pb_message(&graph, 1, &node);
    pb_string(&graph, 2, "g"), pb_string(&graph, 10, "of the graph");
    pb_string(&dim, 2, "batch"), pb_message(&shape, 1, &dim);
    pb_int(&tensor, 1, OPF_FLOAT), pb_message(&tensor, 2, &shape), pb_message(&type, 1, &tensor);
    pb_string(&port, 1, "x"), pb_message(&port, 2, &type), pb_string(&port, 3, "the input");
    pb_message(&graph, 11, &port);
    port = pb_begin(&arena);
    pb_string(&port, 1, "y"), pb_message(&graph, 12, &port);
    pb_int(&t, 1, 8), pb_string(&t, 2, "who made it"), pb_int(&t, 5, 77), pb_string(&t, 6, "what it is"),
        pb_message(&t, 7, &graph);
    pb_string(&opset, 1, ""), pb_int(&opset, 2, 13), pb_message(&t, 8, &opset);
    pb_string(&entry, 1, "a key"), pb_string(&entry, 2, "a value"), pb_message(&t, 14, &entry);
    for (int round = 0; round < 2; round++) {
        const opf_named_value size = {"batch", 3};
        const opf_model_options options = {.dims = &size, .n_dims = round == 0 ? 0 : 1};
        const char *path = path_of("kept.onnx");
        if (opf_model_from_memory(t.data, t.length, NULL, &options, &model, &error) != OPF_OK ||
            opf_model_save_onnx(model, path, NULL, NULL, &error) != OPF_OK)
            fail_msg("%s", error.message);
        opf_model_destroy(&model);
        const opf_text file = read_file(path, &arena);
        for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
            if (holds(&file, kept[i]) == (round == 1 && strcmp(kept[i], "batch") == 0))
                fail_msg("round %d: \"%s\"", round, kept[i]);
    }
    opf_arena_fini(&arena);
}

/* ---- files ---- */

static const char *const product = "g (float[N,8] x, float[8,64] w) => (y) { y = MatMul(x, w) }";

static void weights_outside(void **state)
{
    const char *path = path_of("outside.onnx"), *data = path_of("outside.onnx.data");
    opf_saved saved;
    opf_error error;
    struct stat info;
    opf_model *model = NULL;
    (void)state;
    assert_int_equal(save_text(product, &(opf_save_options){.external_above = 1}, path, &saved, &error), OPF_OK);
    assert_int_equal(stat(data, &info), 0);
    assert_int_equal(info.st_size, 8 * 64 * 4);
    assert_int_equal(saved.weight_bytes, 8 * 64 * 4);
    assert_in_range(saved.file_bytes, 1, 600);
    assert_int_equal(opf_model_open(path, NULL, &model, &error), OPF_OK);
    /* Neither file may be written over while the model reads it. */
    assert_int_equal(opf_model_save_onnx(model, path, NULL, NULL, &error), OPF_INVALID_ARGUMENT);
    assert_int_equal(opf_model_save_onnx(model, data, NULL, NULL, &error), OPF_INVALID_ARGUMENT);
    assert_int_equal(opf_model_save_onnx(model, path_of("inside.onnx"), NULL, NULL, &error), OPF_OK);
    opf_model_destroy(&model);
    assert_int_equal(opf_model_open(path_of("inside.onnx"), NULL, &model, &error), OPF_OK);
    opf_model_destroy(&model);
    assert_false(exists(path_of("inside.onnx.data")));
}

static void nothing_is_left_of_a_failure(void **state)
{
    opf_saved saved;
    opf_error error;
    (void)state;
    assert_int_equal(save_text(product, NULL, path_of("nowhere/model.onnx"), &saved, &error), OPF_IO);
    assert_int_equal(save_text(product, NULL, folder, &saved, &error), OPF_IO);
    /* The weights cannot be put in place: a folder has their name. */
    assert_int_equal(mkdir(path_of("half.onnx.data"), 0700), 0);
    assert_int_equal(save_text(product, &(opf_save_options){.external_above = 1}, path_of("half.onnx"), &saved, &error),
                     OPF_IO);
    assert_false(exists(path_of("half.onnx")));
}

/* ---- parts ---- */

/* Recipes of more than a panel, cut along each axis. */
static void recipes_by_panels(void **state)
{
    static const int64_t shapes[][3] = {{700, 30, 40}, {3, 5, 90000}, {2, 1000, 300}, {1, 1, 600000}};
    opf_heap heap;
    opf_arena arena;
    opf_error error;
    (void)state;
    opf_heap_init(&heap, NULL, 0);
    opf_arena_init(&arena, &heap);
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        opf_const_pool pool = {.arena = &arena, .next_id = 1};
        const size_t count = (size_t)(shapes[s][0] * shapes[s][1] * shapes[s][2]);
        const char *path = path_of("constant");
        float *data = malloc(count * sizeof *data), *whole = malloc(count * sizeof *data);
        opf_output output;
        opf_text file;
        for (size_t i = 0; i < count; i++)
            data[i] = (float)i;
        const opf_const *c = opf_const_bytes(&pool, OPF_FLOAT, 3, shapes[s], data, count * sizeof *data);
        c = opf_const_transpose(&pool, c, (const int32_t[]){1, 2, 0});
        assert_int_equal(opf_output_open(&output, path, &error), OPF_OK);
        assert_int_equal(opf_save_write_constant(&output, c, &heap, &error), OPF_OK);
        assert_int_equal(opf_output_commit(&output, &error), OPF_OK);
        opf_const_write(c, whole);
        file = read_file(path, &arena);
        assert_int_equal(file.length, count * sizeof *data);
        assert_memory_equal(file.data, whole, file.length);
        free(data);
        free(whole);
    }
    opf_arena_fini(&arena);
}

static void fields_of_a_message(void **state)
{
    opf_heap heap;
    opf_arena arena;
    opf_text text, inner;
    opf_pb_field field;
    (void)state;
    opf_heap_init(&heap, NULL, 0);
    opf_arena_init(&arena, &heap);
    opf_text_init(&text, &arena);
    opf_text_init(&inner, &arena);
    opf_pb_int(&inner, 1, -1);
    opf_pb_int(&text, 1, 300);
    opf_pb_float(&text, 2, 1.5F);
    opf_pb_string(&text, 200, "name");
    opf_pb_message(&text, 4, &inner);
    opf_pb_span message = {(const unsigned char *)text.data, text.length}, cut;
    assert_true(opf_pb_next(&message, &field) && field.number == 1 && field.x == 300);
    assert_true(opf_pb_next(&message, &field) && field.number == 2 && field.whole.n == 5);
    assert_true(opf_pb_next(&message, &field) && field.number == 200 && field.bytes.n == 4);
    assert_memory_equal(field.bytes.at, "name", 4);
    assert_true(opf_pb_next(&message, &field) && field.number == 4);
    cut = field.bytes;
    assert_true(opf_pb_next(&cut, &field) && field.x == UINT64_MAX);
    assert_false(opf_pb_next(&message, &field));
    for (size_t n = 0; n < text.length; n++) /* damaged ones end early and read nothing behind their end */
        for (message = (opf_pb_span){(const unsigned char *)text.data, n}; opf_pb_next(&message, &field);)
            assert_true(field.whole.at + field.whole.n <= (const unsigned char *)text.data + n);
    opf_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(masks_of_other_sizes),
        cmocka_unit_test(operators_of_microsoft),
        cmocka_unit_test(an_opset_that_cannot_say_it),
        cmocka_unit_test(the_opset_goes_up_when_it_must),
        cmocka_unit_test(documentation_stays),
        cmocka_unit_test(weights_outside),
        cmocka_unit_test(nothing_is_left_of_a_failure),
        cmocka_unit_test(recipes_by_panels),
        cmocka_unit_test(fields_of_a_message),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
