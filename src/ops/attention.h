/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs of Attention behind those that ONNX gives it (NONPAD is the last): of fusion's making, and in no file. */
#ifndef OPF_OPS_ATTENTION_H
#define OPF_OPS_ATTENTION_H

enum {
    OPF_ATTENTION_Q_COS = 7, /* and sin: the angles that queries are turned by, as ops/rotary.h has them */
    OPF_ATTENTION_K_COS = 9, /* of keys */
    OPF_ATTENTION_CHOICE = 11, /* where scores are read at all */
    OPF_ATTENTION_INPUTS
};

#endif
