/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tile interpreter. It works in blocks of at most OPF_PROGRAM_COLS floats that stay in L1: one row of a wide tile, or
 * as many whole rows of a narrow one as fit, so that an instruction is one call a block. Within a block everything is
 * dense: an operand that is so already is read in place, any other is expanded into scratch, once a column range if it is
 * the same for all rows. Results live in scratch slots that are reused when their last reader has run; the last
 * instruction writes dst itself where dst is dense, else its block is copied there.
 */
#include "kernels/kern.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Where results live: a slot an instruction, reused as soon as the instructions that read it have run. */
typedef struct slots {
    uint32_t n;
    uint8_t  of[OPF_PROGRAM_MAX];
} slots;

static void assign_slots(const opf_program *program, slots *slot)
{
    uint8_t last[OPF_PROGRAM_MAX]; /* the last reader */
    for (uint32_t i = 0; i < program->n; i++) {
        last[i] = (uint8_t)i;
        for (int a = 0; a < 2; a++)
            if (program->instr[i].args[a] > 0)
                last[program->instr[i].args[a] - 1] = (uint8_t)i;
    }
    bool used[OPF_PROGRAM_MAX] = {false};
    slot->n = 0;
    for (uint32_t i = 0; i < program->n; i++) {
        for (uint32_t j = 0; j < i; j++)
            if (last[j] == i || (i > 0 && last[j] == i - 1 && j == i - 1))
                used[slot->of[j]] = false; /* dst of an instruction may be its argument */
        uint32_t s = 0;
        while (used[s])
            s++;
        used[s]     = true;
        slot->of[i] = (uint8_t)s;
        if (s + 1 > slot->n)
            slot->n = s + 1;
    }
}

/* Scratch: a block for the source, one an operand, one a slot. */
size_t opf_program_scratch(const opf_program *program)
{
    slots slot;
    assign_slots(program, &slot);
    return (size_t)OPF_PROGRAM_COLS * (1 + program->n_operands + slot.n);
}

typedef struct area {
    size_t rows, cols; /* rows * cols <= OPF_PROGRAM_COLS */
    size_t row, col;   /* its first element in the tile */
} area;

static bool is_dense(const area *block, ptrdiff_t row, ptrdiff_t col)
{
    return (col == 1 || block->cols == 1) && (block->rows == 1 || row == (ptrdiff_t)block->cols);
}

/* What is filled is copied behind itself. */
static void fill(float *dst, float x, size_t n)
{
    size_t done = n < 16 ? n : 16;
    for (size_t i = 0; i < done; i++)
        dst[i] = x;
    for (size_t more; done < n; done += more) {
        more = n - done < done ? n - done : done;
        memcpy(dst + done, dst, more * sizeof *dst);
    }
}

static const float *read_levels(const opf_operand *operand, const area *block, float *buffer)
{
    for (size_t r = 0; r < block->rows; r++)
        for (size_t c = 0; c < block->cols; c++) {
            const ptrdiff_t at = (ptrdiff_t)(block->row + r) * operand->row + (ptrdiff_t)(block->col + c) * operand->col;
            buffer[r * block->cols + c] =
                operand->levels == OPF_INT8 ? (float)((const int8_t *)operand->data)[at] : (float)((const uint8_t *)operand->data)[at];
        }
    return buffer;
}

/* The last result as levels: whole numbers that fit. */
static void write_levels(opf_type type, void *dst, ptrdiff_t row, const area *block, const float *src)
{
    for (size_t r = 0; r < block->rows; r++)
        for (size_t c = 0; c < block->cols; c++) {
            const ptrdiff_t at    = (ptrdiff_t)(block->row + r) * row + (ptrdiff_t)(block->col + c);
            const int32_t   level = (int32_t)src[r * block->cols + c];
            if (type == OPF_INT8)
                ((int8_t *)dst)[at] = (int8_t)level;
            else
                ((uint8_t *)dst)[at] = (uint8_t)level;
        }
}

static const float *read_rows(const opf_operand *operand, const area *block, float *buffer)
{
    for (size_t r = 0; r < block->rows; r++) {
        const char *src = (const char *)operand->rows[block->row + r] + (ptrdiff_t)block->col * operand->col * (ptrdiff_t)sizeof(float);
        float      *dst = buffer + r * block->cols, x;
        if (operand->col == 1) {
            memcpy(dst, src, block->cols * sizeof(float));
        } else if (operand->col == 0) {
            memcpy(&x, src, sizeof x);
            fill(dst, x, block->cols);
        } else {
            for (size_t c = 0; c < block->cols; c++)
                memcpy(&dst[c], src + (ptrdiff_t)c * operand->col * (ptrdiff_t)sizeof(float), sizeof x);
        }
    }
    return buffer;
}

/* The block of an operand, dense: in place, or expanded at buffer. */
static const float *read_block(const opf_kern *kern, const opf_operand *operand, const area *block, float *buffer)
{
    if (operand->rows != NULL)
        return read_rows(operand, block, buffer);
    if (operand->levels != OPF_TYPE_NONE)
        return read_levels(operand, block, buffer);
    const float *src = (const float *)operand->data + (ptrdiff_t)block->row * operand->row + (ptrdiff_t)block->col * operand->col;
    if (is_dense(block, operand->row, operand->col))
        return src;
    if (operand->col == 0)
        for (size_t r = 0; r < block->rows; r++)
            fill(buffer + r * block->cols, src[(ptrdiff_t)r * operand->row], block->cols);
    else
        kern->copy_2d(src, operand->row, operand->col, buffer, (ptrdiff_t)block->cols, block->rows, block->cols);
    return buffer;
}

static void write_block(const opf_kern *kern, const opf_store *store, const area *block, const float *src)
{
    float *dst = store->data + (ptrdiff_t)block->row * store->row + (ptrdiff_t)block->col * store->col;
    if (store->col == 1 || block->cols == 1) {
        kern->copy_2d(src, (ptrdiff_t)block->cols, 1, dst, store->row, block->rows, block->cols);
    } else if (store->row == 1) { /* the transpose: its rows are the store's columns */
        kern->copy_2d(src, 1, (ptrdiff_t)block->cols, dst, store->col, block->cols, block->rows);
    } else {
        for (size_t r = 0; r < block->rows; r++)
            for (size_t c = 0; c < block->cols; c++)
                dst[(ptrdiff_t)r * store->row + (ptrdiff_t)c * store->col] = src[r * block->cols + c];
    }
}

typedef struct machine {
    const opf_kern    *kern;
    const opf_program *program;
    const opf_operand *operands;
    const opf_store   *stores;
    opf_operand        src;
    opf_store          dst;
    float             *src_buffer, *operand_buffers, *slot_buffers;
    slots              slot;
    const float       *kept[OPF_PROGRAM_OPERANDS]; /* operands that are the same for all rows, of this column range */
} machine;

static const float *operand_of(machine *m, const area *block, uint32_t o, const float **read)
{
    if (!read[o])
        read[o] = m->kept[o] ? m->kept[o]
                             : read_block(m->kern, &m->operands[o], block, m->operand_buffers + o * OPF_PROGRAM_COLS);
    if (m->operands[o].row == 0 && m->operands[o].rows == NULL)
        m->kept[o] = read[o];
    return read[o];
}

static void run_block(machine *m, const area *block)
{
    const opf_program *program = m->program;
    const size_t       n       = block->rows * block->cols;
    const float       *read[OPF_PROGRAM_OPERANDS] = {NULL}, *results[OPF_PROGRAM_MAX];
    const float       *src = m->src.data ? read_block(m->kern, &m->src, block, m->src_buffer) : NULL;
    const bool levels = program->levels != OPF_TYPE_NONE;
    float *direct = !levels && is_dense(block, m->dst.row, 1) ? m->dst.data + (ptrdiff_t)block->row * m->dst.row + block->col : NULL;
    const float *result = src;

    for (uint32_t i = 0; i < program->n; i++) {
        const opf_instr *instr  = &program->instr[i];
        const float     *arg[2] = {NULL, NULL};
        for (int a = 0; a < 2; a++) {
            const int id = instr->args[a];
            arg[a]       = id == 0 ? src : id > 0 ? results[id - 1] : operand_of(m, block, (uint32_t)(-id - 1), read);
        }
        float *out = i + 1 == program->n && direct ? direct : m->slot_buffers + (size_t)m->slot.of[i] * OPF_PROGRAM_COLS;
        m->kern->ew[instr->op](out, arg[0], arg[1], n, instr->params);
        if (instr->store >= 0)
            write_block(m->kern, &m->stores[instr->store], block, out);
        result = results[i] = out;
    }
    if (levels)
        write_levels(program->levels, m->dst.data, m->dst.row, block, result);
    else if (result && result != direct)
        write_block(m->kern, &m->dst, block, result);
}

bool opf_program_is_chain(const opf_program *program)
{
    for (uint32_t i = 0; i < program->n; i++) {
        const opf_instr *instr = &program->instr[i];
        if (instr->store >= 0 || instr->args[0] != (int16_t)i || opf_ew_reads_b(instr->op))
            return false;
    }
    return program->n != 0 && program->levels == OPF_TYPE_NONE;
}

static void run_in_place(const opf_kern *kern, const opf_instr *instr, float *x, ptrdiff_t row, size_t rows, size_t cols)
{
    if (kern->ew_rows[instr->op] != NULL)
        kern->ew_rows[instr->op](x, row, rows, cols, instr->params);
    else
        for (size_t r = 0; r < rows; r++, x += row)
            kern->ew[instr->op](x, x, NULL, cols, instr->params);
}

/* Operator by operator, over pieces that stay in L1 meanwhile. */
static void run_chain(const opf_kern *kern, const opf_program *program, float *x, ptrdiff_t row, size_t rows, size_t cols)
{
    enum { PIECE = 2048 };
    const size_t width = program->n == 1 || cols < PIECE ? cols : PIECE, height = program->n == 1 ? rows : (PIECE - 1) / width + 1;
    for (size_t r = 0; r < rows; r += height)
        for (size_t c = 0; c < cols; c += width)
            for (uint32_t i = 0; i < program->n; i++)
                run_in_place(kern, &program->instr[i], x + (ptrdiff_t)r * row + c, row, rows - r < height ? rows - r : height,
                             cols - c < width ? cols - c : width);
}

/* The operand, of a number a column, that an instruction combines with the result before it, or NULL. */
static const float *column_operand(const opf_program *program, uint32_t i, opf_ew op, const opf_operand *operands)
{
    const opf_instr *instr  = &program->instr[i];
    const bool       turned = instr->args[0] != (int)i;
    const int        other  = instr->args[turned ? 0 : 1];
    if (instr->op != op || instr->args[turned ? 1 : 0] != (int)i || other >= 0)
        return NULL;
    const opf_operand *operand = &operands[-other - 1];
    const bool         plain   = operand->row == 0 && operand->col == 1 && operand->levels == OPF_TYPE_NONE && operand->rows == NULL;
    return plain ? operand->data : NULL;
}

/* A factor and a term a column, then a clamp or nothing: a batch normalisation in front of a product or behind it. */
static bool as_columns(const opf_program *program, const opf_operand *operands, opf_columns *tile)
{
    if ((program->n != 2 && program->n != 3) || program->n_stores != 0 || program->levels != OPF_TYPE_NONE)
        return false;
    tile->scale = column_operand(program, 0, OPF_EW_MUL, operands);
    tile->shift = tile->scale == NULL ? NULL : column_operand(program, 1, OPF_EW_ADD, operands);
    tile->lo    = -INFINITY;
    tile->hi    = INFINITY;
    if (tile->shift != NULL && program->n == 3) {
        const opf_instr *clamp = &program->instr[2];
        tile->lo = clamp->op == OPF_EW_CLIP ? clamp->params[0] : 0;
        tile->hi = clamp->op == OPF_EW_CLIP ? clamp->params[1] : INFINITY;
        return clamp->args[0] == 2 && (clamp->op == OPF_EW_CLIP || clamp->op == OPF_EW_RELU);
    }
    return tile->shift != NULL;
}

void opf_program_run(const opf_kern *kern, const opf_program *program, const opf_operand *operands, const opf_store *stores,
                     const float *src, ptrdiff_t src_row, float *dst, ptrdiff_t dst_row, size_t rows, size_t cols, float *scratch)
{
    if (rows == 0 || cols == 0)
        return;
    if (src == dst && src_row == dst_row && opf_program_is_chain(program)) {
        run_chain(kern, program, dst, dst_row, rows, cols);
        return;
    }
    opf_columns columns = {.x = src, .x_row = src_row, .y = dst, .y_row = dst_row, .rows = rows, .cols = cols};
    if (src != NULL && as_columns(program, operands, &columns)) {
        kern->scale_columns(&columns);
        return;
    }
    machine m = {.kern = kern, .program = program, .operands = operands, .stores = stores};
    m.src             = (opf_operand){.data = src, .row = src_row, .col = 1};
    m.dst             = (opf_store){dst, dst_row, 1};
    m.src_buffer      = scratch;
    m.operand_buffers = scratch + OPF_PROGRAM_COLS;
    m.slot_buffers    = m.operand_buffers + (size_t)program->n_operands * OPF_PROGRAM_COLS;
    assign_slots(program, &m.slot);

    const size_t width = cols < OPF_PROGRAM_COLS ? cols : OPF_PROGRAM_COLS, height = OPF_PROGRAM_COLS / width;
    for (size_t c = 0; c < cols; c += width) {
        memset(m.kept, 0, sizeof m.kept);
        for (size_t r = 0; r < rows; r += height) {
            const area block = {rows - r < height ? rows - r : height, cols - c < width ? cols - c : width, r, c};
            run_block(&m, &block);
        }
    }
}
