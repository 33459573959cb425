/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models for tests of the public API, out of textual syntax: the text is parsed, written as ONNX and opened from memory.
 * Inputs whose names begin with `w` become initializers with random elements, with `p` positive ones; with `d` they stay inputs and
 * get a random default, with 3 for symbols. Sizes of symbols are given as "N=2 H=7".
 */
#ifndef TEXT_MODEL_H
#define TEXT_MODEL_H

#include "cpu/cpu.h"
#include "base/random.h"
#include "graph/text.h"
#include "ops/infer.h"
#include "ops/op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(__clang__) || defined(__GNUC__)
#define MAYBE_UNUSED __attribute__((unused))
#endif

/* ---- protobuf ---- */

static void pb_varint(opf_text *t, uint64_t x)
{
    do {
        char byte = (char)(x > 127 ? (x & 127) | 128 : x);
        opf_text_add_bytes(t, &byte, 1);
        x >>= 7;
    } while (x != 0);
}

static void pb_int(opf_text *t, unsigned field, int64_t x)
{
    pb_varint(t, field << 3);
    pb_varint(t, (uint64_t)x);
}

static void pb_bytes(opf_text *t, unsigned field, const void *data, size_t n)
{
    pb_varint(t, field << 3 | 2);
    pb_varint(t, n);
    opf_text_add_bytes(t, data, n);
}

static void pb_string(opf_text *t, unsigned field, const char *s)
{
    pb_bytes(t, field, s, strlen(s));
}

static void pb_float(opf_text *t, unsigned field, float x)
{
    pb_varint(t, field << 3 | 5);
    opf_text_add_bytes(t, (const char *)&x, sizeof x);
}

static void pb_message(opf_text *t, unsigned field, const opf_text *inner)
{
    pb_bytes(t, field, inner->data != NULL ? inner->data : "", inner->length);
}

static opf_text pb_begin(opf_arena *arena)
{
    opf_text t;
    opf_text_init(&t, arena);
    return t;
}

/* ---- graphs ---- */

static opf_text pb_tensor(opf_arena *arena, const char *name, opf_type type, int32_t rank, const int64_t *dims, const void *data, size_t bytes)
{
    opf_text t = pb_begin(arena);
    for (int32_t i = 0; i < rank; i++)
        pb_int(&t, 1, dims[i]);
    pb_int(&t, 2, (int64_t)type);
    if (name != NULL)
        pb_string(&t, 8, name);
    pb_bytes(&t, 9, data, bytes);
    return t;
}

static opf_text pb_constant(opf_arena *arena, const char *name, const opf_const *c)
{
    void *data = opf_arena_alloc(arena, opf_const_size(c) + 1);
    opf_const_write(c, data);
    return pb_tensor(arena, name, c->type, c->rank, c->dims, data, opf_const_size(c));
}

static opf_text pb_graph(const opf_graph *graph, uint32_t n_captures, opf_arena *arena, opf_random *random);

static opf_text pb_attr(const opf_node *node, const opf_attr *attr, opf_arena *arena)
{
    static const int types[] = {[OPF_ATTR_INT] = 2,    [OPF_ATTR_FLOAT] = 1,  [OPF_ATTR_STRING] = 3, [OPF_ATTR_INTS] = 7,
                                [OPF_ATTR_FLOATS] = 6, [OPF_ATTR_TENSOR] = 4, [OPF_ATTR_GRAPH] = 5, [OPF_ATTR_STRINGS] = 8};
    opf_text t = pb_begin(arena), inner;
    pb_string(&t, 1, attr->name);
    pb_int(&t, 20, types[attr->type]);
    switch (attr->type) {
    case OPF_ATTR_INT:
        pb_int(&t, 3, attr->i);
        break;
    case OPF_ATTR_FLOAT:
        pb_float(&t, 2, attr->f);
        break;
    case OPF_ATTR_STRING:
        pb_bytes(&t, 4, attr->s, attr->n);
        break;
    case OPF_ATTR_INTS:
        for (uint32_t i = 0; i < attr->n; i++)
            pb_int(&t, 8, attr->ints[i]);
        break;
    case OPF_ATTR_FLOATS:
        for (uint32_t i = 0; i < attr->n; i++)
            pb_float(&t, 7, attr->floats[i]);
        break;
    case OPF_ATTR_STRINGS:
        for (uint32_t i = 0; i < attr->n; i++)
            pb_string(&t, 9, attr->strings[i]);
        break;
    case OPF_ATTR_TENSOR:
        inner = pb_constant(arena, NULL, attr->tensor);
        pb_message(&t, 5, &inner);
        break;
    case OPF_ATTR_GRAPH:
        inner = pb_graph(node->bodies[attr->i], node->n_captures, arena, NULL);
        pb_message(&t, 6, &inner);
        break;
    default:
        fail_msg("attribute %s cannot be written", attr->name);
    }
    return t;
}

static opf_text pb_node(const opf_graph *graph, const opf_node *node, opf_arena *arena)
{
    opf_text t = pb_begin(arena);
    for (uint32_t i = 0; i < node->n_inputs - node->n_captures; i++)
        pb_string(&t, 1, node->inputs[i] == 0 ? "" : opf_graph_value(graph, node->inputs[i])->name);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        pb_string(&t, 2, node->outputs[i] == 0 ? "" : opf_graph_value(graph, node->outputs[i])->name);
    pb_string(&t, 3, node->name);
    pb_string(&t, 4, node->op_type);
    if (node->domain[0] != '\0')
        pb_string(&t, 7, node->domain);
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        opf_text attr = pb_attr(node, &node->attrs[i], arena);
        pb_message(&t, 5, &attr);
    }
    return t;
}

static opf_text pb_port(const opf_graph *graph, const opf_value *value, opf_arena *arena)
{
    opf_text t = pb_begin(arena), type = pb_begin(arena), tensor = pb_begin(arena), shape = pb_begin(arena);
    for (int32_t i = 0; i < value->info.rank; i++) {
        opf_text dim = pb_begin(arena);
        if (opf_dim_is_number(value->info.dims[i]))
            pb_int(&dim, 1, value->info.dims[i].n);
        else
            pb_string(&dim, 2, opf_dim_symbol_name(graph->dims, value->info.dims[i]));
        pb_message(&shape, 1, &dim);
    }
    pb_int(&tensor, 1, (int64_t)value->info.type);
    if (value->info.rank >= 0)
        pb_message(&tensor, 2, &shape);
    pb_message(&type, 1, &tensor);
    pb_string(&t, 1, value->name);
    if (value->info.type != OPF_TYPE_NONE)
        pb_message(&t, 2, &type);
    return t;
}

/* Random elements; small numbers for integers. */
static void fill_random(opf_type type, void *data, size_t n, double scale, bool positive, opf_random *random)
{
    for (size_t i = 0; i < n; i++) {
        double x = opf_random_normal(random) * scale;
        if (opf_types_have(OPF_TYPES_FLOAT, type))
            opf_store_f64(type, data, i, positive ? fabs(x) + 0.5 : x);
        else
            opf_store_i64(type, data, i, (int64_t)(opf_random_next(random) % 2));
    }
}

static opf_text pb_random(const opf_value *value, opf_arena *arena, opf_random *random)
{
    int64_t dims[OPF_MAX_RANK], fan = 1;
    size_t  count = 1, bytes;
    for (int32_t i = 0; i < value->info.rank; i++) {
        dims[i] = opf_dim_is_number(value->info.dims[i]) ? value->info.dims[i].n : 3;
        count *= (size_t)dims[i];
        fan *= i > 0 ? dims[i] : 1;
    }
    if (value->info.rank < 0 || !opf_type_bytes(value->info.type, count, &bytes))
        fail_msg("weight %s has no sizes", value->name);
    void *data = opf_arena_alloc(arena, bytes + 1);
    fill_random(value->info.type, data, count, value->info.rank > 1 && fan > 0 ? 1 / sqrt((double)fan) : 1, value->name[0] == 'p', random);
    return pb_tensor(arena, value->name, value->info.type, value->info.rank, dims, data, bytes);
}

/* A body (random NULL) has its own inputs only: captures go by their names. */
static opf_text pb_graph(const opf_graph *graph, uint32_t n_captures, opf_arena *arena, opf_random *random)
{
    opf_text     t = pb_begin(arena), inner;
    opf_node_id *order;
    uint32_t     n;
    assert_int_equal(opf_graph_sort(graph, arena, &order, &n, NULL), OPF_OK);
    for (uint32_t i = 0; i < n; i++) {
        inner = pb_node(graph, opf_graph_node(graph, order[i]), arena);
        pb_message(&t, 1, &inner);
    }
    pb_string(&t, 2, "g");
    for (opf_value_id id = 1; id < graph->n_values; id++)
        if (opf_graph_value(graph, id)->constant != NULL) {
            inner = pb_constant(arena, opf_graph_value(graph, id)->name, opf_graph_value(graph, id)->constant);
            pb_message(&t, 5, &inner);
        }
    for (uint32_t i = 0; i < graph->n_inputs - n_captures; i++) {
        const opf_value *value = opf_graph_value(graph, graph->inputs[i]);
        if (random != NULL && strchr("wpd", value->name[0]) != NULL) {
            inner = pb_random(value, arena, random);
            pb_message(&t, 5, &inner);
        }
        if (random == NULL || strchr("wp", value->name[0]) == NULL) {
            inner = pb_port(graph, value, arena);
            pb_message(&t, 11, &inner);
        }
    }
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        inner = pb_begin(arena);
        pb_string(&inner, 1, opf_graph_value(graph, graph->outputs[i])->name);
        pb_message(&t, 12, &inner);
    }
    return t;
}

typedef void (*change_graph)(opf_graph *graph, void *user);

/* The text as an ONNX model of the newest opset, in arena; change (NULL: nothing) may add to the graph that the text is. */
static opf_text onnx_of_changed_text(const char *source, opf_arena *arena, int64_t ir, uint64_t seed, change_graph change, void *user)
{
    opf_dims      *dims   = opf_dims_create(arena);
    opf_const_pool consts = {.arena = arena, .next_id = 1};
    opf_graph     *graph  = NULL;
    opf_error      error;
    opf_random     random;
    opf_random_init(&random, seed);
    if (opf_text_parse(source, opf_find_operator, arena, dims, &consts, &graph, NULL, NULL, &error) != OPF_OK)
        fail_msg("%s\n%s", error.message, source);
    if (change != NULL)
        change(graph, user);
    opf_text t = pb_begin(arena), inner = pb_graph(graph, 0, arena, &random), opset = pb_begin(arena);
    pb_int(&t, 1, ir);
    pb_message(&t, 7, &inner);
    pb_string(&opset, 1, "");
    pb_int(&opset, 2, 26);
    pb_message(&t, 8, &opset);
    assert_false(t.failed || inner.failed || opset.failed);
    return t;
}

static MAYBE_UNUSED opf_text onnx_of_text(const char *source, opf_arena *arena, int64_t ir, uint64_t seed)
{
    return onnx_of_changed_text(source, arena, ir, seed, NULL, NULL);
}

/* ---- models ---- */

typedef struct text_model {
    opf_heap   heap;
    opf_arena  arena;
    opf_text   bytes;
    opf_model *model;
} text_model;

static MAYBE_UNUSED void text_model_open_changed(text_model *m, const char *source, const opf_model_options *options, uint64_t seed, change_graph change, void *user)
{
    opf_error error;
    opf_heap_init(&m->heap, NULL, 0);
    opf_arena_init(&m->arena, &m->heap);
    m->bytes = onnx_of_changed_text(source, &m->arena, 10, seed, change, user);
    if (opf_model_from_memory(m->bytes.data, m->bytes.length, NULL, options, &m->model, &error) != OPF_OK)
        fail_msg("%s\n%s", error.message, source);
}

static MAYBE_UNUSED void text_model_open(text_model *m, const char *source, const opf_model_options *options, uint64_t seed)
{
    text_model_open_changed(m, source, options, seed, NULL, NULL);
}

static MAYBE_UNUSED void text_model_close(text_model *m)
{
    opf_model_destroy(&m->model);
    opf_arena_fini(&m->arena);
}

/* ---- tensors ---- */

enum { MAX_PORTS = 80 };

typedef struct tensors {
    opf_tensor list[MAX_PORTS];
    size_t     n;
} tensors;

static size_t tensor_count(const opf_tensor *t)
{
    size_t count = 1;
    for (int32_t i = 0; i < t->rank; i++)
        count *= (size_t)t->dims[i];
    return count;
}

/* Fails with the whole text: cmocka cuts messages. */
#define fail_text(text, ...)                                                                                           \
    do {                                                                                                               \
        (void)fprintf(stderr, "%s\n", text);                                                                           \
        fail_msg(__VA_ARGS__);                                                                                         \
    } while (0)

/* The number of symbol in "N=2 H=7"; 1 when it is not there. */
static int64_t size_of_symbol(const char *sizes, const char *symbol)
{
    size_t length = strlen(symbol);
    for (const char *p = sizes; p != NULL && *p != '\0'; p = strchr(p, ' ')) {
        p += *p == ' ';
        if (strncmp(p, symbol, length) == 0 && p[length] == '=')
            return atoll(p + length + 1);
    }
    return 1;
}

/* The next of several, "N=1 H=5; N=2 H=7": false behind the last. */
static MAYBE_UNUSED bool next_sizes(const char **list, char one[80])
{
    if (*list == NULL)
        return false;
    const size_t n = strcspn(*list, ";");
    assert_in_range(n, 0, 79);
    memcpy(one, *list, n);
    one[n] = '\0';
    *list  = (*list)[n] == '\0' ? NULL : *list + n + 2;
    return true;
}

static MAYBE_UNUSED void make_inputs(const opf_model *model, const char *sizes, uint64_t seed, tensors *inputs)
{
    opf_random random;
    opf_random_init(&random, seed);
    inputs->n = opf_model_input_count(model);
    assert_in_range(inputs->n, 0, MAX_PORTS);
    for (size_t i = 0; i < inputs->n; i++) {
        opf_port    port;
        opf_tensor *t = &inputs->list[i];
        assert_int_equal(opf_model_input(model, i, &port), OPF_OK);
        *t = (opf_tensor){.type = port.type, .rank = port.rank};
        for (int32_t k = 0; k < port.rank; k++)
            t->dims[k] = port.dims[k] >= 0 ? port.dims[k] : size_of_symbol(sizes, port.symbols[k]);
        assert_true(opf_type_bytes(t->type, tensor_count(t), &t->bytes));
        t->data = malloc(t->bytes == 0 ? 1 : t->bytes); /* of the exact size: a sanitizer sees reads beyond it */
        assert_non_null(t->data);
        fill_random(t->type, t->data, tensor_count(t), 1, false, &random);
    }
}

static MAYBE_UNUSED void free_tensors(tensors *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->list[i].data);
    t->n = 0;
}

/* ---- running ---- */

typedef struct results {
    void      *data[MAX_PORTS];
    opf_tensor list[MAX_PORTS];
    size_t     n, n_steps;
} results;

static MAYBE_UNUSED void free_results(results *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->data[i]);
    r->n = 0;
}

/* That a step is of the kernel, or with ! before it, that none is. */
static MAYBE_UNUSED void check_kernel(opf_session *session, const char *kernel, const char *text)
{
    const bool  wanted = *kernel != '!';
    opf_profile profile;
    size_t      found = 0;
    kernel += !wanted;
    assert_int_equal(opf_session_profile(session, &profile, NULL), OPF_OK);
    for (size_t i = 0; i < profile.n_steps; i++)
        found += strncmp(profile.steps[i].kernel, kernel, strlen(kernel)) == 0;
    if ((found != 0) != wanted)
        fail_text(text, "%zu steps of kernel %s", found, kernel);
}

/* One run of the session, which ends with it. kernel: one that the plan must have; NULL: whatever. */
static MAYBE_UNUSED void run_session(opf_session *session, const tensors *inputs, size_t n_outputs, const char *kernel, const char *text, results *r)
{
    opf_error error;
    r->n = n_outputs;
    memset(r->list, 0, sizeof r->list);
    if (opf_session_run(session, inputs->list, inputs->n, r->list, r->n, &error) != OPF_OK)
        fail_text(text, "%s", error.message);
    opf_profile profile;
    assert_int_equal(opf_session_profile(session, &profile, &error), OPF_OK);
    r->n_steps = profile.n_steps;
    if (kernel != NULL)
        check_kernel(session, kernel, text);
    for (size_t i = 0; i < r->n; i++) {
        r->data[i] = malloc(r->list[i].bytes == 0 ? 1 : r->list[i].bytes);
        assert_non_null(r->data[i]);
        memcpy(r->data[i], r->list[i].data, r->list[i].bytes);
        r->list[i].data = r->data[i];
    }
    opf_session_destroy(&session);
}

/* One run in a session of its own. */
static MAYBE_UNUSED void run_model(const opf_model *model, opf_mode mode, int32_t threads, const tensors *inputs, const char *kernel, const char *text, results *r)
{
    opf_session_options options = {.mode = mode, .threads = threads};
    opf_session        *session;
    opf_error           error;
    if (opf_session_create(model, &options, &session, &error) != OPF_OK)
        fail_text(text, "mode %d: %s", (int)mode, error.message);
    run_session(session, inputs, opf_model_output_count(model), kernel, text, r);
}

static MAYBE_UNUSED void compare_results(const results *have, const results *want, double rtol, double atol, const char *label, const char *sizes, const char *text)
{
    for (size_t i = 0; i < want->n; i++) {
        opf_error error;
        size_t    wrong;
        double    worst;
        if (opf_tensor_compare(&have->list[i], &want->list[i], rtol, atol, &worst, NULL, &wrong, &error) != OPF_OK)
            fail_msg("%s, %s, output %zu: %s\n%s", label, sizes, i, error.message, text);
        if (wrong != 0)
            fail_text(text, "%s, %s, output %zu: %zu of %zu elements are wrong, by %g at worst", label, sizes, i, wrong, tensor_count(&want->list[i]), worst);
    }
}

static MAYBE_UNUSED void same_bits(const results *a, const results *b, int32_t threads, const char *sizes, const char *text)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->list[i].bytes != b->list[i].bytes || memcmp(a->data[i], b->data[i], a->list[i].bytes) != 0)
            fail_text(text, "%d threads, %s, output %zu: bits differ from those of one thread", threads, sizes, i);
}

/* ---- a plan against the reference ---- */

typedef struct expected {
    const char    *kernel; /* as check_kernel takes it; NULL: whatever */
    int            steps;  /* of the plan; -1: whatever */
    double         rtol, atol;
    const int32_t *threads; /* ends with 0; the first run is compared with the reference, the others with it, bit for bit */
    const char    *label, *sizes, *text;
} expected;

static MAYBE_UNUSED void check_run(const opf_model *model, opf_mode mode, const tensors *inputs, const results *want, const expected *e)
{
    results first, other;
    run_model(model, mode, e->threads[0], inputs, e->kernel, e->text, &first);
    compare_results(&first, want, e->rtol, e->atol, e->label, e->sizes, e->text);
    if (e->steps >= 0 && first.n_steps != (size_t)e->steps)
        fail_text(e->text, "%s, %s: %zu steps, must be %d", e->label, e->sizes, first.n_steps, e->steps);
    for (int i = 1; e->threads[i] != 0; i++) {
        run_model(model, mode, e->threads[i], inputs, NULL, e->text, &other);
        same_bits(&first, &other, e->threads[i], e->sizes, e->text);
        free_results(&other);
    }
    free_results(&first);
}

/* "fused at avx2" */
static MAYBE_UNUSED const char *label_of(opf_mode mode, opf_cpu_level level)
{
    static char label[40];
    (void)snprintf(label, sizeof label, "%s at %s", mode == OPF_MODE_FUSED ? "fused" : "unfused", opf_cpu_level_name(level));
    return label;
}

#endif
