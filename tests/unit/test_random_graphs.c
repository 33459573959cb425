/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random small graphs of the operators that fuse, with shared values and several outputs: fused, fused in another
 * order and unfused against the reference. `test_random_graphs SEED COUNT` repeats what a failure names.
 */
#include "cpu/cpu.h"
#include "shuffled.h"

enum { MAX_VALUES = 120, MAX_RANK = 4 };

typedef struct value {
    int     rank;
    int64_t dims[MAX_RANK];
    bool    is_bounded; /* small numbers: growth by products ends here */
} value;

typedef struct generator {
    opf_random random;
    opf_arena *arena;
    opf_text   inputs, nodes; /* of the text */
    value      values[MAX_VALUES];
    int        n, weights;
} generator;

static int pick(generator *g, int n)
{
    return (int)(opf_random_next(&g->random) % (uint64_t)n);
}

/* ---- pieces of text ---- */

static void add_port(generator *g, const char *name, int number, const value *v)
{
    opf_text_add(&g->inputs, "%sfloat", g->inputs.length == 0 ? "" : ", ");
    for (int i = 0; i < v->rank; i++)
        opf_text_add(&g->inputs, "%s%lld", i == 0 ? "[" : ",", (long long)v->dims[i]);
    opf_text_add(&g->inputs, "%s %s%d", v->rank == 0 ? "" : "]", name, number);
}

/* A weight of these dims; its number. `p` weights are positive. */
static int weight(generator *g, const char *kind, int rank, int64_t a, int64_t b, int64_t c, int64_t d)
{
    value v = {.rank = rank, .dims = {a, b, c, d}};
    add_port(g, kind, g->weights, &v);
    return g->weights++;
}

/* The value that the node just written makes. */
static int make(generator *g, value v, bool is_bounded)
{
    g->values[g->n]            = v;
    g->values[g->n].is_bounded = is_bounded;
    return g->n++;
}

#define NODE(...) opf_text_add(&g->nodes, __VA_ARGS__)

static int unary(generator *g, int x)
{
    static const struct {
        const char *op;
        bool        bounds;
    } ops[] = {{"Relu", false}, {"Sigmoid", true}, {"Tanh", true}, {"Neg", false}, {"Gelu", false}, {"HardSwish", false}, {"Abs", false}, {"Erf", true}, {"LeakyRelu", false}, {"Softplus", false}, {"HardSigmoid", true}, {"Atan", true}, {"Shrink", false}};
    int op = pick(g, (int)(sizeof ops / sizeof *ops));
    NODE(" v%d = %s(v%d)", g->n, ops[op].op, x);
    return make(g, g->values[x], ops[op].bounds || g->values[x].is_bounded);
}

/* A number in the place of NaN. */
static int replaced(generator *g, int x)
{
    NODE(" i%d = IsNaN(v%d) c%d = Constant<value_float = 0.5>() v%d = Where(i%d, c%d, v%d)", g->n, x, g->n, g->n, g->n, g->n, x);
    return make(g, g->values[x], g->values[x].is_bounded);
}

/* The same value twice, an equal shape, a weight that broadcasts, or a part of the value. */
static int binary(generator *g, int x)
{
    static const char *const ops[] = {"Add", "Add", "Sub", "Mul", "Max", "Min"};
    const char *op = ops[pick(g, 6)];
    value       v  = g->values[x];
    int         same[MAX_VALUES], n = 0;
    if (!v.is_bounded && strcmp(op, "Mul") == 0)
        op = "Add";
    for (int i = 0; i < g->n; i++)
        if (g->values[i].rank == v.rank && memcmp(g->values[i].dims, v.dims, sizeof v.dims) == 0 && (g->values[i].is_bounded || strcmp(op, "Mul") != 0))
            same[n++] = i;
    if (n > 1 && pick(g, 3) != 0) {
        int y = same[pick(g, n)];
        bool turn = pick(g, 2) != 0;
        NODE(" v%d = %s(v%d, v%d)", g->n, op, turn ? y : x, turn ? x : y);
        return make(g, v, v.is_bounded && g->values[y].is_bounded && strcmp(op, "Mul") == 0);
    }
    value w     = {.rank = pick(g, v.rank + 1)};
    bool  first = pick(g, 2) != 0;
    for (int i = 0; i < w.rank; i++)
        w.dims[i] = pick(g, 3) == 0 ? 1 : v.dims[v.rank - w.rank + i];
    int number = weight(g, "w", w.rank, w.dims[0], w.dims[1], w.dims[2], w.dims[3]);
    if (first)
        NODE(" v%d = %s(w%d, v%d)", g->n, op, number, x);
    else
        NODE(" v%d = %s(v%d, w%d)", g->n, op, x, number);
    return make(g, v, false);
}

static int conv(generator *g, int x)
{
    value   v = g->values[x];
    int64_t c = v.dims[1];
    int     k = pick(g, 2) == 0 ? 1 : 3, stride = pick(g, 4) == 0 ? 2 : 1, pad = k == 3 ? 1 : 0;
    bool    depthwise = pick(g, 4) == 0, halves = !depthwise && c % 2 == 0 && pick(g, 4) == 0;
    int64_t group = depthwise ? c : halves ? 2 : 1, o = depthwise ? c : halves ? 2 * (1 + pick(g, 9)) : pick(g, 3) == 0 ? c : 1 + pick(g, 20);
    int     w = weight(g, "w", 4, o, c / group, k, k), b = pick(g, 2) == 0 ? weight(g, "w", 1, o, 0, 0, 0) : -1;
    NODE(" v%d = Conv<group = %lld, strides = [%d,%d], pads = [%d,%d,%d,%d]>(v%d, w%d", g->n, (long long)group, stride, stride, pad, pad, pad, pad, x, w);
    if (b >= 0)
        NODE(", w%d", b);
    NODE(")");
    v.dims[1] = o;
    for (int i = 2; i < 4; i++)
        v.dims[i] = (v.dims[i] + 2 * pad - k) / stride + 1;
    int y = make(g, v, g->values[x].is_bounded);
    if (pick(g, 2) == 0)
        return y;
    int p = weight(g, "p", 1, o, 0, 0, 0), m = weight(g, "w", 1, o, 0, 0, 0), m2 = weight(g, "w", 1, o, 0, 0, 0), q = weight(g, "p", 1, o, 0, 0, 0);
    NODE(" v%d = BatchNormalization(v%d, p%d, w%d, w%d, p%d)", g->n, y, p, m, m2, q);
    return make(g, v, false);
}

static int pool(generator *g, int x)
{
    value v = g->values[x];
    if (pick(g, 3) == 0) {
        NODE(" v%d = GlobalAveragePool(v%d)", g->n, x);
        v.dims[2] = v.dims[3] = 1;
        return make(g, v, v.is_bounded);
    }
    NODE(" v%d = %s<kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]>(v%d)", g->n, pick(g, 2) == 0 ? "MaxPool" : "AveragePool", x);
    for (int i = 2; i < 4; i++)
        v.dims[i] = (v.dims[i] - 1) / 2 + 1;
    return make(g, v, v.is_bounded);
}

/* Squeeze and excite: a gate per channel, from the mean of all pixels. */
static int gate(generator *g, int x)
{
    value   v = g->values[x], small = v;
    int64_t c = v.dims[1], r = c / 2 + 1;
    int     w = weight(g, "w", 4, r, c, 1, 1), w2 = weight(g, "w", 4, c, r, 1, 1);
    small.dims[2] = small.dims[3] = 1;
    NODE(" v%d = GlobalAveragePool(v%d)", g->n, x);
    int a = make(g, small, false);
    small.dims[1] = r;
    NODE(" v%d = Conv(v%d, w%d)", g->n, a, w);
    a = make(g, small, false);
    NODE(" v%d = Relu(v%d)", g->n, a);
    a = make(g, small, false);
    small.dims[1] = c;
    NODE(" v%d = Conv(v%d, w%d)", g->n, a, w2);
    a = make(g, small, false);
    NODE(" v%d = Sigmoid(v%d)", g->n, a);
    a = make(g, small, true);
    NODE(" v%d = Mul(v%d, v%d)", g->n, x, a);
    return make(g, v, v.is_bounded);
}

static int product(generator *g, int x)
{
    value   v = g->values[x];
    int64_t k = v.dims[v.rank - 1], n = pick(g, 3) == 0 ? k : 1 + pick(g, 40);
    int     times = pick(g, 4) == 0 ? 3 : 1, y = 0; /* three of one input are merged */
    if (v.rank > 2 && times == 1 && pick(g, 3) == 0) { /* with its own transpose */
        value t               = v;
        t.dims[v.rank - 1]    = v.dims[v.rank - 2];
        t.dims[v.rank - 2]    = k;
        NODE(" v%d = Transpose<perm = [%s]>(v%d)", g->n, v.rank == 3 ? "0,2,1" : "0,1,3,2", x);
        int a = make(g, t, v.is_bounded);
        NODE(" v%d = MatMul(v%d, v%d) ", g->n, x, a);
        v.dims[v.rank - 1] = v.dims[v.rank - 2];
        y = make(g, v, false);
        NODE(" v%d = Softmax(v%d)", g->n, y);
        return make(g, v, true);
    }
    for (int i = 0; i < times; i++) {
        int w = weight(g, "w", 2, k, n + i, 0, 0);
        NODE(" v%d = MatMul(v%d, w%d)", g->n, x, w);
        v.dims[v.rank - 1] = n + i;
        y = make(g, v, false);
        if (pick(g, 2) == 0) {
            w = weight(g, "w", 1, n + i, 0, 0, 0);
            NODE(" v%d = Add(v%d, w%d)", g->n, y, w);
            y = make(g, v, false);
        }
    }
    return y;
}

/* As exporters spell it, or as one operator. */
static int layer_norm(generator *g, int x)
{
    value   v = g->values[x], mean = v;
    int64_t n = v.dims[v.rank - 1];
    int     w = weight(g, "w", 1, n, 0, 0, 0), b = weight(g, "w", 1, n, 0, 0, 0), y;
    if (pick(g, 2) == 0) {
        NODE(" v%d = LayerNormalization(v%d, w%d, w%d)", g->n, x, w, b);
        return make(g, v, false);
    }
    mean.dims[v.rank - 1] = 1;
    NODE(" v%d = ReduceMean(v%d, last)", g->n, x);
    y = make(g, mean, false);
    NODE(" v%d = Sub(v%d, v%d)", g->n, x, y);
    int d = make(g, v, false);
    NODE(" v%d = Pow(v%d, two)", g->n, d);
    y = make(g, v, false);
    NODE(" v%d = ReduceMean(v%d, last)", g->n, y);
    y = make(g, mean, false);
    NODE(" v%d = Add(v%d, eps)", g->n, y);
    y = make(g, mean, false);
    NODE(" v%d = Sqrt(v%d)", g->n, y);
    y = make(g, mean, false);
    NODE(" v%d = Div(v%d, v%d)", g->n, d, y);
    y = make(g, v, false);
    NODE(" v%d = Mul(v%d, w%d)", g->n, y, w);
    y = make(g, v, false);
    NODE(" v%d = Add(v%d, w%d)", g->n, y, b);
    return make(g, v, false);
}

/* Groups of channels, each channel, or one element of each pixel; as one operator or as exporters spell it. */
static int image_norm(generator *g, int x)
{
    value   v = g->values[x], groups = {.rank = 3, .dims = {v.dims[0], v.dims[1] % 2 == 0 ? 2 : 1}};
    int64_t c = v.dims[1];
    int     w = weight(g, "w", 1, c, 0, 0, 0), b = weight(g, "w", 1, c, 0, 0, 0), y = x;
    groups.dims[2] = v.dims[1] / groups.dims[1] * v.dims[2] * v.dims[3];
    switch (pick(g, 4)) {
    case 0:
        NODE(" v%d = InstanceNormalization(v%d, w%d, w%d)", g->n, x, w, b);
        break;
    case 1:
        NODE(" v%d = GroupNormalization<num_groups = %d>(v%d, w%d, w%d)", g->n, c % 3 == 0 ? 3 : 1, x, w, b);
        break;
    case 2:
        NODE(" v%d = Reshape(v%d, shape%d)", g->n, x, g->n);
        y = make(g, groups, false);
        w = weight(g, "w", 1, groups.dims[1], 0, 0, 0);
        NODE(" v%d = InstanceNormalization(v%d, w%d, w%d)", g->n, y, w, w);
        y = make(g, groups, false);
        NODE(" v%d = Reshape(v%d, shape%d)", g->n, y, g->n);
        break;
    default:
        NODE(" v%d = LpNormalization<axis = %d, p = %d>(v%d)", g->n, pick(g, 4), 1 + pick(g, 2), x);
    }
    return make(g, v, false);
}

/* Divided by its length, along any axis. */
static int unit_length(generator *g, int x)
{
    value v = g->values[x], n = v;
    int   axis = pick(g, v.rank), form = pick(g, 3), y;
    n.dims[axis] = 1;
    if (form == 0) {
        NODE(" v%d = ReduceL2(v%d, axis%d)", g->n, x, axis);
        y = make(g, n, false);
    } else {
        NODE(" v%d = ReduceSumSquare(v%d, axis%d)", g->n, x, axis);
        y = make(g, n, false);
        if (form == 1) {
            NODE(" v%d = Add(v%d, eps)", g->n, y);
            y = make(g, n, false);
        }
        NODE(" v%d = Sqrt(v%d)", g->n, y);
        y = make(g, n, false);
    }
    if (form != 1) {
        NODE(" v%d = %s(v%d, eps)", g->n, pick(g, 2) == 0 ? "Max" : "Add", y);
        y = make(g, n, false);
    }
    NODE(" v%d = Div(v%d, v%d)", g->n, x, y);
    return make(g, v, true);
}

static int softmax(generator *g, int x)
{
    NODE(" v%d = Softmax<axis = %d>(v%d)", g->n, pick(g, 4) == 0 ? 0 : -1, x);
    return make(g, g->values[x], true);
}

static int transpose(generator *g, int x)
{
    value v = g->values[x], t = v;
    int   perm[MAX_RANK] = {0, 1, 2, 3};
    for (int i = v.rank - 1; i > 0; i--) {
        int k = pick(g, i + 1), p = perm[i];
        perm[i] = perm[k];
        perm[k] = p;
    }
    NODE(" v%d = Transpose<perm = [", g->n);
    for (int i = 0; i < v.rank; i++) {
        NODE("%s%d", i == 0 ? "" : ",", perm[i]);
        t.dims[i] = v.dims[perm[i]];
    }
    NODE("]>(v%d)", x);
    return make(g, t, v.is_bounded);
}

/* Two neighbouring axes become one, or an axis of even size two. */
static int reshape(generator *g, int x)
{
    value v = g->values[x], r = v;
    int   axis = pick(g, v.rank);
    if (v.rank > 1 && (v.rank == MAX_RANK || pick(g, 2) == 0)) {
        axis = axis == v.rank - 1 ? 0 : axis;
        r.rank--;
        r.dims[axis] *= v.dims[axis + 1];
        for (int i = axis + 1; i < r.rank; i++)
            r.dims[i] = v.dims[i + 1];
    } else {
        int64_t part = v.dims[axis] % 2 == 0 ? 2 : 1;
        r.rank++;
        for (int i = v.rank; i > axis + 1; i--)
            r.dims[i] = v.dims[i - 1];
        r.dims[axis]     = part;
        r.dims[axis + 1] = v.dims[axis] / part;
    }
    for (int i = r.rank; i < MAX_RANK; i++)
        r.dims[i] = 0;
    NODE(" v%d = Reshape<allowzero = 1>(v%d, shape%d)", g->n, x, g->n);
    return make(g, r, v.is_bounded);
}

static int concat(generator *g, int x)
{
    value v = g->values[x], r = v;
    int   axis = pick(g, v.rank), parts[3] = {x, x, x}, n = 1 + pick(g, 3);
    r.dims[axis] = 0;
    for (int k = 0; k < n; k++) {
        for (int i = 0; k > 0 && i < g->n; i++) {
            value w = g->values[i];
            if (w.rank != v.rank)
                continue;
            w.dims[axis] = v.dims[axis];
            if (memcmp(w.dims, v.dims, sizeof v.dims) == 0 && pick(g, 2) == 0)
                parts[k] = i;
        }
        r.dims[axis] += g->values[parts[k]].dims[axis];
    }
    NODE(" v%d = Concat<axis = %d>(v%d", g->n, axis, parts[0]);
    for (int k = 1; k < n; k++)
        NODE(", v%d", parts[k]);
    NODE(")");
    return make(g, r, false);
}

/* Halves of the last axis, both used. */
static int split(generator *g, int x)
{
    value   v = g->values[x], a = v, b = v;
    int64_t n = v.dims[v.rank - 1];
    a.dims[v.rank - 1] = (n + 1) / 2;
    b.dims[v.rank - 1] = n - (n + 1) / 2;
    NODE(" v%d, v%d = Split<axis = -1, num_outputs = 2>(v%d)", g->n, g->n + 1, x);
    (void)make(g, a, v.is_bounded);
    return make(g, b, v.is_bounded);
}

static int slice(generator *g, int x)
{
    value       v = g->values[x];
    const char *step = pick(g, 3) == 0 ? "minus" : "one";
    int         axis = pick(g, v.rank);
    NODE(" v%d = Slice(v%d, %s, %s, axis%d, %s)", g->n, x, step[0] == 'm' ? "minus" : "zero", step[0] == 'm' ? "far" : "two_i", axis, step);
    if (step[0] == 'o')
        v.dims[axis] = v.dims[axis] < 2 ? v.dims[axis] : 2;
    return make(g, v, v.is_bounded);
}

/* ---- graphs ---- */

typedef int (*make_fn)(generator *g, int x);

static int grow(generator *g, int x)
{
    static const make_fn any[]    = {unary, unary, binary, binary, binary, transpose, reshape, concat, slice, softmax, unit_length, replaced},
                         images[] = {conv, conv, conv, pool, gate, image_norm, image_norm}, rows[] = {product, product, layer_norm, split};
    const value         *v        = &g->values[x];
    int64_t              count    = 1;
    for (int i = 0; i < v->rank; i++)
        count *= v->dims[i];
    if (count > 20000)
        return slice(g, x);
    if (v->rank == 4 && v->dims[1] > 0 && v->dims[2] > 0 && v->dims[3] > 0 && pick(g, 2) == 0)
        return images[pick(g, 7)](g, x);
    if (v->rank >= 2 && v->dims[v->rank - 1] > 1 && pick(g, 2) == 0)
        return rows[pick(g, 4)](g, x);
    return v->rank == 0 ? unary(g, x) : any[pick(g, 12)](g, x);
}

static const char *generate(generator *g, uint64_t seed)
{
    value image = {.rank = 4, .dims = {1 + pick(g, 2), 1 + pick(g, 20), 1 + pick(g, 9), 1 + pick(g, 9)}};
    value rows  = {.rank = 3, .dims = {1 + pick(g, 2), 1 + pick(g, 9), 2 + pick(g, 40)}};
    int   steps = 2 + pick(g, 12);
    g->inputs   = pb_begin(g->arena);
    g->nodes    = pb_begin(g->arena);
    value first = pick(g, 2) == 0 ? image : rows;
    for (int i = 0; i < 2; i++) {
        add_port(g, "v", g->n, &first);
        (void)make(g, first, false);
    }
    int x = 0;
    for (int i = 0; i < steps && g->n < MAX_VALUES - 20; i++)
        x = grow(g, pick(g, 4) == 0 ? pick(g, g->n) : x);
    opf_text t = pb_begin(g->arena);
    opf_text_add(&t, "# seed %llu\ng (%s) => (v%d", (unsigned long long)seed, g->inputs.data, g->n - 1);
    for (int k = g->n - 2; k >= 0; k--)
        if (pick(g, 6) == 0)
            opf_text_add(&t, ", v%d", k);
    opf_text_add(&t, ")\n<int64[1] last = {-1}, float two = {2}, float eps = {1e-5}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] minus = {-1},"
                     " int64[1] far = {-10000}, int64[1] two_i = {2}, int64[1] axis0 = {0}, int64[1] axis1 = {1}, int64[1] axis2 = {2}, int64[1] axis3 = {3}");
    for (int k = 0; k < g->n; k++) {
        opf_text_add(&t, ", int64[%d] shape%d = {", g->values[k].rank, k);
        for (int i = 0; i < g->values[k].rank; i++)
            opf_text_add(&t, "%s%lld", i == 0 ? "" : ",", (long long)g->values[k].dims[i]);
        opf_text_add(&t, "}");
    }
    opf_text_add(&t, ">\n{%s }", g->nodes.data);
    assert_false(t.failed);
    return t.data;
}

/* ---- checking ---- */

static size_t n_fusions, n_ill_conditioned;

/* What explain counts is what runs. */
static void check_explanation(const opf_model *model, size_t n_steps, const char *text)
{
    opf_report *report;
    opf_error   error;
    if (opf_model_explain(model, &report, &error) != OPF_OK)
        fail_msg("%s\n%s", error.message, text);
    const opf_explanation *e = opf_report_explanation(report);
    n_fusions += e->n_fusions;
    if (e->nodes_after != n_steps)
        fail_msg("explain counts %zu kernels, %zu steps ran\n%s", e->nodes_after, n_steps, text);
    opf_report_destroy(&report);
}

static void check_graph(uint64_t seed)
{
    static generator g;
    opf_heap         heap;
    opf_arena        arena;
    opf_heap_init(&heap, NULL, 0);
    opf_arena_init(&arena, &heap);
    memset(&g, 0, sizeof g);
    g.arena = &arena;
    opf_random_init(&g.random, seed);
    const char       *text    = generate(&g, seed);
    int               levels  = (int)opf_cpu_detect() - (int)OPF_CPU_SCALAR + 1;
    opf_model_options options = {.level = (opf_cpu_level)((int)OPF_CPU_SCALAR + (int)(seed % (uint64_t)levels))};
    char              label[80];
    text_model        m;
    tensors           inputs;
    results           want, one, three;
    text_model_open(&m, text, &options, seed);
    make_inputs(m.model, "", seed, &inputs);
    const random_model of = {text, seed, &inputs};
    run_model(m.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, text, &want);
    for (opf_mode mode = OPF_MODE_FUSED; mode <= OPF_MODE_UNFUSED; mode++) {
        (void)snprintf(label, sizeof label, "seed %llu, %s at %s", (unsigned long long)seed, mode == OPF_MODE_FUSED ? "fused" : "unfused", opf_cpu_level_name(options.level));
        run_model(m.model, mode, 1, &inputs, NULL, text, &one);
        run_model(m.model, mode, 3, &inputs, NULL, text, &three);
        n_ill_conditioned += compare_conditioned(&of, &one, &want, 1e-3, 1e-3, label);
        same_bits(&one, &three, 3, label, text);
        if (mode == OPF_MODE_FUSED)
            check_explanation(m.model, one.n_steps, text);
        free_results(&one);
        free_results(&three);
    }
    check_shuffled(m.model, &of, &want, 1e-3, 1e-3);
    free_results(&want);
    free_tensors(&inputs);
    text_model_close(&m);
    opf_arena_fini(&arena);
}

static uint64_t first_seed = 1, n_seeds = 300;

static void test_random_graphs(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed; seed < first_seed + n_seeds; seed++)
        check_graph(seed);
    assert_true(n_fusions >= n_seeds);                 /* else nothing was tested */
    assert_true(n_ill_conditioned <= 2 + n_seeds / 50); /* else the bounds are not what decides */
}

/* How many elements of the only output are wrong when the first one is off by a hundredth of its size. */
static size_t count_spoilt(const char *text)
{
    text_model m;
    tensors    inputs;
    results    want, have;
    double     worst = 0;
    text_model_open(&m, text, NULL, 1);
    make_inputs(m.model, "", 1, &inputs);
    run_model(m.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, text, &want);
    run_model(m.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, text, &have);
    opf_store_f64(OPF_FLOAT, have.data[0], 0, 1.01 * opf_load_f64(OPF_FLOAT, want.data[0], 0));
    double *spread = calloc(tensor_count(&want.list[0]), sizeof *spread);
    measure_spread(&(random_model){text, 1, &inputs}, &want, &spread);
    const size_t wrong = count_wrong(&have.list[0], &want.list[0], spread, 1e-3, 1e-3, &worst);
    free(spread);
    free_results(&want);
    free_results(&have);
    free_tensors(&inputs);
    text_model_close(&m);
    return wrong;
}

/* What excuses the difference of two results is their condition, and nothing else. */
static void test_condition(void **state)
{
    (void)state;
    assert_int_equal(count_spoilt("g (float[2,8] x, float[8,8] w) => (y) { p = MatMul(x, w) y = LpNormalization(p) }"), 1);
    /* The rest of a sum of which nothing else is left. */
    assert_int_equal(count_spoilt("g (float[2,8] x) => (y) <float far = {1e6}> { a = Add(x, far) d = Sub(a, far) y = LpNormalization(d) }"), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_graphs), cmocka_unit_test(test_condition)};
    if (argc > 1)
        first_seed = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        n_seeds = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
