/* SPDX-License-Identifier: Apache-2.0 */
/* Public entry points that belong to no stage: ports, the list of operators, comparing tensors. */
#include "exec/model.h"
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
    return fill_port(model, model->loaded.graph->outputs[index], port);
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

static opf_status fill_ops(opf_report *report, opf_error *error)
{
    uint32_t             n, n_refused;
    const opf_op *const *ops     = opf_all_operators(&n);
    const opf_refused   *refused = opf_all_refused(&n_refused);
    opf_op_entry        *list    = OPF_NEW(&report->arena, opf_op_entry, n + n_refused);
    OPF_OOM_IF(error, list == NULL);
    for (uint32_t i = 0; i < n; i++) {
        list[i] = (opf_op_entry){.name   = ops[i]->name,
                                 .domain = ops[i]->domain,
                                 .since  = ops[i]->since,
                                 .until  = OPF_OPSET_NEWEST,
                                 .types  = type_names(ops[i], &report->arena),
                                 .notes  = ops[i]->notes};
        OPF_OOM_IF(error, list[i].types == NULL);
    }
    for (uint32_t i = 0; i < n_refused; i++)
        list[n + i] = (opf_op_entry){.name = refused[i].op_type, .domain = refused[i].domain, .types = "", .refused = refused[i].why};
    report->ops   = list;
    report->n_ops = n + n_refused;
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
