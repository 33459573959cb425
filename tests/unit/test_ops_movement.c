/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that move elements. A case is a graph in the textual syntax over constants: each result `y` is compared
 * with the constant `y_want`, on dense tensors and on odd strides, and where values are known at inference with those
 * too.
 */
#include "graph/text.h"
#include "ops/infer.h"
#include "ops/movement.h"

#include "odd_views.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct fixture {
    opf_heap       heap;
    opf_arena      arena;
    opf_dims      *dims;
    opf_const_pool consts;
    opf_error      error;
    opf_graph     *graph;
} fixture;

static void begin(fixture *f)
{
    memset(f, 0, sizeof *f);
    opf_heap_init(&f->heap, NULL, 0);
    opf_arena_init(&f->arena, &f->heap);
    f->dims   = opf_dims_create(&f->arena);
    f->consts = (opf_const_pool){.arena = &f->arena, .next_id = 1};
}

static void parse(fixture *f, const char *text)
{
    if (opf_text_parse(text, opf_find_operator, &f->arena, f->dims, &f->consts, &f->graph, NULL, NULL, &f->error) !=
        OPF_OK)
        fail_msg("%s\n%s", f->error.message, text);
}

static opf_status load(fixture *f, const char *text)
{
    begin(f);
    parse(f, text);
    return opf_infer_graph(f->graph, &f->error);
}

static void unload(fixture *f)
{
    opf_arena_fini(&f->arena);
    assert_int_equal(f->heap.used, 0);
}

/* ---- tensors on odd strides ---- */

static opf_status run_node(fixture *f, opf_node_id id, opf_view *views, int layout)
{
    const opf_node *node = opf_graph_node(f->graph, id);
    opf_view *in = OPF_NEW(&f->arena, opf_view, node->n_inputs), *out = OPF_NEW(&f->arena, opf_view, node->n_outputs);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        in[i] = node->inputs[i] != 0 ? views[node->inputs[i]] : (opf_view){.rank = 0};
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        const opf_info *info = &opf_graph_value(f->graph, node->outputs[o])->info;
        int64_t         dims[OPF_MAX_RANK];
        size_t          count;
        assert_true(opf_info_count(info, &count));
        for (int32_t i = 0; i < info->rank; i++)
            dims[i] = info->dims[i].n;
        out[o] = make_view(&f->arena, info->type, info->rank, dims, layout);
    }
    opf_call call = {.node = node,
                     .attrs = node->attrs,
                     .n_attrs = node->n_attrs,
                     .in = in,
                     .n_in = node->n_inputs,
                     .out = out,
                     .n_out = node->n_outputs,
                     .heap = &f->heap};
    opf_status status = node->op->reference(&call, &f->error);
    for (uint32_t o = 0; o < node->n_outputs; o++)
        views[node->outputs[o]] = out[o];
    return status;
}

static void compare(fixture *f, const char *name, const opf_view *view, const opf_info *info, const opf_const *want)
{
    opf_view expected = view_of_constant(&f->arena, want, DENSE), found;
    if (view->type != want->type || view->rank != want->rank || memcmp(view->dims, want->dims, (size_t)want->rank * sizeof *want->dims) != 0)
        fail_msg("%s: %s, must be of another type or shape", name, opf_info_string(info, f->dims, &f->arena));
    found = make_view(&f->arena, want->type, want->rank, want->dims, DENSE);
    memset(found.data, 0, opf_const_size(want));
    opf_move_in_order(&found, view);
    if (memcmp(found.data, expected.data, opf_const_size(want)) != 0) {
        opf_text text;
        opf_text_init(&text, &f->arena);
        for (size_t i = 0; i < want->count; i++)
            opf_text_add(&text, opf_types_have(OPF_TYPES_FLOAT, want->type) ? "%g " : "%g(int) ",
                         opf_types_have(OPF_TYPES_FLOAT, want->type) ? opf_load_f64(want->type, found.data, i)
                                                                     : (double)opf_load_i64(want->type, found.data, i));
        fail_msg("%s: wrong elements: %s", name, text.data);
    }
    for (int32_t i = 0; i < info->n_values; i++)
        if (opf_dim_is_number(info->values[i]) &&
            info->values[i].n != opf_load_i64(want->type, expected.data, (size_t)i))
            fail_msg("%s: known value %d is %lld", name, i, (long long)info->values[i].n);
}

static void check(const char *text)
{
    for (int layout = 0; layout < LAYOUTS * LAYOUTS; layout++) {
        fixture f;
        if (load(&f, text) != OPF_OK)
            fail_msg("%s\n%s", f.error.message, text);
        opf_view *views = OPF_NEW(&f.arena, opf_view, f.graph->n_values);
        for (opf_value_id id = 1; id < f.graph->n_values; id++)
            if (opf_graph_value(f.graph, id)->constant != NULL)
                views[id] = view_of_constant(&f.arena, opf_graph_value(f.graph, id)->constant, layout / LAYOUTS);
        for (opf_node_id id = 1; id < f.graph->n_nodes; id++)
            if (run_node(&f, id, views, layout % LAYOUTS) != OPF_OK)
                fail_msg("%s\n%s", f.error.message, text);
        size_t compared = 0;
        for (opf_value_id id = 1; id < f.graph->n_values; id++) {
            const opf_value *value = opf_graph_value(f.graph, id);
            opf_value_id     want  = opf_graph_find_value(f.graph, opf_arena_printf(&f.arena, "%s_want", value->name));
            if (want == 0)
                continue;
            compare(&f, value->name, &views[id], &value->info, opf_graph_value(f.graph, want)->constant);
            compared++;
        }
        assert_true(compared != 0);
        unload(&f);
    }
}

/* The last node of the text fails, at inference or when it runs, with this message. */
static void check_fails(const char *text, opf_status status, const char *message)
{
    fixture    f;
    opf_status found = load(&f, text);
    if (found == OPF_OK) {
        opf_view *views = OPF_NEW(&f.arena, opf_view, f.graph->n_values);
        for (opf_value_id id = 1; id < f.graph->n_values; id++)
            if (opf_graph_value(f.graph, id)->constant != NULL)
                views[id] = view_of_constant(&f.arena, opf_graph_value(f.graph, id)->constant, DENSE);
        for (opf_node_id id = 1; id < f.graph->n_nodes && found == OPF_OK; id++)
            found = run_node(&f, id, views, DENSE);
    }
    if (found != status || strstr(f.error.message, message) == NULL)
        fail_msg("status %d, '%s', must be %d, '%s'", (int)found, f.error.message, (int)status, message);
    unload(&f);
}

/* The inferred type and shape of y, and its known values if `values` is not NULL. */
static void check_shape(const char *text, const char *shape, const char *values)
{
    fixture f;
    if (load(&f, text) != OPF_OK)
        fail_msg("%s\n%s", f.error.message, text);
    const opf_info *info = &opf_graph_value(f.graph, opf_graph_find_value(f.graph, "y"))->info;
    const char     *is   = opf_info_string(info, f.dims, &f.arena);
    if (shape[strlen(shape) - 1] == '?' ? strncmp(is, shape, strlen(shape) - 1) != 0 : strcmp(is, shape) != 0)
        fail_msg("%s, must be %s\n%s", is, shape, text);
    if (values != NULL) {
        opf_text list;
        opf_text_init(&list, &f.arena);
        opf_text_add(&list, "%s", "");
        for (int32_t i = 0; i < info->n_values; i++)
            opf_text_add(&list, "%s%s", i == 0 ? "" : ",", opf_dim_string(f.dims, info->values[i], &f.arena));
        if (strcmp(info->n_values < 0 ? "none" : list.data, values) != 0)
            fail_msg("values %s, must be %s\n%s", info->n_values < 0 ? "none" : list.data, values, text);
    }
    unload(&f);
}

/* ---- cases ---- */

static void test_reshape(void **state)
{
    (void)state;
    check("g () => (y) <float[2,3] x = {1,2,3,4,5,6}, int64[2] s = {3,-1}, float[3,2] y_want = {1,2,3,4,5,6}> { y = "
          "Reshape(x, s) }");
    check("g () => (y) <float[2,3,1] x = {1,2,3,4,5,6}, int64[2] s = {0,3}, float[2,3] y_want = {1,2,3,4,5,6}> { y = "
          "Reshape(x, s) }");
    check("g () => (y) <float[0,3] x = {}, int64[2] s = {3,0}, float[3,0] y_want = {}> { y = Reshape<allowzero = 1>(x, "
          "s) }");
    check("g () => (y) <int4[3] x = {1,-2,3}, int64[3] s = {1,3,1}, int4[1,3,1] y_want = {1,-2,3}> { y = Reshape(x, s) "
          "}");
    check("g () => (y) <float x = {7}, int64[2] s = {1,1}, float[1,1] y_want = {7}> { y = Reshape(x, s) }");
    check_fails("g () => (y) <float[2,3] x = {1,2,3,4,5,6}, int64[2] s = {4,-1}> { y = Reshape(x, s) }",
                OPF_INVALID_INPUT, "6/4");
    check_fails("g () => (y) <float[2,3] x = {1,2,3,4,5,6}, int64[2] s = {-1,-1}> { y = Reshape(x, s) }",
                OPF_INVALID_INPUT, "two dim");
    check_fails("g () => (y) <float[2,3] x = {1,2,3,4,5,6}, int64[1] s = {5}> { y = Reshape(x, s) }", OPF_INVALID_INPUT,
                "cannot become");
    check_shape("g (float[N,S,768] x) => (y) <int64[4] s = {0,0,12,-1}> { y = Reshape(x, s) }", "float[N,S,12,64]",
                NULL);
    check_shape("g (float[N,S,12,64] x) => (y) <int64[3] s = {0,-1,768}> { y = Reshape(x, s) }", "float[N,S,768]",
                NULL);
    check_shape("g (float[N,S,768] x) => (y) <int64[2] s = {-1,768}> { y = Reshape(x, s) }", "float[N*S,768]", NULL);
    check_shape("g (float[N,S,12,64] x, int64[2] s) => (y) { y = Reshape(x, s) }", "float[?", NULL);
    /* The target as exporters compute it. */
    check_shape("g (float[N,S,768] x) => (y) <int64 i0 = {0}, int64 i1 = {1}, int64[1] ax = {0}, int64[1] h = {12}, "
                "int64[1] d = {64}> {"
                " sh = Shape(x) n = Gather(sh, i0) s = Gather(sh, i1) n1 = Unsqueeze(n, ax) s1 = Unsqueeze(s, ax)"
                " t = Concat<axis = 0>(n1, s1, h, d) y = Reshape(x, t) }",
                "float[N,S,12,64]", NULL);
    check_shape("g (float[N,S,12,64] x) => (y) <int64[1] b = {0}, int64[1] e = {2}, int64[1] m = {-1}> {"
                " sh = Shape(x) p = Slice(sh, b, e) t = Concat<axis = 0>(p, m) y = Reshape(x, t) }",
                "float[N,S,768]", NULL);
}

static void test_reshape_family(void **state)
{
    (void)state;
    check("g () => (y) <float[2,1,3] x = {1,2,3,4,5,6}, float[2,3] y_want = {1,2,3,4,5,6}> { y = Squeeze(x) }");
    check("g () => (y) <bool[1,2,1] x = {1,0}, int64[1] a = {-1}, bool[1,2] y_want = {1,0}> { y = Squeeze(x, a) }");
    check("g () => (y) <float16[2] x = {1,2}, int64[2] a = {-1,0}, float16[1,2,1] y_want = {1,2}> { y = Unsqueeze(x, "
          "a) }");
    check("g () => (y) <int32 x = {5}, int64[1] a = {0}, int32[1] y_want = {5}> { y = Unsqueeze(x, a) }");
    check("g () => (y) <uint8[2,3,2] x = {1,2,3,4,5,6,7,8,9,10,11,12}, uint8[6,2] y_want = {1,2,3,4,5,6,7,8,9,10,11,12}> { y = Flatten<axis = -1>(x) }");
    check("g () => (y) <float[2,2] x = {1,2,3,4}, float[1,4] y_want = {1,2,3,4}> { y = Flatten<axis = 0>(x) }");
    check("g () => (y) <float[2,2] x = {1,2,3,4}, float[4,1] y_want = {1,2,3,4}> { y = Flatten<axis = 2>(x) }");
    check_fails("g () => (y) <float[2,1] x = {1,2}, int64[1] a = {0}> { y = Squeeze(x, a) }", OPF_INVALID_INPUT,
                "axis 0 is 2 long");
    check_fails("g () => (y) <float[2,1] x = {1,2}, int64[2] a = {1,-1}> { y = Squeeze(x, a) }", OPF_INVALID_MODEL,
                "twice");
    check_fails("g () => (y) <float[2] x = {1,2}, int64[1] a = {2}> { y = Unsqueeze(x, a) }", OPF_INVALID_MODEL,
                "out of range");
    check_shape("g (float[N,1,C] x) => (y) { y = Squeeze(x) }", "float[...]", NULL);
    check_shape("g (float[N,C] x) => (y) <int64[1] a = {0}> { y = Squeeze(x, a) }", "float[C]", NULL);
    check_shape("g (float[N,C,3] x) => (y) { y = Flatten(x) }", "float[N,3*C]", NULL);
}

static void test_transpose(void **state)
{
    (void)state;
    check("g () => (y) <float[2,3] x = {1,2,3,4,5,6}, float[3,2] y_want = {1,4,2,5,3,6}> { y = Transpose(x) }");
    check("g () => (y) <int16[2,1,3] x = {1,2,3,4,5,6}, int16[3,2,1] y_want = {1,4,2,5,3,6}> { y = Transpose<perm = "
          "[2,0,1]>(x) }");
    check("g () => (y) <int4[2,3] x = {1,2,3,-4,-5,-6}, int4[3,2] y_want = {1,-4,2,-5,3,-6}> { y = Transpose(x) }");
    check("g () => (y) <float8e5m2[2,2] x = {1,2,3,255}, float8e5m2[2,2] y_want = {1,3,2,255}> { y = Transpose(x) }");
    check("g () => (y) <float[0,3] x = {}, float[3,0] y_want = {}> { y = Transpose(x) }");
    check("g () => (y) <double x = {4}, double y_want = {4}> { y = Transpose(x) }");
    check_fails("g () => (y) <float[2,2] x = {1,2,3,4}> { y = Transpose<perm = [0,0]>(x) }", OPF_INVALID_MODEL,
                "not a permutation");
    check_fails("g () => (y) <float[2,2] x = {1,2,3,4}> { y = Transpose<perm = [0]>(x) }", OPF_INVALID_MODEL,
                "perm has 1");
    check_shape("g (float[N,S,12,64] x) => (y) { y = Transpose<perm = [0,2,3,1]>(x) }", "float[N,12,64,S]", NULL);
}

static void test_concat_split(void **state)
{
    (void)state;
    check("g () => (y) <float[2,1] a = {1,2}, float[2,2] b = {3,4,5,6}, float[2,0] c = {}, float[2,3] y_want = {1,3,4,2,5,6}> { y = Concat<axis = -1>(a, b, c) }");
    check(
        "g () => (y) <uint8[1] a = {1}, uint8[2] b = {2,3}, uint8[3] y_want = {1,2,3}> { y = Concat<axis = 0>(a, b) }");
    check("g () => (y, z) <float[2,3] x = {1,2,3,4,5,6}, int64[2] s = {1,2}, float[2,1] y_want = {1,4}, float[2,2] z_want = {2,3,5,6}> { y, z = Split<axis = 1>(x, s) }");
    check("g () => (y, z) <int64[5] x = {1,2,3,4,5}, int64[3] y_want = {1,2,3}, int64[2] z_want = {4,5}> { y, z = Split<num_outputs = 2>(x) }");
    check("g () => (y, z) <float[4] x = {1,2,3,4}, float[2] y_want = {1,2}, float[2] z_want = {3,4}> { y, z = Split(x) "
          "}");
    check_fails("g () => (y) <float[2] a = {1,2}, float[1,1] b = {3}> { y = Concat<axis = 0>(a, b) }",
                OPF_INVALID_MODEL, "rank");
    check_fails("g () => (y) <float[2,1] a = {1,2}, float[1,1] b = {3}> { y = Concat<axis = 1>(a, b) }",
                OPF_INVALID_INPUT, "dimension 0");
    check_fails("g () => (y, z) <float[4] x = {1,2,3,4}, int64[2] s = {1,2}> { y, z = Split(x, s) }", OPF_INVALID_INPUT,
                "sum up to 3");
    check_fails("g () => (y, z) <float[4] x = {1,2,3,4}, int64[2] s = {5,-1}> { y, z = Split(x, s) }",
                OPF_INVALID_INPUT, "split[1] is -1");
    check_shape("g (float[N,3] a, float[N,K] b) => (y) { y = Concat<axis = 1>(a, b) }", "float[N,K+3]", NULL);
    check_shape("g (float[N,6*K] a) => (y) { y, z, w = Split<axis = 1, num_outputs = 3>(a) }", "float[N,2*K]", NULL);
}

static void test_slice(void **state)
{
    (void)state;
    check("g () => (y) <float[2,4] x = {1,2,3,4,5,6,7,8}, int64[2] b = {1,0}, int64[2] e = {2,3}, int64[2] a = {0,1}, "
          "int64[2] s = {1,2},"
          " float[1,2] y_want = {5,7}> { y = Slice(x, b, e, a, s) }");
    check("g () => (y) <float[2,4] x = {1,2,3,4,5,6,7,8}, int64[2] b = {0,1}, int64[2] e = {-1,1000}, float[1,3] y_want = {2,3,4}> { y = Slice(x, b, e) }");
    check("g () => (y) <int8[5] x = {1,2,3,4,5}, int32[1] b = {-1}, int32[1] e = {-2147483648}, int32[1] a = {-1}, "
          "int32[1] s = {-2},"
          " int8[3] y_want = {5,3,1}> { y = Slice(x, b, e, a, s) }");
    check("g () => (y) <int8[5] x = {1,2,3,4,5}, int64[1] b = {9223372036854775807}, int64[1] e = "
          "{-9223372036854775808}, int64[1] a = {0},"
          " int64[1] s = {-1}, int8[5] y_want = {5,4,3,2,1}> { y = Slice(x, b, e, a, s) }");
    check("g () => (y) <int8[5] x = {1,2,3,4,5}, int64[1] b = {3}, int64[1] e = {1}, int8[0] y_want = {}> { y = "
          "Slice(x, b, e) }");
    check(
        "g () => (y) <int8[5] x = {1,2,3,4,5}, int64[1] b = {2}, int64[1] e = {5}, int64[1] s = {9223372036854775807},"
        " int8[1] y_want = {3}> { y = Slice(x, b, e, , s) }");
    check("g () => (y) <int8[5] x = {1,2,3,4,5}, int64[1] b = {2}, int64[1] e = {-6}, int64[1] s = "
          "{-9223372036854775808},"
          " int8[1] y_want = {3}> { y = Slice(x, b, e, , s) }");
    check_fails("g () => (y) <float[2] x = {1,2}, int64[1] b = {0}, int64[1] s = {0}> { y = Slice(x, b, b, , s) }", OPF_INVALID_INPUT, "steps[0] is 0");
    check_fails("g () => (y) <float[2,1] x = {1,2}, int64[2] b = {0,0}, int64[2] a = {0,-2}> { y = Slice(x, b, b, a) }", OPF_INVALID_MODEL, "twice");
    check_fails("g () => (y) <float[2] x = {1,2}, int64[2] b = {0,0}> { y = Slice(x, b, b) }", OPF_INVALID_MODEL,
                "2 axes");
}

static void test_slice_symbols(void **state)
{
    (void)state;
    check_shape("g (float[N,8] x) => (y) <int64[1] b = {0}, int64[1] e = {9223372036854775807}, int64[1] a = {0}> { y = Slice(x, b, e, a) }", "float[N,8]", NULL);
    check_shape("g (float[N+4,8] x) => (y) <int64[1] b = {1}, int64[1] e = {-1}, int64[1] a = {0}> { y = Slice(x, b, e, a) }", "float[N+2,8]", NULL);
    check_shape("g (float[2*N] x) => (y) <int64[1] b = {0}, int64[1] e = {9223372036854775807}, int64[1] a = {0}, int64[1] s = {2}> { y = Slice(x, b, e, a, s) }", "float[N]", NULL);
    check_shape("g (float[N] x) => (y) <int64[1] b = {-1}, int64[1] e = {-9223372036854775807}, int64[1] a = {0}, int64[1] s = {-1}> { y = Slice(x, b, e, a, s) }", "float[N]", NULL);
    /* A causal mask: min(S, 512) is S only when that is known. */
    check_shape("g (float[1,S] x, float[512] mask) => (y) <int64[1] b = {0}, int64[1] two = {2}, int64[1] one = {1}> {"
                " sh = Shape(x) s = Slice(sh, one, two) y = Slice(mask, b, s) }",
                "float[?", NULL);
    check_shape("g (float[1,S] x, float[1,S+2] m) => (y) <int64[1] b = {0}, int64[1] two = {2}, int64[1] one = {1}> {"
                " sh = Shape(x) s = Slice(sh, one, two) y = Slice(m, b, s, one) }",
                "float[1,S]", NULL);
    check_shape("g (float[N] x) => (y) <int64[1] b = {1}, int64[1] e = {9223372036854775807}> { y = Slice(x, b, e) }",
                "float[?", NULL);
}

static void test_gather(void **state)
{
    (void)state;
    check("g () => (y) <float[3,2] x = {1,2,3,4,5,6}, int64[2,2] i = {0,-1,1,0}, float[2,2,2] y_want = {1,2,5,6,3,4,1,2}> { y = Gather(x, i) }");
    check("g () => (y) <bool[2,3] x = {1,0,0,0,0,1}, int32[2] i = {2,0}, bool[2,2] y_want = {0,1,1,0}> { y = "
          "Gather<axis = 1>(x, i) }");
    check("g () => (y) <int64[2,3] x = {1,2,3,4,5,6}, int64 i = {-1}, int64[2] y_want = {3,6}> { y = Gather<axis = "
          "-1>(x, i) }");
    check("g () => (y) <float[2,3] x = {1,2,3,4,5,6}, int64[0] i = {}, float[0,3] y_want = {}> { y = Gather(x, i) }");
    check_fails("g () => (y) <float[3] x = {1,2,3}, int64[2] i = {0,3}> { y = Gather(x, i) }", OPF_INVALID_INPUT, "index 3 is out of range for axis 0 of 3");
    check_fails("g () => (y) <float[3] x = {1,2,3}, int64 i = {-4}> { y = Gather(x, i) }", OPF_INVALID_INPUT,
                "index -4");
    check_shape("g (float[V,8] x, int64[N,S] i) => (y) { y = Gather(x, i) }", "float[N,S,8]", NULL);
}

/* An index that only shows at run time fails before anything is written. */
static void test_data_errors(void **state)
{
    (void)state;
    const int64_t indices[2] = {0, 9};
    float         data[3] = {1, 2, 3}, out[2] = {-1, -1}, updates[2] = {5, 6};
    opf_view      x = {OPF_FLOAT, 1, {3}, {1}, data}, i = {OPF_INT64, 1, {2}, {1}, (void *)(uintptr_t)indices}, y = {OPF_FLOAT, 1, {2}, {1}, out};
    opf_call      call = {.in = (const opf_view[]){x, i}, .n_in = 2, .out = &y, .n_out = 1};
    opf_error     error;
    assert_int_equal(opf_op_Gather.reference(&call, &error), OPF_INVALID_INPUT);
    assert_true(out[0] == -1 && out[1] == -1);
    float    scattered[3] = {-1, -1, -1};
    opf_view i2 = {OPF_INT64, 2, {2, 1}, {1, 1}, (void *)(uintptr_t)indices}, u = {OPF_FLOAT, 1, {2}, {1}, updates};
    opf_view s  = {OPF_FLOAT, 1, {3}, {1}, scattered};
    call        = (opf_call){.in = (const opf_view[]){x, i2, u}, .n_in = 3, .out = &s, .n_out = 1};
    assert_int_equal(opf_op_ScatterND.reference(&call, &error), OPF_INVALID_INPUT);
    assert_true(scattered[0] == -1 && scattered[2] == -1);
}

static void test_expand_shape_size(void **state)
{
    (void)state;
    check("g () => (y) <float[3,1] x = {1,2,3}, int64[3] s = {2,1,2}, float[2,3,2] y_want = {1,1,2,2,3,3,1,1,2,2,3,3}> { y = Expand(x, s) }");
    check("g () => (y) <int32 x = {7}, int64[1] s = {3}, int32[3] y_want = {7,7,7}> { y = Expand(x, s) }");
    check("g () => (y) <float[2,3] x = {1,2,3,4,5,6}, int64[1] s = {1}, float[2,3] y_want = {1,2,3,4,5,6}> { y = "
          "Expand(x, s) }");
    check("g () => (y, z, w) <float[2,3,4] x = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}, int64[3] y_want = {2,3,4}, int64[1] z_want = {3},"
          " int64 w_want = {24}, int64[0] v_want = {}> { y = Shape(x) z = Shape<start = -2, end = -1>(x) w = Size(x) v = Shape<start = 3, end = 1>(x) }");
    check_fails("g () => (y) <float[2] x = {1,2}, int64[1] s = {3}> { y = Expand(x, s) }", OPF_INVALID_INPUT,
                "cannot become");
    check_shape("g (float[1,1,S] x) => (y) <int64[1] h = {12}> { sh = Shape(x) s = Shape<start = 2>(x) t = Concat<axis = 0>(h, s, s) y = Expand(x, t) }", "float[12,S,S]", NULL);
    check_shape("g (float[N,3,H] x) => (y) { y = Shape(x) }", "int64[3]", "N,3,H");
    check_shape("g (float[N,3,H] x) => (y) { y = Size(x) }", "int64[]", "3*N*H");
    check_shape("g (float[N,3,H] x) => (y) <int64[1] two = {2}> { s = Shape<end = 1>(x) y = Expand(s, two) }",
                "int64[2]", "N,N");
    check_shape("g (float[N,3,H] x) => (y) { s = Shape(x) y, z = Split<num_outputs = 2>(s) }", "int64[2]", "N,3");
    check_shape("g (float[N,3,H] x) => (y) <int64[1] m = {-1}, int64[1] far = {-9223372036854775808}, int64[1] a = {0}> { s = Shape(x) y = Slice(s, m, far, a, m) }", "int64[3]", "H,3,N");
    check_shape("g (float[N,3] x) => (y) <int64[1,1] i = {1}, int64[1] u = {5}> { s = Shape(x) y = ScatterND(s, i, u) }", "int64[2]", "N,5");
}

static void test_create(void **state)
{
    (void)state;
    check("g () => (y, z) <int64[2] s = {2,2}, float[2,2] y_want = {0,0,0,0}, int32[2,2] z_want = {3,3,3,3}> {"
          " y = ConstantOfShape(s) z = ConstantOfShape<value = int32[1] {3}>(s) }");
    check("g () => (y) <int64[0] s = {}, float16 y_want = {1.5}> { y = ConstantOfShape<value = float16[1] {1.5}>(s) }");
    check(
        "g () => (y) <int64[1] s = {3}, int4[3] y_want = {-3,-3,-3}> { y = ConstantOfShape<value = int4[1] {-3}>(s) }");
    check("g () => (y) <int64 a = {10}, int64 b = {3}, int64 d = {-3}, int64[3] y_want = {10,7,4}> { y = Range(a, b, "
          "d) }");
    check("g () => (y) <float a = {1}, float b = {2}, float d = {0.25}, float[4] y_want = {1,1.25,1.5,1.75}> { y = "
          "Range(a, b, d) }");
    check("g () => (y) <int16 a = {3}, int16 b = {3}, int16 d = {1}, int16[0] y_want = {}> { y = Range(a, b, d) }");
    check_fails("g () => (y) <int64 a = {3}, int64 b = {3}, int64 d = {0}> { y = Range(a, b, d) }", OPF_INVALID_INPUT,
                "delta is 0");
    check_fails("g () => (y) <float a = {3}, float b = {3}, float d = {0}> { y = Range(a, b, d) }", OPF_INVALID_INPUT,
                "no length");
    check_fails("g () => (y) <int64 a = {-9223372036854775808}, int64 b = {9223372036854775807}, int64 d = {1}> { y = Range(a, b, d) }", OPF_INVALID_INPUT, "elements");
    check_fails("g () => (y) <int64[1] s = {-1}> { y = ConstantOfShape(s) }", OPF_INVALID_INPUT, "-1");
    check_fails("g () => (y) { y = Constant<value_string = \"a\">() }", OPF_UNSUPPORTED, "value_string");
    check_shape("g (float[N,S] x) => (y) <int64 zero = {0}, int64 one = {1}> { sh = Shape(x) s = Gather(sh, one) y = Range(zero, s, one) }", "int64[S]", "none");
    check_shape("g (float[N,2] x) => (y) { s = Shape<start = 1>(x) y = ConstantOfShape<value = int64[1] {4}>(s) }",
                "int64[2]", "4,4");
    check_shape("g () => (y) { y = Constant<value_ints: ints = []>() z = Constant<value = int64 {1}, extra = 1>() }",
                "int64[0]", NULL);
}

static void test_constant(void **state)
{
    (void)state;
    const opf_attr attrs[] = {{.name = "value_float", .type = OPF_ATTR_FLOAT, .f = 2.5f},
                              {.name = "value_ints", .type = OPF_ATTR_INTS, .n = 2, .ints = (const int64_t[]){4, 5}}};
    fixture        f;
    assert_int_equal(load(&f, "g () => () {}"), OPF_OK);
    for (uint32_t i = 0; i < 2; i++) {
        opf_value_id out  = opf_graph_add_value(f.graph, "c");
        opf_node_id  node = opf_graph_add_node(f.graph, &opf_op_Constant, "Constant", "c", NULL, 0, &out, 1);
        assert_true(opf_node_set_attr(f.graph, node, attrs[i]));
        assert_int_equal(opf_infer_graph(f.graph, &f.error), OPF_OK);
        const opf_info *info = &opf_graph_value(f.graph, out)->info;
        assert_int_equal(info->type, i == 0 ? OPF_FLOAT : OPF_INT64);
        assert_int_equal(info->rank, i);
        for (int layout = 0; layout < LAYOUTS; layout++) {
            opf_view views[8];
            assert_int_equal(run_node(&f, node, views, layout), OPF_OK);
            if (i == 0)
                assert_true(opf_view_f64(&views[out], 0) == 2.5);
            else
                assert_int_equal(opf_view_i64(&views[out], opf_view_offset(&views[out], 1)), 5);
        }
    }
    unload(&f);
}

static void test_pad(void **state)
{
    (void)state;
    check("g () => (y) <float[2,2] x = {1,2,3,4}, int64[4] p = {0,1,1,-1}, float v = {9}, float[3,2] y_want = {9,1,9,3,9,9}> { y = Pad(x, p, v) }");
    check("g () => (y) <int32[3] x = {1,2,3}, int64[2] p = {2,1}, int32[6] y_want = {0,0,1,2,3,0}> { y = Pad(x, p) }");
    check("g () => (y) <float[3] x = {1,2,3}, int64[2] p = {5,3}, float[11] y_want = {2,1,2,3,2,1,2,3,2,1,2}> { y = Pad<mode = \"reflect\">(x, p) }");
    check("g () => (y) <float[3] x = {1,2,3}, int64[2] p = {2,1}, float[6] y_want = {1,1,1,2,3,3}> { y = Pad<mode = "
          "\"edge\">(x, p) }");
    check("g () => (y) <float[3] x = {1,2,3}, int64[2] p = {4,2}, float[9] y_want = {3,1,2,3,1,2,3,1,2}> { y = Pad<mode = \"wrap\">(x, p) }");
    check("g () => (y) <float[3] x = {1,2,3}, int64[2] p = {1,-1}, float[3] y_want = {1,1,2}> { y = Pad<mode = "
          "\"edge\">(x, p) }");
    check("g () => (y) <uint8[1,2] x = {1,2}, int64[2] p = {1,1}, int64[1] a = {-1}, uint8[1,4] y_want = {0,1,2,0}> { y = Pad(x, p, , a) }");
    check("g () => (y) <int4[2] x = {1,-2}, int64[2] p = {1,1}, int4[4] y_want = {0,1,-2,0}> { y = Pad(x, p) }");
    check("g () => (y) <float[0] x = {}, int64[2] p = {1,1}, float[2] y_want = {0,0}> { y = Pad(x, p) }");
    check_fails("g () => (y) <float[0] x = {}, int64[2] p = {1,1}> { y = Pad<mode = \"edge\">(x, p) }",
                OPF_INVALID_INPUT, "empty");
    check_fails("g () => (y) <float[2] x = {1,2}, int64[2] p = {-2,-1}> { y = Pad(x, p) }", OPF_INVALID_INPUT,
                "padded by");
    check_fails("g () => (y) <float[2] x = {1,2}, int64[2] p = {-9223372036854775808,-9223372036854775808}> { y = Pad(x, p) }", OPF_INVALID_INPUT, "padded by");
    check_fails("g () => (y) <float[2] x = {1,2}, int64[3] p = {1,1,1}> { y = Pad(x, p) }", OPF_INVALID_MODEL,
                "3 elements");
    check_fails("g () => (y) <float[2] x = {1,2}, int64[2] p = {1,1}> { y = Pad<mode = \"odd\">(x, p) }",
                OPF_INVALID_MODEL, "mode");
    check_shape("g (float[N,3,H,W] x) => (y) <int64[8] p = {0,0,1,1,0,0,1,2}> { y = Pad(x, p) }", "float[N,3,H+2,W+3]",
                NULL);
}

static void test_scatter_nd(void **state)
{
    (void)state;
    check("g () => (y) <float[2,2] x = {1,2,3,4}, int64[1,1] i = {-1}, float[1,2] u = {8,9}, float[2,2] y_want = {1,2,8,9}> { y = ScatterND(x, i, u) }");
    check("g () => (y) <int64[3] x = {1,2,3}, int64[2,1] i = {0,0}, int64[2] u = {5,6}, int64[3] y_want = {12,2,3}> { y = ScatterND<reduction = \"add\">(x, i, u) }");
    check("g () => (y) <float[3] x = {1,2,3}, int64[2,1] i = {2,2}, float[2] u = {5,4}, float[3] y_want = {1,2,60}> { y = ScatterND<reduction = \"mul\">(x, i, u) }");
    check("g () => (y) <uint64[2] x = {1,18446744073709551615}, int64[2,1] i = {0,1}, uint64[2] u = "
          "{18446744073709551614,7},"
          " uint64[2] y_want = {18446744073709551614,18446744073709551615}> { y = ScatterND<reduction = \"max\">(x, i, "
          "u) }");
    check("g () => (y) <float16[2,2] x = {1,2,3,4}, int64[1,2] i = {1,0}, float16[1] u = {0.5}, float16[2,2] y_want = {1,2,0.5,4}> { y = ScatterND<reduction = \"min\">(x, i, u) }");
    check("g () => (y) <bool[2,2] x = {1,0,0,0}, int64[0,1] i = {}, bool[0,2] u = {}, bool[2,2] y_want = {1,0,0,0}> { y = ScatterND(x, i, u) }");
    check_fails("g () => (y) <float[3] x = {1,2,3}, int64[1,1] i = {3}, float[1] u = {5}> { y = ScatterND(x, i, u) }", OPF_INVALID_INPUT, "index 3");
    check_fails("g () => (y) <float[3] x = {1,2,3}, int64[1,2] i = {0,0}, float[1] u = {5}> { y = ScatterND(x, i, u) }", OPF_INVALID_MODEL, "indices of 2");
    check_fails("g () => (y) <float[3] x = {1,2,3}, int64[1,1] i = {0}, float[2] u = {5,6}> { y = ScatterND(x, i, u) }", OPF_INVALID_INPUT, "updates");
}

/* Lifts the first node of the graph from an opset and writes it, then lowers it again: the text of the node comes back,
   but for absent inputs at the end, which the writer of files drops. */
static void check_rows(int32_t opset, const char *graph, const char *old, const char *lifted)
{
    fixture f;
    begin(&f);
    parse(&f, opf_arena_printf(&f.arena, "%s { %s }", graph, old));
    const opf_op *op = opf_graph_node(f.graph, 1)->op;
    opf_text      text;
    for (uint32_t i = 0; i < op->n_rows; i++)
        if (opset < op->rows[i].below)
            assert_int_equal(op->rows[i].lift(f.graph, 1, opset, &f.error), OPF_OK);
    opf_text_init(&text, &f.arena);
    opf_text_node(&text, f.graph, 1);
    assert_string_equal(text.data, lifted);
    if (opf_infer_graph(f.graph, &f.error) != OPF_OK)
        fail_msg("%s", f.error.message);
    for (uint32_t i = op->n_rows; i-- > 0;)
        if (opset < op->rows[i].below && op->rows[i].lower(f.graph, 1, opset, &f.error) != OPF_OK)
            fail_msg("%s", f.error.message);
    opf_node *node = opf_graph_node(f.graph, 1);
    while (node->n_own_inputs > 1 && node->inputs[node->n_own_inputs - 1] == 0)
        node->n_inputs = --node->n_own_inputs;
    opf_text_init(&text, &f.arena);
    opf_text_node(&text, f.graph, 1);
    assert_string_equal(text.data, old);
    unload(&f);
}

static void test_rows(void **state)
{
    (void)state;
    const char *g = "g (float[2,1,4] x) => (y)", *one = "g (float[1,3] x) => (y)";
    check_rows(9, g, "y = Slice<axes = [2], ends = [2], starts = [0]>(x)",
               "y = Slice(x, \"y/starts\", \"y/ends\", \"y/axes\")");
    check_rows(9, g, "y = Squeeze<axes = [1]>(x)", "y = Squeeze(x, \"y/axes\")");
    check_rows(12, g, "y = Squeeze<axes = [-2]>(x)", "y = Squeeze(x, \"y/axes\")");
    check_rows(12, g, "y = Squeeze(x)", "y = Squeeze(x)");
    check_rows(9, g, "y = Unsqueeze<axes = [0, 4]>(x)", "y = Unsqueeze(x, \"y/axes\")");
    check_rows(9, g, "y, z = Split<axis = 2, split = [1, 3]>(x)", "y, z = Split<axis = 2>(x, \"y/split\")");
    check_rows(9, g, "y, z = Split<axis = 2>(x)", "y, z = Split<axis = 2, num_outputs = 2>(x)");
    check_rows(9, g, "y = Pad<pads = [0, 0, 1, 0, 0, 1], value = 0.5>(x)", "y = Pad(x, \"y/pads\", \"y/value\")");
    check_rows(9, one, "y = Transpose<perm = [1, 0]>(x)", "y = Transpose<perm = [1, 0]>(x)");
    check_rows(9, one, "y = Flatten<axis = 1>(x)", "y = Flatten<axis = 1>(x)");
}

/* What has no older form says so. */
static void check_lower_fails(int32_t opset, const char *source, const char *message)
{
    fixture f;
    begin(&f);
    parse(&f, source);
    assert_int_equal(opf_infer_graph(f.graph, &f.error), OPF_OK);
    const opf_op *op     = opf_graph_node(f.graph, 1)->op;
    opf_status    status = OPF_OK;
    for (uint32_t i = op->n_rows; i-- > 0 && status == OPF_OK;)
        status = opset < op->rows[i].below ? op->rows[i].lower(f.graph, 1, opset, &f.error) : OPF_OK;
    if (status != OPF_UNSUPPORTED || strstr(f.error.message, message) == NULL)
        fail_msg("status %d, '%s', must be unsupported, '%s'", (int)status, f.error.message, message);
    unload(&f);
}

static void test_no_older_form(void **state)
{
    (void)state;
    check_lower_fails(13, "g (float[N] x) => (y) <int64[1] s = {0}> { y = Reshape<allowzero = 1>(x, s) }", "allowzero");
    check_lower_fails(12, "g (float[N] x, int64[K] a) => (y) { y = Unsqueeze(x, a) }", "not constant");
    check_lower_fails(17, "g (float[N] x) => (y) { y, z = Split<num_outputs = 2>(x) }", "opset 18");
    check_lower_fails(18, "g (float[N] x) => (y) <int64[2] p = {1, 1}> { y = Pad<mode = \"wrap\">(x, p) }", "wrap");
    check_lower_fails(14, "g (float[N] x) => (y) { y = Shape<start = 1>(x) }", "start");
    check_lower_fails(12, "g (bfloat16[N] x) => (y) { y = Transpose(x) }", "bfloat16 came with opset 13");
    check_lower_fails(20, "g (int4[N] x) => (y) { y = Transpose(x) }", "int4 came with opset 21");
    check_lower_fails(17,
                      "g (float[2] x, int64[1,1] i, float[1] u) => (y) { y = ScatterND<reduction = \"max\">(x, i, u) }",
                      "opset 18");
    check_lower_fails(9, "g (float[N] x) => (y) <int64[1] a = {0}, int64[1] s = {2}> { y = Slice(x, a, s, a, s) }",
                      "steps");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reshape),
        cmocka_unit_test(test_reshape_family),
        cmocka_unit_test(test_transpose),
        cmocka_unit_test(test_concat_split),
        cmocka_unit_test(test_slice),
        cmocka_unit_test(test_slice_symbols),
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_data_errors),
        cmocka_unit_test(test_expand_shape_size),
        cmocka_unit_test(test_create),
        cmocka_unit_test(test_constant),
        cmocka_unit_test(test_pad),
        cmocka_unit_test(test_scatter_nd),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_no_older_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
