/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs for verify: random and adversarial, of several sizes; integers that index are drawn from what they index. */
#include "exec/verify.h"

#include "base/least.h"
#include "ops/op.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    double      scale;
} kinds[] = {{"random", 1}, {"zeros", 0}, {"large", 100}, {"denormal", 1e-40}, {"nan", 1}, {"infinite", 1}};

/* Of the symbols in the order in which they are met. */
static const int64_t sizes[][4] = {{1, 2, 7, 33},  {2, 7, 33, 1}, {7, 33, 1, 2}, {33, 1, 2, 7},      {1, 33, 7, 2},
                                   {2, 2, 2, 2}, {1, 1, 1, 1},  {1, 224, 256, 32}, {2, 64, 96, 128}};
enum { N_KINDS = sizeof kinds / sizeof *kinds, N_SIZES = sizeof sizes / sizeof *sizes, DEPTH = 16 };

/* FLOPs that the reference kernels do in about half a minute. */
static const double costly_flops = 3e10;

uint32_t opf_verify_kinds(void)
{
    return N_KINDS;
}

uint32_t opf_verify_rounds(void)
{
    return N_SIZES;
}

double opf_verify_scale(uint32_t kind)
{
    return kinds[kind].scale;
}

static const opf_const *default_of(const opf_verifier *v, uint32_t i)
{
    return v->model->loaded.defaults[i];
}

/* The size that the default of an input gives the symbol when it is not fed. */
static bool size_of_default(const opf_verifier *v, const char *symbol, int64_t *n)
{
    const opf_graph *graph = v->model->loaded.graph;
    for (uint32_t i = 0; !v->feeds && i < graph->n_inputs; i++) {
        const opf_info *info = &opf_graph_value(graph, graph->inputs[i])->info;
        for (int32_t k = 0; default_of(v, i) != NULL && k < info->rank; k++) {
            const char *name = opf_dim_symbol_name(v->model->dims, info->dims[k]);
            if (name != NULL && strcmp(name, symbol) == 0) {
                *n = default_of(v, i)->dims[k];
                return true;
            }
        }
    }
    return false;
}

static bool size_of_symbol(void *user, const char *symbol, int64_t *n)
{
    opf_verifier *v = user;
    uint32_t      i = 0;
    if (size_of_default(v, symbol, n))
        return true;
    while (i < v->n_names && strcmp(v->names[i], symbol) != 0)
        i++;
    if (i == v->n_names && i < OPF_VERIFY_SYMBOLS)
        v->names[v->n_names++] = symbol;
    *n = sizes[v->round][i % 4];
    return true;
}

const char *opf_verify_label(const opf_verifier *v, uint32_t kind)
{
    opf_text text;
    opf_text_init(&text, &v->report->arena);
    opf_text_add(&text, "%s", kinds[kind].name);
    for (uint32_t i = 0; i < v->n_names; i++)
        opf_text_add(&text, "%s%s=%lld", i == 0 ? " " : ",", v->names[i], (long long)sizes[v->round][i % 4]);
    if (v->feeds && v->model->frozen.fused != NULL)
        opf_text_add(&text, ", defaults fed");
    return text.failed ? kinds[kind].name : text.data;
}

/* Another round gave the same sizes to the symbols that there are. */
static bool is_repeated(const opf_verifier *v)
{
    for (uint32_t round = 0; round < v->round; round++) {
        bool same = true;
        for (uint32_t i = 0; same && i < v->n_names; i++)
            same = sizes[round][i % 4] == sizes[v->round][i % 4];
        if (same)
            return true;
    }
    return false;
}

/* ---- integers that index ---- */

/* Operators through which an index passes unchanged. */
static bool passes(const opf_node *node, uint32_t input)
{
    return input == 0 && (node->op == &opf_op_Cast || node->op == &opf_op_Identity || node->op == &opf_op_Reshape || node->op == &opf_op_Flatten ||
                          node->op == &opf_op_Squeeze || node->op == &opf_op_Unsqueeze || node->op == &opf_op_Transpose || node->op == &opf_op_Expand ||
                          node->op == &opf_op_Slice || node->op == &opf_op_Split);
}

static int64_t size_of_axis(opf_verifier *v, const opf_graph *graph, const opf_node *node)
{
    const opf_info *data = &opf_graph_value(graph, node->inputs[0])->info;
    int64_t         axis = opf_node_int(node, "axis", 0), n = 0;
    axis += axis < 0 ? data->rank : 0;
    if (data->rank <= 0 || axis < 0 || axis >= data->rank || !opf_dim_evaluate(v->model->dims, data->dims[axis], size_of_symbol, v, &n))
        return 0;
    return n;
}

/* The rows of what the value indexes, the fewest of them; 0: it is no index. */
static int64_t index_bound(opf_verifier *v, const opf_graph *graph, opf_value_id value, int depth)
{
    const opf_value *of    = opf_graph_value(graph, value);
    int64_t          bound = 0;
    for (uint32_t u = 0; depth > 0 && u < of->n_uses; u++) {
        const opf_node *node  = of->uses[u].node == 0 ? NULL : opf_graph_node(graph, of->uses[u].node);
        uint32_t        input = of->uses[u].input;
        if (node == NULL || node->op == NULL)
            continue;
        if (input == 1 && (node->op == &opf_op_Gather || node->op == &opf_op_GatherElements || node->op == &opf_op_ScatterElements) && node->inputs[0] != 0)
            bound = opf_least(bound, size_of_axis(v, graph, node));
        for (uint32_t o = 0; passes(node, input) && o < node->n_outputs; o++)
            if (node->outputs[o] != 0)
                bound = opf_least(bound, index_bound(v, graph, node->outputs[o], depth - 1));
    }
    return bound;
}

/* ---- filling ---- */

static void fill_floats(opf_tensor *tensor, size_t count, uint32_t kind, opf_random *random)
{
    bool tiny = kinds[kind].scale > 0 && kinds[kind].scale < 1; /* every other one: the square of a row of them is zero in float, where a root of it divides */
    for (size_t i = 0; i < count; i++)
        opf_store_f64(tensor->type, tensor->data, i, opf_random_normal(random) * (tiny && i % 2 == 0 ? 1 : kinds[kind].scale));
    if (count != 0 && strcmp(kinds[kind].name, "nan") == 0)
        opf_store_f64(tensor->type, tensor->data, opf_random_next(random) % count, (double)NAN);
    for (int sign = -1; count != 0 && sign <= 1 && strcmp(kinds[kind].name, "infinite") == 0; sign += 2)
        opf_store_f64(tensor->type, tensor->data, opf_random_next(random) % count, sign * (double)INFINITY);
}

static void fill_integers(opf_tensor *tensor, size_t count, bool zeros, int64_t bound, opf_random *random)
{
    uint64_t most = bound < 1 ? 2 : (uint64_t)bound;
    for (size_t i = 0; i < count; i++)
        opf_store_i64(tensor->type, tensor->data, i, zeros ? 0 : (int64_t)(opf_random_next(random) % most));
}

/* Numbers like those of a default, but others: a variance stays positive, and what is zero becomes small. */
static void fill_near(opf_tensor *tensor, const opf_const *fallback, opf_random *random)
{
    opf_const_write(fallback, tensor->data);
    for (size_t i = 0; i < fallback->count; i++) {
        double x = opf_load_f64(tensor->type, tensor->data, i), n = 0.1 * opf_random_normal(random);
        opf_store_f64(tensor->type, tensor->data, i, x == 0 ? n : x * (1 + n));
    }
}

static opf_status fill(opf_verifier *v, uint32_t i, const opf_info *info, uint32_t kind, opf_error *error)
{
    const opf_graph *graph    = v->model->loaded.graph;
    const opf_const *fallback = default_of(v, i);
    opf_tensor      *tensor   = &v->inputs[i];
    size_t           count;
    bool             is_float = opf_types_have(OPF_TYPES_ANY_FLOAT, info->type);
    *tensor                   = (opf_tensor){.type = info->type, .rank = info->rank};
    for (int32_t k = 0; k < info->rank; k++)
        tensor->dims[k] = info->dims[k].n;
    const bool admits = fallback != NULL && opf_info_admits(info, fallback);
    if (fallback != NULL && (!v->feeds || (!is_float && !admits))) {
        tensor->type = OPF_TYPE_NONE; /* the default is used */
        return OPF_OK;
    }
    OPF_FAIL_IF(error, !opf_info_count(info, &count) || !opf_type_bytes(tensor->type, count, &tensor->bytes), OPF_INVALID_INPUT,
                "input %s cannot be made", opf_graph_value(graph, graph->inputs[i])->name);
    tensor->data = opf_arena_alloc(&v->report->arena, tensor->bytes + 1);
    OPF_OOM_IF(error, tensor->data == NULL);
    memset(tensor->data, 0, tensor->bytes + 1);
    if (admits && !is_float) { /* integers with a default often are shapes or axes: the same numbers, but fed */
        opf_const_write(fallback, tensor->data);
        return OPF_OK;
    }
    if (admits && kind == 0)
        fill_near(tensor, fallback, &v->random);
    else if (is_float)
        fill_floats(tensor, count, kind, &v->random);
    else
        fill_integers(tensor, count, strcmp(kinds[kind].name, "zeros") == 0, index_bound(v, graph, graph->inputs[i], DEPTH), &v->random);
    v->any_drawn = true;
    return OPF_OK;
}

static double flops_of(const opf_verifier *v, const opf_info *infos)
{
    opf_plan *plan  = NULL;
    double    flops = 0;
    if (opf_model_plan(v->model, v->stages->fused, infos, false, &plan, NULL) == OPF_OK)
        flops = plan->flops;
    opf_plan_destroy(&plan);
    return flops;
}

opf_status opf_verify_draw(opf_verifier *v, uint32_t kind, bool *repeats, bool *costly, opf_error *error)
{
    const opf_graph *graph = v->model->loaded.graph;
    opf_info        *infos;
    v->n_names   = 0;
    v->any_drawn = false;
    OPF_TRY(opf_model_input_infos(v->model, size_of_symbol, v, &v->report->arena, &infos, error));
    *repeats = is_repeated(v);
    *costly  = !*repeats && v->n_names != 0 && flops_of(v, infos) > costly_flops;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        bool given = v->options->inputs != NULL && i < v->options->n_inputs && v->options->inputs[i].data != NULL;
        if (given)
            v->inputs[i] = v->options->inputs[i];
        else
            OPF_TRY(fill(v, i, &infos[i], kind, error));
    }
    return OPF_OK;
}
