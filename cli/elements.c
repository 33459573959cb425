/* SPDX-License-Identifier: Apache-2.0 */
#include "elements.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A float of `bits` bits: 1 sign, the rest exponent and mantissa. largest is the code of the greatest finite value;
   codes above it are infinity (if it ends the exponents before the last) or NaN. FNUZ formats have no minus zero. */
typedef struct format {
    opf_type type;
    int      mantissa, bias;
    unsigned bits, largest;
    bool     has_infinity, is_fnuz;
} format;

static const format formats[] = {
    {OPF_FLOAT16, 10, 15, 16, 0x7bff, true, false},  {OPF_BFLOAT16, 7, 127, 16, 0x7f7f, true, false},
    {OPF_FLOAT8E4M3FN, 3, 7, 8, 0x7e, false, false}, {OPF_FLOAT8E4M3FNUZ, 3, 8, 8, 0x7f, false, true},
    {OPF_FLOAT8E5M2, 2, 15, 8, 0x7b, true, false},   {OPF_FLOAT8E5M2FNUZ, 2, 16, 8, 0x7f, false, true},
    {OPF_FLOAT4E2M1, 1, 1, 4, 0x7, false, false},    {OPF_FLOAT6E2M3, 3, 1, 6, 0x1f, false, false},
    {OPF_FLOAT6E3M2, 2, 3, 6, 0x1f, false, false},
};

static const format *find_format(opf_type type)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (formats[i].type == type)
            return &formats[i];
    return NULL;
}

cli_kind cli_type_kind(opf_type type)
{
    switch ((int)type) {
    case OPF_UINT8:
    case OPF_UINT16:
    case OPF_UINT32:
    case OPF_UINT64:
    case OPF_UINT4:
    case OPF_UINT2: return CLI_KIND_UNSIGNED;
    case OPF_INT8:
    case OPF_INT16:
    case OPF_INT32:
    case OPF_INT64:
    case OPF_INT4:
    case OPF_INT2: return CLI_KIND_SIGNED;
    case OPF_BOOL: return CLI_KIND_BOOL;
    case OPF_FLOAT:
    case OPF_DOUBLE:
    case OPF_COMPLEX64:
    case OPF_COMPLEX128:
    case OPF_FLOAT8E8M0: return CLI_KIND_REAL;
    default: return find_format(type) != NULL ? CLI_KIND_REAL : CLI_KIND_NONE;
    }
}

size_t cli_type_parts(opf_type type)
{
    return type == OPF_COMPLEX64 || type == OPF_COMPLEX128 ? 2 : 1;
}

bool cli_type_fits_npy(opf_type type)
{
    return opf_type_bits(type) >= 8 && (find_format(type) == NULL || type == OPF_FLOAT16) && type != OPF_FLOAT8E8M0;
}

bool cli_tensor_size(opf_type type, int32_t rank, const int64_t *dims, size_t *count, size_t *bytes)
{
    size_t bits = opf_type_bits(type);
    *count      = 1;
    for (int32_t i = 0; i < rank; i++)
        if (dims[i] == 0)
            return *count = 0, *bytes = 0, bits != 0;
    for (int32_t i = 0; i < rank; i++)
        if (dims[i] < 0 || __builtin_mul_overflow(*count, (size_t)dims[i], count))
            return false;
    if (bits == 0 || __builtin_mul_overflow(*count, bits, bytes) || *bytes > SIZE_MAX - 7)
        return false;
    *bytes = (*bytes + 7) / 8;
    return true;
}

/* ---- bits of any width ---- */

static uint64_t load_bits(size_t bits, const void *data, size_t i)
{
    const unsigned char *at = (const unsigned char *)data + i * bits / 8;
    uint64_t             x  = 0;
    if (bits < 8) { /* six bits may lie across two bytes */
        const size_t shift = i * bits % 8;
        return ((uint64_t)*at >> shift | (shift + bits > 8 ? (uint64_t)at[1] << (8 - shift) : 0)) & ((1u << bits) - 1);
    }
    for (size_t k = 0; k < bits / 8; k++) /* tensors are little-endian */
        x |= (uint64_t)at[k] << (8 * k);
    return x;
}

static void store_bits(size_t bits, void *data, size_t i, uint64_t x)
{
    unsigned char *at = (unsigned char *)data + i * bits / 8;
    if (bits < 8) {
        const size_t shift = i * bits % 8;
        const unsigned mask = ((1u << bits) - 1) << shift, placed = (unsigned)x << shift & mask;
        *at = (unsigned char)((*at & ~mask) | placed);
        if (shift + bits > 8)
            at[1] = (unsigned char)((at[1] & ~(mask >> 8)) | placed >> 8);
        return;
    }
    for (size_t k = 0; k < bits / 8; k++)
        at[k] = (unsigned char)(x >> (8 * k));
}

/* ---- small floats ---- */

static unsigned encode(const format *f, double x)
{
    double   a    = fabs(x);
    unsigned sign = signbit(x) ? 1u << (f->bits - 1) : 0, code = 0;
    if (a != 0) {
        int    least = 1 - f->bias;
        int    e     = ilogb(a) < least ? least : ilogb(a);
        double q =
            nearbyint(ldexp(a, f->mantissa - e)); /* below 2^mantissa: subnormal; a carry moves into the exponent */
        double whole = ldexp(e - least, f->mantissa) + q;
        code         = whole < f->largest ? (unsigned)whole : f->largest;
    }
    return code == 0 && f->is_fnuz ? 0 : code | sign;
}

static double decode(const format *f, unsigned code)
{
    unsigned sign = code >> (f->bits - 1), magnitude = code & ((1u << (f->bits - 1)) - 1);
    if (f->has_infinity && magnitude == f->largest + 1)
        return sign != 0 ? -HUGE_VAL : HUGE_VAL;
    if (magnitude > f->largest || (f->is_fnuz && sign != 0 && magnitude == 0))
        return (double)NAN;
    int    e = (int)(magnitude >> f->mantissa);
    double m = (double)(magnitude & ((1u << f->mantissa) - 1));
    double x =
        e == 0 ? ldexp(m, 1 - f->bias - f->mantissa) : ldexp(m + ldexp(1, f->mantissa), e - f->bias - f->mantissa);
    return sign != 0 ? -x : x;
}

/* ---- numbers ---- */

void cli_store_real(opf_type type, void *data, size_t i, double x)
{
    if (type == OPF_FLOAT || type == OPF_COMPLEX64) {
        float y = (float)x;
        memcpy((char *)data + i * sizeof y, &y, sizeof y);
    } else if (type == OPF_DOUBLE || type == OPF_COMPLEX128) {
        memcpy((char *)data + i * sizeof x, &x, sizeof x);
    } else if (type == OPF_FLOAT8E8M0) { /* powers of two only */
        int e = x == 0 ? -127 : ilogb(x);
        store_bits(8, data, i, (uint64_t)((e < -127 ? -127 : e > 127 ? 127 : e) + 127));
    } else {
        const format *f = find_format(type);
        store_bits(f->bits, data, i, encode(f, x));
    }
}

void cli_store_integer(opf_type type, void *data, size_t i, uint64_t x)
{
    store_bits(opf_type_bits(type), data, i, type == OPF_BOOL ? x != 0 : x);
}

static double load_real(opf_type type, const void *data, size_t i)
{
    double x;
    float  y;
    if (type == OPF_FLOAT || type == OPF_COMPLEX64) {
        memcpy(&y, (const char *)data + i * sizeof y, sizeof y);
        return (double)y;
    }
    if (type == OPF_DOUBLE || type == OPF_COMPLEX128) {
        memcpy(&x, (const char *)data + i * sizeof x, sizeof x);
        return x;
    }
    if (type == OPF_FLOAT8E8M0) {
        uint64_t code = load_bits(8, data, i);
        return code == 255 ? (double)NAN : ldexp(1, (int)code - 127);
    }
    const format *f = find_format(type);
    return decode(f, (unsigned)load_bits(f->bits, data, i));
}

const char *cli_element_text(opf_type type, const void *data, size_t i, char *text)
{
    size_t   bits = opf_type_bits(type);
    cli_kind kind = cli_type_kind(type);
    if (kind == CLI_KIND_NONE) {
        (void)snprintf(text, 32, "?");
    } else if (kind == CLI_KIND_REAL) {
        (void)snprintf(text, 32, type == OPF_DOUBLE || type == OPF_COMPLEX128 ? "%.12g" : "%.6g",
                       load_real(type, data, i));
    } else {
        uint64_t x = load_bits(bits, data, i);
        if (kind == CLI_KIND_BOOL)
            (void)snprintf(text, 32, "%s", x != 0 ? "true" : "false");
        else if (kind == CLI_KIND_UNSIGNED)
            (void)snprintf(text, 32, "%" PRIu64, x);
        else
            (void)snprintf(text, 32, "%" PRId64, (int64_t)(x << (64 - bits)) >> (64 - bits));
    }
    return text;
}
