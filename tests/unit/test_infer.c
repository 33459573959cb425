/* SPDX-License-Identifier: Apache-2.0 */
/* Shape inference: symbols, known values, types, steps, and what importer rows share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ops/import.h"
#include "ops/infer.h"

#include <string.h>

typedef struct {
    opf_heap       heap;
    opf_arena      arena;
    opf_dims      *dims;
    opf_const_pool consts;
    opf_graph     *graph;
    opf_error      error;
} fixture;

static int setup(void **state)
{
    static fixture f;
    opf_heap_init(&f.heap, NULL, 0);
    opf_arena_init(&f.arena, &f.heap);
    f.dims   = opf_dims_create(&f.arena);
    f.consts = (opf_const_pool){.arena = &f.arena};
    f.graph  = opf_graph_create(&f.arena, f.dims, &f.consts, "test");
    *state   = &f;
    return f.graph == NULL;
}

static int teardown(void **state)
{
    fixture *f = *state;
    opf_arena_fini(&f->arena);
    return f->heap.used != 0;
}

static opf_dim symbol(fixture *f, const char *name)
{
    return opf_dim_symbol(f->dims, name);
}

static opf_value_id input(fixture *f, const char *name, opf_type type, int32_t rank, const opf_dim *dims)
{
    opf_value_id id    = opf_graph_add_value(f->graph, name);
    opf_info    *info  = &opf_graph_value(f->graph, id)->info;
    info->type         = type;
    info->rank         = rank;
    info->dims         = rank < 0 ? NULL : opf_arena_copy(&f->arena, dims, (size_t)rank * sizeof *dims);
    assert_true(opf_graph_add_input(f->graph, id));
    return id;
}
#define D(...) (int32_t)(sizeof((opf_dim[]){__VA_ARGS__}) / sizeof(opf_dim)), (const opf_dim[]){__VA_ARGS__}
#define N(n)   opf_dim_number(n)

/* An int64 input of n elements with these values. */
static opf_value_id known(fixture *f, int32_t n, const opf_dim *values)
{
    opf_value_id id   = input(f, NULL, OPF_INT64, D(N(n)));
    opf_info    *info = &opf_graph_value(f->graph, id)->info;
    info->n_values    = n;
    info->values      = opf_arena_copy(&f->arena, values, (size_t)n * sizeof *values);
    return id;
}

static opf_value_id constant(fixture *f, double x, opf_type type)
{
    return opf_graph_add_constant(f->graph, NULL, opf_const_float(&f->consts, type, x));
}

static opf_node_id node(fixture *f, const opf_op *op, uint32_t n, const opf_value_id *inputs)
{
    opf_value_id output = opf_graph_add_value(f->graph, NULL);
    opf_node_id  id     = opf_graph_add_node(f->graph, op, op->name, NULL, inputs, n, &output, 1);
    assert_int_not_equal(id, 0);
    return id;
}
#define NODE(f, op, ...)                                                                                               \
    node(f, &opf_op_##op, (uint32_t)(sizeof((opf_value_id[]){__VA_ARGS__}) / sizeof(opf_value_id)), (opf_value_id[]){__VA_ARGS__})

static opf_value_id result(fixture *f, opf_node_id id)
{
    return opf_graph_node(f->graph, id)->outputs[0];
}

static opf_value_id cast(fixture *f, opf_value_id x, opf_type to)
{
    opf_node_id id = NODE(f, Cast, x);
    assert_true(opf_node_set_int(f->graph, id, "to", to));
    return result(f, id);
}

static void infer(fixture *f)
{
    if (opf_infer_graph(f->graph, &f->error) != OPF_OK)
        fail_msg("%s", f->error.message);
}

static void expect_shape(fixture *f, opf_value_id id, const char *text)
{
    assert_string_equal(opf_info_string(&opf_graph_value(f->graph, id)->info, f->dims, &f->arena), text);
}

static void expect_values(fixture *f, opf_value_id id, int32_t n, const opf_dim *values)
{
    const opf_info *info = &opf_graph_value(f->graph, id)->info;
    assert_int_equal(info->n_values, n);
    for (int32_t i = 0; i < n; i++)
        if (!opf_dim_equal(info->values[i], values[i]))
            fail_msg("element %d is %s, must be %s", i, opf_dim_string(f->dims, info->values[i], &f->arena),
                     opf_dim_string(f->dims, values[i], &f->arena));
}

static void expect_error(fixture *f, opf_status status, const char *part)
{
    assert_int_equal(opf_infer_graph(f->graph, &f->error), status);
    if (strstr(f->error.message, part) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", f->error.message, part);
}

/* ---- shapes ---- */

static void test_broadcast(void **state)
{
    fixture     *f = *state;
    opf_dim      s = symbol(f, "N"), t = symbol(f, "M");
    opf_value_id a = input(f, "a", OPF_FLOAT, D(s, N(1), N(4))), b = input(f, "b", OPF_FLOAT, D(N(3), t));
    opf_value_id c = result(f, NODE(f, Add, a, b));
    opf_value_id d = result(f, NODE(f, Mul, a, input(f, "u", OPF_FLOAT, -1, NULL)));
    opf_value_id e = result(f, NODE(f, Less, a, constant(f, 1, OPF_FLOAT)));
    opf_value_id g = result(f, NODE(f, Sum, a, b, input(f, "c", OPF_FLOAT, D(N(5), s, N(1), N(1)))));
    infer(f);
    expect_shape(f, c, "float[N,3,4]");
    expect_shape(f, d, "float[...]");
    expect_shape(f, e, "bool[N,1,4]");
    expect_shape(f, g, "float[5,N,3,4]");
}

static void test_broadcast_of_symbols(void **state)
{
    fixture     *f = *state;
    opf_dim      s = symbol(f, "N"), t = symbol(f, "M");
    opf_value_id a = input(f, "a", OPF_FLOAT, D(s)), b = input(f, "b", OPF_FLOAT, D(t));
    opf_value_id c = input(f, "c", OPF_FLOAT, D(opf_dim_add(f->dims, s, N(2))));
    opf_value_id d = result(f, NODE(f, Add, a, b)), e = result(f, NODE(f, Add, c, b));
    infer(f);
    const opf_info *info = &opf_graph_value(f->graph, d)->info;
    assert_int_equal(info->rank, 1);
    assert_false(opf_dim_is_number(info->dims[0]) || opf_dim_equal(info->dims[0], s) || opf_dim_equal(info->dims[0], t));
    expect_shape(f, e, "float[N+2]"); /* at least 2, so it is the other one that may be 1 */
}

static void test_mismatch(void **state)
{
    fixture *f = *state;
    (void)NODE(f, Add, input(f, "a", OPF_FLOAT, D(N(2), N(3))), input(f, "b", OPF_FLOAT, D(N(4))));
    expect_error(f, OPF_INVALID_INPUT, "(Add): shapes float[2,3] and float[4] do not broadcast");
}

static void test_types(void **state)
{
    fixture     *f = *state;
    opf_value_id x = input(f, "x", OPF_FLOAT, D(N(2))), i = input(f, "i", OPF_INT32, D(N(2)));
    opf_node_id  n = NODE(f, Add, x, i);
    expect_error(f, OPF_INVALID_MODEL, "(Add): input 1 (B) has type int32, input 0 has float");
    opf_graph_remove_node(f->graph, n);
    n = NODE(f, Sqrt, i);
    expect_error(f, OPF_UNSUPPORTED, "(Sqrt): input 0 (X) has type int32, supported are float, float16, double, bfloat16");
    opf_graph_remove_node(f->graph, n);
    n = NODE(f, Sub, x, 0);
    expect_error(f, OPF_INVALID_MODEL, "input 1 (B) is missing");
    opf_graph_remove_node(f->graph, n);
    n = NODE(f, Relu, x, x);
    expect_error(f, OPF_INVALID_MODEL, "2 inputs, at most 1");
    opf_graph_remove_node(f->graph, n);
    n = NODE(f, Cast, x);
    expect_error(f, OPF_INVALID_MODEL, "attribute to is missing");
    assert_true(opf_node_set_int(f->graph, n, "to", OPF_STRING));
    expect_error(f, OPF_UNSUPPORTED, "string");
}

/* ---- values ---- */

static void test_symbolic_values(void **state)
{
    fixture     *f = *state;
    opf_dim      s = symbol(f, "S"), twice = opf_dim_mul(f->dims, s, N(2));
    opf_value_id v = known(f, D(s, N(-7), N(12)));
    opf_value_id two = constant(f, 2, OPF_INT64);
    opf_value_id mul = result(f, NODE(f, Mul, v, two)), div = result(f, NODE(f, Div, v, two));
    opf_value_id back = result(f, NODE(f, Div, mul, two)), neg = result(f, NODE(f, Neg, result(f, NODE(f, Neg, v))));
    opf_value_id max = result(f, NODE(f, Max, v, constant(f, -1, OPF_INT64))), narrow = cast(f, v, OPF_INT32), tiny = cast(f, v, OPF_INT8);
    infer(f);
    expect_values(f, mul, D(twice, N(-14), N(24)));
    expect_values(f, div, D(opf_dim_div(f->dims, s, N(2)), N(-3), N(6))); /* towards zero */
    expect_values(f, back, D(s, N(-7), N(12)));
    expect_values(f, neg, D(s, N(-7), N(12)));
    expect_values(f, max, D(s, N(-1), N(12)));
    expect_values(f, narrow, D(s, N(-7), N(12)));
    assert_int_equal(opf_graph_value(f->graph, tiny)->info.n_values, 3);
    assert_false(opf_dim_equal(opf_graph_value(f->graph, tiny)->info.values[0], s));
}

/* How exporters spell the target of an Expand: -1 means "as it is". */
static void test_where_of_shapes(void **state)
{
    fixture     *f = *state;
    opf_dim      s = symbol(f, "S");
    opf_value_id target = known(f, D(N(-1), s, N(4))), ones = known(f, D(N(1), N(1), N(1)));
    opf_value_id is_free = result(f, NODE(f, Equal, target, constant(f, -1, OPF_INT64)));
    opf_value_id shape   = result(f, NODE(f, Where, is_free, ones, target));
    opf_value_id unsure  = result(f, NODE(f, Greater, target, constant(f, 0, OPF_INT64)));
    infer(f);
    expect_values(f, is_free, D(N(1), N(0), N(0)));
    expect_values(f, shape, D(N(1), s, N(4)));
    assert_false(opf_dim_is_number(opf_graph_value(f->graph, unsure)->info.values[1])); /* S may be 0 */
}

static void test_values_through_floats(void **state)
{
    fixture     *f = *state;
    opf_value_id even = known(f, D(N(14))), odd = known(f, D(N(7), symbol(f, "S")));
    opf_value_id half = constant(f, 0.5, OPF_FLOAT);
    opf_value_id a = cast(f, result(f, NODE(f, Floor, result(f, NODE(f, Mul, cast(f, even, OPF_FLOAT), half)))), OPF_INT64);
    opf_value_id b = result(f, NODE(f, Mul, cast(f, odd, OPF_FLOAT), half));
    opf_value_id big = cast(f, known(f, D(N((1 << 24) + 1))), OPF_FLOAT);
    opf_value_id zero = result(f, NODE(f, Neg, cast(f, known(f, D(N(0))), OPF_FLOAT)));
    infer(f);
    expect_values(f, a, D(N(7)));
    assert_int_equal(opf_graph_value(f->graph, b)->info.n_values, -1);    /* 3.5 is no integer, S no number */
    assert_int_equal(opf_graph_value(f->graph, big)->info.n_values, -1);  /* a float cannot hold it */
    assert_int_equal(opf_graph_value(f->graph, zero)->info.n_values, -1); /* -0 is no integer either */
}

static void test_wrapping_values(void **state)
{
    fixture     *f = *state;
    opf_value_id a = cast(f, known(f, D(N(200), N(-1))), OPF_UINT8), b = cast(f, known(f, D(N(100), N(2))), OPF_UINT8);
    opf_value_id sum = result(f, NODE(f, Add, a, b));
    infer(f);
    expect_values(f, sum, D(N(44), N(1)));
}

/* ---- the pass ---- */

static void test_steps(void **state)
{
    fixture     *f  = *state;
    opf_dim      s  = symbol(f, "S");
    opf_value_id x  = input(f, "x", OPF_FLOAT, D(s, N(8))), r = input(f, "r", OPF_FLOAT, D(N(8)));
    opf_node_id  id = NODE(f, Relu, x);
    opf_value_id extra = opf_graph_add_value(f->graph, "sum");
    opf_step     steps[2] = {
        {.op = &opf_op_Add, .op_type = "Add", .type = OPF_FLOAT, .args = {{OPF_ARG_ANCHOR, 0}, {OPF_ARG_INPUT, 1}}, .n_args = 2,
         .output = 1},
        {.op = &opf_op_Greater, .op_type = "Greater", .type = OPF_BOOL, .args = {{OPF_ARG_STEP, 0}, {OPF_ARG_ANCHOR, 0}}, .n_args = 2,
         .output = -1},
    };
    opf_graph_node(f->graph, id)->epilogue = (opf_steps){steps, 2, 2};
    assert_true(opf_graph_append_input(f->graph, id, r));
    assert_true(opf_graph_append_output(f->graph, id, extra));
    infer(f);
    expect_shape(f, result(f, id), "bool[S,8]");
    expect_shape(f, extra, "float[S,8]");

    opf_info infos[16] = {0}, out[2]; /* the same node on numbers */
    infos[x] = (opf_info){.type = OPF_FLOAT, .rank = 2, .dims = (opf_dim[]){N(3), N(8)}, .n_values = -1};
    infos[r] = (opf_info){.type = OPF_FLOAT, .rank = 1, .dims = (opf_dim[]){N(8)}, .n_values = -1};
    assert_int_equal(opf_infer_node(f->graph, id, infos, &f->arena, f->dims, out, &f->error), OPF_OK);
    assert_string_equal(opf_info_string(&out[0], f->dims, &f->arena), "bool[3,8]");
    assert_string_equal(opf_info_string(&out[1], f->dims, &f->arena), "float[3,8]");
}

static void test_again(void **state)
{
    fixture     *f = *state;
    opf_value_id y = result(f, NODE(f, Exp, input(f, "x", OPF_FLOAT, D(symbol(f, "S"), N(2)))));
    infer(f);
    const opf_dim *dims = opf_graph_value(f->graph, y)->info.dims;
    infer(f);
    assert_ptr_equal(opf_graph_value(f->graph, y)->info.dims, dims); /* equal infos are kept, not copied again */
}

static void test_out_of_memory(void **state)
{
    fixture *f = *state;
    opf_value_id x = input(f, "x", OPF_FLOAT, D(symbol(f, "S"), N(2)));
    for (int i = 0; i < 40; i++)
        x = result(f, NODE(f, Exp, x));
    size_t limit  = f->heap.limit;
    f->heap.limit = f->heap.used;
    assert_int_equal(opf_infer_graph(f->graph, &f->error), OPF_OUT_OF_MEMORY);
    f->heap.limit = limit;
    infer(f);
}

/* ---- older opsets ---- */

static opf_status lift(fixture *f, opf_node_id id, int32_t opset)
{
    const opf_op *op = opf_graph_node(f->graph, id)->op;
    for (uint32_t i = 0; i < op->n_rows; i++)
        if (opset < op->rows[i].below)
            OPF_TRY(op->rows[i].lift(f->graph, id, opset, &f->error));
    return OPF_OK;
}

static opf_status lower(fixture *f, opf_node_id id, int32_t opset)
{
    const opf_op *op = opf_graph_node(f->graph, id)->op;
    for (uint32_t i = op->n_rows; i-- > 0;)
        if (opset < op->rows[i].below)
            OPF_TRY(op->rows[i].lower(f->graph, id, opset, &f->error));
    return OPF_OK;
}

static void test_clip_6(void **state)
{
    fixture    *f  = *state;
    opf_node_id id = NODE(f, Clip, input(f, "x", OPF_FLOAT16, D(N(2))));
    assert_true(opf_node_set_float(f->graph, id, "max", 6));
    assert_int_equal(lift(f, id, 6), OPF_OK);
    const opf_node *clip = opf_graph_node(f->graph, id);
    assert_int_equal(clip->n_own_inputs, 3);
    assert_int_equal(clip->inputs[1], 0);
    const opf_const *max = opf_graph_value(f->graph, clip->inputs[2])->constant;
    assert_int_equal(max->type, OPF_FLOAT16);
    assert_true(opf_const_f64_at(max, 0) == 6);
    infer(f);
    expect_shape(f, result(f, id), "float16[2]");
    assert_int_equal(lower(f, id, 10), OPF_OK);
    assert_true(opf_node_float(opf_graph_node(f->graph, id), "max", 0) == 6);
    assert_int_equal(opf_graph_node(f->graph, id)->inputs[2], 0);
}

static void test_dropout_7(void **state)
{
    fixture     *f    = *state;
    opf_value_id x    = input(f, "x", OPF_FLOAT, D(N(2)));
    opf_node_id  id   = NODE(f, Dropout, x);
    opf_value_id mask = opf_graph_add_value(f->graph, "mask");
    assert_true(opf_graph_append_output(f->graph, id, mask));
    opf_graph_node(f->graph, id)->n_own_outputs = 2;
    assert_true(opf_node_set_float(f->graph, id, "ratio", 0.25f));
    assert_int_equal(lift(f, id, 6), OPF_UNSUPPORTED); /* that one trains */
    assert_int_equal(lift(f, id, 7), OPF_OK);
    infer(f);
    expect_shape(f, result(f, id), "float[2]");
    expect_shape(f, mask, "float[2]"); /* it was of the type of the data */
    assert_true(opf_graph_append_input(f->graph, id, input(f, "training", OPF_BOOL, 0, NULL)));
    opf_graph_node(f->graph, id)->n_own_inputs = 3;
    expect_error(f, OPF_UNSUPPORTED, "training_mode must be a constant false");
}

static void test_broadcast_6(void **state)
{
    fixture    *f  = *state;
    opf_node_id id = NODE(f, Add, input(f, "a", OPF_FLOAT, D(N(2), N(3), N(4))), input(f, "b", OPF_FLOAT, D(N(4))));
    assert_true(opf_node_set_int(f->graph, id, "broadcast", 1));
    assert_int_equal(lift(f, id, 6), OPF_OK);
    infer(f);
    expect_shape(f, result(f, id), "float[2,3,4]");
    assert_int_equal(lower(f, id, 6), OPF_OK);
    assert_int_equal(opf_node_int(opf_graph_node(f->graph, id), "broadcast", 0), 1);
    id = NODE(f, Mul, opf_graph_node(f->graph, id)->inputs[1], opf_graph_node(f->graph, id)->inputs[0]);
    infer(f);
    assert_int_equal(lower(f, id, 6), OPF_UNSUPPORTED);
}

static void test_broadcast_axis_6(void **state)
{
    fixture    *f  = *state;
    opf_node_id id = NODE(f, Add, input(f, "a", OPF_FLOAT, D(N(2), N(3), N(4))), input(f, "b", OPF_FLOAT, D(N(3))));
    assert_true(opf_node_set_int(f->graph, id, "broadcast", 1) && opf_node_set_int(f->graph, id, "axis", 1));
    assert_int_equal(lift(f, id, 6), OPF_OK);
    infer(f);
    expect_shape(f, result(f, id), "float[2,3,4]");
    expect_shape(f, opf_graph_node(f->graph, id)->inputs[1], "float[3,1]");
}

static void test_prelu_6(void **state)
{
    fixture    *f  = *state;
    opf_node_id id = NODE(f, PRelu, input(f, "x", OPF_FLOAT, D(N(2), N(3), N(4), N(4))), input(f, "slope", OPF_FLOAT, D(N(3))));
    assert_int_equal(lift(f, id, 6), OPF_OK);
    infer(f);
    expect_shape(f, result(f, id), "float[2,3,4,4]");
    expect_shape(f, opf_graph_node(f->graph, id)->inputs[1], "float[3,1,1]");
}

static void test_cast_1(void **state)
{
    fixture    *f  = *state;
    opf_node_id id = NODE(f, Cast, input(f, "x", OPF_FLOAT, D(N(2))));
    assert_true(opf_node_set_attr(f->graph, id, (opf_attr){.name = "to", .type = OPF_ATTR_STRING, .s = "INT64", .n = 5}));
    assert_int_equal(lift(f, id, 1), OPF_OK);
    infer(f);
    expect_shape(f, result(f, id), "int64[2]");
    assert_int_equal(lower(f, id, 1), OPF_OK);
    assert_string_equal(opf_node_string(opf_graph_node(f->graph, id), "to", ""), "INT64");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_broadcast),       TEST(test_broadcast_of_symbols),  TEST(test_mismatch),        TEST(test_types),
        TEST(test_symbolic_values), TEST(test_where_of_shapes),       TEST(test_wrapping_values), TEST(test_values_through_floats),
        TEST(test_steps),           TEST(test_again),                 TEST(test_out_of_memory),   TEST(test_clip_6),
        TEST(test_dropout_7),       TEST(test_broadcast_6),           TEST(test_broadcast_axis_6), TEST(test_prelu_6),
        TEST(test_cast_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
