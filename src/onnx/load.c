/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/load.h"

#include "base/status.h"
#include "onnx/build.h"
#include "onnx/inline.h"

static opf_status load(const void *bytes, size_t size, opf_builder *builder, wire_model *model, opf_loaded *loaded)
{
    opf_arena              *arena   = builder->tensors.arena;
    opf_error              *error   = builder->error;
    const opf_load_options *options = builder->tensors.options;
    OPF_FAIL_IF(error, size > (uint64_t)options->limits->model_bytes, OPF_LIMIT, "the model has %zu bytes, more than %lld (limit model-bytes)",
                size, (long long)options->limits->model_bytes);
    OPF_TRY(opf_wire_model(bytes, size, options->limits, arena, model, error));
    OPF_TRY(opf_wire_check_versions(model, error));
    OPF_TRY(opf_wire_inline(model, options->limits, arena, error));
    OPF_TRY(opf_wire_mark_dead(model, arena->heap, error));
    OPF_TRY(opf_wire_check_operators(model, arena, error));
    opf_built built;
    OPF_TRY(opf_build_model(builder, &built));
    OPF_TRY(opf_lift_model(&built, error));
    opf_opset *opsets = OPF_NEW(arena, opf_opset, model->opsets.n);
    OPF_OOM_IF(error, opsets == NULL);
    for (uint32_t i = 0; i < model->opsets.n; i++)
        opsets[i] = (opf_opset){model->opsets.list[i].domain, model->opsets.list[i].version};
    loaded->graph             = built.graph;
    loaded->ir_version        = model->ir_version;
    loaded->opsets            = opsets;
    loaded->n_opsets          = model->opsets.n;
    loaded->producer          = model->producer;
    loaded->ops               = builder->ops;
    loaded->defaults          = builder->defaults;
    loaded->constant_inputs   = builder->constant_inputs.list;
    loaded->n_constant_inputs = builder->constant_inputs.n;
    return OPF_OK;
}

opf_status opf_onnx_load(const void *bytes, size_t size, bool mapped, const opf_load_options *options, opf_arena *arena, opf_dims *dims,
                         opf_const_pool *consts, opf_loaded *loaded, opf_error *error)
{
    *loaded             = (opf_loaded){.bytes = bytes, .size = size};
    wire_model  model   = {0};
    opf_builder builder = {
        .tensors = {.arena = arena, .consts = consts, .options = options, .mapped = mapped, .loaded = loaded},
        .model   = &model,
        .dims    = dims,
        .error   = error,
    };
    opf_map_init(&builder.tensors.locations, arena);
    opf_map_init(&builder.node_names, arena);
    opf_status status = load(bytes, size, &builder, &model, loaded);
    if (status != OPF_OK)
        opf_loaded_fini(loaded, options->heap);
    return status;
}

void opf_loaded_fini(opf_loaded *loaded, opf_heap *heap)
{
    for (uint32_t i = 0; i < loaded->n_mappings; i++)
        opf_mapping_close(&loaded->mappings[i], heap);
    *loaded = (opf_loaded){0};
}
