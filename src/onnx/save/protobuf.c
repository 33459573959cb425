/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/save/protobuf.h"

#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* wire types */

/* ---- writing ---- */

static void add_varint(opf_text *text, uint64_t x)
{
    char bytes[10];
    unsigned n = 0;
    for (; x > 127; x >>= 7)
        bytes[n++] = (char)((x & 127) | 128);
    bytes[n++] = (char)x;
    opf_text_add_bytes(text, bytes, n);
}

static void add_tag(opf_text *text, uint32_t field, uint32_t wire_type)
{
    add_varint(text, (uint64_t)field << 3 | wire_type);
}

void opf_pb_int(opf_text *text, uint32_t field, int64_t x)
{
    add_tag(text, field, VARINT);
    add_varint(text, (uint64_t)x);
}

void opf_pb_float(opf_text *text, uint32_t field, float x)
{
    add_tag(text, field, FIXED32);
    opf_text_add_bytes(text, (const char *)&x, sizeof x);
}

void opf_pb_head(opf_text *text, uint32_t field, uint64_t n)
{
    add_tag(text, field, BYTES);
    add_varint(text, n);
}

void opf_pb_bytes(opf_text *text, uint32_t field, const void *data, size_t n)
{
    opf_pb_head(text, field, n);
    if (n != 0)
        opf_text_add_bytes(text, data, n);
}

void opf_pb_string(opf_text *text, uint32_t field, const char *string)
{
    opf_pb_bytes(text, field, string, strlen(string));
}

void opf_pb_message(opf_text *text, uint32_t field, const opf_text *message)
{
    text->failed = text->failed || message->failed;
    opf_pb_bytes(text, field, message->data, message->length);
}

/* ---- reading ---- */

static bool take_varint(opf_pb_span *message, uint64_t *x)
{
    *x = 0;
    for (unsigned shift = 0; shift < 64 && message->n > 0; shift += 7) {
        const unsigned char byte = *message->at++;
        message->n--;
        *x |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

static bool take(opf_pb_span *message, uint64_t n)
{
    if (n > message->n)
        return false;
    message->at += n;
    message->n -= (size_t)n;
    return true;
}

bool opf_pb_next(opf_pb_span *message, opf_pb_field *field)
{
    uint64_t tag, n = 0;
    *field = (opf_pb_field){.whole.at = message->at};
    if (!take_varint(message, &tag) || tag >> 3 > UINT32_MAX)
        return false;
    field->number = (uint32_t)(tag >> 3);
    bool is_complete = false;
    switch (tag & 7) {
    case VARINT:
        is_complete = take_varint(message, &field->x);
        break;
    case FIXED64:
        is_complete = take(message, 8);
        break;
    case FIXED32:
        is_complete = take(message, 4);
        break;
    case BYTES:
        is_complete = take_varint(message, &n);
        field->bytes.at = message->at;
        field->bytes.n = (size_t)n;
        is_complete = is_complete && take(message, n);
        break;
    default:
        break;
    }
    field->whole.n = (size_t)(message->at - field->whole.at);
    return is_complete;
}
