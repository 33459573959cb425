/* SPDX-License-Identifier: Apache-2.0 */
/* The fused graph as a file: the public call and its report. */
#include "exec/model.h"
#include "onnx/save/save.h"

/* A mapped file must stay as it is. */
static opf_status check_path(const opf_model *model, const char *path, opf_error *error)
{
    bool is_own = opf_mapping_is_of(&model->file, path);
    for (uint32_t i = 0; i < model->loaded.n_mappings; i++)
        is_own = is_own || opf_mapping_is_of(&model->loaded.mappings[i], path);
    OPF_FAIL_IF(error, is_own, OPF_INVALID_ARGUMENT, "%s: the model is read from this file", path);
    return OPF_OK;
}

static opf_status save(const opf_model *model, const char *path, const opf_save_options *options, opf_report *report,
                       opf_error *error)
{
    const char *external = opf_arena_printf(&report->arena, "%s.data", path);
    OPF_OOM_IF(error, external == NULL);
    OPF_TRY(check_path(model, path, error));
    OPF_TRY(check_path(model, external, error));
    const opf_save_request request = {.graph = model->open.fused,
                                      .loaded = &model->loaded,
                                      .path = path,
                                      .target = options->target,
                                      .opset = options->opset,
                                      .is_resized = model->is_resized,
                                      .largest = (size_t)options->external_above,
                                      .heap = report->heap};
    opf_save_result result;
    OPF_TRY(opf_onnx_save(&request, &report->arena, &result, error));
    report->saved = (opf_saved){.opset = result.opset,
                                .ir_version = result.ir_version,
                                .ops = result.ops.list,
                                .n_ops = result.ops.n,
                                .nodes = result.ops.total,
                                .weight_bytes = result.weight_bytes,
                                .file_bytes = result.file_bytes,
                                .external = result.external,
                                .raised = result.raised};
    return OPF_OK;
}

opf_status opf_model_save_onnx(const opf_model *model, const char *path, const opf_save_options *options,
                               opf_report **report, opf_error *error)
{
    static const opf_save_options defaults;
    OPF_FAIL_IF(error, model == NULL || path == NULL || path[0] == '\0', OPF_INVALID_ARGUMENT,
                "model and path must be given");
    opf_heap *heap = (opf_heap *)(uintptr_t)&model->heap; /* its counter is safe to share */
    opf_report *own = NULL;
    OPF_TRY(opf_report_create(heap, &own, error));
    opf_status status = save(model, path, options != NULL ? options : &defaults, own, error);
    status = opf_heap_status(heap, status, error);
    if (report != NULL)
        *report = status == OPF_OK ? own : NULL;
    if (report == NULL || status != OPF_OK)
        opf_report_destroy(&own);
    return status;
}

const opf_saved *opf_report_saved(const opf_report *report)
{
    return &report->saved;
}
