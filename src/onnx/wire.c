/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf through nanopb. Every field goes to a callback that reads from a flat buffer, so a stream's state is the
 * address of the bytes: that is how payloads are borrowed without a copy. The wire form of every repeated number is
 * either one packed run or one element at a time; the callbacks take both.
 */
#include "onnx/wire.h"

#include "base/status.h"
#include "onnx/onnx.pb.h"

#include <pb_decode.h>
#include <string.h>

/* The state of one decode. */
typedef struct reader {
    opf_arena        *arena;
    const opf_limits *limits; /* NULL for a lone tensor */
    const char       *begin, *end;
    int64_t           nodes;
    int64_t           depth; /* of nested graphs */
    opf_status        status; /* why a callback said no; OPF_OK: the bytes are not protobuf */
    opf_error        *error;
} reader;

/* What a callback gets: the reader, and where its result goes. */
typedef struct place {
    reader *r;
    void   *to;
} place;

typedef bool (*field_callback)(pb_istream_t *stream, const pb_field_t *field, void **arg);

#define BIND(callback, target) {{.decode = (callback)}, &(place){r, (target)}}
#define READER(arg)            (((place *)*(arg))->r)
#define TARGET(arg)            (((place *)*(arg))->to)

static bool out_of_memory(reader *r)
{
    r->status = opf_fail(r->error, OPF_OUT_OF_MEMORY, "out of memory");
    return false;
}

#define WIRE_PUSH(r, to, ...)                                                                                          \
    (OPF_PUSH((r)->arena, (to)->list, (to)->n, (to)->capacity, (__VA_ARGS__)) ? true : out_of_memory(r))

/* ---- bytes and strings ---- */

/* The rest of a field of length-delimited wire type, in the file; NULL for another wire type. */
static const char *take_bytes(const reader *r, pb_istream_t *stream, size_t *size)
{
    const char *at = stream->state;
    *size          = stream->bytes_left;
    if (at < r->begin || at > r->end || *size > (size_t)(r->end - at) || !pb_read(stream, NULL, *size))
        return NULL;
    return at;
}

static bool on_text(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    reader     *r = READER(arg);
    wire_text  *to = TARGET(arg);
    const char *at = take_bytes(r, stream, &to->size);
    if (at == NULL)
        return false;
    to->data = opf_arena_copy_string(r->arena, at, to->size);
    return to->data != NULL || out_of_memory(r);
}

static bool on_string(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    reader   *r    = READER(arg);
    wire_text text = {0};
    if (!on_text(stream, field, &(void *){&(place){r, &text}}))
        return false;
    if (strlen(text.data) != text.size) {
        r->status = opf_fail(r->error, OPF_INVALID_MODEL, "a name holds a zero byte: \"%s\"", text.data);
        return false;
    }
    *(const char **)TARGET(arg) = text.data;
    return true;
}

static bool on_domain(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    const char **to = TARGET(arg);
    if (!on_string(stream, field, arg))
        return false;
    if (strcmp(*to, "ai.onnx") == 0)
        *to = "";
    return true;
}

static bool on_strings(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    reader     *r    = READER(arg);
    const char *text = "";
    return on_string(stream, field, &(void *){&(place){r, &text}}) && WIRE_PUSH(r, (wire_strings *)TARGET(arg), text);
}

static bool on_texts(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    reader   *r    = READER(arg);
    wire_attr *to  = TARGET(arg);
    wire_text text = {0};
    return on_text(stream, field, &(void *){&(place){r, &text}}) && WIRE_PUSH(r, &to->strings, text);
}

/* Only that the field is there. */
static bool on_presence(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    *(bool *)TARGET(arg) = true;
    return pb_read(stream, NULL, stream->bytes_left);
}

/* ---- numbers ---- */

static bool on_ints(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    reader     *r  = READER(arg);
    wire_ints  *to = TARGET(arg);
    const char *at = stream->state;
    /* Room for a packed run at once: each last byte of a number has its top bit clear. */
    if (to->n == 0 && stream->bytes_left > 64 && at >= r->begin && at <= r->end) {
        size_t n = 0;
        for (size_t i = 0; i < stream->bytes_left; i++)
            n += (unsigned char)at[i] < 128;
        if (n > UINT32_MAX)
            return out_of_memory(r);
        to->list     = OPF_NEW(r->arena, int64_t, n);
        to->capacity = to->list == NULL ? 0 : (uint32_t)n;
    }
    while (stream->bytes_left > 0) {
        uint64_t x;
        if (!pb_decode_varint(stream, &x))
            return false;
        if (!WIRE_PUSH(r, to, (int64_t)x))
            return false;
    }
    return true;
}

static bool on_float_list(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    reader      *r  = READER(arg);
    wire_floats *to = TARGET(arg);
    while (stream->bytes_left > 0) {
        float x;
        if (!pb_decode_fixed32(stream, &x) || !WIRE_PUSH(r, to, x))
            return false;
    }
    return true;
}

static bool on_tensor_floats(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    wire_tensor *to = TARGET(arg);
    reader      *r  = READER(arg);
    if (stream->bytes_left > sizeof(float) && stream->bytes_left % sizeof(float) == 0 && to->floats.n == 0 && to->n_packed_floats == 0) {
        size_t bytes;
        to->packed_floats   = take_bytes(r, stream, &bytes);
        to->n_packed_floats = bytes / sizeof(float);
        return to->packed_floats != NULL;
    }
    /* Several runs: legal and rare. */
    const char *at = to->packed_floats;
    for (size_t i = 0; i < to->n_packed_floats; i++) {
        float x;
        memcpy(&x, at + i * sizeof x, sizeof x);
        if (!WIRE_PUSH(r, &to->floats, x))
            return false;
    }
    to->n_packed_floats = 0;
    return on_float_list(stream, field, &(void *){&(place){r, &to->floats}});
}

static bool on_tensor_doubles(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    wire_tensor *to = TARGET(arg);
    reader      *r  = READER(arg);
    if (stream->bytes_left > sizeof(double) && stream->bytes_left % sizeof(double) == 0 && to->doubles.n == 0 &&
        to->n_packed_doubles == 0) {
        size_t bytes;
        to->packed_doubles   = take_bytes(r, stream, &bytes);
        to->n_packed_doubles = bytes / sizeof(double);
        return to->packed_doubles != NULL;
    }
    const char *at = to->packed_doubles;
    double      x;
    for (size_t i = 0; i < to->n_packed_doubles; i++) {
        memcpy(&x, at + i * sizeof x, sizeof x);
        if (!WIRE_PUSH(r, &to->doubles, x))
            return false;
    }
    to->n_packed_doubles = 0;
    while (stream->bytes_left > 0)
        if (!pb_decode_fixed64(stream, &x) || !WIRE_PUSH(r, &to->doubles, x))
            return false;
    return true;
}

/* ---- tensors and types ---- */

static bool on_raw(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    wire_tensor *to = TARGET(arg);
    to->raw         = take_bytes(READER(arg), stream, &to->raw_bytes);
    to->has_raw     = true;
    return to->raw != NULL;
}

static bool on_external(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    reader                     *r     = READER(arg);
    wire_tensor                *to    = TARGET(arg);
    wire_entry                  entry = {"", ""};
    onnx_StringStringEntryProto m     = {.key = BIND(on_string, &entry.key), .value = BIND(on_string, &entry.value)};
    return pb_decode(stream, onnx_StringStringEntryProto_fields, &m) && WIRE_PUSH(r, &to->external, entry);
}

static bool read_tensor(reader *r, pb_istream_t *stream, wire_tensor *t)
{
    t->name            = "";
    onnx_TensorProto m = {
        .dims          = BIND(on_ints, &t->dims),
        .segment       = BIND(on_presence, &t->has_segment),
        .float_data    = BIND(on_tensor_floats, t),
        .int32_data    = BIND(on_ints, &t->int32s),
        .string_data   = BIND(on_presence, &t->has_strings),
        .int64_data    = BIND(on_ints, &t->int64s),
        .name          = BIND(on_string, &t->name),
        .raw_data      = BIND(on_raw, t),
        .double_data   = BIND(on_tensor_doubles, t),
        .uint64_data   = BIND(on_ints, &t->uint64s),
        .external_data = BIND(on_external, t),
    };
    if (!pb_decode(stream, onnx_TensorProto_fields, &m))
        return false;
    t->type     = m.data_type;
    t->location = m.data_location;
    return true;
}

static bool on_tensor(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    reader      *r = READER(arg);
    wire_tensor *t = OPF_NEW(r->arena, wire_tensor, 1);
    if (t == NULL)
        return out_of_memory(r);
    *(const wire_tensor **)TARGET(arg) = t;
    return read_tensor(r, stream, t);
}

static bool on_initializer(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    reader     *r = READER(arg);
    wire_graph *g = TARGET(arg);
    wire_tensor t = {0};
    return read_tensor(r, stream, &t) && WIRE_PUSH(r, &g->initializers, t);
}

/* An initializer like any other, whose values stand apart. */
static bool on_sparse_initializer(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    reader      *r = READER(arg);
    wire_graph  *g = TARGET(arg);
    wire_sparse *s = OPF_NEW(r->arena, wire_sparse, 1);
    if (s == NULL)
        return out_of_memory(r);
    onnx_SparseTensorProto m = {.values = BIND(on_tensor, &s->values), .indices = BIND(on_tensor, &s->indices), .dims = BIND(on_ints, &s->dims)};
    if (!pb_decode(stream, onnx_SparseTensorProto_fields, &m))
        return false;
    wire_tensor t = {.name = ""};
    if (s->values != NULL)
        t = *s->values;
    t.sparse = s;
    return WIRE_PUSH(r, &g->initializers, t);
}

static bool on_dim(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    reader                         *r   = READER(arg);
    wire_value                     *v   = TARGET(arg);
    wire_dim                        dim = {.symbol = ""};
    onnx_TensorShapeProto_Dimension m   = {.dim_param = BIND(on_string, &dim.symbol)};
    if (!pb_decode(stream, onnx_TensorShapeProto_Dimension_fields, &m))
        return false;
    dim.has_value = m.has_dim_value;
    dim.value     = m.dim_value;
    return WIRE_PUSH(r, &v->dims, dim);
}

static bool on_shape(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    reader               *r = READER(arg);
    wire_value           *v = TARGET(arg);
    onnx_TensorShapeProto m = {.dim = BIND(on_dim, v)};
    v->has_shape            = true;
    return pb_decode(stream, onnx_TensorShapeProto_fields, &m);
}

static bool on_tensor_type(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    reader               *r = READER(arg);
    wire_value           *v = TARGET(arg);
    onnx_TypeProto_Tensor m = {.shape = BIND(on_shape, v)};
    v->has_tensor           = true;
    if (!pb_decode(stream, onnx_TypeProto_Tensor_fields, &m))
        return false;
    v->type = m.elem_type;
    return true;
}

static bool on_type(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    reader        *r       = READER(arg);
    wire_value    *v       = TARGET(arg);
    bool           is[5]   = {false};
    const char    *kinds[] = {"sequence", "map", "opaque", "sparse tensor", "optional"};
    onnx_TypeProto m       = {
              .tensor_type        = BIND(on_tensor_type, v),
              .sequence_type      = BIND(on_presence, &is[0]),
              .map_type           = BIND(on_presence, &is[1]),
              .opaque_type        = BIND(on_presence, &is[2]),
              .sparse_tensor_type = BIND(on_presence, &is[3]),
              .optional_type      = BIND(on_presence, &is[4]),
    };
    if (!pb_decode(stream, onnx_TypeProto_fields, &m))
        return false;
    for (int i = 0; i < 5; i++)
        if (is[i])
            v->other_kind = kinds[i];
    return true;
}

static bool read_value(reader *r, pb_istream_t *stream, wire_value *v)
{
    v->name               = "";
    onnx_ValueInfoProto m = {.name = BIND(on_string, &v->name), .type = BIND(on_type, v)};
    return pb_decode(stream, onnx_ValueInfoProto_fields, &m);
}

static bool on_input(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    wire_value v = {0};
    return read_value(READER(arg), stream, &v) && WIRE_PUSH(READER(arg), &((wire_graph *)TARGET(arg))->inputs, v);
}

static bool on_output(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    wire_value v = {0};
    return read_value(READER(arg), stream, &v) && WIRE_PUSH(READER(arg), &((wire_graph *)TARGET(arg))->outputs, v);
}

/* ---- attributes, nodes, graphs ---- */

static bool on_graph(pb_istream_t *stream, const pb_field_t *field, void **arg);

/* The oldest files leave the type out. */
static int32_t guess_type(const wire_attr *a, bool has_f, bool has_i)
{
    if (a->t != NULL)
        return WIRE_TENSOR;
    if (a->g != NULL)
        return WIRE_GRAPH;
    if (a->floats.n != 0)
        return WIRE_FLOATS;
    if (a->ints.n != 0)
        return WIRE_INTS;
    if (a->strings.n != 0)
        return WIRE_STRINGS;
    if (a->s.data != NULL)
        return WIRE_STRING;
    return has_f ? WIRE_FLOAT : has_i ? WIRE_INT : 0;
}

static bool on_attribute(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    reader             *r = READER(arg);
    wire_attr           a = {.name = "", .ref = ""};
    onnx_AttributeProto m = {
        .name          = BIND(on_string, &a.name),
        .s             = BIND(on_text, &a.s),
        .t             = BIND(on_tensor, &a.t),
        .g             = BIND(on_graph, &a.g),
        .floats        = BIND(on_float_list, &a.floats),
        .ints          = BIND(on_ints, &a.ints),
        .strings       = BIND(on_texts, &a),
        .ref_attr_name = BIND(on_string, &a.ref),
    };
    if (!pb_decode(stream, onnx_AttributeProto_fields, &m))
        return false;
    a.f    = m.f;
    a.i    = m.i;
    a.type = m.type != 0 ? m.type : guess_type(&a, m.has_f, m.has_i);
    if (a.s.data == NULL)
        a.s.data = "";
    return WIRE_PUSH(r, (wire_attrs *)TARGET(arg), a);
}

static bool on_node(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    reader        *r = READER(arg);
    wire_node      n = {.name = "", .op_type = "", .domain = "", .overload = ""};
    onnx_NodeProto m = {
        .input     = BIND(on_strings, &n.inputs),
        .output    = BIND(on_strings, &n.outputs),
        .name      = BIND(on_string, &n.name),
        .op_type   = BIND(on_string, &n.op_type),
        .attribute = BIND(on_attribute, &n.attrs),
        .domain    = BIND(on_domain, &n.domain),
        .overload  = BIND(on_string, &n.overload),
    };
    if (++r->nodes > r->limits->nodes) {
        r->status = opf_fail(r->error, OPF_LIMIT, "more than %lld nodes (limit nodes)", (long long)r->limits->nodes);
        return false;
    }
    return pb_decode(stream, onnx_NodeProto_fields, &m) && WIRE_PUSH(r, (wire_nodes *)TARGET(arg), n);
}

static bool on_graph(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    reader *r = READER(arg);
    if (*(wire_graph **)TARGET(arg) != NULL) {
        r->status = opf_fail(r->error, OPF_INVALID_MODEL, "the file holds two graphs where one may be");
        return false;
    }
    enum { MAX_DEPTH = 512 }; /* what the stack bears, whatever the limit */
    int64_t limit = r->limits->depth < MAX_DEPTH ? r->limits->depth : MAX_DEPTH;
    if (++r->depth > limit) {
        r->status = opf_fail(r->error, OPF_LIMIT, "graphs nest deeper than %lld (limit depth)", (long long)limit);
        return false;
    }
    wire_graph *g = OPF_NEW(r->arena, wire_graph, 1);
    if (g == NULL)
        return out_of_memory(r);
    *(wire_graph **)TARGET(arg) = g;
    g->name                     = "";
    onnx_GraphProto m           = {
                  .node               = BIND(on_node, &g->nodes),
                  .name               = BIND(on_string, &g->name),
                  .initializer        = BIND(on_initializer, g),
                  .input              = BIND(on_input, g),
                  .output             = BIND(on_output, g),
                  .sparse_initializer = BIND(on_sparse_initializer, g),
    };
    bool ok = pb_decode(stream, onnx_GraphProto_fields, &m);
    r->depth--;
    return ok;
}

static bool on_opset(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    reader                  *r     = READER(arg);
    wire_opset               opset = {.domain = ""};
    onnx_OperatorSetIdProto  m     = {.domain = BIND(on_domain, &opset.domain)};
    if (!pb_decode(stream, onnx_OperatorSetIdProto_fields, &m))
        return false;
    opset.version = m.version;
    return WIRE_PUSH(r, (wire_opsets *)TARGET(arg), opset);
}

static bool on_function(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    reader            *r = READER(arg);
    wire_model        *to = TARGET(arg);
    wire_function      f = {.name = "", .domain = "", .overload = ""};
    onnx_FunctionProto m = {
        .name            = BIND(on_string, &f.name),
        .input           = BIND(on_strings, &f.inputs),
        .output          = BIND(on_strings, &f.outputs),
        .node            = BIND(on_node, &f.nodes),
        .opset_import    = BIND(on_opset, &f.opsets),
        .domain          = BIND(on_domain, &f.domain),
        .attribute_proto = BIND(on_attribute, &f.defaults),
        .overload        = BIND(on_string, &f.overload),
    };
    return pb_decode(stream, onnx_FunctionProto_fields, &m) && WIRE_PUSH(r, &to->functions, f);
}

/* ---- entries ---- */

static opf_status finish(const reader *r, bool ok, const pb_istream_t *stream)
{
    if (ok)
        return OPF_OK;
    if (r->status != OPF_OK)
        return r->status;
    const char *at = stream->state;
    return opf_fail(r->error, OPF_INVALID_MODEL, "not a protobuf message, or damaged: %s near byte %zu of %zu", PB_GET_ERROR(stream),
                    at >= r->begin && at <= r->end ? (size_t)(at - r->begin) : 0, (size_t)(r->end - r->begin));
}

static pb_istream_t open_stream(reader *r, const void *bytes, size_t size)
{
    r->begin = size == 0 ? "" : bytes;
    r->end   = r->begin + size;
    return pb_istream_from_buffer((const pb_byte_t *)r->begin, size);
}

opf_status opf_wire_model(const void *bytes, size_t size, const opf_limits *limits, opf_arena *arena, wire_model *model, opf_error *error)
{
    reader  state = {.arena = arena, .limits = limits, .error = error};
    reader *r     = &state;
    *model        = (wire_model){.producer = ""};

    pb_istream_t    stream = open_stream(r, bytes, size);
    onnx_ModelProto m      = {
             .producer_name = BIND(on_string, &model->producer),
             .graph         = BIND(on_graph, &model->graph),
             .opset_import  = BIND(on_opset, &model->opsets),
             .functions     = BIND(on_function, model),
    };
    OPF_TRY(finish(r, pb_decode(&stream, onnx_ModelProto_fields, &m), &stream));
    model->ir_version = m.ir_version;
    return OPF_OK;
}

opf_status opf_wire_tensor(const void *bytes, size_t size, opf_arena *arena, wire_tensor *tensor, opf_error *error)
{
    reader       r      = {.arena = arena, .error = error};
    pb_istream_t stream = open_stream(&r, bytes, size);
    *tensor             = (wire_tensor){0};
    return finish(&r, read_tensor(&r, &stream, tensor), &stream);
}
