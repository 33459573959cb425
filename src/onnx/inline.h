/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the model's own functions replaced by their nodes. */
#ifndef OPF_ONNX_INLINE_H
#define OPF_ONNX_INLINE_H

#include "onnx/wire.h"

/* Sets opsets of every node, and inlines every call, in bodies too. */
opf_status opf_wire_inline(wire_model *model, const opf_limits *limits, opf_arena *arena, opf_error *error);

/* What a node is called in messages: its name, or its first output. */
const char *opf_wire_label(const wire_node *node);

#endif
