/* SPDX-License-Identifier: Apache-2.0 */
#include "base/types.h"

#include "base/narrow.h"

#include <math.h>

static const struct {
    const char *name;
    uint8_t     bits;
} types[OPF_TYPE_COUNT] = {
    [OPF_TYPE_NONE] = {"?", 0},
    [OPF_FLOAT] = {"float", 32},
    [OPF_UINT8] = {"uint8", 8},
    [OPF_INT8] = {"int8", 8},
    [OPF_UINT16] = {"uint16", 16},
    [OPF_INT16] = {"int16", 16},
    [OPF_INT32] = {"int32", 32},
    [OPF_INT64] = {"int64", 64},
    [OPF_STRING] = {"string", 0},
    [OPF_BOOL] = {"bool", 8},
    [OPF_FLOAT16] = {"float16", 16},
    [OPF_DOUBLE] = {"double", 64},
    [OPF_UINT32] = {"uint32", 32},
    [OPF_UINT64] = {"uint64", 64},
    [OPF_COMPLEX64] = {"complex64", 64},
    [OPF_COMPLEX128] = {"complex128", 128},
    [OPF_BFLOAT16] = {"bfloat16", 16},
    [OPF_FLOAT8E4M3FN] = {"float8e4m3fn", 8},
    [OPF_FLOAT8E4M3FNUZ] = {"float8e4m3fnuz", 8},
    [OPF_FLOAT8E5M2] = {"float8e5m2", 8},
    [OPF_FLOAT8E5M2FNUZ] = {"float8e5m2fnuz", 8},
    [OPF_UINT4] = {"uint4", 4},
    [OPF_INT4] = {"int4", 4},
    [OPF_FLOAT4E2M1] = {"float4e2m1", 4},
    [OPF_FLOAT8E8M0] = {"float8e8m0", 8},
    [OPF_UINT2] = {"uint2", 2},
    [OPF_INT2] = {"int2", 2},
    [OPF_FLOAT6E2M3] = {"float6e2m3", 6},
    [OPF_FLOAT6E3M2] = {"float6e3m2", 6},
};

const char *opf_type_name(opf_type type)
{
    return (unsigned)type < OPF_TYPE_COUNT ? types[type].name : "?";
}

size_t opf_type_bits(opf_type type)
{
    return (unsigned)type < OPF_TYPE_COUNT ? types[type].bits : 0;
}

bool opf_type_bytes(opf_type type, size_t n, size_t *bytes)
{
    size_t bits = opf_type_bits(type);
    if (bits == 0)
        return false;
    if (bits < 8) {
        *bytes = n / 8 * bits + (n % 8 * bits + 7) / 8;
        return true;
    }
    return !__builtin_mul_overflow(bits / 8, n, bytes);
}

float opf_half_to_float(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = (bits >> 10) & 31, fraction = bits & 0x3ff;
    if (exponent == 0) {
        float x = (float)fraction * 0x1p-24f;
        return sign != 0 ? -x : x;
    }
    uint32_t wide = exponent == 31 ? sign | 0x7f800000u | fraction << 13 : sign | (exponent + 112) << 23 | fraction << 13;
    float    x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

/* Rounds a double to a format of `digits` significand bits and exponents from `low` (of the last bit) up. */
static double round_to(double x, int digits, int low)
{
    if (x == 0 || !isfinite(x))
        return x;
    int exponent;
    (void)frexp(x, &exponent); /* x = f * 2^exponent, f in [1/2, 1) */
    int last = exponent - digits;
    if (last < low)
        last = low;
    return ldexp(nearbyint(ldexp(x, -last)), last);
}

uint16_t opf_double_to_half(double x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x))
        return (uint16_t)(sign | 0x7e00);
    double rounded = fabs(round_to(x, 11, -24));
    if (rounded >= 65520.0)
        return (uint16_t)(sign | 0x7c00);
    if (rounded < 0x1p-14)
        return (uint16_t)(sign | (uint16_t)(rounded * 0x1p24));
    int exponent;
    double fraction = frexp(rounded, &exponent);
    return (uint16_t)(sign | ((exponent + 14) << 10) | ((uint16_t)(fraction * 2048) & 0x3ff));
}

uint16_t opf_double_to_bfloat(double x)
{
    if (isnan(x))
        return (uint16_t)((signbit(x) ? 0x8000 : 0) | 0x7fc0);
    float    rounded = (float)round_to(x, 8, -133); /* exact, or infinite */
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return (uint16_t)(bits >> 16);
}

#define LOAD(ctype, as)                                                                                                   \
    do {                                                                                                               \
        ctype element_;                                                                                                \
        memcpy(&element_, (const char *)data + i * sizeof element_, sizeof element_);                                  \
        return (as)element_;                                                                                             \
    } while (0)
#define STORE(ctype, value)                                                                                            \
    do {                                                                                                               \
        ctype element_ = (ctype)(value);                                                                               \
        memcpy((char *)data + i * sizeof element_, &element_, sizeof element_);                                        \
        return;                                                                                                        \
    } while (0)

static uint16_t load_u16(const void *data, size_t i)
{
    LOAD(uint16_t, uint16_t);
}

/* Six bits may lie across two bytes, but never beyond the last byte of an element. */
unsigned opf_load_bits(size_t bits, const void *data, size_t i)
{
    const size_t bit = i * bits, shift = bit % 8;
    const unsigned char *at = (const unsigned char *)data + bit / 8;
    unsigned x = (unsigned)*at >> shift;
    if (shift + bits > 8)
        x |= (unsigned)at[1] << (8 - shift);
    return x & ((1u << bits) - 1);
}

void opf_store_bits(size_t bits, void *data, size_t i, unsigned element)
{
    const size_t bit = i * bits, shift = bit % 8;
    unsigned char *at = (unsigned char *)data + bit / 8;
    const unsigned mask = ((1u << bits) - 1) << shift, placed = element << shift & mask;
    at[0] = (unsigned char)((at[0] & ~mask) | placed);
    if (shift + bits > 8)
        at[1] = (unsigned char)((at[1] & ~(mask >> 8)) | placed >> 8);
}

static int64_t sign_extended(unsigned element, size_t bits)
{
    const int64_t sign = (int64_t)1 << (bits - 1);
    return ((int64_t)element ^ sign) - sign;
}

double opf_load_f64(opf_type type, const void *data, size_t i)
{
    switch (type) {
    case OPF_FLOAT:
        LOAD(float, double);
    case OPF_DOUBLE:
        LOAD(double, double);
    case OPF_FLOAT16:
        return (double)opf_half_to_float(load_u16(data, i));
    case OPF_BFLOAT16:
        return (double)opf_bfloat_to_float(load_u16(data, i));
    case OPF_FLOAT8E4M3FN:
    case OPF_FLOAT8E4M3FNUZ:
    case OPF_FLOAT8E5M2:
    case OPF_FLOAT8E5M2FNUZ:
    case OPF_FLOAT4E2M1:
    case OPF_FLOAT6E2M3:
    case OPF_FLOAT6E3M2:
        return opf_narrow_to_double(type, opf_load_bits(opf_type_bits(type), data, i));
    case OPF_FLOAT8E8M0:
        return opf_power_to_double(opf_load_bits(8, data, i));
    case OPF_UINT64:
        return (double)(uint64_t)opf_load_i64(type, data, i);
    default:
        return (double)opf_load_i64(type, data, i);
    }
}

void opf_store_f64(opf_type type, void *data, size_t i, double x)
{
    switch (type) {
    case OPF_FLOAT:
        STORE(float, x);
    case OPF_DOUBLE:
        STORE(double, x);
    case OPF_FLOAT16:
        STORE(uint16_t, opf_double_to_half(x));
    case OPF_BFLOAT16:
        STORE(uint16_t, opf_double_to_bfloat(x));
    case OPF_FLOAT8E4M3FN:
    case OPF_FLOAT8E4M3FNUZ:
    case OPF_FLOAT8E5M2:
    case OPF_FLOAT8E5M2FNUZ:
    case OPF_FLOAT4E2M1:
    case OPF_FLOAT6E2M3:
    case OPF_FLOAT6E3M2:
        opf_store_bits(opf_type_bits(type), data, i, opf_double_to_narrow(type, x, true));
        return;
    case OPF_FLOAT8E8M0:
        opf_store_bits(8, data, i, opf_double_to_power(x, OPF_POWER_UP, true));
        return;
    default:
        break;
    }
}

int64_t opf_load_i64(opf_type type, const void *data, size_t i)
{
    switch (type) {
    case OPF_UINT8:
        LOAD(uint8_t, int64_t);
    case OPF_BOOL:
        return ((const unsigned char *)data)[i] != 0;
    case OPF_INT8:
        LOAD(int8_t, int64_t);
    case OPF_UINT16:
        LOAD(uint16_t, int64_t);
    case OPF_INT16:
        LOAD(int16_t, int64_t);
    case OPF_INT32:
        LOAD(int32_t, int64_t);
    case OPF_UINT32:
        LOAD(uint32_t, int64_t);
    case OPF_INT64:
    case OPF_UINT64:
        LOAD(int64_t, int64_t);
    case OPF_UINT4:
    case OPF_UINT2:
        return opf_load_bits(opf_type_bits(type), data, i);
    case OPF_INT4:
    case OPF_INT2:
        return sign_extended(opf_load_bits(opf_type_bits(type), data, i), opf_type_bits(type));
    default:
        return 0;
    }
}

void opf_store_i64(opf_type type, void *data, size_t i, int64_t x)
{
    switch (type) {
    case OPF_BOOL:
        STORE(uint8_t, x != 0);
    case OPF_UINT8:
    case OPF_INT8:
        STORE(uint8_t, (uint64_t)x);
    case OPF_UINT16:
    case OPF_INT16:
        STORE(uint16_t, (uint64_t)x);
    case OPF_INT32:
    case OPF_UINT32:
        STORE(uint32_t, (uint64_t)x);
    case OPF_INT64:
    case OPF_UINT64:
        STORE(int64_t, x);
    case OPF_UINT4:
    case OPF_UINT2:
    case OPF_INT4:
    case OPF_INT2:
        opf_store_bits(opf_type_bits(type), data, i, (unsigned)((uint64_t)x & 0xff));
        return;
    default:
        break;
    }
}
