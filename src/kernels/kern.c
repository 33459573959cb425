/* SPDX-License-Identifier: Apache-2.0 */
/* The table climbs: the scalar entry of every slot, then what each level up to the wanted one does better. */
#include "kernels/kern.h"

#include "cpu/cpu.h"
#include "kernels/level.h"

void opf_kern_init(opf_kern *kern, opf_cpu_level level)
{
    const opf_cpu_level best = opf_cpu_detect();
    if (level == OPF_CPU_AUTO || level > best)
        level = best;
    opf_kern_init_ref(kern);
#ifdef OPF_KERNELS_X86
    if (level >= OPF_CPU_AVX2) {
        opf_kern_init_vec__avx2(kern);
        kern->level = OPF_CPU_AVX2;
    }
    if (level >= OPF_CPU_AVX512) {
        opf_kern_init_vec__avx512(kern);
        kern->level = OPF_CPU_AVX512;
    }
#endif
}
