/* SPDX-License-Identifier: Apache-2.0 */
/* What fusions took for granted, against the sizes of a run. */
#ifndef OPF_EXEC_GUARDS_H
#define OPF_EXEC_GUARDS_H

#include "exec/model.h"

/* Why what these stages rely on does not hold for the sizes of all inputs, in arena or static; NULL: it holds. */
const char *opf_find_breach(const opf_model *model, const opf_stages *stages, const opf_tensor *inputs, opf_arena *arena);

#endif
