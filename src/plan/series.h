/* SPDX-License-Identifier: Apache-2.0 */
/* Indices that are known when a plan is made, and the series first, first + step, … that they consist of. */
#ifndef OPF_PLAN_SERIES_H
#define OPF_PLAN_SERIES_H

#include "plan/planner.h"

typedef struct opf_series {
    int64_t first, step, n;
} opf_series;

/* The integers at place in row-major order, NULL in *numbers if only a run knows them. */
opf_status opf_plan_numbers(const opf_planner *planner, const opf_place *place, const int64_t **numbers, opf_error *error);
/* The longest series that each begins where the one before ends. */
opf_status opf_plan_series(const opf_planner *planner, const int64_t *numbers, size_t n, opf_series **list, uint32_t *n_list, opf_error *error);

#endif
