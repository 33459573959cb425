/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors that a model is fed with: from files, or made. */
#ifndef OPFUSE_CLI_INPUTS_H
#define OPFUSE_CLI_INPUTS_H

#include "options.h"

/* What happens to an input that -i does not name and that has no default. */
typedef enum cli_missing {
    CLI_MISSING_DIES,   /* wrong usage; sizes must be known */
    CLI_MISSING_RANDOM, /* N(0,1), 0 or 1; a symbol without a size is 1, which stderr says */
    CLI_MISSING_EMPTY,  /* data NULL: the library draws it */
} cli_missing;

typedef struct cli_inputs {
    opf_tensor *tensors; /* one an input of the model; data NULL takes the default */
    bool       *is_made; /* its data belongs to the tool, not to the library */
    size_t      n;
    uint64_t    seed; /* of the first "random:SEED" */
} cli_inputs;

void cli_inputs_make(cli_inputs *inputs, const opf_model *model, const cli_options *options, cli_missing missing);
void cli_inputs_free(cli_inputs *inputs);

/* "float [N, 3]"; the caller frees. */
char *cli_port_text(const opf_port *port);

#endif
