/* SPDX-License-Identifier: Apache-2.0 */
/* Programs bound to the rows and columns of a result. */
#include "plan/steps.h"

static bool split_strides(const opf_place *place, opf_split split, ptrdiff_t *outer, ptrdiff_t *row, ptrdiff_t *col)
{
    int64_t o = 0, r = 0, c = 0;
    if (!opf_place_linear(place, split.outer_first, split.outer_last, &o) ||
        !opf_place_linear(place, split.row_first, split.row_last, &r) ||
        (split.col >= 0 && !opf_place_linear(place, split.col, split.col + split.more_cols, &c)))
        return false;
    *outer = (ptrdiff_t)o;
    *row = (ptrdiff_t)r;
    *col = (ptrdiff_t)c;
    return true;
}

static opf_status bind_lines(opf_planner *planner, opf_value_id value, const opf_place *result, opf_split split,
                             opf_lines *lines, opf_error *error)
{
    const opf_gathered *rows = opf_plan_gathered(planner, value);
    return rows == NULL ? OPF_OK
                        : opf_plan_lines(planner, rows, result, split.col, split.col + split.more_cols, lines, error);
}

opf_status opf_bind(opf_planner *planner, const opf_lowered *lowered, const opf_place *result, opf_split split,
                    opf_bound *bound, opf_place *touched_operands, opf_place *touched_stores, opf_error *error)
{
    int32_t order[OPF_MAX_RANK];
    opf_place_order(result, order);
    bound->program = lowered->program;
    for (uint32_t i = 0; i < lowered->program.n_operands; i++) {
        opf_place place;
        opf_split split_of_place = split;
        if (bound->given_value != 0 && lowered->operands[i] == bound->given_value) {
            bound->given = i + 1;
            continue;
        }
        if (bound->by_lines)
            OPF_TRY(bind_lines(planner, lowered->operands[i], result, split, &bound->operand_lines[i], error));
        if (bound->operand_lines[i].rows != NULL) {
            touched_operands[i] = bound->operand_lines[i].rows->table;
            continue;
        }
        OPF_TRY(opf_plan_place(planner, lowered->operands[i], &place, error));
        touched_operands[i] = place;
        place = opf_place_broadcast(&place, result->rank, result->dims);
        int64_t outer;
        if (!opf_place_linear(&place, split.outer_first, split.outer_last, &outer)) {
            bound->operand_images[i] = opf_place_offsets(planner->arena, &place, split.outer_first, split.outer_last);
            OPF_OOM_IF(error, bound->operand_images[i] == NULL);
            split_of_place = (opf_split){0, -1, split.row_first, split.row_last, split.col, split.more_cols};
        }
        if (!split_strides(&place, split_of_place, &bound->operand_outer[i], &bound->operand_row[i],
                           &bound->operand_col[i])) {
            opf_place dense;
            bound->operand_images[i] = NULL;
            OPF_TRY(opf_plan_alloc_temporary(planner, place.type, place.rank, place.dims, order, &dense, error));
            OPF_TRY(opf_plan_copy(planner, "copy_operand", &place, &dense, error));
            touched_operands[i] = dense;
            place = dense;
            OPF_FAIL_IF(
                error,
                !split_strides(&place, split, &bound->operand_outer[i], &bound->operand_row[i], &bound->operand_col[i]),
                OPF_INTERNAL, "an operand cannot be split");
        }
        bound->operands[i] = opf_place_ref(&place);
    }
    for (uint32_t i = 0; i < lowered->program.n_stores; i++) {
        opf_place place;
        OPF_TRY(opf_plan_alloc(planner, lowered->stores[i], order, &place, error));
        touched_stores[i] = place;
        OPF_FAIL_IF(error,
                    !split_strides(&place, split, &bound->store_outer[i], &bound->store_row[i], &bound->store_col[i]),
                    OPF_INTERNAL, "a stored step cannot be split");
        bound->stores[i] = opf_place_ref(&place);
    }
    return OPF_OK;
}

void opf_bound_touch(opf_planner *planner, const opf_bound *bound, const opf_place *operands, const opf_place *stores)
{
    for (uint32_t i = 0; i < bound->program.n_operands; i++)
        if (bound->operand_lines[i].rows == NULL && bound->given != i + 1) /* else opf_plan_reads_rows */
            opf_plan_reads(planner, &operands[i]);
    for (uint32_t i = 0; i < bound->program.n_stores; i++)
        opf_plan_writes(planner, &stores[i]);
}

void opf_bound_at(const opf_run_env *env, const opf_bound *bound, size_t outer, size_t row, size_t col,
                  opf_operand *operands, opf_store *stores)
{
    for (uint32_t i = 0; i < bound->program.n_operands; i++) {
        if (bound->operand_lines[i].rows != NULL || bound->given == i + 1)
            continue; /* found by who runs it, line by line; given by it */
        const float *data = opf_ref_data(env, bound->operands[i]);
        const int64_t *images = bound->operand_images[i];
        ptrdiff_t image = images != NULL ? (ptrdiff_t)images[outer] : (ptrdiff_t)outer * bound->operand_outer[i];
        operands[i] = (opf_operand){.data = data + image + (ptrdiff_t)row * bound->operand_row[i] +
                                            (ptrdiff_t)col * bound->operand_col[i],
                                    .row = bound->operand_row[i],
                                    .col = bound->operand_col[i]};
    }
    for (uint32_t i = 0; i < bound->program.n_stores; i++) {
        float *data = opf_ref_data(env, bound->stores[i]);
        stores[i] = (opf_store){data + (ptrdiff_t)outer * bound->store_outer[i] + (ptrdiff_t)row * bound->store_row[i] +
                                    (ptrdiff_t)col * bound->store_col[i],
                                bound->store_row[i], bound->store_col[i]};
    }
}
