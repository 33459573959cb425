/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in files of their own: .npy, and ONNX's TensorProto (.pb). */
#include "base/status.h"
#include "base/types.h"
#include "onnx/load.h"
#include "onnx/npy.h"
#include "onnx/output.h"

#include <pb_encode.h>
#include <stdio.h>
#include <string.h>

/* ---- reading ---- */

static opf_status set_name(const char *from, char *name, size_t room, opf_error *error)
{
    if (name == NULL)
        return OPF_OK;
    size_t n = strlen(from);
    OPF_FAIL_IF(error, n >= room, OPF_BUFFER_TOO_SMALL, "the tensor's name has %zu bytes, room is for %zu", n, room);
    memcpy(name, from, n + 1);
    return OPF_OK;
}

/* The constant as a tensor in memory of its own. */
static opf_status copy_out(opf_heap *heap, const opf_const *c, opf_tensor *tensor, opf_error *error)
{
    *tensor = (opf_tensor){.type = c->type, .rank = c->rank, .bytes = opf_const_size(c)};
    if (c->rank != 0)
        memcpy(tensor->dims, c->dims, sizeof *c->dims * (size_t)c->rank);
    tensor->data = opf_heap_alloc(heap, tensor->bytes);
    OPF_OOM_IF(error, tensor->data == NULL);
    opf_const_write(c, tensor->data);
    return OPF_OK;
}

static void swap_bytes(opf_tensor *tensor)
{
    size_t size = opf_type_size(tensor->type);
    if (tensor->type == OPF_COMPLEX64 || tensor->type == OPF_COMPLEX128)
        size /= 2;
    char *at = tensor->data;
    for (size_t i = 0; i + size <= tensor->bytes; i += size)
        for (size_t k = 0; k < size / 2; k++) {
            char byte                = at[i + k];
            at[i + k]                = at[i + size - 1 - k];
            at[i + size - 1 - k]     = byte;
        }
}

static opf_status parse_npy(const void *data, size_t bytes, opf_arena *arena, opf_const_pool *pool, opf_tensor *tensor, opf_error *error)
{
    opf_npy npy;
    OPF_TRY(opf_npy_read(data, bytes, &npy, error));
    size_t  count = 1, need = 0;
    int64_t reversed[OPF_MAX_RANK];
    int32_t perm[OPF_MAX_RANK];
    bool    empty = false, absurd = false;
    for (int32_t i = 0; i < npy.rank; i++) {
        empty                      = empty || npy.dims[i] == 0;
        absurd                     = absurd || (npy.dims[i] != 0 && !opf_mul_size(count, (size_t)npy.dims[i], &count));
        perm[i]                    = npy.rank - 1 - i;
        reversed[npy.rank - 1 - i] = npy.dims[i];
    }
    OPF_FAIL_IF(error, absurd || !opf_type_bytes(npy.type, count, &need), OPF_LIMIT, "the .npy file's shape is too large");
    need = empty ? 0 : need;
    OPF_FAIL_IF(error, need > bytes - npy.data, OPF_INVALID_INPUT, "the .npy file is cut off: %zu bytes of elements, its shape needs %zu",
                bytes - npy.data, need);
    const opf_const *c = opf_const_bytes(pool, npy.type, npy.rank, npy.is_fortran ? reversed : npy.dims, (const char *)data + npy.data, need);
    if (c != NULL && npy.is_fortran)
        c = opf_const_transpose(pool, c, perm);
    OPF_OOM_IF(error, c == NULL);
    OPF_TRY(copy_out(arena->heap, c, tensor, error));
    if (npy.is_big_endian)
        swap_bytes(tensor);
    return OPF_OK;
}

opf_status opf_tensor_parse(const void *data, size_t bytes, bool is_npy, opf_tensor *tensor, char *name, size_t name_bytes, opf_error *error)
{
    OPF_FAIL_IF(error, tensor == NULL || (data == NULL && bytes != 0), OPF_INVALID_ARGUMENT, "no data, or no tensor to fill");
    opf_heap  heap;
    opf_arena arena;
    opf_heap_init(&heap, NULL, 0);
    opf_arena_init(&arena, &heap);
    opf_const_pool   pool     = {.arena = &arena, .next_id = 1};
    const opf_const *constant = NULL;
    const char      *own_name = "";
    opf_status       status;
    *tensor = (opf_tensor){0};
    if (is_npy) {
        status = parse_npy(data, bytes, &arena, &pool, tensor, error);
    } else {
        status = opf_onnx_parse_tensor(data, bytes, &arena, &pool, &constant, &own_name, error);
        if (status == OPF_OK)
            status = copy_out(&heap, constant, tensor, error);
    }
    if (status == OPF_OK)
        status = set_name(own_name, name, name_bytes, error);
    if (status != OPF_OK)
        opf_tensor_free(tensor);
    opf_arena_fini(&arena);
    if (status == OPF_INVALID_MODEL) { /* what is wrong with a lone tensor is no model's fault */
        status = OPF_INVALID_INPUT;
        if (error != NULL)
            error->status = status;
    }
    return status;
}

opf_status opf_tensor_load(const char *path, opf_tensor *tensor, char *name, size_t name_bytes, opf_error *error)
{
    OPF_FAIL_IF(error, path == NULL || tensor == NULL, OPF_INVALID_ARGUMENT, "no path, or no tensor to fill");
    opf_heap    heap;
    opf_limits  limits;
    opf_mapping file;
    opf_heap_init(&heap, NULL, 0);
    opf_limits_init(&limits);
    *tensor = (opf_tensor){0};
    OPF_TRY(opf_mapping_open(path, false, limits.tensor_bytes, &heap, &file, error));
    bool       is_npy = file.size > 5 && memcmp(file.data, "\x93NUMPY", 6) == 0;
    opf_status status = opf_tensor_parse(file.data, file.size, is_npy, tensor, name, name_bytes, error);
    if (status != OPF_OK)
        opf_error_prefix(error, "%s: ", path);
    opf_mapping_close(&file, &heap);
    return status;
}

void opf_tensor_free(opf_tensor *tensor)
{
    if (tensor == NULL)
        return;
    opf_heap heap;
    opf_heap_init(&heap, NULL, 0);
    opf_heap_free(&heap, tensor->data, tensor->bytes);
    *tensor = (opf_tensor){0};
}

/* ---- writing ---- */

static opf_status check_tensor(const opf_tensor *tensor, size_t *bytes, opf_error *error)
{
    size_t count = 1;
    bool   empty = false, absurd = false;
    OPF_FAIL_IF(error, tensor->rank < 0 || tensor->rank > OPF_MAX_RANK, OPF_INVALID_ARGUMENT, "rank %d", (int)tensor->rank);
    for (int32_t i = 0; i < tensor->rank; i++) {
        absurd = absurd || tensor->dims[i] < 0;
        empty  = empty || tensor->dims[i] == 0;
        absurd = absurd || (tensor->dims[i] > 0 && !opf_mul_size(count, (size_t)tensor->dims[i], &count));
    }
    OPF_FAIL_IF(error, absurd || !opf_type_bytes(tensor->type, empty ? 0 : count, bytes), OPF_INVALID_ARGUMENT,
                "the tensor's type (%s) or dimensions cannot be written", opf_type_name(tensor->type));
    OPF_FAIL_IF(error, *bytes > tensor->bytes || (*bytes != 0 && tensor->data == NULL), OPF_INVALID_ARGUMENT,
                "the tensor's buffer holds %zu bytes, its dimensions need %zu", tensor->bytes, *bytes);
    return OPF_OK;
}

static bool encode_number(pb_ostream_t *stream, uint32_t field, uint64_t x)
{
    return pb_encode_tag(stream, PB_WT_VARINT, field) && pb_encode_varint(stream, x);
}

/* Everything of a TensorProto before the elements, which are its last field. */
static bool encode_header(const opf_tensor *tensor, const char *name, size_t bytes, pb_ostream_t *stream)
{
    bool ok = true;
    for (int32_t i = 0; i < tensor->rank; i++)
        ok = ok && encode_number(stream, 1, (uint64_t)tensor->dims[i]);
    ok = ok && encode_number(stream, 2, (uint64_t)tensor->type);
    if (name[0] != '\0')
        ok = ok && pb_encode_tag(stream, PB_WT_STRING, 8) && pb_encode_string(stream, (const pb_byte_t *)name, strlen(name));
    return ok && pb_encode_tag(stream, PB_WT_STRING, 9) && pb_encode_varint(stream, bytes);
}

static opf_status make_header(const opf_tensor *tensor, const char *name, size_t bytes, bool is_npy, char *header, size_t room, size_t *length,
                              opf_error *error)
{
    if (is_npy)
        return opf_npy_write(tensor, header, length, error);
    pb_ostream_t stream = pb_ostream_from_buffer((pb_byte_t *)header, room);
    OPF_FAIL_IF(error, bytes > INT32_MAX - room, OPF_UNSUPPORTED, "a .pb file cannot hold %zu bytes", bytes);
    OPF_FAIL_IF(error, !encode_header(tensor, name, bytes, &stream), OPF_INTERNAL, "the header of the .pb file did not fit");
    *length = stream.bytes_written;
    return OPF_OK;
}

static opf_status write_file(const char *path, const char *header, size_t length, const opf_tensor *tensor, size_t bytes, opf_error *error)
{
    opf_output output;
    OPF_TRY(opf_output_open(&output, path, error));
    opf_status status = opf_output_write(&output, header, length, error);
    if (status == OPF_OK)
        status = opf_output_write(&output, tensor->data, bytes, error);
    if (status == OPF_OK)
        return opf_output_commit(&output, error);
    opf_output_discard(&output);
    return status;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

opf_status opf_tensor_save(const char *path, const opf_tensor *tensor, const char *name, opf_error *error)
{
    OPF_FAIL_IF(error, path == NULL || tensor == NULL, OPF_INVALID_ARGUMENT, "no path, or no tensor");
    bool is_npy = ends_with(path, ".npy");
    OPF_FAIL_IF(error, !is_npy && !ends_with(path, ".pb"), OPF_INVALID_ARGUMENT, "%s: the name must end in .npy or .pb", path);
    if (name == NULL)
        name = "";
    size_t bytes, length = 0, room = OPF_NPY_HEADER + strlen(name);
    OPF_TRY(check_tensor(tensor, &bytes, error));
    opf_heap heap;
    opf_heap_init(&heap, NULL, 0);
    char *header = opf_heap_alloc(&heap, room);
    OPF_OOM_IF(error, header == NULL);
    opf_status status = make_header(tensor, name, bytes, is_npy, header, room, &length, error);
    if (status == OPF_OK)
        status = write_file(path, header, length, tensor, bytes, error);
    opf_heap_free(&heap, header, room);
    return status;
}
