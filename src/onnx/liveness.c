/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What no output needs is never judged: it may be of an operator that is not supported, or lack what it reads. Nodes
 * find each other by name; a body's names are looked for in the body first, then around it.
 */
#include "base/status.h"
#include "onnx/build.h"

typedef struct scope {
    struct scope *outer;
    wire_nodes *nodes;
    opf_map producers; /* name of an output to the node's index */
    uint32_t *reached; /* nodes that are needed, in the order in which they were found */
    uint32_t n_reached;
} scope;

static void reach_node(scope *s, uint32_t index)
{
    wire_node *node = &s->nodes->list[index];
    if (!node->is_dead)
        return;
    node->is_dead = false;
    s->reached[s->n_reached++] = index;
}

static void reach_name(scope *s, const char *name)
{
    uint32_t index;
    while (s != NULL && !opf_map_get(&s->producers, name, &index))
        s = s->outer;
    if (s != NULL)
        reach_node(s, index);
}

static bool open_scope(scope *s, wire_nodes *nodes, opf_arena *arena)
{
    bool is_unique = true;
    s->nodes = nodes;
    s->reached = OPF_NEW(arena, uint32_t, nodes->n);
    if (s->reached == NULL)
        return false;
    opf_map_init(&s->producers, arena);
    for (uint32_t i = 0; i < nodes->n; i++) {
        nodes->list[i].is_dead = true;
        for (uint32_t o = 0; o < nodes->list[i].outputs.n; o++) {
            const char *name = nodes->list[i].outputs.list[o];
            if (name[0] == '\0')
                continue;
            is_unique = is_unique && !opf_map_get(&s->producers, name, NULL);
            if (!opf_map_put(&s->producers, name, i))
                return false;
        }
    }
    for (uint32_t i = 0; !is_unique && i < nodes->n; i++)
        reach_node(s, i); /* names are ambiguous, which is an error that building tells */
    return true;
}

/* False when memory is out. */
static bool mark_graph(scope *outer, wire_graph *graph, opf_arena *arena)
{
    scope s = {.outer = outer};
    if (!open_scope(&s, &graph->nodes, arena))
        return false;
    for (uint32_t i = 0; i < graph->outputs.n; i++)
        reach_name(&s, graph->outputs.list[i].name);
    for (uint32_t i = 0; i < s.n_reached; i++) {
        const wire_node *node = &graph->nodes.list[s.reached[i]];
        for (uint32_t k = 0; k < node->inputs.n; k++)
            reach_name(&s, node->inputs.list[k]);
        for (uint32_t a = 0; a < node->attrs.n; a++)
            if (node->attrs.list[a].g != NULL && !mark_graph(&s, node->attrs.list[a].g, arena))
                return false;
    }
    return true;
}

opf_status opf_wire_mark_dead(wire_model *model, opf_heap *heap, opf_error *error)
{
    opf_arena scratch;
    opf_arena_init(&scratch, heap);
    const bool done = mark_graph(NULL, model->graph, &scratch);
    opf_arena_fini(&scratch);
    OPF_OOM_IF(error, !done);
    return OPF_OK;
}
