/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs against the same instructions run element by element: equal to the bit. */
#include "check.h"

#include <string.h>

enum { MAX_ROWS = 40, MAX_COLS = 2500, ROOM = 24000 };

static const struct {
    opf_ew op;
    bool   binary;
} ops[] = {
    {OPF_EW_ADD, true},     {OPF_EW_MUL, true},    {OPF_EW_SUB, true},   {OPF_EW_MAX, true},   {OPF_EW_MIN, true},
    {OPF_EW_PRELU, true},   {OPF_EW_QUANTIZE, true},   {OPF_EW_RELU, false},  {OPF_EW_CLIP, false}, {OPF_EW_TANH, false}, {OPF_EW_SIGMOID, false},
    {OPF_EW_GELU, false},   {OPF_EW_COPY, false},  {OPF_EW_NEG, false},
    {OPF_EW_AFFINE, false},
};

/* is_chain: unary operators, each of what the one before gives. */
static void make_program(checker *check, opf_program *program, bool has_src, bool is_chain)
{
    *program            = (opf_program){0};
    program->n          = (uint32_t)check_random(check, 9) + !has_src;
    program->n_operands = (uint32_t)check_random(check, 6) + !has_src;
    for (uint32_t i = 0; i < program->n; i++) {
        opf_instr   *instr = &program->instr[i];
        size_t       which = check_random(check, sizeof ops / sizeof *ops);
        while (is_chain && ops[which].binary)
            which = check_random(check, sizeof ops / sizeof *ops);
        instr->op          = ops[which].op;
        instr->params[0]   = -0.5f;
        instr->params[1]   = 0.75f;
        for (int a = 0; a < (ops[which].binary ? 2 : 1); a++) {
            const int sources = (int)i + (int)has_src + (int)program->n_operands;
            int       pick    = (int)check_random(check, (uint64_t)sources);
            if (pick < (int)program->n_operands)
                instr->args[a] = (int16_t)(-pick - 1);
            else if (pick - (int)program->n_operands < (int)i)
                instr->args[a] = (int16_t)(pick - (int)program->n_operands + 1);
            else
                instr->args[a] = 0;
        }
        instr->store = -1;
        if (is_chain)
            instr->args[0] = (int16_t)i;
        else if (check_random(check, 4) == 0 && program->n_stores < 4)
            instr->store = (int16_t)program->n_stores++;
    }
}

/* A factor and a term a column, then perhaps a clamp: one pass of its own. */
static void make_columns(checker *check, opf_program *program)
{
    const uint64_t end    = check_random(check, 3);
    const bool     turned = check_random(check, 2);
    *program              = (opf_program){.n = end == 0 ? 2 : 3, .n_operands = 2};
    program->instr[0]     = (opf_instr){.op = OPF_EW_MUL, .args = {turned ? 0 : -1, turned ? -1 : 0}, .store = -1};
    program->instr[1]     = (opf_instr){.op = OPF_EW_ADD, .args = {turned ? -2 : 1, turned ? 1 : -2}, .store = -1};
    program->instr[2]     = (opf_instr){.op = end == 1 ? OPF_EW_RELU : OPF_EW_CLIP, .args = {2}, .params = {-0.5f, 0.75f}, .store = -1};
}

typedef struct tile {
    size_t rows, cols;
    float *data;
    size_t row, col, size;
} tile;

/* Dense or padded rows, a broadcast along either or both dimensions, or transposed. */
static tile make_tile(checker *check, size_t rows, size_t cols, uint64_t kinds)
{
    tile           t    = {rows, cols, NULL, cols, 1, 0};
    const uint64_t kind = check_random(check, kinds);
    if (kind == 1) {
        t.row = cols + check_random(check, 9);
    } else if (kind == 2) {
        t.row = 1;
        t.col = rows + check_random(check, 3);
    } else if (kind == 3) {
        t.row = 0;
    } else if (kind == 4) {
        t.row = 1;
        t.col = 0;
    } else if (kind == 5) {
        t.row = t.col = 0;
    } else if (kind == 6) {
        t.col = 2;
        t.row = 2 * cols;
    }
    t.size = rows && cols ? (rows - 1) * t.row + (cols - 1) * t.col + 1 : 0;
    t.data = check_array(check, t.size);
    check_fill(check, t.data, t.size, 1);
    return t;
}

static tile make_row(checker *check, size_t rows, size_t cols) /* the same for all rows */
{
    tile t = {rows, cols, NULL, 0, 1, rows ? cols : 0};
    t.data = check_array(check, t.size);
    check_fill(check, t.data, t.size, 1);
    return t;
}

static float *at(const tile *t, size_t r, size_t c)
{
    return t->data + r * t->row + c * t->col;
}

/* The operand as it is, or with each row somewhere else, at any byte address: places has room for the rows. */
static opf_operand view_of(checker *check, const tile *t, bool may_scatter, const void **places)
{
    const size_t n = t->size != 0 ? (t->cols - 1) * t->col + 1 : 0;
    if (!may_scatter || n * t->rows > ROOM || check_random(check, 3) != 0)
        return (opf_operand){.data = t->data, .row = (ptrdiff_t)t->row, .col = (ptrdiff_t)t->col};
    char *last = (char *)check_array(check, n * t->rows + 1) + check_random(check, sizeof(float) + 1);
    for (size_t r = t->rows; r-- > 0; last += n * sizeof(float))
        places[r] = memcpy(last, at(t, r, 0), n * sizeof(float));
    return (opf_operand){.col = (ptrdiff_t)t->col, .rows = places};
}

static void run_element(const opf_kern *kern, const opf_program *program, const float *operands, float src, float *results)
{
    for (uint32_t i = 0; i < program->n; i++) {
        const opf_instr *instr = &program->instr[i];
        float            arg[2];
        for (int a = 0; a < 2; a++)
            arg[a] = instr->args[a] == 0 ? src : instr->args[a] > 0 ? results[instr->args[a] - 1] : operands[-instr->args[a] - 1];
        kern->ew[instr->op](&results[i], &arg[0], &arg[1], 1, instr->params);
    }
}

static void run(checker *check, int index)
{
    (void)index;
    static float want[ROOM], want_store[4][ROOM];
    for (int round = 0; round < 400 && !check->failed; round++) {
        check_reset(check);
        size_t rows = check_size(check, 0, MAX_ROWS), cols = check_size(check, 0, MAX_COLS);
        if (rows * cols > ROOM / 2)
            rows = ROOM / 2 / cols;
        const bool  has_src = check_random(check, 8) != 0, is_chain = has_src && check_random(check, 4) == 0;
        const bool  is_columns = has_src && !is_chain && check_random(check, 4) == 0;
        opf_program program;
        make_program(check, &program, has_src, is_chain);
        if (is_columns)
            make_columns(check, &program);
        tile operands[OPF_PROGRAM_OPERANDS], stores[4];
        tile src = make_tile(check, rows, cols, 2), dst = make_tile(check, rows, cols, 2);
        for (uint32_t i = 0; i < program.n_operands; i++)
            operands[i] = is_columns && check_random(check, 4) != 0 ? make_row(check, rows, cols) : make_tile(check, rows, cols, 7);
        for (uint32_t i = 0; i < program.n_stores; i++)
            stores[i] = make_tile(check, rows, cols, 3);
        const uint64_t alias = is_chain ? 1 : check_random(check, 4); /* dst: its own, the source, or an operand */
        if (alias == 1 && has_src)
            dst = src;
        if (alias == 2 && program.n_operands) {
            operands[0]     = make_tile(check, rows, cols, 2);
            operands[0].row = operands[0].row ? operands[0].row : cols;
            dst             = operands[0];
        }

        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < cols; c++) {
                float       values[OPF_PROGRAM_OPERANDS], results[OPF_PROGRAM_MAX];
                const float x = has_src ? *at(&src, r, c) : 0.0f;
                for (uint32_t i = 0; i < program.n_operands; i++)
                    values[i] = *at(&operands[i], r, c);
                run_element(check->kern, &program, values, x, results);
                want[r * cols + c] = program.n ? results[program.n - 1] : x;
                for (uint32_t i = 0; i < program.n; i++)
                    if (program.instr[i].store >= 0)
                        want_store[program.instr[i].store][r * cols + c] = results[i];
            }

        opf_operand operand_views[OPF_PROGRAM_OPERANDS];
        const void *places[OPF_PROGRAM_OPERANDS][MAX_ROWS];
        opf_store   store_views[4];
        for (uint32_t i = 0; i < program.n_operands; i++)
            operand_views[i] = view_of(check, &operands[i], operands[i].data != dst.data, places[i]);
        for (uint32_t i = 0; i < program.n_stores; i++)
            store_views[i] = (opf_store){stores[i].data, (ptrdiff_t)stores[i].row, (ptrdiff_t)stores[i].col};
        float *scratch = check_array(check, opf_program_scratch(&program));
        opf_program_run(check->kern, &program, operand_views, store_views, has_src ? src.data : NULL, (ptrdiff_t)src.row, dst.data,
                        (ptrdiff_t)dst.row, rows, cols, scratch);

        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < cols; c++) {
                if (!check_same(*at(&dst, r, c), want[r * cols + c]))
                    check_fail(check, "%zux%zu, %u instructions: dst[%zu][%zu] is %g, must be %g", rows, cols, program.n, r, c,
                               (double)*at(&dst, r, c), (double)want[r * cols + c]);
                for (uint32_t i = 0; i < program.n_stores; i++)
                    if (!check_same(*at(&stores[i], r, c), want_store[i][r * cols + c]))
                        check_fail(check, "%zux%zu: store %u differs at [%zu][%zu]", rows, cols, i, r, c);
            }
        check_bands(check);
    }
}

static const check_slot slots[] = {
    {"program", offsetof(opf_kern, ew), run, 0}, /* on the table of each level */
};
const check_family check_program_family = {slots, sizeof slots / sizeof *slots};
