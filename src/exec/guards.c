/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/guards.h"

#include "base/map.h"

typedef struct given_sizes {
    const opf_model  *model;
    const opf_stages *stages;
    const opf_tensor *inputs; /* all of the model's */
} given_sizes;

/* What input i declares; NULL: it is nothing to these stages, which have its default as a constant. */
static const opf_info *declared(const given_sizes *given, uint32_t i)
{
    const opf_loaded *loaded = &given->model->loaded;
    return given->stages == &given->model->frozen && loaded->defaults[i] != NULL
               ? NULL
               : &opf_graph_value(loaded->graph, loaded->graph->inputs[i])->info;
}

/* Exporters reuse symbols loosely: true when one symbol has two sizes here. Fusions that relied on it do not hold then. */
static bool symbols_conflict(const given_sizes *given, opf_arena *arena, const char **symbol)
{
    const uint32_t n_inputs = given->model->loaded.graph->n_inputs;
    opf_map        sizes;
    opf_map_init(&sizes, arena);
    int64_t *values = OPF_NEW(arena, int64_t, n_inputs * OPF_MAX_RANK);
    uint32_t n      = 0;
    for (uint32_t i = 0; values != NULL && i < n_inputs; i++) {
        const opf_info *info = declared(given, i);
        for (int32_t k = 0; info != NULL && k < info->rank; k++) {
            const char *name = opf_dim_symbol_name(given->model->dims, info->dims[k]);
            uint32_t    at;
            if (name == NULL)
                continue;
            if (!opf_map_get(&sizes, name, &at)) {
                values[n] = given->inputs[i].dims[k];
                if (!opf_map_put(&sizes, name, n++))
                    return true;
            } else if (values[at] != given->inputs[i].dims[k]) {
                *symbol = name;
                return true;
            }
        }
    }
    return values == NULL;
}

static bool number_of_size(void *user, uint32_t size, int64_t *n)
{
    const given_sizes *given = user;
    for (uint32_t i = 0; i < given->model->loaded.graph->n_inputs; i++) {
        const opf_info *info = declared(given, i);
        for (int32_t k = 0; info != NULL && k < info->rank; k++) {
            if (opf_dim_size(given->model->dims, info->dims[k]) == size) {
                *n = given->inputs[i].dims[k];
                return true;
            }
        }
    }
    return false;
}

static bool evaluate(given_sizes *given, opf_dim d, int64_t *n)
{
    return opf_dim_evaluate_sizes(given->model->dims, d, number_of_size, given, n);
}

/* An operand that a fusion took to broadcast to a result enlarges it. What fusing the open graph stated is known to all graphs of
   the model; where their inputs do not tell a symbol, no value of theirs has it. */
static bool is_enlarged(given_sizes *given, const opf_fuse_report *report)
{
    int64_t part, whole;
    for (uint32_t i = 0; i < report->n_fits; i++) {
        bool told = evaluate(given, report->fits[i].part, &part) && evaluate(given, report->fits[i].whole, &whole);
        if (told ? part != 1 && part != whole : report == &given->stages->report)
            return true;
    }
    return false;
}

/* A size that a fusion took to be at least 1 is not. */
static bool is_supposed_wrongly(given_sizes *given)
{
    const opf_fuse_report *report = &given->stages->report;
    int64_t                size;
    for (uint32_t i = 0; i < report->n_supposed; i++)
        if (!evaluate(given, report->supposed[i], &size) || size < 1)
            return true;
    return false;
}

const char *opf_find_breach(const opf_model *model, const opf_stages *stages, const opf_tensor *inputs, opf_arena *arena)
{
    given_sizes given  = {model, stages, inputs};
    const char *symbol = "?";
    if (symbols_conflict(&given, arena, &symbol)) {
        const char *line = opf_arena_printf(arena, "inputs give symbol %s two sizes: this shape runs without fusion", symbol);
        return line != NULL ? line : symbol;
    }
    if (is_enlarged(&given, &stages->report) || is_enlarged(&given, &model->open.report))
        return "an operand enlarges a result: this shape runs without fusion";
    return is_supposed_wrongly(&given) ? "an image without pixels: this shape runs without fusion" : NULL;
}
