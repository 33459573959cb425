/* SPDX-License-Identifier: Apache-2.0 */
/* Element types: sets of them, and conversions of the formats that C lacks. */
#ifndef OPF_BASE_TYPES_H
#define OPF_BASE_TYPES_H

#include "opfuse/opfuse.h"

#include <string.h>

/* A set of types, one bit a type. */
typedef uint64_t opf_types;
#define OPF_TYPE_BIT(type) ((opf_types)1 << (type))
#define OPF_TYPES_FLOAT                                                                                                \
    (OPF_TYPE_BIT(OPF_FLOAT) | OPF_TYPE_BIT(OPF_DOUBLE) | OPF_TYPE_BIT(OPF_FLOAT16) | OPF_TYPE_BIT(OPF_BFLOAT16))
#define OPF_TYPES_SINT                                                                                                 \
    (OPF_TYPE_BIT(OPF_INT8) | OPF_TYPE_BIT(OPF_INT16) | OPF_TYPE_BIT(OPF_INT32) | OPF_TYPE_BIT(OPF_INT64))
#define OPF_TYPES_UINT                                                                                                 \
    (OPF_TYPE_BIT(OPF_UINT8) | OPF_TYPE_BIT(OPF_UINT16) | OPF_TYPE_BIT(OPF_UINT32) | OPF_TYPE_BIT(OPF_UINT64))
#define OPF_TYPES_INT     (OPF_TYPES_SINT | OPF_TYPES_UINT)
#define OPF_TYPES_NUMERIC (OPF_TYPES_FLOAT | OPF_TYPES_INT)
#define OPF_TYPES_BOOL    OPF_TYPE_BIT(OPF_BOOL)
#define OPF_TYPES_ALL     (OPF_TYPES_NUMERIC | OPF_TYPES_BOOL) /* of byte-sized elements that arithmetic exists for */
#define OPF_TYPES_FLOAT8                                                                                               \
    (OPF_TYPE_BIT(OPF_FLOAT8E4M3FN) | OPF_TYPE_BIT(OPF_FLOAT8E4M3FNUZ) | OPF_TYPE_BIT(OPF_FLOAT8E5M2) |                \
     OPF_TYPE_BIT(OPF_FLOAT8E5M2FNUZ) | OPF_TYPE_BIT(OPF_FLOAT8E8M0))
#define OPF_TYPES_SUBBYTE                                                                                              \
    (OPF_TYPE_BIT(OPF_UINT4) | OPF_TYPE_BIT(OPF_INT4) | OPF_TYPE_BIT(OPF_FLOAT4E2M1) | OPF_TYPE_BIT(OPF_UINT2) |       \
     OPF_TYPE_BIT(OPF_INT2))
/* Operators that know float6 list it beside the others: few do. */
#define OPF_TYPES_FLOAT6 (OPF_TYPE_BIT(OPF_FLOAT6E2M3) | OPF_TYPE_BIT(OPF_FLOAT6E3M2))

#define OPF_TYPES_ANY_FLOAT (OPF_TYPES_FLOAT | OPF_TYPES_FLOAT8 | OPF_TYPES_FLOAT6 | OPF_TYPE_BIT(OPF_FLOAT4E2M1))
#define OPF_TYPES_ANY_SINT  (OPF_TYPES_SINT | OPF_TYPE_BIT(OPF_INT4) | OPF_TYPE_BIT(OPF_INT2))

static inline bool opf_types_have(opf_types set, opf_type type)
{
    return (unsigned)type < 64 && ((set >> type) & 1) != 0;
}

/* Bytes of n elements, sub-byte types packed; false when that overflows or the type has no size. */
bool opf_type_bytes(opf_type type, size_t n, size_t *bytes);
static inline size_t opf_type_size(opf_type type) /* of one element; 0 for sub-byte types and strings */
{
    return opf_type_bits(type) / 8;
}

/* Element i of a dense array at any byte address, and back with rounding to nearest even; 8-bit and narrower floats
   saturate, FLOAT8E8M0 rounds up. Integers and booleans go through the i64 pair, floats through the f64 pair. Storing a
   sub-byte element keeps its neighbours. */
double opf_load_f64(opf_type type, const void *data, size_t i);
void opf_store_f64(opf_type type, void *data, size_t i, double x);
int64_t opf_load_i64(opf_type type, const void *data, size_t i); /* uint64 by its bits */
void opf_store_i64(opf_type type, void *data, size_t i, int64_t x); /* wraps; boolean: x != 0 */

/* The bits of element i of an array of elements of 2, 4, 6 or 8 bits, which fill bytes from the low bits up. */
unsigned opf_load_bits(size_t bits, const void *data, size_t i);
void opf_store_bits(size_t bits, void *data, size_t i, unsigned element); /* what exceeds the bits is cut off */

float opf_half_to_float(uint16_t bits);
uint16_t opf_double_to_half(double x); /* one rounding, to nearest even */
uint16_t opf_double_to_bfloat(double x);
static inline float opf_bfloat_to_float(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float    x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

#endif
