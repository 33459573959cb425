/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/save/file.h"

#include "onnx/save/weights.h"

#include <string.h>

/* Numbers of fields. */
enum { MODEL_IR_VERSION = 1, MODEL_GRAPH = 7, MODEL_OPSET, OPSET_DOMAIN = 1, OPSET_VERSION, GRAPH_INITIALIZER = 5 };
enum { TENSOR_RAW = 9, TENSOR_EXTERNAL = 13, TENSOR_LOCATION, ENTRY_KEY = 1, ENTRY_VALUE };

enum {
    EXTERNAL_LEAST = 1024, /* bytes: what is smaller stays in the model */
    PAGE = 4096,           /* where large weights begin, so that they can be mapped */
};

/* A weight: what stands before its elements, and where they go. */
typedef struct item {
    const opf_const *constant;
    opf_text head;
    size_t bytes;
    bool is_external;
    uint64_t offset;
} item;

typedef struct layout {
    opf_save_file *file;
    item *items;
    uint32_t n;
    opf_text model; /* ModelProto up to its graph */
    size_t total;   /* bytes of the model file */
    uint64_t external_bytes;
    opf_error *error;
} layout;

/* ---- sizes ---- */

static void write_entry(opf_arena *arena, opf_text *out, const char *key, const char *value)
{
    opf_text entry;
    opf_text_init(&entry, arena);
    opf_pb_string(&entry, ENTRY_KEY, key);
    opf_pb_string(&entry, ENTRY_VALUE, value != NULL ? value : "");
    opf_pb_message(out, TENSOR_EXTERNAL, &entry);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* The head ends where the elements begin, which count into its lengths. */
static opf_status write_item(layout *l, item *it, const char *name)
{
    opf_arena *arena = l->file->arena;
    opf_text tensor;
    opf_text_init(&tensor, arena);
    opf_text_init(&it->head, arena);
    opf_save_write_tensor_head(&tensor, it->constant, name);
    if (it->is_external) {
        write_entry(arena, &tensor, "location", base_name(l->file->external));
        write_entry(arena, &tensor, "offset", opf_arena_printf(arena, "%llu", (unsigned long long)it->offset));
        write_entry(arena, &tensor, "length", opf_arena_printf(arena, "%zu", it->bytes));
        opf_pb_int(&tensor, TENSOR_LOCATION, 1);
    } else {
        opf_pb_head(&tensor, TENSOR_RAW, it->bytes);
    }
    opf_pb_head(&it->head, GRAPH_INITIALIZER, tensor.length + (it->is_external ? 0 : it->bytes));
    opf_text_add_bytes(&it->head, tensor.data, tensor.length);
    OPF_OOM_IF(l->error, tensor.failed || it->head.failed);
    return OPF_OK;
}

static uint64_t place(layout *l, size_t bytes)
{
    const uint64_t align = bytes >= PAGE ? PAGE : OPF_ALIGNMENT;
    const uint64_t offset = (l->external_bytes + align - 1) / align * align;
    l->external_bytes = offset + bytes;
    return offset;
}

static opf_status write_items(layout *l, bool outside)
{
    const opf_save_message *m = l->file->message;
    l->external_bytes = 0;
    l->file->weight_bytes = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        item *it = &l->items[i];
        it->constant = m->weights[i].constant;
        it->bytes = opf_const_size(it->constant);
        it->is_external = outside && it->bytes >= EXTERNAL_LEAST;
        it->offset = it->is_external ? place(l, it->bytes) : 0;
        l->file->weight_bytes += it->bytes;
        OPF_TRY(write_item(l, it, m->weights[i].name));
    }
    return OPF_OK;
}

static void write_opset(opf_arena *arena, const opf_opset *opset, opf_text *out)
{
    opf_text text;
    opf_text_init(&text, arena);
    opf_pb_string(&text, OPSET_DOMAIN, opset->domain);
    opf_pb_int(&text, OPSET_VERSION, opset->version);
    opf_pb_message(out, MODEL_OPSET, &text);
}

static opf_status write_model(layout *l)
{
    const opf_save_message *m = l->file->message;
    opf_text_init(&l->model, l->file->arena);
    opf_pb_int(&l->model, MODEL_IR_VERSION, l->file->ir_version);
    opf_text_add_bytes(&l->model, m->keep->model.data, m->keep->model.length);
    for (uint32_t i = 0; i < l->file->n_opsets; i++)
        write_opset(l->file->arena, &l->file->opsets[i], &l->model);
    size_t graph = m->graph.length;
    for (uint32_t i = 0; i < l->n; i++)
        graph += l->items[i].head.length + (l->items[i].is_external ? 0 : l->items[i].bytes);
    opf_pb_head(&l->model, MODEL_GRAPH, graph);
    OPF_OOM_IF(l->error, l->model.failed);
    l->total = l->model.length + graph;
    return OPF_OK;
}

static opf_status lay_out(layout *l)
{
    opf_save_file *file = l->file;
    l->n = file->message->n_weights;
    l->items = OPF_NEW(file->arena, item, l->n);
    file->external = opf_arena_printf(file->arena, "%s.data", file->path);
    OPF_OOM_IF(l->error, l->items == NULL || file->external == NULL);
    OPF_TRY(write_items(l, false));
    OPF_TRY(write_model(l));
    if (l->total > file->largest) {
        OPF_TRY(write_items(l, true));
        OPF_TRY(write_model(l));
    } else {
        file->external = NULL;
    }
    OPF_FAIL_IF(l->error, l->total > INT32_MAX, OPF_LIMIT, "%s: would have %zu bytes, more than a protobuf message may",
                file->path, l->total);
    file->file_bytes = l->total;
    return OPF_OK;
}

/* ---- bytes ---- */

static opf_status write_external(const layout *l, opf_output *output)
{
    static const char zeros[PAGE];
    uint64_t at = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        const item *it = &l->items[i];
        if (!it->is_external)
            continue;
        OPF_TRY(opf_output_write(output, zeros, (size_t)(it->offset - at), l->error));
        OPF_TRY(opf_save_write_constant(output, it->constant, l->file->heap, l->error));
        at = it->offset + it->bytes;
    }
    return OPF_OK;
}

static opf_status write_message(const layout *l, opf_output *output)
{
    const opf_save_message *m = l->file->message;
    OPF_TRY(opf_output_write(output, l->model.data, l->model.length, l->error));
    OPF_TRY(opf_output_write(output, m->graph.data, m->graph.length, l->error));
    for (uint32_t i = 0; i < l->n; i++) {
        const item *it = &l->items[i];
        OPF_TRY(opf_output_write(output, it->head.data, it->head.length, l->error));
        if (!it->is_external)
            OPF_TRY(opf_save_write_constant(output, it->constant, l->file->heap, l->error));
    }
    return OPF_OK;
}

opf_status opf_save_write_file(opf_save_file *file, opf_error *error)
{
    layout l = {.file = file, .error = error};
    opf_output model, external = {.file = -1};
    OPF_TRY(lay_out(&l));
    OPF_TRY(opf_output_open(&model, file->path, error));
    opf_status status = write_message(&l, &model);
    if (status == OPF_OK && file->external != NULL)
        status = opf_output_open(&external, file->external, error);
    if (status == OPF_OK && file->external != NULL)
        status = write_external(&l, &external);
    /* The model comes last: it is of no use without its weights. */
    if (status == OPF_OK && file->external != NULL)
        status = opf_output_commit(&external, error);
    if (status == OPF_OK)
        return opf_output_commit(&model, error);
    opf_output_discard(&external);
    opf_output_discard(&model);
    return status;
}
