/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparing results of random graphs, some of which are ill-conditioned: where a row of equal numbers is normalised, or
 * a value near zero divides, the last bit of an input decides the result, and two right computations differ by any
 * amount. Elements that are too far apart for the plain bounds are judged by how far the reference itself moves when
 * every value of the graph is off by two units in its last place.
 */
#ifndef CONDITIONED_H
#define CONDITIONED_H

#include "text_model.h"

enum { DRAWS = 8 };
static const double noise_size = 0x1p-22, /* two units in the last place of a float */
    spread_factor = 4;                    /* draws are few, and a kernel may round more often than the reference */

/* ---- the graph with noise ---- */

static opf_value_id add_noise(opf_graph *graph, const opf_info *info, opf_random *random)
{
    int64_t dims[OPF_MAX_RANK];
    size_t count, bytes;
    if (!opf_info_count(info, &count) || !opf_type_bytes(info->type, count, &bytes))
        return 0; /* a size is not known */
    for (int32_t i = 0; i < info->rank; i++)
        dims[i] = info->dims[i].n;
    void *data = opf_arena_alloc(graph->arena, bytes + 1);
    assert_non_null(data);
    for (size_t i = 0; i < count; i++)
        opf_store_f64(info->type, data, i, 1 + noise_size * (2 * opf_random_uniform(random) - 1));
    return opf_graph_add_constant(graph, "noise",
                                  opf_const_bytes(graph->consts, info->type, info->rank, dims, data, bytes));
}

/* Nodes that read the value read it times 1 + noise instead; an output stays what it is. */
static void perturb_value(opf_graph *graph, opf_value_id id, opf_random *random)
{
    const opf_info info = opf_graph_value(graph, id)->info;
    const uint32_t n = opf_graph_value(graph, id)->n_uses;
    opf_use *uses = OPF_NEW(graph->arena, opf_use, n);
    const opf_value_id noise =
        info.rank >= 0 && opf_types_have(OPF_TYPES_FLOAT, info.type) ? add_noise(graph, &info, random) : 0;
    if (n == 0 || noise == 0)
        return;
    memcpy(uses, opf_graph_value(graph, id)->uses, n * sizeof *uses);
    const opf_value_id moved = opf_graph_add_value(graph, "moved"), factors[2] = {id, noise};
    (void)opf_graph_add_node(graph, &opf_op_Mul, "Mul", NULL, factors, 2, &moved, 1);
    for (uint32_t i = 0; i < n; i++)
        if (uses[i].node != 0)
            assert_true(opf_graph_set_input(graph, uses[i].node, uses[i].input, moved));
}

static void perturb_graph(opf_graph *graph, void *user)
{
    opf_error error;
    if (opf_infer_graph(graph, &error) != OPF_OK)
        fail_msg("%s", error.message);
    const uint32_t n = graph->n_values;
    for (opf_value_id id = 1; id < n; id++)
        if (opf_graph_value(graph, id)->constant == NULL)
            perturb_value(graph, id, user);
}

/* ---- comparing ---- */

static double distance(double a, double b)
{
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    return isfinite(a) && isfinite(b) ? fabs(a - b) : (double)INFINITY;
}

/* What a random model was made of, and its inputs. */
typedef struct random_model {
    const char *text;
    uint64_t seed;
    const tensors *inputs;
} random_model;

/* spread[i][k]: how far element k of output i moves, at most, in DRAWS runs of the reference with noise. */
static void measure_spread(const random_model *of, const results *want, double *const *spread)
{
    opf_random random;
    opf_random_init(&random, of->seed);
    for (int draw = 0; draw < DRAWS; draw++) {
        text_model m;
        results moved;
        text_model_open_changed(&m, of->text, NULL, of->seed, perturb_graph, &random);
        run_model(m.model, OPF_MODE_REFERENCE, 1, of->inputs, NULL, of->text, &moved);
        for (size_t i = 0; i < want->n; i++)
            for (size_t k = 0; k < tensor_count(&want->list[i]); k++) {
                const opf_type type = want->list[i].type;
                const double d = distance(opf_load_f64(type, moved.data[i], k), opf_load_f64(type, want->data[i], k));
                spread[i][k] = fmax(spread[i][k], d);
            }
        free_results(&moved);
        text_model_close(&m);
    }
}

/* Elements further apart than atol + rtol |want| + spread_factor * spread. */
static size_t count_wrong(const opf_tensor *have, const opf_tensor *want, const double *spread, double rtol,
                          double atol, double *worst)
{
    size_t wrong = 0;
    for (size_t k = 0; k < tensor_count(want); k++) {
        const double b = opf_load_f64(want->type, want->data, k);
        const double d = distance(opf_load_f64(have->type, have->data, k), b);
        if (d > 0 && !(d <= atol + rtol * fabs(b) + (spread != NULL ? spread_factor * spread[k] : 0))) {
            *worst = fmax(*worst, d);
            wrong++;
        }
    }
    return wrong;
}

/* Fails unless have is want, within the bounds or within what noise does to want. True: only the latter. */
static bool compare_conditioned(const random_model *of, const results *have, const results *want, double rtol,
                                double atol, const char *label)
{
    double *spread[MAX_PORTS] = {0}, worst = 0;
    size_t wrong = 0;
    for (size_t i = 0; i < want->n; i++) {
        const opf_tensor *a = &have->list[i], *b = &want->list[i];
        if (a->type != b->type || a->rank != b->rank ||
            memcmp(a->dims, b->dims, (size_t)b->rank * sizeof *b->dims) != 0)
            fail_msg("%s: output %zu has another type or shape", label, i);
        wrong += count_wrong(a, b, NULL, rtol, atol, &worst);
    }
    if (wrong == 0)
        return false;
    for (size_t i = 0; i < want->n; i++)
        spread[i] = calloc(tensor_count(&want->list[i]) + 1, sizeof *spread[i]);
    measure_spread(of, want, spread);
    worst = 0;
    for (size_t i = 0; i < want->n; i++) {
        wrong = count_wrong(&have->list[i], &want->list[i], spread[i], rtol, atol, &worst);
        if (wrong != 0)
            fail_text(of->text, "%s, output %zu: %zu of %zu elements are wrong, by %g at worst", label, i, wrong,
                      tensor_count(&want->list[i]), worst);
        free(spread[i]);
    }
    return true;
}

#endif
