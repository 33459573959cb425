/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/steps.h"

#include "ops/instruction.h"

#include <math.h>
#include <string.h>

/* ---- operators to instructions ---- */

typedef struct {
    const opf_planner *planner;
    opf_lowered       *lowered;
    bool               levels; /* operands and the result may be levels of 8 bits */
    bool               failed;
} builder;

static bool is_level_type(opf_type type)
{
    return type == OPF_UINT8 || type == OPF_INT8;
}

static int16_t emit(builder *b, opf_ew op, int16_t a0, int16_t a1, float p0, float p1)
{
    opf_program *program = &b->lowered->program;
    if (program->n == OPF_PROGRAM_MAX) {
        b->failed = true;
        return 0;
    }
    program->instr[program->n++] = (opf_instr){.op = op, .args = {a0, a1}, .params = {p0, p1}, .store = -1};
    return (int16_t)program->n;
}

/* The argument number of a value: one operand a value. */
static int16_t operand(builder *b, opf_value_id value)
{
    opf_program *program = &b->lowered->program;
    for (uint32_t i = 0; i < program->n_operands; i++)
        if (b->lowered->operands[i] == value)
            return (int16_t)(-1 - (int)i);
    const opf_type type = b->planner->infos[value].type;
    if (program->n_operands == OPF_PROGRAM_OPERANDS || (type != OPF_FLOAT && !(b->levels && is_level_type(type)))) {
        b->failed = true;
        return 0;
    }
    b->lowered->operands[program->n_operands++] = value;
    return (int16_t)-(int)program->n_operands;
}

/* One argument of an operator being lowered: already computed, or a value, or absent. */
typedef struct {
    bool         present;
    int16_t      arg;
    opf_value_id value; /* not 0: load it when used */
} source;

static int16_t use(builder *b, source s)
{
    return s.value != 0 ? operand(b, s.value) : s.arg;
}

static bool scalar_of(const builder *b, source s, float *x)
{
    double number;
    if (s.value == 0 || !opf_graph_scalar(b->planner->graph, s.value, &number))
        return false;
    *x = (float)number;
    return true;
}

/* min(max(x, lo), hi), with bounds that may be absent or computed. */
static int16_t emit_clip(builder *b, const source *s, uint32_t n)
{
    int16_t x  = use(b, s[0]);
    float   lo = -INFINITY, hi = INFINITY;
    bool    has_lo = n > 1 && s[1].present, has_hi = n > 2 && s[2].present;
    if ((!has_lo || scalar_of(b, s[1], &lo)) && (!has_hi || scalar_of(b, s[2], &hi)) && !isnan(lo) && !isnan(hi))
        return emit(b, OPF_EW_CLIP, x, 0, lo, hi);
    if (has_lo)
        x = emit(b, OPF_EW_MAX, x, use(b, s[1]), 0, 0);
    if (has_hi)
        x = emit(b, OPF_EW_MIN, x, use(b, s[2]), 0, 0);
    return x;
}

/* ---- levels ---- */

static bool is_one_number(const builder *b, source s, opf_type type)
{
    const opf_info *info = &b->planner->infos[s.value];
    size_t          count;
    return s.value != 0 && opf_info_count(info, &count) && count == 1 && info->rank <= 1 && (type == OPF_TYPE_NONE || info->type == type);
}

/* A QuantizeLinear or DequantizeLinear with a float scale and a zero point of one number each, which may be absent. */
static bool is_per_tensor(const builder *b, const opf_attr *attrs, uint32_t n_attrs, const source *s, uint32_t n)
{
    return n > 1 && is_one_number(b, s[1], OPF_FLOAT) && (n <= 2 || !s[2].present || is_one_number(b, s[2], OPF_TYPE_NONE)) &&
           opf_attrs_int(attrs, n_attrs, "block_size", 0) == 0 && opf_attrs_int(attrs, n_attrs, "precision", 0) == 0;
}

static void level_range(opf_type type, float *low, float *high)
{
    const bool is_signed = opf_types_have(OPF_TYPES_SINT, type);
    *high                = ldexpf(1, (int)opf_type_bits(type) - (is_signed ? 1 : 0)) - 1;
    *low                 = is_signed ? -*high - 1 : 0;
}

/* A level less the zero point, as a float; the zero point must be known. */
static int16_t emit_quantize(builder *b, opf_type type, const source *s, uint32_t n)
{
    float low, high, zero = 0;
    level_range(type, &low, &high);
    b->failed = b->failed || (n > 2 && s[2].present && !scalar_of(b, s[2], &zero));
    return emit(b, OPF_EW_QUANTIZE, use(b, s[0]), use(b, s[1]), low - zero, high - zero);
}

/* Levels that are stored: the result of the program. */
static int16_t emit_store_levels(builder *b, opf_type type, const opf_attr *attrs, uint32_t n_attrs, const source *s, uint32_t n)
{
    float low, high;
    if (!b->levels || !is_level_type(type) || !is_per_tensor(b, attrs, n_attrs, s, n)) {
        b->failed = true;
        return 0;
    }
    b->lowered->program.levels = type;
    level_range(type, &low, &high);
    if (n <= 2 || !s[2].present)
        return emit_quantize(b, type, s, n);
    int16_t level = emit(b, OPF_EW_QUANTIZE, use(b, s[0]), use(b, s[1]), -INFINITY, INFINITY);
    level         = emit(b, OPF_EW_ADD, level, operand(b, s[2].value), 0, 0);
    return emit(b, OPF_EW_CLIP, level, 0, low, high);
}

/* Levels that are read, by their number. */
static int16_t emit_load_levels(builder *b, const opf_attr *attrs, uint32_t n_attrs, const source *s, uint32_t n)
{
    if (!b->levels || !is_per_tensor(b, attrs, n_attrs, s, n)) {
        b->failed = true;
        return 0;
    }
    int16_t level = use(b, s[0]);
    if (n > 2 && s[2].present)
        level = emit(b, OPF_EW_SUB, level, operand(b, s[2].value), 0, 0);
    return emit(b, OPF_EW_MUL, level, use(b, s[1]), 0, 0);
}

/* The operator on its sources; the result's argument number. Fails the builder when there is no kernel. */
static int16_t emit_op(builder *b, const opf_op *op, const opf_attr *attrs, uint32_t n_attrs, const source *s, uint32_t n)
{
    opf_instruction known;
    float           exponent;
    if (!opf_op_instruction(op, attrs, n_attrs, &known)) {
        b->failed = true;
        return 0;
    }
    if (op == &opf_op_Clip)
        return emit_clip(b, s, n);
    if (op == &opf_op_Pow && n == 2 && scalar_of(b, s[1], &exponent)) {
        if (exponent == 2.0f)
            return emit(b, OPF_EW_SQUARE, use(b, s[0]), 0, 0, 0);
        if (exponent == 0.5f)
            return emit(b, OPF_EW_SQRT, use(b, s[0]), 0, 0, 0);
    }
    int16_t result = use(b, s[0]);
    if (!opf_ew_reads_b(known.ew))
        result = emit(b, known.ew, result, 0, known.params[0], known.params[1]);
    else if (n == 1)
        result = emit(b, OPF_EW_COPY, result, 0, 0, 0);
    for (uint32_t k = 1; k < n && opf_ew_reads_b(known.ew); k++) /* Sum, Mean, Min and Max take any number */
        result = emit(b, known.ew, result, use(b, s[k]), known.params[0], known.params[1]);
    if (op == &opf_op_SwiGLU)
        result = emit(b, OPF_EW_MUL, result, use(b, s[1]), 0, 0);
    if (op == &opf_op_Mean)
        result = emit(b, OPF_EW_AFFINE, result, 0, 1.0f / (float)n, -0.0f);
    return result;
}

/* ---- steps ---- */

static bool is_same(opf_arg a, opf_arg b)
{
    return a.kind == b.kind && a.index == b.index;
}

/* Where(IsNaN(x), number, x) is one instruction, that of the Where: the result of IsNaN stands for x. */
static int16_t emit_replaced(builder *b, const opf_steps *steps, const opf_step *step, const source *s)
{
    if (step->op == &opf_op_IsNaN) {
        b->failed = b->failed || step->output >= 0;
        return use(b, s[0]);
    }
    float           number = 0;
    const opf_step *is_nan = step->args[0].kind == OPF_ARG_STEP ? &steps->list[step->args[0].index] : NULL;
    b->failed = b->failed || is_nan == NULL || is_nan->op != &opf_op_IsNaN || !is_same(is_nan->args[0], step->args[2]) ||
                !scalar_of(b, s[1], &number);
    return b->failed ? (int16_t)0 : emit(b, OPF_EW_NAN_TO, s[0].arg, 0, number, 0);
}

/* A level that the next step makes a number again stays one; others are read and stored. */
static int16_t emit_step(builder *b, const opf_steps *steps, uint32_t i, const int16_t *results, const source *s)
{
    const opf_step *step  = &steps->list[i], *before = i == 0 ? NULL : step - 1, *after = i + 1 == steps->n ? NULL : step + 1;
    const bool      reads = step->op == &opf_op_DequantizeLinear && step->args[0].kind == OPF_ARG_STEP;
    b->failed = b->failed || (step->op != &opf_op_QuantizeLinear && step->op != &opf_op_IsNaN && step->type != OPF_FLOAT);
    if (step->op == &opf_op_IsNaN || step->op == &opf_op_Where)
        return emit_replaced(b, steps, step, s);
    if (reads) {
        b->failed = b->failed || step->args[0].index + 1 != i || before->op != &opf_op_QuantizeLinear;
        return emit(b, OPF_EW_MUL, results[i - 1], use(b, s[1]), 0, 0);
    }
    if (step->op == &opf_op_DequantizeLinear)
        return emit_load_levels(b, step->attrs, step->n_attrs, s, step->n_args);
    if (step->op == &opf_op_QuantizeLinear && after != NULL) {
        b->failed = b->failed || after->op != &opf_op_DequantizeLinear || step->output >= 0 ||
                    !is_per_tensor(b, step->attrs, step->n_attrs, s, step->n_args);
        return b->failed ? (int16_t)0 : emit_quantize(b, step->type, s, step->n_args);
    }
    if (step->op == &opf_op_QuantizeLinear)
        return emit_store_levels(b, step->type, step->attrs, step->n_attrs, s, step->n_args);
    return emit_op(b, step->op, step->attrs, step->n_attrs, s, step->n_args);
}

static void emit_steps(builder *b, const opf_node *node, const opf_steps *steps, int16_t anchor)
{
    int16_t results[OPF_PROGRAM_MAX];
    if (steps->n > OPF_PROGRAM_MAX) {
        b->failed = true;
        return;
    }
    for (uint32_t i = 0; i < steps->n && !b->failed; i++) {
        const opf_step *step = &steps->list[i];
        source          s[OPF_STEP_ARGS];
        for (uint32_t k = 0; k < step->n_args; k++) {
            opf_arg arg = step->args[k];
            s[k]        = (source){.present = arg.kind != OPF_ARG_NONE,
                                   .arg     = arg.kind == OPF_ARG_STEP ? results[arg.index] : anchor,
                                   .value   = arg.kind == OPF_ARG_INPUT ? node->inputs[arg.index] : 0};
        }
        results[i] = emit_step(b, steps, i, results, s);
        if (b->failed || step->output < 0)
            continue;
        opf_program *program = &b->lowered->program;
        if (program->n_stores == OPF_PROGRAM_OPERANDS || program->instr[results[i] - 1].store >= 0) {
            b->failed = true;
            return;
        }
        program->instr[results[i] - 1].store        = (int16_t)program->n_stores;
        b->lowered->stores[program->n_stores++] = node->outputs[step->output];
    }
    /* The last step is the result: the program ends with it. */
    if (!b->failed && steps->n != 0 && results[steps->n - 1] != (int16_t)b->lowered->program.n)
        (void)emit(b, OPF_EW_COPY, results[steps->n - 1], 0, 0, 0);
}

bool opf_lower_steps(const opf_planner *planner, const opf_node *node, const opf_steps *steps, opf_lowered *lowered)
{
    *lowered  = (opf_lowered){0};
    builder b = {.planner = planner, .lowered = lowered};
    emit_steps(&b, node, steps, 0);
    return !b.failed;
}

void opf_take_then(opf_program *program, opf_ew *then, float *param)
{
    const opf_instr *instr = &program->instr[0];
    if (program->n != 1 || program->levels != OPF_TYPE_NONE || instr->store >= 0 || instr->args[0] != 0 ||
        (instr->op != OPF_EW_SWISH && instr->op != OPF_EW_HARD_SWISH))
        return;
    *then      = instr->op;
    *param     = instr->params[0];
    program->n = 0;
}

void opf_lower_clamp(opf_lowered *lowered, float *lo, float *hi)
{
    const opf_instr *instr = &lowered->program.instr[0];
    *lo                    = -INFINITY;
    *hi                    = INFINITY;
    if (lowered->program.n != 1 || instr->store >= 0 || instr->args[0] != 0 || (instr->op != OPF_EW_RELU && instr->op != OPF_EW_CLIP))
        return;
    *lo                = instr->op == OPF_EW_RELU ? 0.0f : instr->params[0];
    *hi                = instr->op == OPF_EW_RELU ? INFINITY : instr->params[1];
    lowered->program.n = 0;
}

bool opf_lower_more_steps(const opf_planner *planner, const opf_node *node, const opf_steps *steps, opf_lowered *lowered)
{
    builder b = {.planner = planner, .lowered = lowered};
    emit_steps(&b, node, steps, (int16_t)lowered->program.n);
    return !b.failed;
}

bool opf_lower_elementwise_node(const opf_planner *planner, const opf_node *node, opf_lowered *lowered)
{
    *lowered  = (opf_lowered){0};
    builder b = {.planner = planner, .lowered = lowered, .levels = true};
    source  s[OPF_PROGRAM_OPERANDS];
    if (node->n_own_inputs > OPF_PROGRAM_OPERANDS || node->prologue.n != 0)
        return false;
    for (uint32_t i = 0; i < node->n_own_inputs; i++)
        s[i] = (source){.present = node->inputs[i] != 0, .value = node->inputs[i]};
    /* A region is an Identity with steps: they read its operand directly. */
    bool    region = node->op == &opf_op_Identity && node->epilogue.n != 0;
    int16_t anchor = region                                  ? operand(&b, node->inputs[0])
                     : node->op == &opf_op_QuantizeLinear   ? emit_store_levels(&b, planner->infos[node->outputs[0]].type, node->attrs, node->n_attrs, s, node->n_own_inputs)
                     : node->op == &opf_op_DequantizeLinear ? emit_load_levels(&b, node->attrs, node->n_attrs, s, node->n_own_inputs)
                                                             : emit_op(&b, node->op, node->attrs, node->n_attrs, s, node->n_own_inputs);
    if (!b.failed)
        emit_steps(&b, node, &node->epilogue, anchor);
    /* What is read, and what comes out, is what was said. */
    const opf_type result = node->outputs[0] == 0 ? OPF_TYPE_NONE : planner->infos[node->outputs[0]].type;
    return !b.failed && result == (lowered->program.levels == OPF_TYPE_NONE ? OPF_FLOAT : lowered->program.levels);
}

/* ---- numbers ---- */

/* The one constant number that argument `a` of an instruction is. */
static bool is_number(const opf_planner *planner, const opf_lowered *lowered, int16_t a, float *x)
{
    opf_value_id     value = a < 0 ? lowered->operands[-a - 1] : 0;
    const opf_const *c     = value == 0 ? NULL : opf_graph_value(planner->graph, value)->constant;
    if (c == NULL || c->count != 1 || c->type != OPF_FLOAT)
        return false;
    *x = (float)opf_const_f64_at(c, 0);
    return true;
}

/* x*1 and x + -0 are x, whatever x is. */
static void take_number(const opf_planner *planner, const opf_lowered *lowered, opf_instr *instr)
{
    float          x;
    const bool     second = is_number(planner, lowered, instr->args[1], &x);
    const int16_t  other  = instr->args[second ? 0 : 1];
    if (instr->op != OPF_EW_ADD && instr->op != OPF_EW_SUB && instr->op != OPF_EW_MUL)
        return;
    if ((!second && !is_number(planner, lowered, instr->args[0], &x)) || other < 0)
        return;
    const bool negated = instr->op == OPF_EW_SUB && !second;
    *instr = (opf_instr){.op     = OPF_EW_AFFINE,
                         .args   = {other, 0},
                         .params = {instr->op == OPF_EW_MUL ? x : negated ? -1.0f : 1.0f,
                                    instr->op == OPF_EW_MUL ? -0.0f : instr->op == OPF_EW_SUB && second ? -x : x},
                         .store  = instr->store};
}

/* Instruction i + 1 adds to the product of i, which nothing else reads. */
static bool is_product_and_sum(const opf_program *program, uint32_t i)
{
    const opf_instr *first = &program->instr[i], *second = &program->instr[i + 1];
    if (first->op != OPF_EW_AFFINE || second->op != OPF_EW_AFFINE || first->store >= 0 || second->args[0] != (int16_t)(i + 1) ||
        second->params[0] != 1.0f || first->params[1] != 0.0f || !signbit(first->params[1]))
        return false;
    for (uint32_t j = i + 2; j < program->n; j++)
        for (int a = 0; a < (opf_ew_reads_b(program->instr[j].op) ? 2 : 1); a++)
            if (program->instr[j].args[a] == (int16_t)(i + 1))
                return false;
    return true;
}

static void join_sums(opf_program *program)
{
    for (uint32_t i = 0; i + 1 < program->n;) {
        if (!is_product_and_sum(program, i)) {
            i++;
            continue;
        }
        program->instr[i].params[1] = program->instr[i + 1].params[1];
        program->instr[i].store     = program->instr[i + 1].store;
        program->n--;
        memmove(&program->instr[i + 1], &program->instr[i + 2], (program->n - i - 1) * sizeof *program->instr);
        for (uint32_t j = i + 1; j < program->n; j++)
            for (int a = 0; a < 2; a++)
                if (program->instr[j].args[a] > (int16_t)(i + 1))
                    program->instr[j].args[a]--;
    }
}

static void drop_unread_operands(opf_lowered *lowered)
{
    opf_program *program = &lowered->program;
    int16_t      renamed[OPF_PROGRAM_OPERANDS];
    bool         read[OPF_PROGRAM_OPERANDS] = {false};
    uint32_t     n = 0;
    for (uint32_t i = 0; i < program->n; i++)
        for (int a = 0; a < (opf_ew_reads_b(program->instr[i].op) ? 2 : 1); a++)
            if (program->instr[i].args[a] < 0)
                read[-program->instr[i].args[a] - 1] = true;
    for (uint32_t o = 0; o < program->n_operands; o++)
        if (read[o]) {
            lowered->operands[n] = lowered->operands[o];
            renamed[o]           = (int16_t)(-(int16_t)++n);
        }
    program->n_operands = n;
    for (uint32_t i = 0; i < program->n; i++)
        for (int a = 0; a < (opf_ew_reads_b(program->instr[i].op) ? 2 : 1); a++)
            if (program->instr[i].args[a] < 0)
                program->instr[i].args[a] = renamed[-program->instr[i].args[a] - 1];
}

void opf_lower_scalars(const opf_planner *planner, opf_lowered *lowered)
{
    for (uint32_t i = 0; i < lowered->program.n; i++)
        take_number(planner, lowered, &lowered->program.instr[i]);
    join_sums(&lowered->program);
    drop_unread_operands(lowered);
}
