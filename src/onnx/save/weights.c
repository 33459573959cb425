/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/save/weights.h"

#include <string.h>

enum { PANEL = 1 << 20 }; /* bytes, about */

typedef struct writer {
    opf_output *output;
    const opf_const *constant;
    char *panel;
    opf_error *error;
} writer;

/* The axis whose lines, of *line elements, fit a panel one by one but not all together. */
static int32_t choose_axis(const opf_const *c, size_t *line)
{
    const size_t size = opf_type_size(c->type);
    int32_t axis = c->rank;
    for (*line = 1; axis > 0 && *line * size * (size_t)c->dims[axis - 1] <= PANEL; axis--)
        *line *= (size_t)c->dims[axis - 1];
    return axis - 1;
}

/* Panels in row-major order: those axes before `axis` one index at a time, that one in steps. */
static opf_status write_panels(const writer *w)
{
    const opf_const *c = w->constant;
    size_t line;
    const int32_t axis = choose_axis(c, &line);
    int64_t start[OPF_MAX_RANK] = {0}, count[OPF_MAX_RANK];
    int64_t step = (int64_t)(PANEL / (line * opf_type_size(c->type)));
    for (int32_t i = 0; i < c->rank; i++)
        count[i] = i < axis ? 1 : c->dims[i];
    if (step >= count[axis])
        step = count[axis];
    for (int32_t outer = 0; outer >= 0;) {
        for (start[axis] = 0; start[axis] < c->dims[axis]; start[axis] += count[axis]) {
            const int64_t left = c->dims[axis] - start[axis];
            count[axis] = left < step ? left : step;
            opf_const_read(c, start, count, w->panel);
            OPF_TRY(
                opf_output_write(w->output, w->panel, (size_t)count[axis] * line * opf_type_size(c->type), w->error));
        }
        for (outer = axis - 1; outer >= 0 && ++start[outer] == c->dims[outer]; outer--)
            start[outer] = 0;
    }
    return OPF_OK;
}

opf_status opf_save_write_constant(opf_output *output, const opf_const *constant, opf_heap *heap, opf_error *error)
{
    const size_t bytes = opf_const_size(constant);
    if (constant->kind == OPF_CONST_BYTES || bytes == 0)
        return opf_output_write(output, constant->data, bytes, error);
    /* Elements smaller than a byte are put together as a whole. */
    const bool is_whole = bytes <= PANEL || opf_type_bits(constant->type) < 8;
    const size_t room = is_whole ? bytes : PANEL;
    writer w = {output, constant, opf_heap_alloc(heap, room), error};
    OPF_OOM_IF(error, w.panel == NULL);
    if (is_whole)
        opf_const_write(constant, w.panel);
    opf_status status = is_whole ? opf_output_write(output, w.panel, bytes, error) : write_panels(&w);
    opf_heap_free(heap, w.panel, room);
    return status;
}
