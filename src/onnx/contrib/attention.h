/* SPDX-License-Identifier: Apache-2.0 */
/* What the attention operators share. */
#ifndef OPF_ONNX_CONTRIB_ATTENTION_H
#define OPF_ONNX_CONTRIB_ATTENTION_H

#include "onnx/contrib/contrib.h"

/* [batch, length, heads * size] as [batch, heads, length, size], and back. */
opf_value_id opf_contrib_split_heads(opf_contrib *c, opf_value_id x, int64_t heads);
opf_value_id opf_contrib_join_heads(opf_contrib *c, opf_value_id x);
/* past with the lines of x written from line start[batch] on; all [batch, heads, length, size]. */
opf_value_id opf_contrib_write_lines(opf_contrib *c, opf_value_id past, opf_value_id x, opf_value_id start);
/* Scores that are an output, where those that a mask hides are the least number instead of -inf. */
opf_value_id opf_contrib_finite_scores(opf_contrib *c, opf_value_id scores);
/* One turned by the angles of its positions [batch, length]; heads counts for [batch, length, heads * size]. */
opf_value_id opf_contrib_rotate(opf_contrib *c, opf_value_id x, opf_value_id cos_cache, opf_value_id sin_cache,
                                opf_value_id positions, int64_t heads, bool interleaved, int64_t rotated);

#endif
