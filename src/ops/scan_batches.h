/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPF_OPS_SCAN_BATCHES_H
#define OPF_OPS_SCAN_BATCHES_H

#include "ops/import.h"

/* Importer row: a Scan of opset 8 becomes two nested ones of the newest form. */
opf_status opf_lift_scan_batches(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);

#endif
