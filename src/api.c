/* SPDX-License-Identifier: Apache-2.0 */
/* Public entry points that belong to no stage: ports, the list of operators, comparing tensors. */
#include "exec/compare.h"
#include "exec/model.h"
#include "onnx/contrib/contrib.h"
#include "ops/op.h"
#include "ops/refused.h"

#include <math.h>
#include <string.h>

/* ---- ports ---- */

static opf_status fill_port(const opf_model *model, opf_value_id id, opf_port *port)
{
    const opf_value *value = opf_graph_value(model->loaded.graph, id);
    *port                  = (opf_port){.name = value->name, .type = value->info.type, .rank = value->info.rank};
    for (int32_t i = 0; i < value->info.rank; i++) {
        opf_dim d        = value->info.dims[i];
        port->dims[i]    = opf_dim_is_number(d) ? d.n : -1;
        port->symbols[i] = NULL;
        if (!opf_dim_is_number(d)) {
            const char *name = opf_dim_symbol_name(model->dims, d);
            port->symbols[i] = name != NULL ? name : "?";
        }
    }
    return OPF_OK;
}

size_t opf_model_input_count(const opf_model *model)
{
    return model == NULL ? 0 : model->loaded.graph->n_inputs;
}

size_t opf_model_output_count(const opf_model *model)
{
    return model == NULL ? 0 : model->loaded.graph->n_outputs;
}

opf_status opf_model_input(const opf_model *model, size_t index, opf_port *port)
{
    if (model == NULL || port == NULL || index >= model->loaded.graph->n_inputs)
        return OPF_INVALID_ARGUMENT;
    opf_status status = fill_port(model, model->loaded.graph->inputs[index], port);
    port->has_default = model->loaded.defaults != NULL && model->loaded.defaults[index] != NULL;
    return status;
}

opf_status opf_model_output(const opf_model *model, size_t index, opf_port *port)
{
    if (model == NULL || port == NULL || index >= model->loaded.graph->n_outputs)
        return OPF_INVALID_ARGUMENT;
    opf_status status = fill_port(model, model->loaded.graph->outputs[index], port);
    port->is_quantized = opf_value_is_quantized(model->loaded.graph, model->loaded.graph->outputs[index]);
    return status;
}

/* ---- the list of operators ---- */

static uint32_t count_types(opf_types types)
{
    uint32_t n = 0;
    for (; types != 0; types &= types - 1)
        n++;
    return n;
}

/* The types of the main variable: the one that the first output shares with an input, else the first input's or the first
   output's, whichever has more of them. */
static opf_types main_types(const opf_op *op)
{
    const opf_types in = op->n_inputs != 0 ? op->inputs[0].types : 0, out = op->n_outputs != 0 ? op->outputs[0].types : 0;
    for (uint32_t i = 0; i < op->n_inputs && op->n_outputs != 0; i++)
        if (op->inputs[i].var != 0 && op->inputs[i].var == op->outputs[0].var)
            return op->inputs[i].types;
    return count_types(out) > count_types(in) ? out : in;
}

static const char *type_names(const opf_op *op, opf_arena *arena)
{
    const opf_types types = main_types(op);
    opf_text        text;
    opf_text_init(&text, arena);
    for (int type = 1; type < OPF_TYPE_COUNT; type++)
        if (opf_types_have(types, (opf_type)type))
            opf_text_add(&text, "%s%s", text.length == 0 ? "" : ", ", opf_type_name((opf_type)type));
    return text.failed ? NULL : text.data != NULL ? text.data : "";
}

/* Domains beside ONNX's own have but one opset. */
static bool fill_own(opf_op_entry *entry, const opf_op *op, opf_arena *arena)
{
    *entry = (opf_op_entry){.name = op->name,
                            .domain = op->domain,
                            .since = op->since,
                            .until = op->domain[0] == '\0' ? OPF_OPSET_NEWEST : op->since,
                            .types = type_names(op, arena),
                            .notes = op->notes};
    return entry->types != NULL;
}

static bool fill_contrib(opf_op_entry *entry, const opf_contrib_op *op, opf_arena *arena)
{
    const bool is_same = op->decompose == NULL, is_onnx = op->domain[0] == '\0';
    const opf_op *like = is_same ? opf_find_operator("", op->name) : NULL;
    *entry = (opf_op_entry){.name = op->name,
                            .domain = op->domain,
                            .since = 1,
                            .until = !is_onnx         ? 1
                                     : op->below != 0 ? op->below - 1
                                                      : OPF_OPSET_NEWEST,
                            .types = is_same ? type_names(like, arena) : "",
                            .notes = is_same ? "the standard operator" : "becomes standard operators"};
    return entry->types != NULL;
}

static opf_status fill_ops(opf_report *report, opf_error *error)
{
    uint32_t n, n_contrib, n_refused;
    const opf_op *const *ops = opf_all_operators(&n);
    const opf_contrib_op *contrib = opf_all_contrib(&n_contrib);
    const opf_refused *refused = opf_all_refused(&n_refused);
    opf_op_entry *list = OPF_NEW(&report->arena, opf_op_entry, n + n_contrib + n_refused);
    OPF_OOM_IF(error, list == NULL);
    for (uint32_t i = 0; i < n; i++)
        OPF_OOM_IF(error, !fill_own(&list[i], ops[i], &report->arena));
    for (uint32_t i = 0; i < n_contrib; i++)
        OPF_OOM_IF(error, !fill_contrib(&list[n + i], &contrib[i], &report->arena));
    for (uint32_t i = 0; i < n_refused; i++)
        list[n + n_contrib + i] = (opf_op_entry){
            .name = refused[i].op_type, .domain = refused[i].domain, .types = "", .refused = refused[i].why};
    report->ops   = list;
    report->n_ops = n + n_contrib + n_refused;
    return OPF_OK;
}

opf_status opf_ops_list(opf_report **report, opf_error *error)
{
    OPF_FAIL_IF(error, report == NULL, OPF_INVALID_ARGUMENT, "report must not be NULL");
    OPF_TRY(opf_report_create(NULL, report, error));
    opf_status status = fill_ops(*report, error);
    if (status != OPF_OK)
        opf_report_destroy(report);
    return status;
}
