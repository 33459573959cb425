/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire format of protobuf, as far as writing a model needs it: fields appended to a text, and a walk over the
 * fields of a message that was read before, so that what nobody changes can be copied as it stands.
 */
#ifndef OPF_ONNX_SAVE_PROTOBUF_H
#define OPF_ONNX_SAVE_PROTOBUF_H

#include "base/memory.h"

/* ---- writing ---- (a text that ran out of memory says so in its `failed`) */

void opf_pb_int(opf_text *text, uint32_t field, int64_t x);
void opf_pb_float(opf_text *text, uint32_t field, float x);
void opf_pb_bytes(opf_text *text, uint32_t field, const void *data, size_t n);
void opf_pb_string(opf_text *text, uint32_t field, const char *string);
void opf_pb_message(opf_text *text, uint32_t field, const opf_text *message);
/* The head of a field of n bytes that follow by other ways. */
void opf_pb_head(opf_text *text, uint32_t field, uint64_t n);

/* ---- reading ---- */

typedef struct opf_pb_span {
    const unsigned char *at;
    size_t n;
} opf_pb_span;

typedef struct opf_pb_field {
    uint32_t number;
    opf_pb_span whole; /* head and all */
    opf_pb_span bytes; /* of a field of bytes; else n is 0 */
    uint64_t x;        /* of a field that is a number; else 0 */
} opf_pb_field;

/* Takes the first field off the message; false at its end, or where it is no protobuf. */
bool opf_pb_next(opf_pb_span *message, opf_pb_field *field);

#endif
