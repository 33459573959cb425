/* SPDX-License-Identifier: Apache-2.0 */
/* What the functions of rules share: their arguments, and how they refuse. */
#ifndef OPF_FUSE_FUNCTION_ARGS_H
#define OPF_FUSE_FUNCTION_ARGS_H

#include "fuse/functions.h"

#define OPF_REFUSE(call, code, ...) opf_refuse((call)->context, (call)->why, OPF_MISS_##code, 0, __VA_ARGS__)
bool opf_function_out_of_memory(const opf_rule_call *call); /* false */

/* Each refuses when argument i is not what it asks for. */
bool opf_function_constant(const opf_rule_call *call, uint32_t i, const opf_const **constant);
bool opf_function_info(const opf_rule_call *call, uint32_t i, opf_info *info);
bool opf_function_ranked(const opf_rule_call *call, uint32_t i, opf_info *info); /* of known rank */
/* The first of the axes (argument i, absent: all), which must be the last of x without a gap. */
bool opf_function_first_axis(const opf_rule_call *call, const opf_info *x, uint32_t i, int32_t *first);
const char *opf_function_show(const opf_rule_call *call, const opf_info *info);
/* A float constant that is small enough to compute with; a number becomes one. */
bool opf_function_floats(const opf_rule_call *call, uint32_t i, const opf_const **constant);
/* v may vary along axes [first, last) of x only, and raises no rank. */
bool opf_function_varies_within(const opf_rule_call *call, const opf_info *v, const opf_info *x, int32_t first,
                                int32_t last);

/* Results: each returns true, or refuses when memory is out. */
bool opf_function_give_number(const opf_rule_call *call, double x);
bool opf_function_give_constant(const opf_rule_call *call, const opf_const *constant);
bool opf_function_give_ints(const opf_rule_call *call, const int64_t *ints, uint32_t n);

/* Conditions that are not in functions.c beside the table. */
bool opf_rule_is_unpadded(const opf_rule_call *call);
bool opf_rule_is_undilated(const opf_rule_call *call);
bool opf_rule_is_never_above(const opf_rule_call *call);
bool opf_rule_is_channel_axis(const opf_rule_call *call);
bool opf_rule_is_along_channels(const opf_rule_call *call);
bool opf_rule_are_groups_of(const opf_rule_call *call);
bool opf_rule_are_columns_at(const opf_rule_call *call);
bool opf_rule_counts(const opf_rule_call *call);
bool opf_rule_counts_inverse(const opf_rule_call *call);
bool opf_rule_are_parts(const opf_rule_call *call);
bool opf_rule_are_neighbours(const opf_rule_call *call);
bool opf_rule_is_paired(const opf_rule_call *call);
bool opf_rule_are_angles(const opf_rule_call *call);

/* Value functions. */
bool opf_rule_arithmetic(const opf_rule_call *call);
bool opf_rule_sqrt(const opf_rule_call *call);
bool opf_rule_max(const opf_rule_call *call);
bool opf_rule_clamp(const opf_rule_call *call);
bool opf_rule_length(const opf_rule_call *call);
bool opf_rule_first_of(const opf_rule_call *call);
bool opf_rule_join_pads(const opf_rule_call *call);
bool opf_rule_crop_less(const opf_rule_call *call);
bool opf_rule_is_missing(const opf_rule_call *call);
bool opf_rule_are_columns_to(const opf_rule_call *call);
bool opf_rule_scale_columns(const opf_rule_call *call);
bool opf_rule_shift_outputs(const opf_rule_call *call);
bool opf_rule_shift_axis(const opf_rule_call *call);
bool opf_rule_channel_vector(const opf_rule_call *call);
bool opf_rule_channels_last(const opf_rule_call *call);
bool opf_rule_channels_first(const opf_rule_call *call);
bool opf_rule_scale_outputs(const opf_rule_call *call);
bool opf_rule_scale_axis(const opf_rule_call *call);
bool opf_rule_first_axis(const opf_rule_call *call);
bool opf_rule_over_axes(const opf_rule_call *call);
bool opf_rule_joined(const opf_rule_call *call);
bool opf_rule_interleaved(const opf_rule_call *call);
bool opf_rule_size_of(const opf_rule_call *call);

#endif
