/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel that stayed is explained by its neighbours in the fused graph, as it is now: a near miss if a rule nearly took it,
 * else the first condition for joining the kernel before it that does not hold. Conditions of steps are asked of the code
 * that fuses them, so that the two cannot tell different stories.
 */
#include "exec/kept.h"

#include "fuse/absorb_reduce.h"
#include "fuse/absorb_steps.h"
#include "ops/stored.h"
#include "ops/op.h"
#include "ops/reduce.h"
#include "simplify/simplify.h"

#include <string.h>

void opf_kept_begin(opf_kept_finder *finder, const opf_model *model, opf_arena *arena, opf_arena *scratch)
{
    *finder         = (opf_kept_finder){.model = model, .arena = arena, .options = model->fuse_options, .report.arena = scratch};
    finder->context = (opf_fuse_context){.report = &finder->report, .options = &finder->options, .scratch = scratch, .left = -1};
}

static bool is_region(const opf_node *node)
{
    return node->op == &opf_op_Identity && node->epilogue.n != 0;
}

static bool is_elementwise(const opf_node *node)
{
    return is_region(node) || (node->op->traits & OPF_ELEMENTWISE) != 0 || node->op == &opf_op_QuantizeLinear ||
           node->op == &opf_op_DequantizeLinear;
}

bool opf_kept_wants_reason(const opf_graph *graph, const opf_plan_step *step)
{
    const opf_node *node = opf_graph_node(graph, step->node);
    return step->is_copy || (node->op != NULL && (is_elementwise(node) || node->op == &opf_op_Einsum || (node->op->traits & (OPF_MOVEMENT | OPF_NORMALIZATION)) != 0));
}

const char *opf_kept_op(const opf_graph *graph, const opf_plan_step *step)
{
    if (step->is_copy)
        return "Copy";
    const opf_node *node = opf_graph_node(graph, step->node);
    return node->epilogue.n != 0 && node->op != NULL && is_elementwise(node) ? "Elementwise" : node->op_type;
}

/* ---- neighbours ---- */

typedef struct {
    opf_value_id value; /* that the kernel makes, or that nothing makes */
    opf_node_id  kernel; /* 0: a graph input, a constant, or what is known without running */
    bool         known;
    opf_node_id  view;   /* the view nearest to the reader, through which it reads; 0: it reads the result itself */
} source;

static source source_of(const opf_graph *graph, opf_value_id value, const bool *runs)
{
    source s = {.value = value};
    for (;;) {
        opf_node_id producer = s.value == 0 ? 0 : opf_graph_value(graph, s.value)->producer;
        if (producer == 0)
            return s;
        const opf_node *node = opf_graph_node(graph, producer);
        if (runs[producer] || node->n_bodies != 0) {
            s.kernel = producer;
            return s;
        }
        if (node->op == NULL || (node->op->traits & (OPF_MOVEMENT | OPF_SHAPE_ONLY)) != OPF_MOVEMENT || node->n_inputs == 0) {
            s.known = true;
            return s;
        }
        if (s.view == 0)
            s.view = producer;
        s.value = node->inputs[0];
    }
}

/* The operand that a kernel made, the first one of these; else the first that is no constant. */
static source main_source(const opf_graph *graph, const opf_node *node, const bool *runs)
{
    source best = {0};
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i] == 0 || opf_graph_value(graph, node->inputs[i])->constant != NULL)
            continue;
        source s = source_of(graph, node->inputs[i], runs);
        if (s.kernel != 0)
            return s;
        if (best.value == 0)
            best = s;
    }
    return best;
}

/* A kernel that reads the value, perhaps through views; 0: none does. */
static opf_node_id reader_of(const opf_graph *graph, opf_value_id value, const bool *runs, int depth)
{
    const opf_value *v = opf_graph_value(graph, value);
    for (uint32_t u = 0; u < v->n_uses; u++)
        if (v->uses[u].node != 0 && runs[v->uses[u].node])
            return v->uses[u].node;
    for (uint32_t u = 0; depth > 0 && u < v->n_uses; u++) {
        const opf_node *view = v->uses[u].node == 0 ? NULL : opf_graph_node(graph, v->uses[u].node);
        for (uint32_t o = 0; view != NULL && o < view->n_outputs; o++) {
            opf_node_id reader = view->outputs[o] == 0 ? 0 : reader_of(graph, view->outputs[o], runs, depth - 1);
            if (reader != 0)
                return reader;
        }
    }
    return 0;
}

/* ---- near misses ---- */

/* The nearest one that has the node at fault, or begins at it. (They are sorted.) */
static const opf_miss *find_miss(const opf_model *model, const char *node)
{
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < model->open.report.n_misses; i++) {
            const opf_miss *miss = &model->open.report.misses[i];
            bool vague = miss->code == OPF_MISS_NO_GAIN || (miss->code == OPF_MISS_OP && 2 * miss->matched <= miss->of); /* the neighbours say more */
            if (!vague && strcmp(pass == 0 ? miss->node : miss->start, node) == 0)
                return miss;
        }
    return NULL;
}

static const opf_miss *find_disabled(const opf_model *model, const char *start)
{
    for (uint32_t i = 0; i < model->open.report.n_misses; i++) {
        const opf_miss *miss = &model->open.report.misses[i];
        if ((miss->code == OPF_MISS_DISABLED || miss->code == OPF_MISS_BUDGET) && strcmp(miss->start, start) == 0)
            return miss;
    }
    return NULL;
}

/* ---- reasons ---- */

#define OPF_REASON(...) opf_arena_printf(f->arena, __VA_ARGS__)

static const char *op_text(const opf_node *node)
{
    return is_region(node) ? "an elementwise kernel" : node->op_type;
}

/* "MatMul (seen through Transpose)": names stand in `other`, so that equal situations read equal. */
static const char *describe(opf_kept_finder *f, const opf_graph *graph, const source *s)
{
    if (s->known)
        return "known before the run";
    if (s->kernel == 0) {
        const char *what = opf_graph_value(graph, s->value)->constant != NULL ? "a constant" : "a graph input";
        return s->view == 0 ? what : OPF_REASON("%s (seen through %s)", what, opf_graph_node(graph, s->view)->op_type);
    }
    const char *op = op_text(opf_graph_node(graph, s->kernel));
    return s->view == 0 ? op : OPF_REASON("%s (seen through %s)", op, opf_graph_node(graph, s->view)->op_type);
}

static void name_other(opf_kept_entry *entry, const opf_graph *graph, const source *s)
{
    opf_node_id id = s->kernel != 0 ? s->kernel : s->view;
    entry->other   = id != 0 ? opf_graph_node(graph, id)->name : s->value != 0 ? opf_graph_value(graph, s->value)->name : NULL;
}

static void set(opf_kept_entry *entry, opf_miss_code code, const char *reason)
{
    entry->code   = opf_miss_code_name(code);
    entry->reason = reason;
}

static void explain_copy(opf_kept_finder *f, const opf_plan *plan, const opf_plan_step *step, const bool *runs, opf_kept_entry *entry)
{
    const opf_graph *graph = plan->graph;
    const opf_node  *node  = opf_graph_node(graph, step->node);
    source           s     = step->is_copy && step->copied != 0 ? source_of(graph, step->copied, runs) : main_source(graph, node, runs);
    name_other(entry, graph, &s);
    if (strcmp(step->kernel, "copy_output") == 0)
        set(entry, OPF_MISS_IS_OUTPUT, s.kernel == 0 ? "a graph output that nothing computes: it is copied for the caller"
                                       : step->is_copy ? OPF_REASON("a graph output lies row-major in memory of its own; %s leaves it in another layout, or another output has it", describe(f, graph, &s))
                                                       : OPF_REASON("a graph output lies row-major in memory of its own; %s is a view into the result of %s", node->op_type, describe(f, graph, &s)));
    else if (strcmp(step->kernel, "copy_crossing") == 0)
        set(entry, OPF_MISS_SHAPE_UNKNOWN, OPF_REASON("read where shapes depend on data, so it lies row-major; %s leaves it otherwise", describe(f, graph, &s)));
    else
        set(entry, OPF_MISS_NO_KERNEL, OPF_REASON("%s takes this operand in another layout than that of %s", op_text(node), describe(f, graph, &s)));
}

/* Who else needs the plain result that a step would replace. */
static bool explain_outside_use(opf_kept_finder *f, const opf_graph *graph, opf_node_id id, opf_value_id value, opf_kept_entry *entry)
{
    const opf_value *v = opf_graph_value(graph, value);
    for (uint32_t u = 0; u < v->n_uses; u++) {
        opf_node_id reader = v->uses[u].node;
        if (reader == id)
            continue;
        if (reader == 0) {
            set(entry, OPF_MISS_IS_OUTPUT, OPF_REASON("the result of %s is also graph output %s", entry->other, v->name));
            return true;
        }
        const opf_node *node = opf_graph_node(graph, reader);
        set(entry, OPF_MISS_USED_OUTSIDE, OPF_REASON("the result of %s is also read by %s (%s)", entry->other, node->name, node->op_type));
        return true;
    }
    return false;
}

static const char *shape_text(opf_kept_finder *f, const opf_graph *graph, opf_value_id value)
{
    const char *text = opf_info_string(&opf_graph_value(graph, value)->info, graph->dims, f->arena);
    return text != NULL ? text : "?";
}

/* A region runs over an operand that is as large as its result. */
static bool has_full_operand(opf_kept_finder *f, const opf_graph *graph, const opf_node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const opf_value *value = node->inputs[i] == 0 ? NULL : opf_graph_value(graph, node->inputs[i]);
        if (value != NULL && value->constant == NULL && opf_legal_same(&f->context, &value->info, &opf_graph_value(graph, node->outputs[0])->info, NULL))
            return true;
    }
    return false;
}

/* Could the anchor take the node as a step of its epilogue? The code that would do it is asked. */
static bool may_ask(const opf_graph *graph, const opf_node *anchor, opf_node_id id)
{
    return opf_steps_is_anchor(anchor) && !is_region(opf_graph_node(graph, id)) && opf_steps_is_candidate(graph, id);
}

static bool explain_step(opf_kept_finder *f, const opf_graph *graph, opf_node_id id, const source *s, opf_kept_entry *entry)
{
    const opf_node *anchor = opf_graph_node(graph, s->kernel), *node = opf_graph_node(graph, id);
    opf_step_plan   plan   = {.context = &f->context, .anchor = s->kernel, .root = s->kernel};
    f->context.graph       = (opf_graph *)(uintptr_t)graph; /* only asked, not changed */
    plan.result            = opf_graph_value(graph, anchor->outputs[0])->info;
    plan.plain             = anchor->epilogue.n == 0 ? anchor->outputs[0] : 0;
    opf_steps_begin(&plan);
    if (anchor->epilogue.n >= OPF_MAX_STEPS || anchor->n_inputs - anchor->n_own_inputs + OPF_STEP_ARGS > OPF_MAX_STEP_OPERANDS) {
        set(entry, OPF_MISS_NO_KERNEL, OPF_REASON("%s has %u steps with %u operands already: it has no room for more", entry->other, anchor->epilogue.n,
                                                  anchor->n_inputs - anchor->n_own_inputs));
        return true;
    }
    if (may_ask(graph, anchor, id) && !opf_steps_take(&plan, id) && plan.why.reason != NULL) {
        const char *reason = opf_arena_copy_string(f->arena, plan.why.reason, strlen(plan.why.reason));
        set(entry, plan.why.code, reason);
        return true;
    }
    if (!opf_steps_is_anchor(anchor) && !has_full_operand(f, graph, anchor)) {
        set(entry, OPF_MISS_SHAPE, OPF_REASON("no operand of %s is proven to have the shape of its result, which steps run over", entry->other));
        return true;
    }
    if (!opf_legal_same(&f->context, &opf_graph_value(graph, node->outputs[0])->info, &plan.result, NULL)) {
        set(entry, OPF_MISS_SHAPE, OPF_REASON("its result is %s, that of %s is %s: a step keeps the shape", shape_text(f, graph, node->outputs[0]), entry->other,
                                              shape_text(f, graph, anchor->outputs[0])));
        return true;
    }
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] != 0 && node->inputs[i] != s->value && opf_legal_depends(&f->context, node->inputs[i], s->kernel)) {
            set(entry, OPF_MISS_NOT_CONVEX, OPF_REASON("operand %s is computed from the result of %s", opf_graph_value(graph, node->inputs[i])->name, entry->other));
            return true;
        }
    const opf_steps *own = &node->epilogue;
    if (anchor->epilogue.n + own->n > OPF_MAX_STEPS) {
        set(entry, OPF_MISS_NO_KERNEL, OPF_REASON("%s has %u steps and it has %u: a kernel has room for %d", entry->other, anchor->epilogue.n, own->n,
                                                  OPF_MAX_STEPS));
        return true;
    }
    return explain_outside_use(f, graph, id, s->value, entry);
}

/* A type that no step computes, of an operand or the result. */
static bool explain_types(opf_kept_finder *f, const opf_graph *graph, opf_node_id id, opf_kept_entry *entry)
{
    const opf_node *node = opf_graph_node(graph, id);
    opf_step_plan   plan = {.context = &f->context, .root = id, .result = opf_graph_value(graph, node->outputs[0])->info};
    f->context.graph     = (opf_graph *)(uintptr_t)graph; /* only asked, not changed */
    if (is_region(node) || opf_steps_check_types(&plan, id) || plan.why.reason == NULL)
        return false;
    set(entry, plan.why.code, opf_arena_copy_string(f->arena, plan.why.reason, strlen(plan.why.reason)));
    return true;
}

static bool is_off(const opf_kept_finder *f, const opf_node *kernel, opf_kept_entry *entry)
{
    const opf_miss *miss = find_disabled(f->model, kernel->name);
    if (f->options.stop_after == 0)
        set(entry, OPF_MISS_DISABLED, "fusion is off");
    else if (miss != NULL)
        set(entry, miss->code, miss->reason);
    else
        return false;
    return true;
}

/* A reduction computes while it reads: not here, and why. */
static bool explain_reduction(opf_kept_finder *f, const opf_graph *graph, opf_node_id id, opf_node_id reader, opf_kept_entry *entry)
{
    const opf_node *reduction = opf_graph_node(graph, reader);
    opf_refusal     why;
    if (reader == 0 || reduction->op == NULL || !opf_reduce_is_known(reduction) || reduction->inputs[0] != opf_graph_node(graph, id)->outputs[0])
        return false;
    f->context.graph = (opf_graph *)(uintptr_t)graph; /* only asked, not changed */
    entry->other     = reduction->name;
    if (is_off(f, reduction, entry))
        return true;
    if (opf_reduce_may_compute(&f->context, reader, &why) || why.reason == NULL)
        return false;
    set(entry, why.code, opf_arena_copy_string(f->arena, why.reason, strlen(why.reason)));
    return true;
}

static void explain_elementwise(opf_kept_finder *f, const opf_graph *graph, opf_node_id id, const bool *runs, opf_kept_entry *entry)
{
    const opf_node *node   = opf_graph_node(graph, id);
    source          s      = main_source(graph, node, runs);
    opf_type        type   = node->outputs[0] == 0 ? OPF_TYPE_NONE : opf_graph_value(graph, node->outputs[0])->info.type;
    const opf_node *kernel = opf_graph_node(graph, s.kernel);
    opf_node_id     reader = node->outputs[0] == 0 ? 0 : reader_of(graph, node->outputs[0], runs, 8);
    name_other(entry, graph, &s);
    if (s.kernel == 0 && explain_reduction(f, graph, id, reader, entry)) {
        return;
    } else if (s.kernel == 0) {
        entry->other = reader != 0 ? opf_graph_node(graph, reader)->name : entry->other;
        set(entry, OPF_MISS_NO_KERNEL, reader == 0 ? OPF_REASON("its operand is %s: no kernel stands before it, and none reads its result", describe(f, graph, &s))
                                                   : OPF_REASON("its operand is %s: no kernel stands before it; %s, which reads its result, takes no steps of this kind while reading", describe(f, graph, &s),
                                                                op_text(opf_graph_node(graph, reader))));
    } else if (node->op == &opf_op_Cast || node->op == &opf_op_CastLike) {
        set(entry, OPF_MISS_DTYPE, OPF_REASON("it makes %s of %s: a step keeps the type of the kernel that it joins", opf_type_name(type),
                                              opf_type_name(opf_graph_value(graph, node->inputs[0])->info.type)));
    } else if (!opf_types_have(OPF_TYPES_FLOAT, type)) {
        set(entry, OPF_MISS_DTYPE, OPF_REASON("its result is %s: steps compute floats", opf_type_name(type)));
    } else if (is_off(f, kernel, entry) || is_off(f, node, entry)) {
        return;
    } else if (s.view != 0) {
        set(entry, OPF_MISS_NO_KERNEL, OPF_REASON("it reads the result of %s: steps run in the order in which the kernel before them computes, not across a view", describe(f, graph, &s)));
    } else if (kernel->n_bodies != 0 || !(opf_steps_is_anchor(kernel) || opf_steps_is_candidate(graph, s.kernel))) {
        set(entry, OPF_MISS_NO_KERNEL, OPF_REASON("%s, which makes its operand, takes no steps", kernel->op_type));
    } else if (kernel->op == &opf_op_Cast) {
        set(entry, OPF_MISS_DTYPE, "Cast, which makes its operand, changes the type: steps keep it");
    } else if (!opf_steps_is_candidate(graph, id) && !is_region(node)) {
        set(entry, OPF_MISS_NO_KERNEL, OPF_REASON("no step does what %s does with %u operands and %u results", node->op_type, node->n_inputs, node->n_outputs));
    } else if (opf_steps_is_candidate(graph, s.kernel) && explain_types(f, graph, s.kernel, entry)) {
        return; /* what makes its operand is no step either, and why */
    } else if (!explain_step(f, graph, id, &s, entry) && !explain_types(f, graph, id, entry)) {
        set(entry, OPF_MISS_NO_GAIN, OPF_REASON("%s could take it, and gains nothing by that", describe(f, graph, &s)));
    }
}

static void explain_normalisation(opf_kept_finder *f, const opf_graph *graph, opf_node_id id, const bool *runs, opf_kept_entry *entry)
{
    const opf_node *node   = opf_graph_node(graph, id);
    source          s      = main_source(graph, node, runs);
    const opf_node *kernel = opf_graph_node(graph, s.kernel);
    name_other(entry, graph, &s);
    if (s.kernel != 0 && (is_off(f, node, entry) || is_off(f, kernel, entry)))
        return;
    if (node->op == &opf_op_BatchNormalization && s.kernel != 0 && (kernel->op->traits & OPF_CONTRACTION) != 0)
        set(entry, OPF_MISS_OP, OPF_REASON("it normalises along axis 1, which is not that of the outputs of %s, or other steps stand between them", describe(f, graph, &s)));
    else if (node->op == &opf_op_BatchNormalization)
        set(entry, OPF_MISS_OP, OPF_REASON("its operand is %s: there are no weights to fold it into", describe(f, graph, &s)));
    else if (s.kernel == 0)
        set(entry, OPF_MISS_NO_KERNEL, OPF_REASON("its operand is %s: no kernel stands before it", describe(f, graph, &s)));
    else if ((kernel->op->traits & OPF_CONTRACTION) != 0)
        set(entry, OPF_MISS_NO_KERNEL, OPF_REASON("it needs whole rows before it can write, %s stores pieces of them", describe(f, graph, &s)));
    else
        set(entry, OPF_MISS_NO_KERNEL, OPF_REASON("it reads each row more than once, so the row must be there; only sums can be formed while reading, and %s is none", describe(f, graph, &s)));
}

/* It becomes other operators by itself, whatever stands beside it. */
static void explain_einsum(const opf_graph *graph, opf_node_id id, opf_kept_entry *entry)
{
    static const struct {
        opf_miss_code code;
        const char   *reason;
    } reasons[] = {
        [OPF_EINSUM_SHAPE_UNKNOWN] = {OPF_MISS_SHAPE_UNKNOWN, "the operands' sizes of a label are not proven equal: one may be broadcast, which MatMul does not do"},
        [OPF_EINSUM_TARGET]        = {OPF_MISS_SHAPE_UNKNOWN, "a Reshape before or behind the product would have more than one dimension that is known at run time only"},
        [OPF_EINSUM_DIAGONAL]      = {OPF_MISS_NO_KERNEL, "an operand has a label twice: no transpose, sum or product reads a diagonal"},
        [OPF_EINSUM_TYPE]          = {OPF_MISS_DTYPE, "neither MatMul nor ReduceSum computes its type"},
        [OPF_EINSUM_ROUNDING]      = {OPF_MISS_DTYPE, "results in between would be rounded to its narrow type; it rounds once"},
        [OPF_EINSUM_SUM_FIRST]     = {OPF_MISS_NO_KERNEL, "a sum would come before the product with an operand that may be infinite: infinity times the sum is not the sum of infinities"},
        [OPF_EINSUM_LIMIT]         = {OPF_MISS_NO_KERNEL, "it has more operands or dimensions than an order of products is looked for"},
    };
    const opf_einsum_obstacle obstacle = opf_simplify_einsum_obstacle(graph, id);
    set(entry, reasons[obstacle].code, reasons[obstacle].reason);
}

static bool is_view_op(const opf_node *node)
{
    return node->op == &opf_op_Reshape || node->op == &opf_op_Flatten || node->op == &opf_op_Squeeze || node->op == &opf_op_Unsqueeze;
}

static void explain_movement(opf_kept_finder *f, const opf_graph *graph, const opf_plan_step *step, const bool *runs, opf_kept_entry *entry)
{
    const opf_node_id id   = step->node;
    const opf_node *node   = opf_graph_node(graph, id);
    source          s      = main_source(graph, node, runs);
    opf_node_id     reader = node->outputs[0] == 0 ? 0 : reader_of(graph, node->outputs[0], runs, 8);
    const char     *by     = reader == 0 ? "the caller" : op_text(opf_graph_node(graph, reader));
    name_other(entry, graph, &s);
    if (is_view_op(node)) {
        entry->other = s.view != 0 ? opf_graph_node(graph, s.view)->name : entry->other;
        set(entry, OPF_MISS_NO_KERNEL, OPF_REASON("no strides express the new dimensions over the order in which it finds the elements (%s): one copy", describe(f, graph, &s)));
    } else if (node->op == &opf_op_Concat) {
        s = step->copied != 0 ? source_of(graph, step->copied, runs) : s;
        name_other(entry, graph, &s);
        set(entry, OPF_MISS_NO_KERNEL, OPF_REASON("its parts must lie side by side; one (%s) %s: it is copied", describe(f, graph, &s),
                                                  step->why != NULL ? step->why : "has a type whose elements share bytes"));
    } else if (node->op == &opf_op_Slice) {
        set(entry, OPF_MISS_CONST, "where it starts, ends or steps is known at run time only, so it is no view");
    } else if (opf_gather_is_read_in_place(node)) {
        entry->other = reader != 0 ? opf_graph_node(graph, reader)->name : entry->other;
        set(entry, OPF_MISS_NO_KERNEL, OPF_REASON("%s, which reads its rows, is planned apart, or computed by a kernel that takes no rows by index", by));
    } else {
        entry->other = reader != 0 ? opf_graph_node(graph, reader)->name : entry->other;
        bool selects = node->op == &opf_op_Gather || node->op == &opf_op_GatherElements || node->op == &opf_op_GatherND;
        set(entry, OPF_MISS_NO_KERNEL, OPF_REASON(selects ? "%s reads its operand by strides, which a list of indices (%s) is not" : "%s reads its operand by strides, which cannot express %s", by,
                                                  node->op_type));
    }
}

/* For the caller, or for a later segment. */
static bool is_delivery(const opf_plan_step *step)
{
    return strcmp(step->kernel, "copy_output") == 0 || strcmp(step->kernel, "copy_crossing") == 0;
}

opf_kept_entry opf_kept_reason(opf_kept_finder *finder, const opf_plan *plan, const opf_plan_step *step, const bool *runs)
{
    const opf_graph *graph = plan->graph;
    const opf_node  *node  = opf_graph_node(graph, step->node);
    opf_kept_entry   entry = {.node = node->name != NULL ? node->name : "", .op = opf_kept_op(graph, step), .code = "", .reason = NULL};
    const opf_miss  *miss  = step->is_copy ? NULL : find_miss(finder->model, entry.node);
    if (step->node == 0) { /* a graph output that no node makes */
        source s    = {.value = step->copied};
        entry.node  = s.value != 0 ? opf_graph_value(graph, s.value)->name : "";
        set(&entry, OPF_MISS_IS_OUTPUT, "a graph output that nothing computes: it is copied for the caller");
    } else if (is_delivery(step) || step->is_copy) {
        explain_copy(finder, plan, step, runs, &entry);
    } else if (miss != NULL) {
        entry.other = strcmp(miss->node, entry.node) == 0 ? miss->start : miss->node;
        set(&entry, miss->code, miss->reason);
    } else if (node->op == &opf_op_Einsum) {
        explain_einsum(graph, step->node, &entry);
    } else if (is_elementwise(node)) {
        explain_elementwise(finder, graph, step->node, runs, &entry);
    } else if ((node->op->traits & OPF_NORMALIZATION) != 0) {
        explain_normalisation(finder, graph, step->node, runs, &entry);
    } else {
        explain_movement(finder, graph, step, runs, &entry);
    }
    return entry;
}
