/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random graphs around every rule: a spelling of its pattern, drawn from the alternatives that the matcher sees, with random
 * sizes and operands; then, perhaps, spoilt: another constant, other axes, an operand of another shape or known at run time
 * only, a second reader, an inner value that is an output. Fused against the reference, and fused again with the rules in a
 * random order, which must reach an end and compute the same. `test_rule_graphs SEED COUNT` repeats what a failure names.
 *
 * Where the address sanitizer makes each graph many times as slow, a sample is checked: of each rule as many graphs as it
 * takes to see it fire OFTEN times. `test_rule_graphs SEED` checks all (the suite rule-graphs-asan of --long).
 */
#include "fuse/builtin.h"
#include "fuse/rule_parse.h"
#include "shuffled.h"

enum { MAX_RANK = 5, MAX_VALUES = 200, MAX_RULES = 100 };

typedef struct value {
    char    name[16];
    int     rank;
    int64_t dims[MAX_RANK];
} value;

typedef struct generator {
    opf_random            random;
    opf_arena            *arena;
    opf_text              inputs, constants, nodes;
    value                 values[MAX_VALUES];
    int                   n;
    const opf_rule       *rule;
    const opf_rule_block *block;
    int                  *of_name; /* by name of the rule: value, -1 */
    int                   base;    /* what the pattern reads first */
    int64_t               axes[2];
    int                   n_axes;
    int64_t               channels, group; /* of the convolution in progress */
    bool                  spoils;
    const char           *failed; /* an operator that cannot be drawn */
} generator;

static int pick(generator *g, int n)
{
    return (int)(opf_random_next(&g->random) % (uint64_t)n);
}

static bool spoil(generator *g)
{
    return g->spoils && pick(g, 12) == 0;
}

/* ---- values ---- */

static int add_value(generator *g, const char *prefix, int rank, const int64_t *dims)
{
    assert_in_range(g->n, 0, MAX_VALUES - 1);
    value *v = &g->values[g->n];
    *v       = (value){.rank = rank};
    (void)snprintf(v->name, sizeof v->name, "%s%d", prefix, g->n);
    for (int i = 0; i < rank; i++)
        v->dims[i] = dims[i];
    return g->n++;
}

static void print_type(opf_text *t, const char *type, const value *v)
{
    opf_text_add(t, "%s%s", t->length == 0 ? "" : ", ", type);
    for (int i = 0; i < v->rank; i++)
        opf_text_add(t, "%s%lld", i == 0 ? "[" : ",", (long long)v->dims[i]);
    opf_text_add(t, "%s %s", v->rank == 0 ? "" : "]", v->name);
}

/* prefix x: fed at run time; w, p: random constants, of any sign and positive. */
static int add_input(generator *g, const char *prefix, int rank, const int64_t *dims)
{
    int x = add_value(g, prefix, rank, dims);
    print_type(&g->inputs, "float", &g->values[x]);
    return x;
}

/* A tensor that the rule may look into: constant, or spoilt by being fed. */
static int add_weight(generator *g, const char *prefix, int rank, const int64_t *dims)
{
    return add_input(g, spoil(g) ? "x" : prefix, rank, dims);
}

static int add_numbers(generator *g, double number, int rank, const int64_t *dims, int64_t count)
{
    int k = add_value(g, "k", rank, dims);
    print_type(&g->constants, "float", &g->values[k]);
    for (int64_t i = 0; i < count; i++)
        opf_text_add(&g->constants, "%s%.9g", i == 0 ? " = {" : ", ", number);
    opf_text_add(&g->constants, "}");
    return k;
}

/* A number in any spelling of a constant of one element; [1,1] may raise the rank, which must be noticed. */
static int add_number(generator *g, double number)
{
    static const int64_t ones[MAX_RANK] = {1, 1, 1, 1, 1};
    return add_numbers(g, spoil(g) ? number + 1 : number, pick(g, 3), ones, 1);
}

static int add_ints(generator *g, const int64_t *ints, int n)
{
    int k = add_value(g, "i", 1, (int64_t[]){n});
    print_type(&g->constants, "int64", &g->values[k]);
    for (int i = 0; i < n; i++)
        opf_text_add(&g->constants, "%s%lld", i == 0 ? " = {" : ", ", (long long)ints[i]);
    opf_text_add(&g->constants, "}");
    return k;
}

static int give_up(generator *g, const char *what)
{
    g->failed = what;
    return 0;
}

/* ---- operands that are leaves of the pattern ---- */

/* Something that broadcasts against x: a scalar, a row, channels, all of it. */
static int broadcast_leaf(generator *g, int x)
{
    value   v       = g->values[x];
    int64_t dims[MAX_RANK];
    int     form    = pick(g, 4), rank = v.rank;
    if (form == 0)
        return add_weight(g, pick(g, 2) == 0 ? "w" : "p", 0, NULL);
    if (form == 1 && rank > 0)
        return add_weight(g, "w", 1, &v.dims[rank - 1]);
    for (int i = 0; i < rank; i++)
        dims[i] = form == 2 && i != 1 ? 1 : v.dims[i];
    if (form == 2 && rank > 2 && pick(g, 2) == 0) /* [C,1,1] */
        return add_weight(g, "w", rank - 1, &dims[1]);
    return add_weight(g, "w", rank, dims);
}

static bool reduces(const opf_op *op)
{
    return op == &opf_op_ReduceMean || op == &opf_op_ReduceMax || op == &opf_op_ReduceSum || op == &opf_op_ReduceSumSquare || op == &opf_op_ReduceL2 ||
           op == &opf_op_ReduceL1;
}

/* The axes of a reduction: those of the first one, unless spoilt. */
static int axes_leaf(generator *g, int x)
{
    int     rank = g->values[x].rank;
    int64_t other[1] = {pick(g, rank < 1 ? 1 : rank)};
    if (g->n_axes == 0) {
        int form = pick(g, 4);
        g->n_axes  = form == 3 && rank > 1 ? 2 : 1;
        g->axes[0] = form == 0 ? -1 : form == 1 ? rank - 1 : form == 2 && rank > 1 ? 1 : -1;
        g->axes[1] = -2;
    }
    return spoil(g) ? add_ints(g, other, 1) : add_ints(g, g->axes, g->n_axes);
}

static int conv_leaf(generator *g, bool transposed, int x, uint32_t input)
{
    value   v = g->values[x];
    int64_t c = v.rank > 1 ? v.dims[1] : 1, k = 1 + pick(g, 3), dims[MAX_RANK];
    if (input == 2)
        return add_weight(g, "w", 1, &g->channels);
    g->group    = c > 1 && pick(g, 3) == 0 ? c : 1;
    g->channels = g->group * (1 + pick(g, 3));
    dims[0]     = transposed ? c : g->channels;
    dims[1]     = transposed ? g->channels / g->group : c / g->group;
    for (int i = 2; i < v.rank; i++)
        dims[i] = k < v.dims[i] ? k : v.dims[i];
    return add_weight(g, "w", v.rank, dims);
}

static bool is_true(const opf_rule_expr *e, const char *attribute)
{
    for (uint32_t i = 0; i < e->n_attrs; i++)
        if (strcmp(e->attrs[i].name, attribute) == 0 && e->attrs[i].value->kind == OPF_RULE_NUMBER)
            return e->attrs[i].value->number != 0;
    return false;
}

static int product_leaf(generator *g, const opf_rule_expr *e, int x, uint32_t input)
{
    value   v       = g->values[x];
    int64_t k       = v.rank > 0 ? v.dims[v.rank - 1] : 1;
    bool    turned  = e->op == &opf_op_Gemm && is_true(e, "transB");
    if (input == 2)
        return add_weight(g, "w", 1, &g->channels);
    g->channels     = 1 + pick(g, 6);
    int64_t dims[2] = {turned ? g->channels : k, turned ? k : g->channels};
    return add_weight(g, "w", 2, dims);
}

static int pad_leaf(generator *g, int x, uint32_t input)
{
    int64_t pads[2 * MAX_RANK] = {0};
    int     rank               = g->values[x].rank;
    if (input == 2)
        return add_number(g, 0);
    if (input != 1)
        return give_up(g, "Pad with axes");
    for (int i = 0; i < 2 * rank; i++)
        pads[i] = i % rank < 2 ? 0 : pick(g, 2);
    if (spoil(g))
        pads[pick(g, 2 * rank)] = pick(g, 2) == 0 ? 1 : -1;
    return add_ints(g, pads, 2 * rank);
}

/* Groups of channels as channels, and back to the image; columns of a matrix as channels, first or last. */
static int reshape_leaf(generator *g, int x)
{
    value   v = g->values[x], *base = &g->values[g->base];
    if (v.rank == 2) {
        bool last = pick(g, 2) == 0;
        return add_ints(g, (int64_t[]){v.dims[0], last ? 1 : v.dims[1], 1, last ? v.dims[1] : 1}, 4);
    }
    int64_t c = v.rank > 1 ? v.dims[1] : 1, groups[3] = {v.rank > 0 ? v.dims[0] : 1, c % 2 == 0 ? 2 : 1, -1};
    return v.rank == 4 ? add_ints(g, groups, 3) : add_ints(g, base->dims, base->rank);
}

/* The condition of the rule that the operand of this name must meet counts elements. */
static bool is_counted(const generator *g, const opf_rule_expr *operand)
{
    for (uint32_t i = 0; operand->kind == OPF_RULE_NAME && i < g->rule->n_where; i++) {
        const opf_rule_expr *condition = g->rule->where[i];
        if (strncmp(condition->text, "counts", 6) == 0 && condition->args[0]->kind == OPF_RULE_NAME && condition->args[0]->name == operand->name)
            return true;
    }
    return false;
}

/* What a sum is divided by, or multiplied with, to become a mean. */
static int count_leaf(generator *g, bool inverse)
{
    value   v     = g->values[g->base];
    int64_t count = 1;
    for (int i = 0; i < v.rank; i++) {
        bool reduced = g->n_axes == 0;
        for (int k = 0; k < g->n_axes; k++)
            reduced = reduced || g->axes[k] == i || g->axes[k] + v.rank == i;
        count *= reduced ? v.dims[i] : 1;
    }
    return add_number(g, inverse ? 1 / (double)count : (double)count);
}

static int leaf(generator *g, const opf_rule_expr *e, uint32_t input, int x)
{
    const opf_op *op = e->op;
    int64_t       c  = x < 0 ? 1 : g->values[x].rank > 1 ? g->values[x].dims[1] : 1;
    if (x < 0)
        return g->base;
    if (is_counted(g, e->args[input]))
        return count_leaf(g, op == &opf_op_Mul);
    if (op == &opf_op_Conv || op == &opf_op_ConvTranspose)
        return conv_leaf(g, op == &opf_op_ConvTranspose, x, input);
    if (op == &opf_op_MatMul || op == &opf_op_Gemm)
        return product_leaf(g, e, x, input);
    if (op == &opf_op_BatchNormalization)
        return add_weight(g, input == 4 ? "p" : "w", 1, &c);
    if (op == &opf_op_InstanceNormalization)
        return add_numbers(g, (input == 1) != spoil(g), 1, &c, c);
    if (reduces(op))
        return axes_leaf(g, x);
    if (op == &opf_op_Pad)
        return pad_leaf(g, x, input);
    if (op == &opf_op_Reshape)
        return reshape_leaf(g, x);
    if (op == &opf_op_Unsqueeze)
        return add_ints(g, (int64_t[]){spoil(g) ? pick(g, 2) : 2}, 1);
    if (op == &opf_op_Clip)
        return add_number(g, input == 1 ? pick(g, 3) - 2 : pick(g, 4));
    if ((op->traits & OPF_ELEMENTWISE) != 0)
        return pick(g, 2) == 0 ? add_number(g, 0.25 * (1 + pick(g, 6))) : broadcast_leaf(g, x);
    return give_up(g, op->name);
}

/* ---- nodes ---- */

/* Shapes are left to the library: the text so far is inferred. */
static bool infer_shape(generator *g, value *r)
{
    opf_heap   heap;
    opf_arena  arena;
    opf_error  error;
    opf_graph *graph = NULL;
    bool       ok    = false;
    opf_heap_init(&heap, NULL, 0);
    opf_arena_init(&arena, &heap);
    opf_const_pool consts = {.arena = &arena, .next_id = 1};
    opf_text       t      = pb_begin(&arena);
    opf_text_add(&t, "g (%s) => (%s) <float unused = {0}%s%s> {%s }", g->inputs.data, g->values[g->n - 1].name, g->constants.length == 0 ? "" : ", ",
                 g->constants.length == 0 ? "" : g->constants.data, g->nodes.data);
    if (opf_text_parse(t.data, opf_find_operator, &arena, opf_dims_create(&arena), &consts, &graph, NULL, NULL, &error) == OPF_OK &&
        opf_infer_graph(graph, &error) == OPF_OK) {
        const opf_info *info = &opf_graph_value(graph, graph->outputs[0])->info;
        ok                   = info->rank >= 0 && info->rank <= MAX_RANK;
        r->rank              = ok ? info->rank : 0;
        for (int i = 0; i < r->rank; i++) {
            r->dims[i] = info->dims[i].n;
            ok         = ok && opf_dim_is_number(info->dims[i]) && r->dims[i] > 0;
        }
    }
    opf_arena_fini(&arena);
    return ok;
}

static void print_attr(generator *g, const opf_op *op, const char *name, const opf_rule_expr *e, int *n)
{
    bool is_float = false;
    for (uint32_t i = 0; i < op->n_attrs; i++)
        is_float = is_float || (strcmp(op->attrs[i].name, name) == 0 && op->attrs[i].type == OPF_ATTR_FLOAT);
    if (e->kind == OPF_RULE_TEXT)
        opf_text_add(&g->nodes, "%s%s = \"%s\"", (*n)++ == 0 ? "<" : ", ", name, e->text);
    else if (e->kind == OPF_RULE_NUMBER)
        opf_text_add(&g->nodes, is_float ? "%s%s = %#.9g" : "%s%s = %.9g", (*n)++ == 0 ? "<" : ", ", name, e->number + (spoil(g) && is_float ? 1 : 0));
}

/* Attributes that the pattern demands, and some that it only names. */
static void print_attrs(generator *g, const opf_rule_expr *e, int x)
{
    int n = 0, spatial = x < 0 ? 0 : g->values[x].rank - 2;
    for (uint32_t i = 0; i < e->n_attrs; i++)
        print_attr(g, e->op, e->attrs[i].name, e->attrs[i].value, &n);
    if ((e->op == &opf_op_Conv || e->op == &opf_op_ConvTranspose) && g->group > 1)
        opf_text_add(&g->nodes, "%sgroup = %lld", n++ == 0 ? "<" : ", ", (long long)g->group);
    bool window = e->op == &opf_op_Conv || e->op == &opf_op_MaxPool || e->op == &opf_op_AveragePool;
    if (window && spatial == 2 && pick(g, 3) == 0)
        opf_text_add(&g->nodes, "%sstrides = [2, 1]", n++ == 0 ? "<" : ", ");
    if (window && spatial == 2 && e->op == &opf_op_Conv && pick(g, 3) == 0)
        opf_text_add(&g->nodes, "%spads = [1, 0, 0, 1]", n++ == 0 ? "<" : ", ");
    if (e->op == &opf_op_MaxPool || e->op == &opf_op_AveragePool)
        opf_text_add(&g->nodes, "%skernel_shape = [2, 3]", n++ == 0 ? "<" : ", ");
    if (e->op == &opf_op_ConvTranspose && spatial == 2 && pick(g, 3) != 0)
        opf_text_add(&g->nodes, "%s%s", n++ == 0 ? "<" : ", ", pick(g, 2) == 0 ? "pads = [1, 1, 2, 1]" : "strides = [2, 1], pads = [2, 1, 2, 1]");
    if (e->op == &opf_op_Transpose && spatial == 1 && !spoil(g))
        opf_text_add(&g->nodes, "%sperm = [0, 2, 1]", n++ == 0 ? "<" : ", ");
    if (e->op == &opf_op_Transpose && spatial == 2 && !spoil(g))
        opf_text_add(&g->nodes, "%sperm = [0, 3, 1, 2]", n++ == 0 ? "<" : ", ");
    if (e->op == &opf_op_BatchNormalization && pick(g, 2) == 0)
        opf_text_add(&g->nodes, "%sepsilon = 0.1", n++ == 0 ? "<" : ", ");
    if (e->op == &opf_op_Concat)
        opf_text_add(&g->nodes, "%saxis = -1", n++ == 0 ? "<" : ", ");
    if (reduces(e->op) && spoil(g))
        opf_text_add(&g->nodes, "%skeepdims = 0", n++ == 0 ? "<" : ", ");
    opf_text_add(&g->nodes, "%s", n == 0 ? "" : ">");
}

static int generate_expr(generator *g, const opf_rule_expr *e);

static int generate_name(generator *g, uint32_t name)
{
    uint32_t statement = g->block->definition[name];
    if (g->of_name[name] < 0 && statement != OPF_RULE_NO_NAME)
        g->of_name[name] = generate_expr(g, g->block->statements[statement].value);
    return g->of_name[name];
}

static bool is_leaf(const generator *g, const opf_rule_expr *e)
{
    return e->kind == OPF_RULE_NAME && g->of_name[e->name] < 0 && g->block->definition[e->name] == OPF_RULE_NO_NAME;
}

static int generate_operator(generator *g, const opf_rule_expr *e)
{
    int      args[16], first = -1;
    uint32_t n = e->n_args < 16 ? e->n_args : 16;
    for (uint32_t i = 0; i < n; i++) { /* what is no leaf tells the leaves their shapes */
        args[i] = is_leaf(g, e->args[i]) ? -1 : generate_expr(g, e->args[i]);
        if (g->failed != NULL)
            return 0;
        bool number = e->args[i]->kind == OPF_RULE_NUMBER;
        first       = first < 0 && !number ? args[i] : first;
    }
    for (uint32_t i = 0; i < n; i++) {
        bool absent = args[i] < 0 && e->args[i]->optional && pick(g, 2) == 0;
        if (args[i] >= 0 || absent)
            continue;
        int x = is_leaf(g, e->args[i]) ? leaf(g, e, i, first) : g->of_name[e->args[i]->name]; /* the same name twice */
        if (g->failed != NULL)
            return 0;
        args[i]                    = x;
        g->of_name[e->args[i]->name] = x;
        first                      = first < 0 ? x : first;
    }
    if (n == 2 && args[0] >= 0 && args[1] >= 0 && e->op != &opf_op_Clip && ((e->op->traits & OPF_COMMUTATIVE) != 0 || spoil(g)) && (e->op->traits & OPF_ELEMENTWISE) != 0 && pick(g, 2) == 0) {
        int swap = args[0];
        args[0]  = args[1];
        args[1]  = swap;
    }
    int y = add_value(g, "v", 0, NULL);
    opf_text_add(&g->nodes, " [n%d] %s = %s", y, g->values[y].name, e->op->name);
    print_attrs(g, e, first);
    while (n > 0 && args[n - 1] < 0)
        n--;
    for (uint32_t i = 0; i < n; i++)
        opf_text_add(&g->nodes, "%s%s", i == 0 ? "(" : ", ", args[i] < 0 ? "" : g->values[args[i]].name);
    opf_text_add(&g->nodes, ")");
    if (!infer_shape(g, &g->values[y]))
        return give_up(g, "a shape that cannot be");
    return y;
}

static int generate_expr(generator *g, const opf_rule_expr *e)
{
    switch (e->kind) {
    case OPF_RULE_NAME:
        return generate_name(g, e->name);
    case OPF_RULE_NUMBER:
        return add_number(g, e->number);
    case OPF_RULE_ALTERNATIVE:
        return generate_expr(g, e->args[pick(g, (int)e->n_args)]);
    case OPF_RULE_OPERATOR:
        return generate_operator(g, e);
    default:
        return give_up(g, "an expression of another kind");
    }
}

/* ---- graphs ---- */

static bool has_operator(const opf_rule_expr *e, const opf_op *op)
{
    if (e->kind == OPF_RULE_OPERATOR && e->op == op)
        return true;
    for (uint32_t i = 0; (e->kind == OPF_RULE_OPERATOR || e->kind == OPF_RULE_ALTERNATIVE) && i < e->n_args; i++)
        if (has_operator(e->args[i], op))
            return true;
    return false;
}

static bool uses(const opf_rule_block *block, const opf_op *op)
{
    for (uint32_t s = 0; s < block->n_statements; s++)
        if (has_operator(block->statements[s].value, op))
            return true;
    return false;
}

static bool reads_images(const opf_rule_block *block)
{
    return uses(block, &opf_op_Conv) || uses(block, &opf_op_ConvTranspose) || uses(block, &opf_op_Pad) || uses(block, &opf_op_MaxPool) ||
           uses(block, &opf_op_AveragePool) || (uses(block, &opf_op_Reshape) && !uses(block, &opf_op_MatMul) && !uses(block, &opf_op_Gemm));
}

/* ---- parts of rows ---- */

static bool has_name(const opf_rule_expr *e, uint32_t name)
{
    if (e->kind == OPF_RULE_NAME)
        return e->name == name;
    for (uint32_t i = 0; (e->kind == OPF_RULE_OPERATOR || e->kind == OPF_RULE_ALTERNATIVE) && i < e->n_args; i++)
        if (has_name(e->args[i], name))
            return true;
    return false;
}

/* The name of the rule as its pattern reads it; -1: it does not. */
static int find_name(const generator *g, const char *text)
{
    for (uint32_t name = 0; name < g->rule->n_names; name++)
        for (uint32_t s = 0; strcmp(g->rule->names[name], text) == 0 && s < g->block->n_statements; s++)
            if (has_name(g->block->statements[s].value, name))
                return (int)name;
    return -1;
}

static void bind(generator *g, const char *text, int drawn)
{
    const int name = find_name(g, text);
    if (name >= 0)
        g->of_name[name] = drawn;
}

/* Elements of the last axis of the base. */
static int add_part(generator *g, int64_t from, int64_t to, int64_t step)
{
    const value *base  = &g->values[g->base];
    const int    ints[] = {add_ints(g, &from, 1), add_ints(g, &to, 1), add_ints(g, (int64_t[]){base->rank - 1}, 1), add_ints(g, &step, 1)};
    int64_t      dims[MAX_RANK];
    memcpy(dims, base->dims, sizeof dims);
    dims[base->rank - 1] = (to - from + step - 1) / step;
    const int y          = add_value(g, "v", base->rank, dims);
    opf_text_add(&g->nodes, " %s = Slice(%s", g->values[y].name, g->values[g->base].name);
    for (int i = 0; i < 4; i++)
        opf_text_add(&g->nodes, ", %s", g->values[ints[i]].name);
    opf_text_add(&g->nodes, ")");
    return y;
}

/* What rotary embeddings read: two parts of the rows of one value, perhaps more behind them, and angles. */
static void draw_parts(generator *g, int64_t pairs, int64_t more)
{
    const value   base    = g->values[g->base];
    const bool    is_pair = find_name(g, "last") >= 0, is_whole = find_name(g, "x") >= 0;
    const int64_t n = 2 * pairs, half = spoil(g) ? 1 : pairs;
    int64_t       dims[MAX_RANK];
    memcpy(dims, base.dims, sizeof dims);
    bind(g, "x", more == 0 ? g->base : add_part(g, 0, n, 1));
    bind(g, "a", is_pair ? add_part(g, 0, n, 2) : add_part(g, 0, half, 1));
    bind(g, "b", is_pair ? add_part(g, 1, n, 2) : add_part(g, half, n, 1));
    bind(g, "rest", add_part(g, n, n + more, 1));
    bind(g, "last", add_ints(g, (int64_t[]){spoil(g) ? base.rank - 1 : pick(g, 2) == 0 ? -1 : base.rank}, 1));
    dims[base.rank - 1] = n;
    bind(g, "shape", add_ints(g, dims, base.rank));
    dims[base.rank - 1] = is_whole ? n : pairs;
    for (int i = 0; i < 2; i++)
        bind(g, i == 0 ? "c" : "s", pick(g, 3) == 0 ? add_input(g, "x", base.rank, dims) : add_input(g, "x", 1, &dims[base.rank - 1]));
}

static void begin_graph(generator *g, const opf_rule *rule)
{
    g->rule     = rule;
    g->block    = &rule->blocks[pick(g, (int)rule->n_blocks)];
    g->of_name  = OPF_NEW(g->arena, int, rule->n_names);
    assert_non_null(g->of_name);
    for (uint32_t i = 0; i < rule->n_names; i++)
        g->of_name[i] = -1;
    bool images = reads_images(g->block);
    int64_t dims[4] = {1 + pick(g, 2), 1 + pick(g, 4), 4 + pick(g, 3), 4 + pick(g, 3)};
    g->inputs       = pb_begin(g->arena);
    g->constants    = pb_begin(g->arena);
    g->nodes        = pb_begin(g->arena);
    g->spoils       = pick(g, 2) == 0;
    opf_text_add(&g->nodes, "%s", "");
    const int  rank   = images || pick(g, 3) == 0 ? 4 : 2 + pick(g, 2);
    const bool rotary = strncmp(rule->name, "rotary", 6) == 0;
    const int64_t pairs = rotary ? 1 + pick(g, 4) : 0, more = rotary && find_name(g, "rest") >= 0 ? 1 + pick(g, 2) : 0;
    if (rotary)
        dims[rank - 1] = 2 * pairs + more;
    int x   = add_input(g, "x", rank, dims);
    g->base = x;
    if (pick(g, 3) == 0) { /* something stands before the pattern */
        static const char *const before[] = {"Tanh", "Relu", "Neg"};
        g->base = add_value(g, "v", g->values[x].rank, g->values[x].dims);
        opf_text_add(&g->nodes, " %s = %s(%s)", g->values[g->base].name, before[pick(g, 3)], g->values[x].name);
    }
    if (rotary)
        draw_parts(g, pairs, more);
}

/* The text, or NULL: this draw of the pattern cannot be. */
static const char *generate(generator *g, const opf_rule *rule, uint64_t seed)
{
    static const char *const after[] = {"Relu", "Sigmoid", "Neg", "Exp"};
    begin_graph(g, rule);
    int first = g->n, y = 0;
    for (uint32_t s = g->block->n_statements; s-- > 0 && g->failed == NULL;) {
        uint32_t target = g->block->statements[s].targets[0];
        if (g->of_name[target] < 0)
            g->of_name[target] = generate_expr(g, g->block->statements[s].value);
        y = s + 1 == g->block->n_statements ? g->of_name[target] : y;
    }
    if (g->failed != NULL)
        return NULL;
    int last = g->n;
    if (pick(g, 2) == 0) {
        int z = add_value(g, "v", g->values[y].rank, g->values[y].dims);
        opf_text_add(&g->nodes, " %s = %s(%s)", g->values[z].name, after[pick(g, 4)], g->values[y].name);
        y = z;
    }
    opf_text outputs = pb_begin(g->arena), t = pb_begin(g->arena);
    opf_text_add(&outputs, "%s", g->values[y].name);
    for (int k = first; k < last; k++)
        if (g->values[k].name[0] == 'v' && k != y && spoil(g)) {
            if (pick(g, 2) == 0) {
                opf_text_add(&outputs, ", %s", g->values[k].name);
            } else {
                opf_text_add(&g->nodes, " extra%d = Abs(%s)", k, g->values[k].name);
                opf_text_add(&outputs, ", extra%d", k);
            }
        }
    opf_text_add(&t, "# seed %llu, %s\ng (%s) => (%s)\n<float unused = {0}%s%s>\n{%s }", (unsigned long long)seed, rule->name, g->inputs.data, outputs.data, g->constants.length == 0 ? "" : ", ",
                 g->constants.length == 0 ? "" : g->constants.data, g->nodes.data);
    assert_false(t.failed || outputs.failed);
    return t.data;
}

/* ---- checking ---- */

static struct {
    const char *name;
    size_t      drawn, fired;
} tried[MAX_RULES];
static size_t n_ill_conditioned;

static void count_fusions(const opf_model *model, uint32_t rule)
{
    opf_report *report;
    opf_error   error;
    if (opf_model_explain(model, &report, &error) != OPF_OK)
        fail_msg("%s", error.message);
    const opf_explanation *e = opf_report_explanation(report);
    for (size_t i = 0; i < e->n_fusions; i++)
        if (strcmp(e->fusions[i].rule, tried[rule].name) == 0) {
            tried[rule].fired++;
            break;
        }
    opf_report_destroy(&report);
}

static void check_graph(const opf_rules *rules, uint64_t seed)
{
    static generator g;
    opf_heap         heap;
    opf_arena        arena;
    char             label[120];
    uint32_t         rule = (uint32_t)(seed % rules->n);
    opf_heap_init(&heap, NULL, 0);
    opf_arena_init(&arena, &heap);
    memset(&g, 0, sizeof g);
    g.arena = &arena;
    g.group = 1;
    opf_random_init(&g.random, seed);
    const char *text = generate(&g, &rules->list[rule], seed);
    if (text != NULL) {
        text_model m;
        tensors    inputs;
        results    want, fused;
        tried[rule].drawn++;
        (void)snprintf(label, sizeof label, "seed %llu, %s", (unsigned long long)seed, rules->list[rule].name);
        text_model_open(&m, text, NULL, seed);
        make_inputs(m.model, "", seed, &inputs);
        const random_model of = {text, seed, &inputs};
        run_model(m.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, text, &want);
        run_model(m.model, OPF_MODE_FUSED, 1, &inputs, NULL, text, &fused);
        n_ill_conditioned += compare_conditioned(&of, &fused, &want, 1e-3, 2e-3, label);
        count_fusions(m.model, rule);
        check_shuffled(m.model, &of, &want, 1e-3, 2e-3);
        free_results(&want);
        free_results(&fused);
        free_tensors(&inputs);
        text_model_close(&m);
    }
    opf_arena_fini(&arena);
}

enum { ENOUGH = 250 }; /* draws of a rule: one that fires in 2 of 100 then fires once, almost surely */

#ifdef __SANITIZE_ADDRESS__
enum { OFTEN = 20 };
#else
enum { OFTEN = ENOUGH };
#endif

static uint64_t first_seed = 1, n_seeds; /* 0: enough */
static size_t   often = OFTEN;           /* a rule has fired that often: it is not drawn any more */

static void test_rule_graphs(void **state)
{
    (void)state;
    opf_heap  heap;
    opf_arena arena;
    opf_error error;
    opf_rules rules = {0};
    opf_heap_init(&heap, NULL, 0);
    opf_arena_init(&arena, &heap);
    for (const opf_builtin_rule *rule = opf_builtin_rules; rule->name != NULL; rule++)
        if (opf_rules_parse(rule->text, rule->name, &arena, &rules, &error) != OPF_OK)
            fail_msg("%s", error.message);
    assert_in_range(rules.n, 1, MAX_RULES);
    for (uint32_t i = 0; i < rules.n; i++)
        tried[i].name = rules.list[i].name;
    const uint64_t enough = ENOUGH * (uint64_t)rules.n;
    if (n_seeds == 0)
        n_seeds = enough;
    for (uint64_t seed = first_seed; seed < first_seed + n_seeds; seed++)
        if (tried[seed % rules.n].fired < often)
            check_graph(&rules, seed);
    assert_true(n_ill_conditioned <= 2 + n_seeds / 50); /* else the bounds are not what decides */
    for (uint32_t i = 0; n_seeds >= enough && i < rules.n; i++)
        if (tried[i].fired == 0)
            fail_msg("%s never fired on %zu graphs of its own pattern", tried[i].name, tried[i].drawn);
    opf_arena_fini(&arena);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rule_graphs)};
    if (argc > 1) {
        first_seed = strtoull(argv[1], NULL, 10);
        often      = SIZE_MAX;
    }
    if (argc > 2)
        n_seeds = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
