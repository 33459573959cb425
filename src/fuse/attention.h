/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scaled dot-product attention: what is found from a Softmax (attention_match.c), and what exporters wrap around Q, K
 * and V: transposes, factors, repeated heads, heads joined in the last dimension (attention_operand.c); rotary
 * embeddings of Q and K (attention_rotary.c); the mask that it then has (attention_mask.c).
 */
#ifndef OPF_FUSE_ATTENTION_H
#define OPF_FUSE_ATTENTION_H

#include "fuse/legality.h"

/* Axes of rank 4: batch, head, position, element. Of rank 3: batch (heads may be in it), position, element. Of rank 2:
 * position, element. */
typedef struct opf_attention_operand {
    int32_t rank;
    opf_value_id base; /* the operand is base with its axes in the order perm */
    int32_t perm[4];
    int32_t single;        /* -1, or an axis of one element that base has beside them, which perm does not count */
    int64_t group;         /* each head of base stands for this many */
    opf_node_id reader;    /* 0, or the node between base and a factor that was taken away: it is to read */
    opf_value_id unscaled; /* this instead */
    opf_node_id rotary;    /* 0, or the RotaryEmbedding that was looked through: Attention turns the operand itself; */
    int32_t rotary_perm[4]; /* its result has the axes of the operand in this order */
} opf_attention_operand;

/* The same operand as [batch, position, heads * element], or as a view of it with positions first. */
typedef struct opf_attention_joined {
    opf_value_id value; /* 0: it is not */
    int64_t heads;
    bool positions_first;
} opf_attention_joined;

/* Mul of x and a scalar constant, or Div of x by one, that keeps the shape of x. */
bool opf_attention_factor(opf_fuse_context *context, opf_node_id id, opf_value_id *x, double *factor);

/* Looks through transposes and a rotary embedding; and through factors, which are multiplied into *factor when it is not
 * NULL. is_transposed: value has the last two axes exchanged. */
void opf_attention_find(opf_fuse_context *context, opf_value_id value, int32_t rank, bool is_transposed, double *factor,
                        opf_attention_operand *operand);

/* If every head of the operand is there several times in a row, the operand before that. */
bool opf_attention_unrepeat(opf_fuse_context *context, opf_attention_operand *operand);

opf_attention_joined opf_attention_join(opf_fuse_context *context, const opf_attention_operand *operand);

opf_dim opf_attention_dim(const opf_graph *graph, const opf_attention_operand *operand, int32_t axis);

/* The same of Squeeze or Unsqueeze of one axis. */
opf_value_id opf_attention_change_axis(opf_fuse_context *context, const opf_op *op, opf_value_id value, int64_t axis,
                                       opf_error *error);

/* The operand, by a view of its base. 0: as above. */
opf_value_id opf_attention_whole(opf_fuse_context *context, const opf_attention_operand *operand, opf_error *error);

/* value with its axes in the order perm: itself, the result of a Transpose that is there, or of a new one. 0: no
 * memory. */
opf_value_id opf_attention_permuted(opf_fuse_context *context, opf_value_id value, int32_t rank, const int32_t *perm,
                                    opf_error *error);

/* ---- rotary embeddings ---- */

/* The node turns what the operand is so far, and nothing else reads the result: it may be looked through. */
bool opf_attention_is_turned(const opf_graph *graph, opf_node_id id, const opf_attention_operand *operand);
/* Whether each head is turned by angles of its own. */
bool opf_attention_turns_heads(const opf_graph *graph, const opf_attention_operand *operand);
/* Cosines and sines as Attention reads them: they broadcast to [batch, head, position, element]. False: no memory, or
 * error says what has no shape. */
bool opf_attention_angles(opf_fuse_context *context, const opf_attention_operand *operand, opf_value_id angles[2],
                          opf_error *error);
/* Who wants only the shape of the turned operand reads that of the operand before. False: no memory. */
bool opf_attention_read_shapes_before(opf_graph *graph, const opf_attention_operand *operand);

/* Attention stands for the node too. False: no memory. */
bool opf_attention_join_origin(opf_graph *graph, opf_node_id attention, opf_node_id from);
/* Takes out what nobody reads any more, and what only that read; its origin joins that of the Attention. Computations of
 * shapes are left to the plan. False: no memory. */
bool opf_attention_remove_unread(opf_graph *graph, opf_node_id attention, opf_value_id value);

/* ---- the whole ---- */

enum { OPF_ATTENTION_NODES = 16, OPF_ATTENTION_MASKS = 4 };

typedef struct opf_attention {
    opf_fuse_context *context;
    opf_node_id softmax, product, result;   /* product: Q K'; result: probabilities times V */
    opf_node_id nodes[OPF_ATTENTION_NODES]; /* that Attention takes the place of */
    uint32_t n;
    opf_value_id y; /* the result's value */
    opf_attention_operand q, k, v;
    opf_value_id masks[OPF_ATTENTION_MASKS]; /* added, the last first */
    uint32_t n_masks;
    opf_value_id choice; /* 0, or what Where chooses scores by, before masks are added */
    bool is_inverted;    /* the choice is true where the score is hidden */
    int64_t windows;             /* 0, or a mask is one for so many batches, and starts again behind them */
    double scale, softcap, fill; /* softcap 0: none; fill: what hidden scores become */
    bool is_safe;                /* probabilities that are NaN become 0 */
    opf_refusal why;
} opf_attention;

/* context and softmax are set. False: why says so. */
bool opf_attention_match(opf_attention *attention);
/* The sum of the masks, of which there is at least one; it broadcasts to [batch, head, query, key], or to [window, ...].
 * Adds what it needs to the graph. 0: no memory, or error says what has no shape. */
opf_value_id opf_attention_mask(opf_attention *attention, opf_error *error);
/* The same of the choice: true where a score is seen. */
opf_value_id opf_attention_choice(opf_attention *attention, opf_error *error);
/* The node has scores as one input, a product perhaps with factors and masks on it, and makes scores of them. */
bool opf_attention_carries_scores(const opf_graph *graph, opf_node_id id, uint32_t *side);
/* A refusal is worth telling: there are products on both sides, or a product of two computed values before. */
bool opf_attention_is_near(const opf_attention *attention);

#endif
