/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/save/ports.h"

static opf_text new_text(const opf_text *like)
{
    opf_text text;
    opf_text_init(&text, like->arena);
    return text;
}

static void write_shape(const opf_dims *dims, const opf_info *info, opf_text *out)
{
    enum { DIM = 1, DIM_VALUE = 1, DIM_PARAM };
    for (int32_t i = 0; i < info->rank; i++) {
        opf_text dim = new_text(out);
        const char *symbol = opf_dim_symbol_name(dims, info->dims[i]);
        if (opf_dim_is_number(info->dims[i]))
            opf_pb_int(&dim, DIM_VALUE, info->dims[i].n);
        else if (symbol != NULL)
            opf_pb_string(&dim, DIM_PARAM, symbol);
        opf_pb_message(out, DIM, &dim);
    }
}

void opf_save_write_port(const opf_graph *graph, opf_value_id id, const char *name, opf_pb_span kept, opf_text *out)
{
    enum { VALUE_NAME = 1, VALUE_TYPE, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE };
    const opf_info *info = &opf_graph_value(graph, id)->info;
    opf_text tensor = new_text(out), shape = new_text(out), type = new_text(out);
    opf_pb_field field;
    opf_pb_string(out, VALUE_NAME, name);
    if (info->type != OPF_TYPE_NONE) {
        opf_pb_int(&tensor, TENSOR_ELEMENT, (int64_t)info->type);
        write_shape(graph->dims, info, &shape);
        if (info->rank >= 0)
            opf_pb_message(&tensor, TENSOR_SHAPE, &shape);
        opf_pb_message(&type, TYPE_TENSOR, &tensor);
        opf_pb_message(out, VALUE_TYPE, &type);
    }
    while (opf_pb_next(&kept, &field))
        if (field.number > VALUE_TYPE)
            opf_text_add_bytes(out, (const char *)field.whole.at, field.whole.n);
}

static opf_pb_span field_of(opf_pb_span message, uint32_t number)
{
    opf_pb_field field;
    while (opf_pb_next(&message, &field))
        if (field.number == number)
            return field.bytes;
    return (opf_pb_span){0};
}

bool opf_save_port_is_complete(opf_pb_span port)
{
    enum { VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_SHAPE = 2, SHAPE_DIM = 1, DIM_VALUE = 1 };
    const opf_pb_span tensor = field_of(field_of(port, VALUE_TYPE), TYPE_TENSOR);
    opf_pb_span shape = field_of(tensor, TENSOR_SHAPE);
    opf_pb_field dim, field;
    if (shape.at == NULL)
        return false;
    while (opf_pb_next(&shape, &dim))
        while (dim.number == SHAPE_DIM && opf_pb_next(&dim.bytes, &field))
            if (field.number == DIM_VALUE && (int64_t)field.x < 0)
                return false;
    return true;
}
