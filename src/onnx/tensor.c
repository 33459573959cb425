/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/tensor.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- external data ---- */

/* The file itself, links resolved, must lie in the folder. */
static opf_status resolve(const char *folder, const char *location, char path[PATH_MAX], opf_error *error)
{
    OPF_FAIL_IF(error, folder == NULL, OPF_INVALID_MODEL, "external data \"%s\", but the model has no folder", location);
    OPF_FAIL_IF(error, location[0] == '\0', OPF_INVALID_MODEL, "external data without a location");
    OPF_FAIL_IF(error, location[0] == '/', OPF_INVALID_MODEL, "external data \"%s\": the path must be relative", location);
    for (const char *at = location; at != NULL; at = strchr(at, '/')) {
        at += *at == '/';
        OPF_FAIL_IF(error, strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == '\0'), OPF_INVALID_MODEL,
                    "external data \"%s\" leaves the folder of the model", location);
    }
    char root[PATH_MAX], joined[PATH_MAX];
    OPF_FAIL_IF(error, realpath(folder[0] == '\0' ? "." : folder, root) == NULL, OPF_IO, "%s: %s", folder, strerror(errno));
    int length = snprintf(joined, sizeof joined, "%s/%s", root, location);
    OPF_FAIL_IF(error, length < 0 || (size_t)length >= sizeof joined, OPF_INVALID_MODEL, "external data: the path is too long");
    OPF_FAIL_IF(error, realpath(joined, path) == NULL, OPF_INVALID_MODEL, "external data \"%s\": %s", location, strerror(errno));
    size_t n = strlen(root);
    bool   inside = strcmp(root, "/") == 0 || (strncmp(path, root, n) == 0 && path[n] == '/');
    OPF_FAIL_IF(error, !inside, OPF_INVALID_MODEL, "external data \"%s\" leaves the folder of the model through a link", location);
    return OPF_OK;
}

static opf_status open_external(opf_tensor_reader *reader, const char *location, const opf_mapping **mapping, opf_error *error)
{
    opf_loaded *loaded = reader->loaded;
    uint32_t    index;
    if (!opf_map_get(&reader->locations, location, &index)) {
        char        path[PATH_MAX];
        opf_mapping file;
        OPF_TRY(resolve(reader->options->folder, location, path, error));
        OPF_TRY(opf_mapping_open(path, reader->options->no_mmap, reader->options->limits->model_bytes, reader->options->heap, &file, error));
        index = loaded->n_mappings;
        if (!OPF_PUSH(reader->arena, loaded->mappings, loaded->n_mappings, reader->mappings_capacity, file)) {
            opf_mapping_close(&file, reader->options->heap);
            return opf_fail(error, OPF_OUT_OF_MEMORY, "out of memory");
        }
        OPF_OOM_IF(error, !opf_map_put(&reader->locations, location, index));
    }
    *mapping = &loaded->mappings[index];
    return OPF_OK;
}

static opf_status parse_number(const char *key, const char *text, size_t *number, opf_error *error)
{
    char *end = NULL;
    errno     = 0;
    unsigned long long x = strtoull(text, &end, 10);
    OPF_FAIL_IF(error, text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || x > SIZE_MAX, OPF_INVALID_MODEL,
                "external data: %s is \"%s\", must be a number", key, text);
    *number = (size_t)x;
    return OPF_OK;
}

static opf_status find_external(opf_tensor_reader *reader, const wire_tensor *t, size_t bytes, const void **data, bool *mapped, opf_error *error)
{
    const char *location = "";
    size_t      offset = 0, length = bytes;
    for (uint32_t i = 0; i < t->external.n; i++) {
        const wire_entry *entry = &t->external.list[i];
        if (strcmp(entry->key, "location") == 0)
            location = entry->value;
        else if (strcmp(entry->key, "offset") == 0)
            OPF_TRY(parse_number("offset", entry->value, &offset, error));
        else if (strcmp(entry->key, "length") == 0)
            OPF_TRY(parse_number("length", entry->value, &length, error));
    }
    OPF_FAIL_IF(error, length != bytes, OPF_INVALID_MODEL, "external data \"%s\": length is %zu, type and dims need %zu bytes", location,
                length, bytes);
    const opf_mapping *file;
    OPF_TRY(open_external(reader, location, &file, error));
    OPF_FAIL_IF(error, offset > file->size || bytes > file->size - offset, OPF_INVALID_MODEL,
                "external data \"%s\": bytes %zu to %zu+%zu of a file of %zu", location, offset, offset, bytes, file->size);
    *data   = bytes == 0 ? "" : (const char *)file->data + offset;
    *mapped = file->is_mapped;
    return OPF_OK;
}

/* ---- payloads ---- */

/* In int32_data elements of 4 and 2 bits come packed, a byte in each int32; those of 6 bits come one by one. */
static bool is_packed(opf_type type)
{
    return opf_type_bits(type) < 8 && !opf_types_have(OPF_TYPES_FLOAT6, type);
}

/* The type whose bits an element of int32_data or uint64_data is cut to. */
static opf_type storage_type(opf_type type)
{
    if (opf_types_have(OPF_TYPES_INT | OPF_TYPES_BOOL, type))
        return type;
    return opf_type_size(type) == 2 ? OPF_UINT16 : OPF_UINT8;
}

static opf_status narrow(opf_arena *arena, opf_type type, const wire_ints *ints, size_t bytes, const void **data, opf_error *error)
{
    char *copy = opf_arena_alloc(arena, bytes);
    OPF_OOM_IF(error, copy == NULL);
    opf_type storage = storage_type(type);
    const bool is_whole = opf_type_bits(type) >= 8 || is_packed(type);
    for (uint32_t i = 0; i < ints->n; i++)
        if (is_whole)
            opf_store_i64(storage, copy, i, ints->list[i]);
        else
            opf_store_bits(opf_type_bits(type), copy, i, (unsigned)((uint64_t)ints->list[i] & 0xff));
    *data = copy;
    return OPF_OK;
}

static opf_status check_length(const char *field, size_t n, size_t wanted, opf_error *error)
{
    OPF_FAIL_IF(error, n != wanted, OPF_INVALID_MODEL, "%s holds %zu elements, type and dims need %zu", field, n, wanted);
    return OPF_OK;
}

/* The typed fields. */
static opf_status find_typed(opf_arena *arena, const wire_tensor *t, opf_type type, size_t count, size_t bytes, const void **data, bool *in_file,
                             opf_error *error)
{
    bool is_complex = type == OPF_COMPLEX64 || type == OPF_COMPLEX128;
    size_t numbers  = is_complex ? 2 * count : count;
    switch (type) {
    case OPF_FLOAT:
    case OPF_COMPLEX64:
        *in_file = t->n_packed_floats != 0;
        *data    = *in_file ? t->packed_floats : t->floats.list;
        return check_length("float_data", *in_file ? t->n_packed_floats : t->floats.n, numbers, error);
    case OPF_DOUBLE:
    case OPF_COMPLEX128:
        *in_file = t->n_packed_doubles != 0;
        *data    = *in_file ? t->packed_doubles : t->doubles.list;
        return check_length("double_data", *in_file ? t->n_packed_doubles : t->doubles.n, numbers, error);
    case OPF_INT64:
        *data = t->int64s.list;
        return check_length("int64_data", t->int64s.n, count, error);
    case OPF_UINT64:
        *data = t->uint64s.list;
        return check_length("uint64_data", t->uint64s.n, count, error);
    case OPF_UINT32:
        OPF_TRY(check_length("uint64_data", t->uint64s.n, count, error));
        return narrow(arena, type, &t->uint64s, bytes, data, error);
    default:
        OPF_TRY(check_length("int32_data", t->int32s.n, is_packed(type) ? bytes : count, error));
        return narrow(arena, type, &t->int32s, bytes, data, error);
    }
}

static opf_status find_data(opf_tensor_reader *reader, const wire_tensor *t, opf_type type, size_t count, size_t bytes, const void **data,
                            bool *mapped, opf_error *error)
{
    *mapped = false;
    if (t->location == 1)
        return find_external(reader, t, bytes, data, mapped, error);
    OPF_FAIL_IF(error, t->location != 0, OPF_UNSUPPORTED, "data_location %d", (int)t->location);
    bool typed = t->floats.n + t->doubles.n + t->int32s.n + t->int64s.n + t->uint64s.n != 0 || t->n_packed_floats != 0 ||
                 t->n_packed_doubles != 0;
    if (t->has_raw && (t->raw_bytes != 0 || !typed)) {
        OPF_FAIL_IF(error, typed, OPF_INVALID_MODEL, "both raw_data and a typed field hold elements");
        OPF_FAIL_IF(error, t->raw_bytes != bytes, OPF_INVALID_MODEL, "raw_data holds %zu bytes, type and dims need %zu", t->raw_bytes, bytes);
        *data   = t->raw;
        *mapped = reader->mapped;
        return OPF_OK;
    }
    bool in_file = false;
    OPF_TRY(find_typed(reader->arena, t, type, count, bytes, data, &in_file, error));
    *mapped = in_file && reader->mapped;
    return OPF_OK;
}

/* ---- entries ---- */

static opf_status check_dims(const wire_ints *dims, opf_type type, const opf_limits *limits, size_t *count, size_t *bytes, opf_error *error)
{
    OPF_FAIL_IF(error, dims->n > limits->rank || dims->n > OPF_MAX_RANK, OPF_LIMIT, "rank %u, at most %lld is allowed (limit rank)",
                dims->n, (long long)limits->rank);
    size_t product = 1; /* of the dims that are not 0: those must not be absurd either */
    bool   empty   = false;
    for (uint32_t i = 0; i < dims->n; i++) {
        int64_t d = dims->list[i];
        OPF_FAIL_IF(error, d < 0, OPF_INVALID_MODEL, "dimension %u is %lld", i, (long long)d);
        empty = empty || d == 0;
        OPF_FAIL_IF(error, d != 0 && !opf_mul_size(product, (size_t)d, &product), OPF_LIMIT,
                    "the dimensions have more elements than an address can count (limit tensor-bytes)");
    }
    OPF_FAIL_IF(error, !opf_type_bytes(type, product, bytes) || *bytes > (uint64_t)limits->tensor_bytes, OPF_LIMIT,
                "%zu elements of %s are more than %lld bytes (limit tensor-bytes)", product, opf_type_name(type),
                (long long)limits->tensor_bytes);
    *count = empty ? 0 : product;
    *bytes = empty ? 0 : *bytes;
    return OPF_OK;
}

static opf_status dense_constant(opf_tensor_reader *reader, const wire_tensor *t, const opf_const **constant, opf_error *error)
{
    OPF_FAIL_IF(error, t->type == OPF_STRING || t->has_strings, OPF_UNSUPPORTED, "string tensors are not supported");
    OPF_FAIL_IF(error, t->type == 0, OPF_INVALID_MODEL, "the tensor has no type");
    OPF_FAIL_IF(error, t->type < 0 || t->type >= OPF_TYPE_COUNT, OPF_UNSUPPORTED, "element type number %d is not known", (int)t->type);
    OPF_FAIL_IF(error, t->has_segment, OPF_UNSUPPORTED, "tensors in segments are not supported");
    opf_type type = (opf_type)t->type;
    size_t   count = 0, bytes = 0;
    OPF_TRY(check_dims(&t->dims, type, reader->options->limits, &count, &bytes, error));
    const void *data   = NULL;
    bool        mapped = false;
    OPF_TRY(find_data(reader, t, type, count, bytes, &data, &mapped, error));
    int32_t rank = (int32_t)t->dims.n;
    *constant    = mapped ? opf_const_mapped(reader->consts, type, rank, t->dims.list, data, bytes)
                          : opf_const_bytes(reader->consts, type, rank, t->dims.list, data, bytes);
    OPF_OOM_IF(error, *constant == NULL);
    return OPF_OK;
}

/* Row-major place of the value number i, checked. */
static opf_status sparse_place(const wire_sparse *s, const opf_const *indices, size_t count, size_t i, size_t *place, opf_error *error)
{
    uint32_t rank = s->dims.n;
    if (indices->rank == 1) {
        int64_t index = opf_const_i64_at(indices, i);
        OPF_FAIL_IF(error, index < 0 || (uint64_t)index >= count, OPF_INVALID_MODEL, "sparse index %lld is outside [0, %zu)", (long long)index, count);
        *place = (size_t)index;
        return OPF_OK;
    }
    *place = 0;
    for (uint32_t k = 0; k < rank; k++) {
        int64_t index = opf_const_i64_at(indices, i * rank + k);
        OPF_FAIL_IF(error, index < 0 || index >= s->dims.list[k], OPF_INVALID_MODEL, "sparse index %lld is outside [0, %lld)", (long long)index,
                    (long long)s->dims.list[k]);
        *place = *place * (size_t)s->dims.list[k] + (size_t)index;
    }
    return OPF_OK;
}

/* A sparse tensor is made dense when it is read: kernels know no other. */
static opf_status sparse_constant(opf_tensor_reader *reader, const wire_sparse *s, const opf_const **constant, opf_error *error)
{
    const opf_const *values, *indices;
    size_t           count, bytes;
    OPF_FAIL_IF(error, s->values == NULL || s->indices == NULL, OPF_INVALID_MODEL, "a sparse tensor without values or indices");
    OPF_TRY(dense_constant(reader, s->values, &values, error));
    OPF_TRY(dense_constant(reader, s->indices, &indices, error));
    OPF_TRY(check_dims(&s->dims, values->type, reader->options->limits, &count, &bytes, error));
    bool fits = values->rank == 1 && indices->type == OPF_INT64 &&
                ((indices->rank == 1 && indices->count == values->count) ||
                 (indices->rank == 2 && indices->dims[0] == values->dims[0] && indices->dims[1] == (int64_t)s->dims.n));
    size_t size = opf_type_size(values->type);
    OPF_FAIL_IF(error, !fits || size == 0, OPF_INVALID_MODEL, "values and indices of a sparse tensor do not fit its shape");
    OPF_FAIL_IF(error, bytes > values->bytes && bytes - values->bytes > (uint64_t)reader->options->limits->folding, OPF_LIMIT,
                "made dense, the sparse tensor grows by more than %lld bytes (limit folding)", (long long)reader->options->limits->folding);
    char *data = opf_arena_alloc(reader->arena, bytes);
    OPF_OOM_IF(error, data == NULL);
    for (size_t i = 0; i < values->count; i++) {
        size_t place;
        OPF_TRY(sparse_place(s, indices, count, i, &place, error));
        memcpy(data + place * size, (const char *)values->data + i * size, size);
    }
    *constant = opf_const_bytes(reader->consts, values->type, (int32_t)s->dims.n, s->dims.list, data, bytes);
    OPF_OOM_IF(error, *constant == NULL);
    return OPF_OK;
}

opf_status opf_tensor_constant(opf_tensor_reader *reader, const wire_tensor *t, const opf_const **constant, opf_error *error)
{
    return t->sparse != NULL ? sparse_constant(reader, t->sparse, constant, error) : dense_constant(reader, t, constant, error);
}

opf_status opf_onnx_parse_tensor(const void *bytes, size_t size, opf_arena *arena, opf_const_pool *consts, const opf_const **tensor,
                                 const char **name, opf_error *error)
{
    wire_tensor t;
    opf_limits  limits;
    opf_limits_init(&limits);
    OPF_TRY(opf_wire_tensor(bytes, size, arena, &t, error));
    if (name != NULL)
        *name = t.name;
    opf_load_options  options = {.limits = &limits, .heap = arena->heap};
    opf_loaded        loaded  = {0};
    opf_tensor_reader reader  = {.arena = arena, .consts = consts, .options = &options, .loaded = &loaded};
    opf_map_init(&reader.locations, arena);
    return opf_tensor_constant(&reader, &t, tensor, error);
}
