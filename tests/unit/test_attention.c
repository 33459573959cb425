/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention: every spelling that must become one kernel, near misses with their codes, and the kernel itself on odd sizes,
 * masks and strides. All run fused and unfused, at each CPU level, against the reference, and bitwise equal on any number
 * of threads.
 */
#include "text_model.h"

typedef struct test_case {
    const char *code;  /* of the near miss; NULL: it fuses */
    int         kernels; /* of the fused plan; 0: whatever */
    const char *sizes; /* several, "N=1 S=5; N=2 S=7" */
    const char *text;
} test_case;

static const int32_t threads[] = {1, 2, 5, 0};

static void check_explanation(const opf_model *model, const test_case *c)
{
    opf_report *report = NULL;
    opf_error   error;
    size_t      fused = 0, missed = 0;
    if (opf_model_explain(model, &report, &error) != OPF_OK)
        fail_msg("%s\n%s", error.message, c->text);
    const opf_explanation *e = opf_report_explanation(report);
    for (size_t i = 0; i < e->n_fusions; i++)
        fused += strcmp(e->fusions[i].rule, "attention") == 0;
    for (size_t i = 0; i < e->n_missed; i++) {
        if (strcmp(e->missed[i].rule, "attention") != 0)
            continue;
        missed++;
        if (c->code == NULL || strcmp(e->missed[i].code, c->code) != 0)
            fail_msg("missed: %s %s: %s\n%s", e->missed[i].code, e->missed[i].node, e->missed[i].reason, c->text);
    }
    if (fused != (c->code == NULL ? 1u : 0u) || missed != (c->code == NULL ? 0u : 1u))
        fail_msg("%zu fused, %zu missed, expected %s\n%s", fused, missed, c->code == NULL ? "one fusion" : c->code, c->text);
    opf_report_destroy(&report);
}

static void check_sizes(const opf_model *model, opf_cpu_level level, const test_case *c, const char *sizes, bool is_operator)
{
    tensors inputs;
    results want;
    make_inputs(model, sizes, 11, &inputs);
    run_model(model, OPF_MODE_REFERENCE, 1, &inputs, NULL, c->text, &want);
    for (opf_mode mode = OPF_MODE_FUSED; mode <= OPF_MODE_UNFUSED; mode++) {
        const bool has_kernel = tensor_count(&want.list[0]) != 0 && (is_operator || (mode == OPF_MODE_FUSED && c->code == NULL));
        const int  steps      = mode == OPF_MODE_FUSED && c->kernels != 0 && has_kernel ? c->kernels : -1;
        check_run(model, mode, &inputs, &want,
                  &(expected){has_kernel ? "attention_f32" : NULL, steps, 1e-4, 2e-5, threads, label_of(mode, level), sizes, c->text});
    }
    free_results(&want);
    free_tensors(&inputs);
}

static void check_case(const test_case *c, bool is_operator)
{
    for (opf_cpu_level level = OPF_CPU_SCALAR; level <= opf_cpu_detect(); level++) {
        opf_model_options options = {.level = level};
        text_model        m;
        char              sizes[80];
        text_model_open(&m, c->text, &options, 1);
        if (!is_operator)
            check_explanation(m.model, c);
        for (const char *p = c->sizes; next_sizes(&p, sizes);)
            check_sizes(m.model, level, c, sizes, is_operator);
        text_model_close(&m);
    }
}

#define CHECK_ALL(cases, is_operator)                                                                                  \
    for (size_t i = 0; i < sizeof(cases) / sizeof *(cases); i++)                                                       \
    check_case(&(cases)[i], is_operator)

/* ---- spellings ---- */

#define SIZES "N=1 S=1; N=2 S=7; N=1 S=37; N=0 S=3; N=3 S=130"

/* 3 heads of 8; other inputs may follow the first macro, constants and nodes the second. */
#define SELF(more)                                                                                                     \
    "g (float[N,S,24] x, float[24,24] w, float[24,24] w2, float[24,24] w3, float[24] w4" more ") => (y)"               \
    " <int64[4] s = {0,0,3,8}, int64[3] f = {0,0,24}, float c = {0.35}, float r = {2.8}, float low = {-10000},"        \
    "  float none = {-inf}, float zero = {0}, float one = {1}, int64[1] at = {2}>"
#define SPLIT                                                                                                          \
    "{ q0 = MatMul(x, w) k0 = MatMul(x, w2) v00 = MatMul(x, w3) v0 = Add(v00, w4) q1 = Reshape(q0, s)"                 \
    "  k1 = Reshape(k0, s) v1 = Reshape(v0, s) q = Transpose<perm = [0,2,1,3]>(q1)"                                    \
    "  k = Transpose<perm = [0,2,3,1]>(k1) v = Transpose<perm = [0,2,1,3]>(v1)"
#define JOIN " p = Softmax(e) o = MatMul(p, v) o1 = Transpose<perm = [0,2,1,3]>(o) y = Reshape(o1, f) }"
#define JOIN_SAFE " p = Softmax(e) i = IsNaN(p) pz = Where(i, zero, p) o = MatMul(pz, v) o1 = Transpose<perm = [0,2,1,3]>(o) y = Reshape(o1, f) }"

static void test_scale(void **state)
{
    static const test_case cases[] = {
        {NULL, 2, SIZES, SELF("") SPLIT " a = MatMul(q, k) e = Mul(a, c)" JOIN},
        {NULL, 2, SIZES, SELF("") SPLIT " a = MatMul(q, k) e = Div(a, r)" JOIN},
        {NULL, 2, SIZES, SELF("") SPLIT " e = MatMul(q, k)" JOIN},
        {NULL, 2, SIZES, SELF("") SPLIT " qs = Mul(c, q) ks = Div(k, r) e = MatMul(qs, ks)" JOIN},
        {NULL, 2, SIZES, SELF("") SPLIT " qs = Mul(c, q) t = MatMul(qs, k) e = Div(t, r)" JOIN},
        /* Keys in two steps, a factor between them. */
        {NULL, 2, SIZES,
         SELF("") "{ q0 = MatMul(x, w) k0 = MatMul(x, w2) v0 = MatMul(x, w3) q1 = Reshape(q0, s) k1 = Reshape(k0, s) v1 = Reshape(v0, s)"
                  "  q = Transpose<perm = [0,2,1,3]>(q1) k2 = Transpose<perm = [0,2,1,3]>(k1) k3 = Mul(k2, c)"
                  "  k = Transpose<perm = [0,1,3,2]>(k3) v = Transpose<perm = [0,2,1,3]>(v1) e = MatMul(q, k)" JOIN},
        /* Factors before the heads are split; softcap. */
        {NULL, 2, SIZES,
         SELF("") "{ q00 = MatMul(x, w) q0 = Div(q00, r) k0 = MatMul(x, w2) v0 = MatMul(x, w3) q1 = Reshape(q0, s) k1 = Reshape(k0, s)"
                  "  v1 = Reshape(v0, s) q = Transpose<perm = [0,2,1,3]>(q1) k = Transpose<perm = [0,2,3,1]>(k1)"
                  "  v = Transpose<perm = [0,2,1,3]>(v1) a = MatMul(q, k) b = Div(a, r) t = Tanh(b) e = Mul(t, r)" JOIN},
        /* The scaled queries are an output too: the factor stays for them. */
        {NULL, 0, "N=2 S=7",
         "g (float[N,S,24] x, float[N,3,S,8] k0, float[N,3,S,8] v) => (y, q) <int64[4] s = {0,0,3,8}, float c = {0.35}>"
         "{ x1 = Mul(x, c) q1 = Reshape(x1, s) q = Transpose<perm = [0,2,1,3]>(q1) k = Transpose<perm = [0,1,3,2]>(k0)"
         "  e = MatMul(q, k) p = Softmax(e) y = MatMul(p, v) }"},
    };
    (void)state;
    CHECK_ALL(cases, false);
}

static void test_mask(void **state)
{
    static const test_case cases[] = {
        {NULL, 2, SIZES, SELF(", float[N,1,1,S] m") SPLIT " a = MatMul(q, k) b = Mul(a, c) e = Add(b, m)" JOIN},
        {NULL, 2, SIZES, SELF(", float[N,3,S,S] m") SPLIT " a = MatMul(q, k) e = Add(m, a)" JOIN},
        {NULL, 2, SIZES, SELF(", float[1,3,S,S] m") SPLIT " a = MatMul(q, k) e = Add(m, a)" JOIN},
        {NULL, 2, SIZES, SELF(", float[S,S] m") SPLIT " a = MatMul(q, k) b = Div(a, r) e = Add(b, m)" JOIN},
        {NULL, 2, SIZES, SELF(", float[S] m") SPLIT " a = MatMul(q, k) b = Div(a, r) e = Add(b, m)" JOIN},
        {NULL, 3, SIZES, SELF(", float[1,3,S,S] m, float[N,1,1,S] m2") SPLIT " a = MatMul(q, k) b = Add(a, m) e = Add(b, m2)" JOIN},
        /* -inf where the input is 0: some rows are hidden as a whole, and are NaN in both. */
        {NULL, 0, SIZES, SELF(", bool[N,1,S,S] m") SPLIT " a = MatMul(q, k) b = Cast<to = 1>(m) l = Log(b) e = Add(a, l)" JOIN},
        {NULL, 2, SIZES, SELF(", bool[N,1,S,S] m") SPLIT " a = MatMul(q, k) e = Where(m, a, none)" JOIN},
        /* The same where what is NaN becomes 0: hidden rows, and those of numbers that are none. */
        {NULL, 0, SIZES, SELF(", bool[N,1,S,S] m") SPLIT " a = MatMul(q, k) b = Cast<to = 1>(m) l = Log(b) e = Add(a, l)" JOIN_SAFE},
        {NULL, 2, SIZES, SELF(", bool[N,1,S,S] m") SPLIT " a = MatMul(q, k) e = Where(m, a, none)" JOIN_SAFE},
        {NULL, 2, SIZES, SELF(", bool[N,1,1,S] m, float[S,S] m2") SPLIT " a = MatMul(q, k) d = Where(m, a, none) e = Add(d, m2)" JOIN_SAFE},
        {NULL, 0, SIZES, SELF("") SPLIT " q2 = Sqrt(q) e = MatMul(q2, k)" JOIN_SAFE},
        {NULL, 0, "N=1 S=4; N=2 S=0",
         "g (float[N,2,S,8] x, float[N,2,8,S] k, float[N,2,S,5] v) => (y) <float zero = {0}> { q = Log(x) e = MatMul(q, k) p = Softmax(e) i = IsNaN(p) pz = Where(i, zero, p) y = MatMul(pz, v) }"},
        /* Finite: rows that are hidden as a whole become uniform. */
        {NULL, 2, SIZES, SELF(", bool[N,1,1,S] m") SPLIT " a = MatMul(q, k) b = Div(a, r) e = Where(m, b, low)" JOIN},
        {NULL, 3, SIZES, SELF(", bool[N,1,1,S] m") SPLIT " a = MatMul(q, k) b = Div(a, r) e = Where(m, low, b)" JOIN},
        {NULL, 0, SIZES, SELF(", bool[N,3,S,S] m") SPLIT " n = Not(m) a = MatMul(q, k) e = Where(n, low, a)" JOIN},
        {NULL, 1, "N=2", "g (float[N,3,3,8] q, float[N,3,8,3] k, float[N,3,3,8] v) => (y) <bool[3,3] t = {0,1,1,0,0,1,0,0,0}, float none = {-inf}>"
                         "{ a = MatMul(q, k) e = Where(t, none, a) p = Softmax(e) y = MatMul(p, v) }"},
        /* Chosen, then added to: hidden scores may count again where all that is seen is far below. */
        {NULL, 2, SIZES, SELF(", bool[1,1,S,S] m, float[N,1,1,S] m2") SPLIT " a = MatMul(q, k) b = Div(a, r) d = Where(m, b, low) e = Add(d, m2)" JOIN},
        {NULL, 4, SIZES, SELF(", bool[S,S] m, float[N,3,S,S] m2, float[S] m3") SPLIT " a = MatMul(q, k) b = Div(a, r) d = Where(m, c, b) d2 = Add(m3, d) e = Add(d2, m2)" JOIN},
        {NULL, 2, SIZES, SELF(", bool[S] m, float[S,S] m2") SPLIT " a = MatMul(q, k) b = Div(a, r) t = Tanh(b) u = Mul(t, r) d = Where(m, u, none) e = Add(d, m2)" JOIN},
        {NULL, 1, "N=2", "g (float[N,3,8] q, float[N,8,3] k, float[N,3,5] v, float[N,3,3] m) => (y) <bool[3,3] t = {0,1,1,0,0,1,0,0,0}, float low = {-3}>"
                         "{ a = MatMul(q, k) d = Where(t, low, a) e = Add(d, m) p = Softmax(e) y = MatMul(p, v) }"},
        /* The mask is sliced by the shape of the scores, which is no reason to have them. */
        {NULL, 0, "N=2 S=7; N=1 S=64",
         SELF(", float[1,1,64,64] w5") SPLIT " a = MatMul(q, k) b = Mul(a, c) h = Shape(b) i = Constant<value = int64[1] {-2}>() j = Constant<value = int64 {3}>()"
         " z = Constant<value = int64[1] {0}>() three = Constant<value = int64[1] {3}>() l = Gather(h, i) l2 = Gather(h, j) l3 = Unsqueeze(l2, z)"
         " m0 = Slice(w5, z, l, at) m = Slice(m0, z, l3, three) e = Add(b, m)" JOIN},
        /* Softcap comes before the mask. */
        {NULL, 2, SIZES, SELF(", float[N,1,1,S] m") SPLIT " a = MatMul(q, k) b = Div(a, r) t = Tanh(b) u = Mul(t, r) e = Add(u, m)" JOIN},
        /* A causal mask of 64 positions, sliced to the length. */
        {NULL, 0, "N=2 S=7; N=1 S=64",
         SELF(", float[1,1,64,64] w5") SPLIT " h = Shape(x) i = Constant<value = int64[1] {1}>() z = Constant<value = int64[1] {0}>()"
         " three = Constant<value = int64[1] {3}>() l = Gather(h, i) m0 = Slice(w5, z, l, at) m = Slice(m0, z, l, three)"
         " a = MatMul(q, k) b = Mul(a, c) e = Add(b, m)" JOIN},
    };
    (void)state;
    CHECK_ALL(cases, false);
}

static void test_shapes(void **state)
{
    static const test_case cases[] = {
        /* Cross attention; heads of V are wider. */
        {NULL, 3, "N=1 S=3 T=5; N=2 S=40 T=1; N=2 S=1 T=131",
         "g (float[N,S,16] x, float[N,T,20] u, float[16,12] w, float[20,12] w2, float[20,15] w3) => (y)"
         " <int64[4] s = {0,0,3,4}, int64[4] s5 = {0,0,3,5}, int64[3] f = {0,0,15}, float c = {0.5}>"
         "{ q0 = MatMul(x, w) k0 = MatMul(u, w2) v0 = MatMul(u, w3) q1 = Reshape(q0, s) k1 = Reshape(k0, s) v1 = Reshape(v0, s5)"
         "  q = Transpose<perm = [0,2,1,3]>(q1) k = Transpose<perm = [0,2,3,1]>(k1) v = Transpose<perm = [0,2,1,3]>(v1)"
         "  a = MatMul(q, k) e = Mul(a, c)" JOIN},
        /* Packed: [N,S,3,H,D] to [3,N,H,S,D]. The third kernel copies to the output. */
        {NULL, 2, SIZES,
         "g (float[N,S,24] x, float[24,72] w) => (y) <int64[5] s = {0,0,3,3,8}, int64[3] f = {0,0,24}, int64[1] z = {0}, float c = {0.35}>"
         "{ x0 = MatMul(x, w) x1 = Reshape(x0, s) x2 = Transpose<perm = [2,0,3,1,4]>(x1) q2, k2, v2 = Split<axis = 0, num_outputs = 3>(x2)"
         "  q = Squeeze(q2, z) k3 = Squeeze(k2, z) v = Squeeze(v2, z) k = Transpose<perm = [0,1,3,2]>(k3) a = MatMul(q, k) e = Mul(a, c)" JOIN},
        /* Grouped queries: each head of K and V twice in a row. */
        {NULL, 2, "N=1 S=5; N=2 S=33",
         "g (float[N,S,16] x, float[16,16] w, float[16,8] w2, float[16,8] w3) => (y)"
         " <int64[4] s = {0,0,4,4}, int64[4] h = {0,0,2,4}, int64[1] two = {2}, int64[5] g = {1,1,2,1,1}, int64[4] j = {0,4,-1,4}, int64[3] f = {0,0,16}>"
         "{ q0 = MatMul(x, w) k0 = MatMul(x, w2) v0 = MatMul(x, w3) q1 = Reshape(q0, s) k1 = Reshape(k0, h) v1 = Reshape(v0, h)"
         "  q = Transpose<perm = [0,2,1,3]>(q1) k2 = Transpose<perm = [0,2,1,3]>(k1) v2 = Transpose<perm = [0,2,1,3]>(v1)"
         "  k3 = Unsqueeze(k2, two) k4 = Expand(k3, g) k5 = Reshape(k4, j) v3 = Unsqueeze(v2, two) v4 = Expand(v3, g) v = Reshape(v4, j)"
         "  k = Transpose<perm = [0,1,3,2]>(k5) e = MatMul(q, k)" JOIN},
        /* By Tile, and before heads come to the front. */
        {NULL, 2, "N=1 S=5; N=2 S=33; N=0 S=2",
         "g (float[N,S,16] x, float[16,16] w, float[16,8] w2, float[16,8] w3) => (y)"
         " <int64[4] s = {0,0,4,4}, int64[4] h = {0,0,2,4}, int64[1] three = {3}, int64[5] g = {1,1,1,2,1}, int64[4] j = {0,0,4,4}, int64[3] f = {0,0,16}>"
         "{ q0 = MatMul(x, w) k0 = MatMul(x, w2) v0 = MatMul(x, w3) q1 = Reshape(q0, s) k1 = Reshape(k0, h) v1 = Reshape(v0, h)"
         "  q = Transpose<perm = [0,2,1,3]>(q1) k3 = Unsqueeze(k1, three) k4 = Tile(k3, g) k5 = Reshape(k4, j) v3 = Unsqueeze(v1, three)"
         "  v4 = Expand(v3, g) v5 = Reshape(v4, j) v = Transpose<perm = [0,2,1,3]>(v5) k = Transpose<perm = [0,2,3,1]>(k5) e = MatMul(q, k)" JOIN},
        /* Past keys and values, and those of the next call: read where they are. */
        {NULL, 3, "N=1 S=1 P=0; N=2 S=3 P=5; N=1 S=33 P=100",
         "g (float[N,3,S,8] q, float[N,3,S,8] k0, float[N,3,S,8] v0, float[N,3,P,8] k9, float[N,3,P,8] v9) => (y, k1, v)"
         "{ k1 = Concat<axis = 2>(k9, k0) v = Concat<axis = 2>(v9, v0) k = Transpose<perm = [0,1,3,2]>(k1) e = MatMul(q, k) p = Softmax(e) y = MatMul(p, v) }"},
        /* All heads of K and V repeated as a whole: other heads meet. */
        {NULL, 0, "N=1 S=5; N=2 S=33",
         "g (float[N,S,16] x, float[16,16] w, float[16,8] w2, float[16,8] w3) => (y)"
         " <int64[4] s = {0,0,4,4}, int64[4] h = {0,0,2,4}, int64[1] one = {1}, int64[5] g = {1,2,1,1,1}, int64[4] j = {0,4,-1,4}, int64[3] f = {0,0,16}>"
         "{ q0 = MatMul(x, w) k0 = MatMul(x, w2) v0 = MatMul(x, w3) q1 = Reshape(q0, s) k1 = Reshape(k0, h) v1 = Reshape(v0, h)"
         "  q = Transpose<perm = [0,2,1,3]>(q1) k2 = Transpose<perm = [0,2,1,3]>(k1) v2 = Transpose<perm = [0,2,1,3]>(v1)"
         "  k3 = Unsqueeze(k2, one) k4 = Expand(k3, g) k5 = Reshape(k4, j) v3 = Unsqueeze(v2, one) v4 = Expand(v3, g) v = Reshape(v4, j)"
         "  k = Transpose<perm = [0,1,3,2]>(k5) e = MatMul(q, k)" JOIN},
        /* One head of K and V for all, by broadcasting. */
        {NULL, 1, "N=2 S=7 T=9",
         "g (float[N,4,S,8] q, float[N,1,T,8] k0, float[N,1,T,5] v) => (y) { k = Transpose<perm = [0,1,3,2]>(k0) e = MatMul(q, k) p = Softmax(e) y = MatMul(p, v) }"},
        /* Heads in the batch, positions first, as torch writes it. The third kernel copies to the output. */
        {NULL, 2, "N=1 S=5; N=2 S=33",
         "g (float[S,N,24] x, float[24,24] w, float[24,24] w2, float[24,24] w3) => (y)"
         " <int64[3] s = {0,-1,8}, int64[2] f = {-1,24}, float c = {0.35}>"
         "{ q00 = MatMul(x, w) k0 = MatMul(x, w2) v0 = MatMul(x, w3) q0 = Mul(q00, c) q1 = Reshape(q0, s) k1 = Reshape(k0, s) v1 = Reshape(v0, s)"
         "  q = Transpose<perm = [1,0,2]>(q1) k = Transpose<perm = [1,2,0]>(k1) v = Transpose<perm = [1,0,2]>(v1) e = MatMul(q, k)"
         "  p = Softmax(e) o = MatMul(p, v) o1 = Transpose<perm = [1,0,2]>(o) y = Reshape(o1, f) }"},
        /* Rank 3, with a mask for each batch, for all of them. */
        {NULL, 1, "N=2 S=7 T=9; N=1 S=1 T=1",
         "g (float[N,S,8] q, float[N,T,8] k0, float[N,T,5] v, float[N,S,T] m) => (y) { k = Transpose<perm = [0,2,1]>(k0) a = MatMul(q, k) e = Add(a, m) p = Softmax(e) y = MatMul(p, v) }"},
        {NULL, 1, "N=2 S=7 T=9",
         "g (float[N,S,8] q, float[N,T,8] k0, float[N,T,5] v, float[1,S,T] m) => (y) { k = Transpose<perm = [0,2,1]>(k0) a = MatMul(q, k) e = Add(a, m) p = Softmax(e) y = MatMul(p, v) }"},
        {NULL, 1, "N=2 S=7 T=9",
         "g (float[N,S,8] q, float[N,8,T] k, float[N,T,5] v, bool[S,T] m) => (y) <float low = {-100}> { a = MatMul(q, k) e = Where(m, a, low) p = Softmax(e) y = MatMul(p, v) }"},
        /* Rank 2: views of one batch. */
        {NULL, 1, "S=7 T=9; S=1 T=1; S=70 T=3",
         "g (float[S,8] q, float[T,8] k0, float[T,5] v, float[S,T] m) => (y) { k = Transpose<perm = [1,0]>(k0) a = MatMul(q, k) e = Add(a, m) p = Softmax(e) y = MatMul(p, v) }"},
        {NULL, 2, "S=7 T=9", "g (float[S,8] q, float[8,T] k, float[T,5] v, bool[T] m) => (y) <float low = {-9}> { a = MatMul(q, k) e = Where(m, a, low) p = Softmax(e) o = MatMul(p, v) y = Tanh(o) }"},
        /* Steps behind it, on both forms. */
        {NULL, 0, SIZES, SELF("") SPLIT " e = MatMul(q, k) p = Softmax(e) o = MatMul(p, v) o1 = Transpose<perm = [0,2,1,3]>(o) o2 = Reshape(o1, f) o3 = Add(o2, x) y = Relu(o3) }"},
        {NULL, 1, "N=2 S=7 T=35", "g (float[N,4,S,8] q, float[N,4,8,T] k, float[N,4,T,19] v, float[4,1,19] w) => (y) { e = MatMul(q, k) p = Softmax(e) o = MatMul(p, v) o1 = Mul(o, w) y = Gelu(o1) }"},
        /* Q is K. */
        {NULL, 2, SIZES, "g (float[N,S,24] x, float[24,24] w) => (y) { q = MatMul(x, w) k = Transpose<perm = [0,2,1]>(q) e = MatMul(q, k) p = Softmax(e) y = MatMul(p, x) }"},
    };
    (void)state;
    CHECK_ALL(cases, false);
}

/* ---- windows ---- */

/* 4 windows of 6 positions; 3 heads of 8. */
#define WINDOWS(more, consts)                                                                                          \
    "g (float[N,4,3,6,8] q0, float[N,4,3,8,6] k0, float[N,4,3,6,8] v0" more ") => (y)"                                 \
    " <int64[4] r = {-1,3,6,8}, int64[4] r2 = {-1,3,8,6}, int64[5] s = {-1,4,3,6,6}, int64[4] t = {-1,3,6,6},"         \
    "  float c = {0.35}" consts ">"                                                                                    \
    "{ q = Reshape(q0, r) k = Reshape(k0, r2) v = Reshape(v0, r) a = MatMul(q, k)"
#define BACK " e = Reshape(d, t) p = Softmax(e) y = MatMul(p, v) }"
#define BATCHES "N=1; N=3; N=0"

static void test_windows(void **state)
{
    static const test_case cases[] = {
        {NULL, 1, BATCHES, WINDOWS(", float[1,4,1,6,6] m", "") " b = Reshape(a, s) d = Add(b, m)" BACK},
        {NULL, 1, BATCHES, WINDOWS(", float[1,4,3,6,6] m", "") " a1 = Mul(a, c) b = Reshape(a1, s) d = Add(m, b)" BACK},
        {NULL, 1, BATCHES, WINDOWS(", float[4,1,1,6] m", "") " b = Reshape(a, s) d = Add(b, m)" BACK},
        {NULL, 1, BATCHES, WINDOWS(", float[1,1,3,6,6] m", "") " b = Reshape(a, s) d = Add(b, m)" BACK},
        /* A bias before: the sum is a kernel. Of constants it is none. */
        {NULL, 2, BATCHES, WINDOWS(", float[1,4,1,6,6] m, float[3,6,6] m2", "") " a1 = Add(a, m2) b = Reshape(a1, s) d = Add(b, m)" BACK},
        {NULL, 1, BATCHES,
         WINDOWS("", ", float[1,4,1,1,6] m = {0,0,0,0,0,0, 0,0,-1,-100,-100,0, -2,-2,-2,0,0,0, -100,-100,0,0,0,-7}, float[3,1,6] m2 = {1,2,3,4,5,6, 6,5,4,3,2,1, 0,0,0,0,0,0}")
         " a1 = Add(a, m2) b = Reshape(a1, s) d = Add(b, m)" BACK},
        /* Twice, where the second mask is the same for all windows; or another number of windows. */
        {NULL, 3, BATCHES,
         WINDOWS(", float[1,1,3,6,6] m, float[1,4,1,6,6] m2, float[6] m3", "")
         " b1 = Reshape(a, s) d1 = Add(b1, m2) e1 = Reshape(d1, t) e2 = Add(e1, m3) b = Reshape(e2, s) d = Add(b, m)" BACK},
        {NULL, 3, BATCHES,
         WINDOWS(", float[1,1,3,6,6] m, float[1,4,1,6,6] m2, float[6] m3", "")
         " b1 = Reshape(a, s) d1 = Add(b1, m) e1 = Reshape(d1, t) e2 = Add(e1, m3) b = Reshape(e2, s) d = Add(b, m2)" BACK},
        {"SHAPE", 0, "N=1; N=2",
         WINDOWS(", float[1,4,1,6,6] m, float[1,2,1,6,6] m2, float[6] m3", ", int64[5] s2 = {-1,2,3,6,6}")
         " b1 = Reshape(a, s) d1 = Add(b1, m) e1 = Reshape(d1, t) e2 = Add(e1, m3) b = Reshape(e2, s2) d = Add(b, m2)" BACK},
        /* -inf hides all but a key, and in one window all of them: NaN. */
        {NULL, 1, BATCHES,
         WINDOWS("", ", float[1,4,1,1,6] m = {0,-inf,-inf,-inf,-inf,-inf, 0,0,0,0,0,0, -inf,-inf,-inf,-inf,-inf,-inf, 0,0,0,0,0,-inf}")
         " b = Reshape(a, s) d = Add(b, m)" BACK},
        /* Batches are a number; heads are split before and joined behind. */
        {NULL, 2, "N=1",
         "g (float[8,6,24] x, float[24,24] w, float[24,24] w2, float[24,24] w3, float[1,4,1,6,6] m) => (y)"
         " <int64[4] s = {0,0,3,8}, int64[3] f = {0,0,24}, int64[5] s5 = {2,4,3,6,6}, int64[4] t = {8,3,6,6}>"
         "{ q0 = MatMul(x, w) k0 = MatMul(x, w2) v0 = MatMul(x, w3) q1 = Reshape(q0, s) k1 = Reshape(k0, s) v1 = Reshape(v0, s)"
         "  q = Transpose<perm = [0,2,1,3]>(q1) k = Transpose<perm = [0,2,3,1]>(k1) v = Transpose<perm = [0,2,1,3]>(v1)"
         "  a = MatMul(q, k) b = Reshape(a, s5) d = Add(b, m) e = Reshape(d, t)" JOIN},
        /* Heads are split otherwise, batches differ, two sorts of masks, a factor between, the scores are wanted. */
        {"SHAPE_UNKNOWN", 0, BATCHES,
         "g (float[N,12,6,8] q, float[N,12,8,6] k, float[N,12,6,8] v, float[1,4,1,6,6] m) => (y) <int64[5] s = {-1,4,3,6,6}, int64[4] t = {-1,12,6,6}>"
         "{ a = MatMul(q, k) b = Reshape(a, s) d = Add(b, m)" BACK},
        {"SHAPE", 0, "N=2", WINDOWS(", float[N,4,1,6,6] m", "") " b = Reshape(a, s) d = Add(b, m)" BACK},
        {"SHAPE", 0, BATCHES, WINDOWS(", float[1,4,1,6,6] m, float[N,4,1,1,6] m3", ", int64[4] u = {-1,1,1,6}") " m2 = Reshape(m3, u) a1 = Add(a, m2) b = Reshape(a1, s) d = Add(b, m)" BACK},
        {NULL, 1, BATCHES, WINDOWS(", float[1,4,1,6,1] m", "") " b = Reshape(a, s) d = Add(b, m)" BACK},
        {"OP", 0, BATCHES, WINDOWS("", "") " b = Reshape(a, s) d = Mul(b, c)" BACK},
        {"IS_OUTPUT", 0, "N=1",
         "g (float[8,3,6,8] q, float[8,3,8,6] k, float[8,3,6,8] v, float[1,4,1,6,6] m) => (y, d) <int64[5] s = {-1,4,3,6,6}, int64[4] t = {-1,3,6,6}>"
         "{ a = MatMul(q, k) b = Reshape(a, s) d = Add(b, m)" BACK},
    };
    (void)state;
    CHECK_ALL(cases, false);
}

/* ---- rotary embeddings ---- */

/* 3 heads of 8 elements. z is a name's beginning, and TURN(x, z, …) makes z of x. */
#define ROTARY(more)                                                                                                   \
    "g (float[N,S,24] x, float[24,24] w, float[24,24] w2, float[24,24] w3" more                                        \
    " <int64[4] s = {0,0,3,8}, int64[3] f = {0,0,24}, float c = {0.35}, int64[1] zero = {0}, int64[1] one = {1},"      \
    "  int64[1] two = {2}, int64[1] half = {4}, int64[1] end = {9223372036854775807}, int64[1] last = {-1},"           \
    "  int64[4] whole = {0,0,0,8}>"                                                                                    \
    "{ q0 = MatMul(x, w) k0 = MatMul(x, w2) v0 = MatMul(x, w3) q1 = Reshape(q0, s) k1 = Reshape(k0, s)"                \
    "  v1 = Reshape(v0, s) v = Transpose<perm = [0,2,1,3]>(v1)"
#define HEADS_FIRST " q2 = Transpose<perm = [0,2,1,3]>(q1) k2 = Transpose<perm = [0,2,1,3]>(k1)"
#define TURN(x, z, cos, sin)                                                                                           \
    " " z "_a = Slice(" x ", zero, half, last) " z "_b = Slice(" x ", half, end, last) " z "_n = Neg(" z "_b)"             \
    " " z "_t = Concat<axis = -1>(" z "_n, " z "_a) " z "_p = Mul(" x ", " cos ") " z "_q = Mul(" z "_t, " sin ")"           \
    " " z " = Add(" z "_p, " z "_q)"
#define TURN_PAIRS(x, z, cos, sin)                                                                                     \
    " " z "_a = Slice(" x ", zero, end, last, two) " z "_b = Slice(" x ", one, end, last, two) " z "_n = Neg(" z "_b)"     \
    " " z "_c = Unsqueeze(" z "_n, last) " z "_d = Unsqueeze(" z "_a, last) " z "_r = Concat<axis = -1>(" z "_c, " z "_d)"    \
    " " z "_t = Reshape(" z "_r, whole) " z "_p = Mul(" x ", " cos ") " z "_q = Mul(" z "_t, " sin ")"                      \
    " " z " = Add(" z "_p, " z "_q)"
#define TURN_HALVES(x, z, cos, sin)                                                                                    \
    " " z "_a, " z "_b = Split<axis = -1, num_outputs = 2>(" x ") " z "_m = Mul(" z "_a, " cos ") " z "_n = Mul(" z "_b, " sin ")" \
    " " z "_o = Sub(" z "_m, " z "_n) " z "_p = Mul(" z "_b, " cos ") " z "_q = Mul(" z "_a, " sin ") " z "_r = Add(" z "_p, " z "_q)" \
    " " z " = Concat<axis = -1>(" z "_o, " z "_r)"
#define PRODUCT " kt = Transpose<perm = [0,1,3,2]>(k) a = MatMul(q, kt) e = Mul(a, c)"

static void test_rotary(void **state)
{
    static const test_case cases[] = {
        {NULL, 2, SIZES, ROTARY(", float[S,8] u, float[S,8] i) => (y)") HEADS_FIRST TURN("q2", "q", "u", "i") TURN("k2", "k", "u", "i") PRODUCT JOIN},
        {NULL, 2, SIZES, ROTARY(", float[S,8] u, float[S,8] i) => (y)") HEADS_FIRST TURN_PAIRS("q2", "q", "u", "i") TURN_PAIRS("k2", "k", "u", "i") PRODUCT JOIN},
        {NULL, 2, SIZES, ROTARY(", float[S,4] u, float[S,4] i) => (y)") HEADS_FIRST TURN_HALVES("q2", "q", "u", "i") TURN_HALVES("k2", "k", "u", "i") PRODUCT JOIN},
        /* Angles of each batch, of each head; only the queries, only the keys. */
        {NULL, 2, SIZES, ROTARY(", float[N,1,S,8] u, float[1,3,S,8] i) => (y)") HEADS_FIRST TURN("q2", "q", "u", "i") TURN("k2", "k", "i", "u") PRODUCT JOIN},
        {NULL, 2, SIZES, ROTARY(", float[S,8] u, float[8] i) => (y)") HEADS_FIRST TURN("q2", "q", "u", "i") " k = Identity(k2)" PRODUCT JOIN},
        {NULL, 2, SIZES, ROTARY(", float[S,8] u, float[S,8] i) => (y)") HEADS_FIRST TURN("k2", "k", "u", "i") " q = Mul(q2, c)" PRODUCT JOIN},
        /* Turned before positions and heads change places; factors before and behind. */
        {NULL, 2, SIZES,
         ROTARY(", float[S,1,8] u, float[N,S,1,8] i) => (y)") " q1f = Mul(q1, c)" TURN("q1f", "q2", "u", "i") TURN("k1", "k2", "u", "i")
         " q = Transpose<perm = [0,2,1,3]>(q2) k3 = Mul(k2, c) k = Transpose<perm = [0,2,1,3]>(k3)" PRODUCT JOIN},
        /* Only the first elements; angles that are computed, and put side by side. */
        {NULL, 4, SIZES,
         ROTARY(", float[S,4] u0) => (y)") HEADS_FIRST " u = Cos(u0) us = Slice(u, zero, two, last) uu = Concat<axis = -1>(us, us) qh = Slice(q2, zero, half, last) qr = Slice(q2, half, end, last)"
         TURN_HALVES("qh", "qt", "us", "us") " q = Concat<axis = -1>(qt, qr)"
         " kh = Slice(k2, zero, half, last) kr = Slice(k2, half, end, last) kha = Slice(kh, zero, two, last) khb = Slice(kh, two, end, last)"
         " kn = Neg(khb) kc = Concat<axis = -1>(kn, kha) km = Mul(kh, uu) ko = Mul(kc, uu) k3 = Add(km, ko) k = Concat<axis = -1>(k3, kr)" PRODUCT JOIN},
        /* The turned keys are an output too: they are written, and read. Their shape is no reader. */
        {NULL, 3, "N=2 S=7; N=1 S=1", ROTARY(", float[S,8] u, float[S,8] i) => (y, k)") HEADS_FIRST TURN("q2", "q", "u", "i") TURN("k2", "k", "u", "i") PRODUCT JOIN},
        {NULL, 2, "N=2 S=7; N=1 S=1",
         ROTARY(", float[S,8] u, float[S,8] i) => (y, h)") HEADS_FIRST TURN("q2", "q", "u", "i") TURN("k2", "k", "u", "i") " h = Shape(k)" PRODUCT JOIN},
        /* Heads of keys are shared, turned before they are repeated, and behind that. */
        {NULL, 1, SIZES,
         "g (float[N,S,32] q0, float[N,S,16] k0, float[N,S,16] v0, float[S,8] u, float[S,8] i) => (y)"
         " <int64[4] s = {0,0,4,8}, int64[4] s2 = {0,0,2,8}, int64[3] f = {0,0,32}, float c = {0.35}, int64[1] zero = {0}, int64[1] half = {4},"
         "  int64[1] end = {9223372036854775807}, int64[1] last = {-1}, int64[1] two = {2}, int64[5] twice = {1,1,2,1,1}, int64[4] t = {0,4,-1,8}>"
         "{ q1 = Reshape(q0, s) k1 = Reshape(k0, s2) v1 = Reshape(v0, s2) q2 = Transpose<perm = [0,2,1,3]>(q1)"
         "  k2 = Transpose<perm = [0,2,1,3]>(k1) v2 = Transpose<perm = [0,2,1,3]>(v1)" TURN("q2", "q", "u", "i") TURN("k2", "k3", "u", "i")
         "  k4 = Unsqueeze(k3, two) k5 = Expand(k4, twice) k = Reshape(k5, t) v4 = Unsqueeze(v2, two) v5 = Expand(v4, twice) v = Reshape(v5, t)" PRODUCT JOIN},
        {NULL, 1, SIZES,
         "g (float[N,2,S,8] k2, float[N,4,S,8] q2, float[N,2,S,8] v2, float[N,1,S,8] u, float[S,8] i) => (y)"
         " <float c = {0.35}, int64[1] zero = {0}, int64[1] half = {4},"
         "  int64[1] end = {9223372036854775807}, int64[1] last = {-1}, int64[1] two = {2}, int64[5] twice = {1,1,2,1,1}, int64[4] t = {0,4,-1,8}>"
         "{ k4 = Unsqueeze(k2, two) k5 = Expand(k4, twice) k3 = Reshape(k5, t) v4 = Unsqueeze(v2, two) v5 = Expand(v4, twice) v = Reshape(v5, t)"
         TURN("q2", "q", "u", "i") TURN("k3", "k", "u", "i") PRODUCT " p = Softmax(e) y = MatMul(p, v) }"},
        /* Repeated heads that are turned each by angles of its own are repeated. */
        {NULL, 0, "N=2 S=7",
         "g (float[N,2,S,8] k2, float[N,4,S,8] q, float[N,2,S,8] v2, float[4,S,8] u, float[S,8] i) => (y)"
         " <float c = {0.35}, int64[1] zero = {0}, int64[1] half = {4},"
         "  int64[1] end = {9223372036854775807}, int64[1] last = {-1}, int64[1] two = {2}, int64[5] twice = {1,1,2,1,1}, int64[4] t = {0,4,-1,8}>"
         "{ k4 = Unsqueeze(k2, two) k5 = Expand(k4, twice) k3 = Reshape(k5, t) v4 = Unsqueeze(v2, two) v5 = Expand(v4, twice) v = Reshape(v5, t)"
         TURN("k3", "k", "u", "i") PRODUCT " p = Softmax(e) y = MatMul(p, v) }"},
        /* Batches and heads in one axis: angles for all of them, or for each, which are a kernel of their own. */
        {NULL, 1, "N=1 S=1; N=3 S=7",
         "g (float[N,S,8] q2, float[N,S,8] k2, float[N,S,8] v, float[1,S,8] u, float[S,8] i) => (y)"
         " <int64[1] zero = {0}, int64[1] half = {4}, int64[1] end = {9223372036854775807}, int64[1] last = {-1}>"
         "{" TURN("q2", "q", "u", "i") TURN("k2", "k", "u", "i") " kt = Transpose<perm = [0,2,1]>(k) e = MatMul(q, kt) p = Softmax(e) y = MatMul(p, v) }"},
        {NULL, 3, "N=1 S=1; N=3 S=7",
         "g (float[N,S,8] q2, float[N,S,8] k2, float[N,S,8] v, float[N,S,8] u, float[S,8] i) => (y)"
         " <int64[1] zero = {0}, int64[1] half = {4}, int64[1] end = {9223372036854775807}, int64[1] last = {-1}>"
         "{" TURN("q2", "q", "u", "i") TURN("k2", "k", "u", "i") " kt = Transpose<perm = [0,2,1]>(k) e = MatMul(q, kt) p = Softmax(e) y = MatMul(p, v) }"},
        /* Values are not turned. */
        {"OP", 0, "N=2 S=7",
         "g (float[N,2,S,8] q, float[N,2,8,S] k, float[N,2,S,8] v2, float[S,8] u, float[S,8] i) => (y)"
         " <int64[1] zero = {0}, int64[1] half = {4}, int64[1] end = {9223372036854775807}, int64[1] last = {-1}>"
         "{" TURN("v2", "v", "u", "i") " e = MatMul(q, k) p = Softmax(e) y = MatMul(p, v) }"},
    };
    (void)state;
    CHECK_ALL(cases, false);
}

static void test_misses(void **state)
{
#define PLAIN(more, outputs) "g (float[N,3,S,8] q, float[N,3,8,S] k, float[N,3,S,8] v" more ") => (" outputs ") "
    static const test_case cases[] = {
        {"IS_OUTPUT", 0, "N=2 S=7", PLAIN("", "y, p") "{ a = MatMul(q, k) p = Softmax(a) y = MatMul(p, v) }"},
        {"USED_OUTSIDE", 0, "N=2 S=7", PLAIN("", "y, z") "{ a = MatMul(q, k) p = Softmax(a) y = MatMul(p, v) z = ReduceMean(p) }"},
        {"USED_OUTSIDE", 0, "N=2 S=7", PLAIN("", "y, z") "{ a = MatMul(q, k) p = Softmax(a) y = MatMul(p, v) z = Exp(a) }"},
        {"ATTR", 0, "N=2 S=7", PLAIN("", "y") "{ a = MatMul(q, k) p = Softmax<axis = 2>(a) y = MatMul(p, v) }"},
        {"OP", 0, "N=2 S=7", PLAIN("", "y") "{ a = MatMul(q, k) p = Softmax(a) y = MatMul(k, p) }"},
        {"OP", 0, "N=2 S=7", PLAIN("", "y") "{ a = MatMul(q, k) p = Softmax(a) y = Relu(p) }"},
        {"OP", 0, "N=2 S=7", PLAIN(", float[N,1,1,S] m", "y") "<float c = {0.5}> { a = MatMul(q, k) b = Add(a, m) d = Mul(b, c) p = Softmax(d) y = MatMul(p, v) }"},
        {"CONST", 0, "N=2 S=7", PLAIN(", float[3,1,1] c", "y") "{ a = MatMul(q, k) b = Mul(a, c) p = Softmax(b) y = MatMul(p, v) }"},
        {"CONST", 0, "N=2 S=7", PLAIN(", float c", "y") "{ a = MatMul(q, k) b = Mul(a, c) p = Softmax(b) y = MatMul(p, v) }"},
        {"CONST", 0, "N=2 S=7", PLAIN(", bool[N,1,1,S] m, float f", "y") "{ a = MatMul(q, k) b = Where(m, a, f) p = Softmax(b) y = MatMul(p, v) }"},
        {NULL, 1, "N=2 S=7; N=1 S=1", PLAIN(", float[N,1,S,1] m", "y") "{ a = MatMul(q, k) b = Add(a, m) p = Softmax(b) y = MatMul(p, v) }"},
        /* A mask is taken to fit. */
        {NULL, 1, "N=2 M=1 S=7; N=2 M=2 S=7", PLAIN(", float[M,1,1,S] m", "y") "{ a = MatMul(q, k) b = Add(a, m) p = Softmax(b) y = MatMul(p, v) }"},
        {"SHAPE_UNKNOWN", 0, "M=1 S=7; M=3 S=7", "g (float[1,3,S,8] q, float[1,3,8,S] k, float[1,3,S,8] v, float[M,1,1,S] m) => (y) { a = MatMul(q, k) b = Add(a, m) p = Softmax(b) y = MatMul(p, v) }"},
        {"SHAPE_UNKNOWN", 0, "N=2 S=7", "g (float[N,3,S,8] q, float[1,3,8,S] k, float[N,3,S,8] v) => (y) { a = MatMul(q, k) p = Softmax(a) y = MatMul(p, v) }"},
        {"SHAPE_UNKNOWN", 0, "N=2 S=7", "g (float[N,3,S,8] q, float[N,3,8,S] k, float[N,1,S,8] v) => (y) { a = MatMul(q, k) p = Softmax(a) y = MatMul(p, v) }"},
        {"RANK", 0, "N=2 S=7", "g (float[N,1,2,S,8] q, float[N,1,2,8,S] k, float[N,1,2,S,8] v) => (y) { a = MatMul(q, k) p = Softmax(a) y = MatMul(p, v) }"},
        {"DTYPE", 0, "N=2 S=7", "g (double[N,3,S,8] q, double[N,3,8,S] k, double[N,3,S,8] v) => (y) { a = MatMul(q, k) p = Softmax(a) y = MatMul(p, v) }"},
        {"OP", 0, "N=2 S=7", PLAIN(", float[N,1,1,S] m", "y") "<float c = {-9}> { a = MatMul(q, k) n = Greater(m, c) b = Add(a, m) d = Where(n, b, c) p = Softmax(d) y = MatMul(p, v) }"},
        {"OP", 0, "N=2 S=7", PLAIN(", float[N,1,1,S] m", "y") "<float c = {-9}> { a = MatMul(q, k) n = Greater(m, c) b = Where(n, a, c) d = Where(n, c, b) p = Softmax(d) y = MatMul(p, v) }"},
    };
    (void)state;
    CHECK_ALL(cases, false);
}

/* ---- the operator ---- */

static void test_operator(void **state)
{
    static const test_case cases[] = {
        {NULL, 0, "N=1 S=5 T=7; N=2 S=130 T=33; N=2 S=1 T=1; N=0 S=2 T=3",
         "g (float[N,S,24] q, float[N,T,24] k, float[N,T,15] v) => (y) { y = Attention<q_num_heads = 3, kv_num_heads = 3>(q, k, v) }"},
        {NULL, 0, "N=2 S=37 T=37; N=1 S=9 T=5; N=1 S=3 T=8",
         "g (float[N,S,24] q, float[N,T,12] k, float[N,T,10] v) => (y) { y = Attention<q_num_heads = 4, kv_num_heads = 2, is_causal = 1, scale = 0.7>(q, k, v) }"},
        /* Strided: parts of one tensor, and a transposed result. */
        {NULL, 0, "N=1 S=5; N=3 S=34",
         "g (float[N,3,S,24] x, bool[N,1,S,S] m) => (y, z) { a = Relu(x) q, k, v = Split<axis = 3, num_outputs = 3>(a) o = Attention<softcap = 2.5>(q, k, v, m)"
         " y = Transpose<perm = [0,2,1,3]>(o) k1 = Transpose<perm = [0,1,3,2]>(k) k2 = Identity(k1) t = Transpose<perm = [3,2,1,0]>(a) z = Attention(k, q, v) }"},
        {NULL, 0, "N=2 S=8; N=1 S=8",
         "g (float[N,8,S,8] x) => (y) { a = Exp(x) q = Transpose<perm = [0,3,1,2]>(a) k = Transpose<perm = [0,2,3,1]>(a) y = Attention(q, k, a) }"},
        /* Rows without a key: zeros here. */
        {NULL, 0, "N=2 S=3 T=4; N=9 S=1 T=2", "g (float[N,2,S,8] q, float[N,2,T,8] k, float[N,2,T,5] v, bool[N,1,1,T] m) => (y) { y = Attention(q, k, v, m) }"},
        {NULL, 0, "N=2 S=5 T=4; N=9 S=2 T=2", "g (float[N,2,S,8] q, float[N,2,T,8] k, float[N,2,T,5] v, bool[S,T] b) => (y) { c = Cast<to = 1>(b) m = Log(c) y = Attention<is_causal = 1>(q, k, v, m) }"},
        /* Queries that are not a number, hidden or not. */
        {NULL, 0, "N=3 S=5 T=4", "g (float[N,2,S,8] q, float[N,2,T,8] k, float[N,2,T,5] v, bool[N,1,S,T] m) => (y) { r = Sqrt(q) y = Attention(r, k, v, m) }"},
        /* The scores of a row do not fit a cache. */
        {NULL, 0, "S=3 T=5003", "g (float[1,1,S,4] q, float[1,1,T,4] k, float[1,1,T,3] v, float[1,T] m) => (y) { y = Attention(q, k, v, m) }"},
    };
    (void)state;
    CHECK_ALL(cases, true);
}

#define STEP(to, from) " " to " = Max(" from "," from "," from "," from ")"
#define STEPS                                                                                                          \
    STEP("y1", "o") STEP("y2", "y1") STEP("y3", "y2") STEP("y4", "y3") STEP("y5", "y4") STEP("y6", "y5")               \
    STEP("y7", "y6") STEP("y8", "y7") STEP("y9", "y8") STEP("y10", "y9") STEP("y", "y10")

/* What the kernel does not do runs by reference; lines of earlier calls it does. */
static void test_other_forms(void **state)
{
    static const struct {
        const char *kernel;
        const char *text;
    } forms[] = {
        {"attention_f32", "g (float[1,2,S,8] q, float[1,2,T,8] k, float[1,2,T,5] v, float[1,2,3,8] a, float[1,2,3,5] b) => (y, c, d) { y, c, d = Attention(q, k, v, , a, b) }"},
        {"reference", "g (float[1,2,S,8] q, float[1,2,T,8] k, float[1,2,T,5] v) => (y, p) { y, , , p = Attention<qk_matmul_output_mode = 3>(q, k, v) }"},
        {"reference", "g (float[1,2,S,8] q, float[1,2,T,8] k, float[1,2,T,5] v, float[S,2] m) => (y) { y = Attention(q, k, v, m) }"},
        {"reference", "g (float[1,2,S,8] q, float[1,2,T,8] k, float[1,2,T,5] v) => (y) { y = Attention<left_window_size = 1>(q, k, v) }"},
        /* More steps than a program has room for: angles, a choice, a mask and rows of NaN by reference. */
        {"reference", "g (float[2,2,S,8] q2, float[2,2,S,8] k2, float[2,2,S,8] v, float[S,8] u, float[2,1,S,8] i, bool[S,S] m, float[S,1] m2) => (y)"
        " <int64[1] zero = {0}, int64[1] half = {4}, int64[1] end = {9223372036854775807}, int64[1] last = {-1}, float low = {-2}>"
        "{" TURN("q2", "q", "u", "i") TURN("k2", "k", "i", "u") " kt = Transpose<perm = [0,1,3,2]>(k) a = MatMul(q, kt) d = Where(m, a, low) e = Add(d, m2)"
        " p = Softmax(e) o = MatMul(p, v)" STEPS " }"},
        {"reference", "g (float[1,2,S,8] q, float[1,2,8,S] k, float[1,2,S,5] v, bool[S,S] m) => (y) <float zero = {0}, float none = {-inf}>"
        "{ a = MatMul(q, k) e = Where(m, a, none) p = Softmax(e) i = IsNaN(p) pz = Where(i, zero, p) o = MatMul(pz, v)" STEPS " }"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const test_case c = {NULL, 0, "S=3 T=6", forms[i].text};
        text_model      m;
        tensors         inputs;
        results         want;
        text_model_open(&m, c.text, NULL, 1);
        make_inputs(m.model, c.sizes, 3, &inputs);
        run_model(m.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, c.text, &want);
        check_run(m.model, OPF_MODE_FUSED, &inputs, &want, &(expected){forms[i].kernel, -1, 1e-5, 1e-6, threads, "fused", c.sizes, c.text});
        free_results(&want);
        free_tensors(&inputs);
        text_model_close(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scale),    cmocka_unit_test(test_mask),     cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_windows),  cmocka_unit_test(test_rotary),   cmocka_unit_test(test_misses),
        cmocka_unit_test(test_operator), cmocka_unit_test(test_other_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
