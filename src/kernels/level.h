/* SPDX-License-Identifier: Apache-2.0 */
/* How a level fills the kernel table. Each function overwrites the slots that its level does better. */
#ifndef OPF_KERNELS_LEVEL_H
#define OPF_KERNELS_LEVEL_H

#include "kernels/kern.h"

void opf_kern_init_ref(opf_kern *kern); /* every slot */
opf_ew_fn opf_ew_ref(opf_ew op);
void opf_ew_init_ref(opf_kern *kern);   /* its elementwise part */
void opf_norm_init_ref(opf_kern *kern);
void opf_winograd_init_ref(opf_kern *kern);

/* vec/ compiled for a level */
void opf_kern_init_vec__avx2(opf_kern *kern);
void opf_kern_init_vec__avx512(opf_kern *kern);

#endif
