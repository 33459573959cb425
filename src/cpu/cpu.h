/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine is: instruction set level, cache sizes, cores that this process may use. */
#ifndef OPF_CPU_CPU_H
#define OPF_CPU_CPU_H

#include "opfuse/opfuse.h"

opf_cpu_level opf_cpu_detect(void); /* by CPUID and XCR0 */
const char *opf_cpu_level_name(opf_cpu_level level); /* "scalar", "avx2", "avx512" */
int32_t opf_cpu_usable_cores(void); /* affinity and cgroup quota (v1, v2), at least 1 */
size_t opf_cpu_l1_bytes(void);
size_t opf_cpu_l2_bytes(void); /* of one core */
size_t opf_cpu_l3_bytes(void); /* that cores share; without one, what is of one core */
size_t opf_cpu_memory_bytes(void); /* RAM, or the cgroup's limit when lower */

#endif
