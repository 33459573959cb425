/* SPDX-License-Identifier: Apache-2.0 */
/* Floats of 8, 6 and 4 bits. The general loads and stores of base/types.h use them with the first choice of each
 * option.
 */
#ifndef OPF_BASE_NARROW_H
#define OPF_BASE_NARROW_H

#include "opfuse/opfuse.h"

/* Types with fraction bits: E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ, FLOAT6E2M3, FLOAT6E3M2, FLOAT4E2M1. Rounds to nearest
   even; beyond the greatest number is that number (saturate), or else infinity where the type has one, or NaN. Those of
   6 and 4 bits always saturate. */
double   opf_narrow_to_double(opf_type type, unsigned bits);
unsigned opf_double_to_narrow(opf_type type, double x, bool saturate);

/* FLOAT8E8M0 has powers of two from 2^-127 to 2^127 and NaN. */
typedef enum opf_power_round { OPF_POWER_UP, OPF_POWER_DOWN, OPF_POWER_NEAREST } opf_power_round;
double   opf_power_to_double(unsigned bits);
unsigned opf_double_to_power(double x, opf_power_round round, bool saturate); /* the sign is dropped */

#endif
