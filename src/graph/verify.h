/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPF_GRAPH_VERIFY_H
#define OPF_GRAPH_VERIFY_H

#include "graph/graph.h"

/* Checks that every invariant of graph.h holds, bodies included: both ends of every edge agree, ids are in range, one
   producer a value, unique names, steps in SSA order with operands in range, acyclic. OPF_INTERNAL names what is wrong. */
opf_status opf_graph_verify(const opf_graph *graph, opf_error *error);

#endif
