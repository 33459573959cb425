/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/model.h"

#include "cpu/cpu.h"
#include "ops/infer.h"
#include "simplify/simplify.h"

#include <string.h>

/* ---- opening ---- */

static opf_status set_limits(opf_model *model, const opf_model_options *options, opf_error *error)
{
    opf_limits_init(&model->limits);
    for (size_t i = 0; i < options->n_limits; i++)
        OPF_TRY(opf_limits_set(&model->limits, options->limits[i].name, options->limits[i].value, error));
    if (model->limits.memory == 0)
        model->limits.memory = (int64_t)(opf_cpu_memory_bytes() / 10 * 9);
    model->heap.limit = (size_t)model->limits.memory;
    return OPF_OK;
}

static bool dim_option(void *user, const char *symbol, int64_t *n)
{
    const opf_model_options *options = user;
    for (size_t i = 0; i < options->n_dims; i++)
        if (strcmp(options->dims[i].name, symbol) == 0) {
            *n = options->dims[i].value;
            return true;
        }
    return false;
}

/* --dim and --shape make symbols of graph inputs numbers, before anything else looks at them. */
static opf_status apply_shapes(opf_model *model, const opf_model_options *options, opf_error *error)
{
    opf_graph *graph = model->loaded.graph;
    for (size_t i = 0; i < options->n_dims; i++)
        OPF_FAIL_IF(error, options->dims[i].value < 0, OPF_INVALID_ARGUMENT, "symbol %s is %lld, must not be negative",
                    options->dims[i].name, (long long)options->dims[i].value);
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        opf_info *info = &opf_graph_value(graph, graph->inputs[i])->info;
        for (int32_t k = 0; k < info->rank; k++) {
            int64_t n;
            /* evaluate only reads its user data */
            if (!opf_dim_is_number(info->dims[k]) && opf_dim_evaluate(model->dims, info->dims[k], dim_option, (void *)(uintptr_t)options, &n))
                info->dims[k] = opf_dim_number(n);
        }
    }
    for (size_t i = 0; i < options->n_shapes; i++) {
        const opf_named_shape *shape = &options->shapes[i];
        opf_value_id           id    = opf_graph_find_value(graph, shape->name);
        OPF_FAIL_IF(error, id == 0 || !opf_graph_value(graph, id)->is_input, OPF_INVALID_ARGUMENT, "the model has no input %s", shape->name);
        opf_info *info = &opf_graph_value(graph, id)->info;
        OPF_FAIL_IF(error, shape->rank < 0 || shape->rank > OPF_MAX_RANK, OPF_INVALID_ARGUMENT, "the shape given for input %s has rank %d",
                    shape->name, shape->rank);
        OPF_FAIL_IF(error, info->rank >= 0 && info->rank != shape->rank, OPF_INVALID_INPUT, "input %s has rank %d, the shape given has %d",
                    shape->name, info->rank, shape->rank);
        opf_dim *dims = OPF_NEW(&model->arena, opf_dim, shape->rank);
        OPF_OOM_IF(error, dims == NULL);
        for (int32_t k = 0; k < shape->rank; k++) {
            OPF_FAIL_IF(error, info->rank >= 0 && opf_dim_is_number(info->dims[k]) && info->dims[k].n != shape->dims[k], OPF_INVALID_INPUT,
                        "dimension %d of input %s is %lld, the shape given has %lld", k, shape->name, (long long)info->dims[k].n,
                        (long long)shape->dims[k]);
            OPF_FAIL_IF(error, shape->dims[k] < 0, OPF_INVALID_ARGUMENT, "dimension %d of the shape given for input %s is %lld", k, shape->name,
                        (long long)shape->dims[k]);
            dims[k] = opf_dim_number(shape->dims[k]);
        }
        info->rank = shape->rank;
        info->dims = dims;
    }
    return OPF_OK;
}

static opf_status read_rules(opf_model *model, const opf_model_options *options, opf_error *error)
{
    size_t       n     = options->n_rules_files;
    const char **texts = OPF_NEW(&model->arena, const char *, n), **paths = OPF_NEW(&model->arena, const char *, n);
    OPF_OOM_IF(error, texts == NULL || paths == NULL);
    for (size_t i = 0; i < n; i++) {
        opf_mapping file;
        OPF_TRY(opf_mapping_open(options->rules_files[i], true, 16 << 20, &model->heap, &file, error));
        texts[i] = opf_arena_copy_string(&model->arena, file.data, file.size);
        opf_mapping_close(&file, &model->heap);
        paths[i] = opf_arena_copy_string(&model->arena, options->rules_files[i], strlen(options->rules_files[i]));
        OPF_OOM_IF(error, texts[i] == NULL || paths[i] == NULL);
        OPF_TRY(opf_fuse_check_rules(texts[i], options->rules_files[i], &model->arena, error));
    }
    model->fuse_options.user_rules      = texts;
    model->fuse_options.user_rule_files = paths;
    model->fuse_options.n_user_rules    = n;
    return OPF_OK;
}

static bool is_rule_name(const char *name)
{
    for (const char *const *known = opf_fuse_rule_names(); *known != NULL; known++)
        if (strcmp(*known, name) == 0)
            return true;
    return false;
}

static opf_status copy_names(opf_model *model, const char *const *names, size_t n, const char *const **copy, size_t *n_copy, opf_error *error)
{
    const char **list = OPF_NEW(&model->arena, const char *, n);
    OPF_OOM_IF(error, list == NULL);
    for (size_t i = 0; i < n; i++) {
        OPF_FAIL_IF(error, model->fuse_options.n_user_rules == 0 && !is_rule_name(names[i]), OPF_INVALID_ARGUMENT, "there is no rule %s", names[i]);
        list[i] = opf_arena_copy_string(&model->arena, names[i], strlen(names[i]));
        OPF_OOM_IF(error, list[i] == NULL);
    }
    *copy   = n == 0 ? NULL : list;
    *n_copy = n;
    return OPF_OK;
}

/* ---- stages ---- */

/* All stages of a graph as loaded, by the model's options. */
static opf_status derive(opf_model *model, opf_graph *loaded, opf_stages *stages, opf_error *error)
{
    *stages = (opf_stages){.loaded = loaded, .report = {.arena = &model->arena}};
    OPF_TRY(opf_infer_graph(loaded, error));
    stages->simplified = opf_graph_clone(loaded, &model->arena);
    OPF_OOM_IF(error, stages->simplified == NULL);
    OPF_TRY(opf_simplify(stages->simplified, &model->limits, &model->heap, error));
    stages->fused = opf_graph_clone(stages->simplified, &model->arena);
    OPF_OOM_IF(error, stages->fused == NULL);
    if (model->fuse_options.stop_after != 0)
        OPF_TRY(opf_fuse(stages->fused, &model->fuse_options, &stages->report, error));
    OPF_OOM_IF(error, opf_dims_failed(model->dims));
    return OPF_OK;
}

/* The graph as loaded in which constants are read instead of the inputs that have defaults. The inputs stay, without uses, so
   that their numbers do. *frozen stays NULL when there are none, or when a size that the caller gave makes a default impossible. */
static opf_status read_defaults(opf_model *model, opf_graph **frozen, opf_error *error)
{
    const opf_graph *graph = model->loaded.graph;
    bool             any = false, fit = true;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const opf_const *fallback = model->loaded.defaults[i];
        any = any || fallback != NULL;
        fit = fit && (fallback == NULL || opf_info_admits(&opf_graph_value(graph, graph->inputs[i])->info, fallback));
    }
    if (!any || !fit)
        return OPF_OK;
    *frozen = opf_graph_clone(graph, &model->arena);
    OPF_OOM_IF(error, *frozen == NULL);
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const opf_const *fallback = model->loaded.defaults[i];
        opf_value_id     constant = fallback == NULL ? 0 : opf_graph_add_constant(*frozen, NULL, fallback);
        OPF_OOM_IF(error, fallback != NULL && (constant == 0 || !opf_graph_replace_uses(*frozen, graph->inputs[i], constant)));
    }
    return OPF_OK;
}

/* Defaults may be of no use to the graph where every caller feeds these inputs. So that is no error here: there are no frozen
   stages then, and a run that feeds nothing is told by the others what is wrong. */
static opf_status freeze(opf_model *model, opf_error *error)
{
    opf_graph *frozen = NULL;
    opf_stages stages = {0};
    OPF_TRY(read_defaults(model, &frozen, error));
    if (frozen == NULL)
        return OPF_OK;
    const uint32_t   stated = opf_dims_stated(model->dims);
    const opf_status status = derive(model, frozen, &stages, NULL);
    opf_dims_forget(model->dims, stated); /* the open graph stays as it was */
    OPF_OOM_IF(error, status == OPF_OUT_OF_MEMORY);
    if (status == OPF_OK)
        model->frozen = stages;
    return OPF_OK;
}

/* Bytes for forms of weights kept for speed alone: as much as the weights themselves, and never little. */
static size_t extra_budget(const opf_graph *graph)
{
    enum { LEAST = 16 << 20 };
    size_t bytes = 0;
    for (opf_value_id v = 1; v < graph->n_values; v++)
        bytes += graph->values[v].constant != NULL ? opf_const_size(graph->values[v].constant) : 0;
    return bytes < LEAST ? LEAST : bytes;
}

static opf_status build(opf_model *model, const void *data, size_t bytes, bool mapped, const char *folder, const opf_model_options *options,
                        opf_error *error)
{
    opf_load_options load = {.limits        = &model->limits,
                             .heap          = &model->heap,
                             .folder        = folder,
                             .overridable   = options->overridable,
                             .n_overridable = options->n_overridable,
                             .freeze        = options->freeze,
                             .no_mmap       = options->no_mmap};
    model->consts = (opf_const_pool){.arena = &model->arena, .next_id = 1};
    model->dims   = opf_dims_create(&model->arena);
    OPF_OOM_IF(error, model->dims == NULL);
    OPF_TRY(opf_onnx_load(data, bytes, mapped, &load, &model->arena, model->dims, &model->consts, &model->loaded, error));
    OPF_TRY(apply_shapes(model, options, error));
    OPF_TRY(read_rules(model, options, error));
    OPF_TRY(copy_names(model, options->only, options->n_only, &model->fuse_options.only, &model->fuse_options.n_only, error));
    OPF_TRY(copy_names(model, options->skip, options->n_skip, &model->fuse_options.skip, &model->fuse_options.n_skip, error));
    model->fuse_options.stop_after = options->no_fuse ? 0 : -1;
    OPF_TRY(derive(model, model->loaded.graph, &model->open, error));
    OPF_TRY(freeze(model, error));
    model->exact      = options->exact;
    model->is_resized = options->n_dims != 0 || options->n_shapes != 0;
    model->weights = opf_weights_create(&model->heap, &model->kern);
    OPF_OOM_IF(error, model->weights == NULL);
    if (model->file.is_mapped)
        opf_weights_set_file(model->weights, model->file.data, model->file.size);
    opf_weights_set_budget(model->weights, extra_budget(model->frozen.fused != NULL ? model->frozen.loaded : model->loaded.graph));
    opf_kern_init(&model->kern, options->level);
    return OPF_OK;
}

static opf_status create(const opf_model_options *options, opf_model **model, opf_error *error)
{
    opf_heap heap;
    opf_heap_init(&heap, options->allocator, 0);
    opf_model *m = opf_heap_alloc(&heap, sizeof *m);
    OPF_OOM_IF(error, m == NULL);
    memset(m, 0, sizeof *m);
    opf_heap_init(&m->heap, options->allocator, 0);
    opf_arena_init(&m->arena, &m->heap);
    m->log       = options->log;
    m->log_user  = options->log_user;
    *model       = m;
    return set_limits(m, options, error);
}

static const opf_model_options no_options;

opf_status opf_model_from_memory(const void *data, size_t bytes, const char *folder, const opf_model_options *options, opf_model **model,
                                 opf_error *error)
{
    OPF_FAIL_IF(error, model == NULL || (data == NULL && bytes != 0), OPF_INVALID_ARGUMENT, "model and data must not be NULL");
    *model = NULL;
    if (options == NULL)
        options = &no_options;
    opf_status status = create(options, model, error);
    if (status == OPF_OK)
        status = build(*model, data, bytes, false, folder, options, error);
    if (*model != NULL)
        status = opf_heap_status(&(*model)->heap, status, error);
    if (status != OPF_OK)
        opf_model_destroy(model);
    return status;
}

static opf_status open_file(opf_model *model, const char *path, const opf_model_options *options, opf_error *error)
{
    OPF_TRY(opf_mapping_open(path, options->no_mmap, model->limits.model_bytes, &model->heap, &model->file, error));
    const char *slash  = strrchr(path, '/');
    char       *folder = slash == NULL   ? opf_arena_copy_string(&model->arena, ".", 1)
                         : slash == path ? opf_arena_copy_string(&model->arena, "/", 1)
                                         : opf_arena_copy_string(&model->arena, path, (size_t)(slash - path));
    OPF_OOM_IF(error, folder == NULL);
    opf_status status = build(model, model->file.data, model->file.size, model->file.is_mapped, folder, options, error);
    if (status != OPF_OK)
        opf_error_prefix(error, "%s: ", path);
    return status;
}

opf_status opf_model_open(const char *path, const opf_model_options *options, opf_model **model, opf_error *error)
{
    OPF_FAIL_IF(error, model == NULL || path == NULL, OPF_INVALID_ARGUMENT, "path and model must not be NULL");
    *model = NULL;
    if (options == NULL)
        options = &no_options;
    opf_status status = create(options, model, error);
    if (status == OPF_OK)
        status = open_file(*model, path, options, error);
    if (*model != NULL)
        status = opf_heap_status(&(*model)->heap, status, error);
    if (status != OPF_OK)
        opf_model_destroy(model);
    return status;
}

void opf_model_destroy(opf_model **model)
{
    if (model == NULL || *model == NULL)
        return;
    opf_model *m = *model;
    opf_weights_destroy(&m->weights);
    opf_loaded_fini(&m->loaded, &m->heap);
    if (m->file.data != NULL)
        opf_mapping_close(&m->file, &m->heap);
    opf_arena_fini(&m->arena);
    opf_heap heap;
    opf_heap_init(&heap, &m->heap.allocator, 0);
    opf_heap_free(&heap, m, sizeof *m);
    *model = NULL;
}

/* ---- graphs and plans ---- */

const opf_graph *opf_stages_graph(const opf_stages *stages, opf_mode mode)
{
    return mode == OPF_MODE_FUSED ? stages->fused : mode == OPF_MODE_UNFUSED ? stages->simplified : stages->loaded;
}

/* Packed weights and the heap's counter change under their own locks: the model stays immutable to its users. */
static opf_plan_options plan_options(const opf_model *model, bool reference)
{
    opf_model *m = (opf_model *)(uintptr_t)model;
    return (opf_plan_options){.kern = &m->kern, .weights = m->weights, .heap = &m->heap, .limits = &m->limits, .exact = m->exact, .reference = reference};
}

opf_status opf_model_plan(const opf_model *model, const opf_graph *graph, const opf_info *inputs, bool reference, opf_plan **plan,
                          opf_error *error)
{
    opf_plan_options options = plan_options(model, reference);
    return opf_plan_create(graph, inputs, &options, plan, error);
}

opf_status opf_model_plan_part(const opf_model *model, const opf_plan_request *request, bool reference, opf_plan **plan, opf_error *error)
{
    opf_plan_options options = plan_options(model, reference);
    return opf_plan_create_part(request, &options, plan, error);
}

static void run_team(void *pool, void (*work)(void *user, int32_t thread, int32_t threads), void *user)
{
    opf_pool_run(pool, work, user);
}

opf_status opf_pack_weights(const opf_model *model, opf_pool *pool, opf_error *error)
{
    const opf_weights_team team = {.run = run_team, .pool = pool, .threads = opf_pool_threads(pool)};
    OPF_OOM_IF(error, !opf_weights_build(model->weights, &team));
    return OPF_OK;
}

opf_status opf_model_input_infos(const opf_model *model, bool (*number)(void *user, const char *symbol, int64_t *n), void *user,
                                 opf_arena *arena, opf_info **infos, opf_error *error)
{
    const opf_graph *graph = model->loaded.graph;
    *infos                 = OPF_NEW(arena, opf_info, graph->n_inputs);
    OPF_OOM_IF(error, *infos == NULL);
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const opf_value *value = opf_graph_value(graph, graph->inputs[i]);
        opf_info        *info  = &(*infos)[i];
        *info                  = (opf_info){.type = value->info.type, .rank = value->info.rank, .n_values = -1};
        OPF_FAIL_IF(error, info->rank < 0, OPF_INVALID_INPUT, "the rank of input %s is not known: give its shape", value->name);
        info->dims = OPF_NEW(arena, opf_dim, info->rank);
        OPF_OOM_IF(error, info->dims == NULL);
        for (int32_t k = 0; k < info->rank; k++) {
            int64_t n = 0;
            if (!opf_dim_evaluate(model->dims, value->info.dims[k], number, user, &n) && !number(user, "?", &n))
                return opf_fail(error, OPF_INVALID_INPUT, "dimension %d of input %s has no size", k, value->name);
            info->dims[k] = opf_dim_number(n);
        }
    }
    return OPF_OK;
}

/* ---- reports ---- */

opf_status opf_report_create(opf_heap *heap, opf_report **report, opf_error *error)
{
    opf_heap system;
    opf_heap_init(&system, NULL, 0);
    *report = opf_heap_alloc(heap != NULL ? heap : &system, sizeof **report);
    OPF_OOM_IF(error, *report == NULL);
    memset(*report, 0, sizeof **report);
    opf_heap_init(&(*report)->own_heap, NULL, 0);
    (*report)->heap = heap != NULL ? heap : &(*report)->own_heap;
    opf_arena_init(&(*report)->arena, (*report)->heap);
    return OPF_OK;
}

void opf_report_destroy(opf_report **report)
{
    if (report == NULL || *report == NULL)
        return;
    opf_heap system;
    opf_heap_init(&system, NULL, 0);
    opf_heap *heap = (*report)->heap == &(*report)->own_heap ? &system : (*report)->heap;
    opf_arena_fini(&(*report)->arena);
    opf_heap_free(heap, *report, sizeof **report);
    *report = NULL;
}
