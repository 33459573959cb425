/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that fusion makes, spelled in older ones: for opsets that lack the operator, and for what no opset can say.
 * Each spelling is one that the rules read back.
 */
#ifndef OPF_ONNX_SAVE_SPELL_H
#define OPF_ONNX_SAVE_SPELL_H

#include "onnx/contrib/contrib.h"

/* Replaces the node if this opset has no other form of it; *is_spelled tells. The last of the new nodes has its name.
   OPF_UNSUPPORTED: there is no spelling of this node. */
opf_status opf_save_spell(opf_graph *graph, opf_node_id node, int32_t opset, bool *is_spelled, opf_error *error);

/* The first `rotated` elements of each row of x turned by angles that broadcast (ops/rotary.h). */
opf_value_id opf_spell_turn(opf_contrib *c, opf_value_id x, opf_value_id cos, opf_value_id sin, int64_t rotated,
                            bool interleaved);

#define OPF_SPELLING(op, below) void opf_spell_##op(opf_contrib *c);
#include "onnx/save/spell.def"
#undef OPF_SPELLING

#endif
