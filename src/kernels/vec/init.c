/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/simd/vec.h"

void OPF_K(kern_init_vec)(opf_kern *kern)
{
    OPF_K(gemm_init)(kern);
    OPF_K(gemm_panels_init)(kern);
    OPF_K(gemm_strip_init)(kern);
    OPF_K(ew_init)(kern);
    OPF_K(row_init)(kern);
    OPF_K(norm_init)(kern);
    OPF_K(window_init)(kern);
    OPF_K(depthwise_init)(kern);
    OPF_K(grouped_init)(kern);
    OPF_K(planes_init)(kern);
    OPF_K(winograd_init)(kern);
    OPF_K(resize_init)(kern);
    OPF_K(copy_init)(kern);
}
