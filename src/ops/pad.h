/* SPDX-License-Identifier: Apache-2.0 */
/* What a padded axis continues with. */
#ifndef OPF_OPS_PAD_H
#define OPF_OPS_PAD_H

#include "base/status.h"

typedef enum opf_pad { OPF_PAD_CONSTANT, OPF_PAD_REFLECT, OPF_PAD_EDGE, OPF_PAD_WRAP, OPF_PAD_COUNT } opf_pad;

/* Attribute "mode". */
opf_status opf_pad_read(const char *name, opf_pad *mode, opf_error *error);

#endif
