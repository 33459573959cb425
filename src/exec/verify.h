/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of verify share: a verifier, the inputs that it draws, and runs that are compared. */
#ifndef OPF_EXEC_VERIFY_H
#define OPF_EXEC_VERIFY_H

#include "exec/model.h"

#include "base/random.h"

enum { OPF_VERIFY_SYMBOLS = 64 };

typedef struct opf_verifier {
    const opf_model          *model;
    const opf_verify_options *options;
    opf_report               *report;
    opf_session              *reference, *fused;
    opf_random                random;
    opf_tensor               *inputs;
    bool                      any_drawn; /* some input is not the caller's */
    bool                      feeds;     /* inputs with defaults are drawn too */
    const opf_stages         *stages;    /* what such runs use */
    opf_verify_entry         *entries;
    uint32_t                  n, capacity;
    size_t                    done, of;
    /* sizes of symbols in this round */
    const char *names[OPF_VERIFY_SYMBOLS];
    uint32_t    n_names, round;
    /* what to look at more closely: the first inputs that failed, else the first that were possible */
    bool is_close; /* some inputs run the fused graph: those of close_round and close_kind */
    uint32_t close_round, close_kind;
} opf_verifier;

/* Kinds of inputs, the first is plain random; and rounds of sizes. */
uint32_t opf_verify_kinds(void);
uint32_t opf_verify_rounds(void);

/* Draws inputs of a kind at the sizes of v->round. *repeats: these sizes were another round's already. *costly: the reference
   would need long for them. */
opf_status opf_verify_draw(opf_verifier *v, uint32_t kind, bool *repeats, bool *costly, opf_error *error);
/* "nan N=2,S=7" */
const char *opf_verify_label(const opf_verifier *v, uint32_t kind);
/* Also widens the absolute tolerance, which is meant for values around one. */
double opf_verify_scale(uint32_t kind);

/* An entry of have against want; passed or not, it is filled. is_quantized: by default levels are compared. */
opf_status opf_verify_compare(const opf_verifier *v, const opf_tensor *have, const opf_tensor *want, bool is_quantized,
                              double scale, opf_verify_entry *entry, opf_error *error);
void opf_verify_progress(opf_verifier *v);

/* Every rewrite by itself; wrong ones fail the verification, and the first is named. */
opf_status opf_verify_each(opf_verifier *v, opf_error *error);
/* Results of kernels inside the graph, where the reference graph has them too. */
opf_status opf_verify_nodes(opf_verifier *v, opf_error *error);

#endif
