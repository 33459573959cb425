/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/series.h"

opf_status opf_plan_numbers(const opf_planner *planner, const opf_place *place, const int64_t **numbers, opf_error *error)
{
    const opf_buffer *buffer = &planner->plan->buffers[place->buffer];
    const size_t      n      = opf_place_elements(place);
    *numbers                 = NULL;
    if (buffer->kind != OPF_BUFFER_CONST)
        return OPF_OK;
    const int64_t *offsets = opf_place_offsets(planner->arena, place, 0, place->rank - 1);
    int64_t       *list    = OPF_NEW(planner->arena, int64_t, n);
    OPF_OOM_IF(error, offsets == NULL || list == NULL);
    for (size_t i = 0; i < n; i++)
        list[i] = opf_load_i64(place->type, buffer->data, (size_t)(place->offset + offsets[i]));
    *numbers = list;
    return OPF_OK;
}

opf_status opf_plan_series(const opf_planner *planner, const int64_t *numbers, size_t n, opf_series **list, uint32_t *n_list, opf_error *error)
{
    uint32_t capacity = 0;
    *list             = NULL;
    *n_list           = 0;
    for (size_t i = 0; i < n; i += (size_t)(*list)[*n_list - 1].n) {
        opf_series s = {.first = numbers[i], .step = i + 1 < n ? numbers[i + 1] - numbers[i] : 0, .n = 1};
        while (i + (size_t)s.n < n && numbers[i + (size_t)s.n] == s.first + s.n * s.step)
            s.n++;
        OPF_OOM_IF(error, !OPF_PUSH(planner->arena, *list, *n_list, capacity, s));
    }
    return OPF_OK;
}
