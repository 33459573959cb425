/* SPDX-License-Identifier: Apache-2.0 */
#include "base/narrow.h"

#include <math.h>

typedef struct format {
    int      fraction, bias; /* bits of the fraction; exponent e stands for 2^(e - bias) */
    unsigned sign;           /* its bit */
    unsigned largest;        /* the greatest number */
    unsigned infinity, nan;  /* 0: there is none */
} format;

/* The FNUZ types have no negative zero: its bits are their NaN. Those of 6 and 4 bits have no NaN and store negative
 * zero. */
static format format_of(opf_type type)
{
    switch (type) {
    case OPF_FLOAT8E4M3FN:
        return (format){3, 7, 0x80, 0x7e, 0, 0x7f};
    case OPF_FLOAT8E4M3FNUZ:
        return (format){3, 8, 0x80, 0x7f, 0, 0x80};
    case OPF_FLOAT8E5M2:
        return (format){2, 15, 0x80, 0x7b, 0x7c, 0x7f};
    case OPF_FLOAT8E5M2FNUZ:
        return (format){2, 16, 0x80, 0x7f, 0, 0x80};
    case OPF_FLOAT6E2M3:
        return (format){3, 1, 0x20, 0x1f, 0, 0};
    case OPF_FLOAT6E3M2:
        return (format){2, 3, 0x20, 0x1f, 0, 0};
    default:
        return (format){1, 1, 8, 7, 0, 0};
    }
}

static double magnitude_of(const format *f, unsigned bits)
{
    const unsigned one = 1u << f->fraction, fraction = bits & (one - 1), exponent = bits >> f->fraction;
    const double   whole = exponent == 0 ? (double)fraction : (double)(one + fraction);
    return ldexp(whole, (exponent == 0 ? 1 : (int)exponent) - f->bias - f->fraction);
}

double opf_narrow_to_double(opf_type type, unsigned bits)
{
    const format   f         = format_of(type);
    const bool     negative  = (bits & f.sign) != 0;
    const unsigned magnitude = bits & (f.sign - 1);
    double         x;
    if (bits == f.nan && f.nan == f.sign)
        return (double)NAN;
    if (magnitude > f.largest)
        x = magnitude == f.infinity ? (double)INFINITY : (double)NAN;
    else
        x = magnitude_of(&f, magnitude);
    return negative ? -x : x;
}

/* |x| as bits, rounded to nearest even; may exceed the greatest number. */
static unsigned round_magnitude(const format *f, double x)
{
    const unsigned one   = 1u << f->fraction;
    const double   least = ldexp(1, 1 - f->bias); /* below it are the subnormal numbers */
    int            exponent;
    if (x < least)
        return (unsigned)nearbyint(
            ldexp(x, f->bias - 1 + f->fraction));    /* may round up to the least normal: the bits agree */
    const double fraction = frexp(x, &exponent) * 2; /* in [1, 2) */
    return (unsigned)(exponent - 1 + f->bias - 1) * one + (unsigned)nearbyint(ldexp(fraction, f->fraction));
}

unsigned opf_double_to_narrow(opf_type type, double x, bool saturate)
{
    const format   f       = format_of(type);
    const bool     is_fnuz = f.nan == f.sign;
    const unsigned sign    = signbit(x) ? f.sign : 0;
    if (isnan(x))
        return is_fnuz || f.nan == 0 ? f.sign : sign | f.nan;
    /* Anything from twice the greatest number on is beyond it, whatever the rounding. */
    const double   limit     = 2 * magnitude_of(&f, f.largest);
    const unsigned magnitude = fabs(x) < limit ? round_magnitude(&f, fabs(x)) : f.largest + 1;
    if (magnitude <= f.largest)
        return is_fnuz && magnitude == 0 ? 0 : sign | magnitude;
    if (saturate || f.nan == 0)
        return sign | f.largest;
    if (f.infinity != 0)
        return sign | f.infinity;
    return is_fnuz ? f.nan : sign | f.nan;
}

/* ---- powers of two ---- */

enum { POWER_BIAS = 127, POWER_LARGEST = 254, POWER_NAN = 255 };

double opf_power_to_double(unsigned bits)
{
    return bits == POWER_NAN ? (double)NAN : ldexp(1, (int)bits - POWER_BIAS);
}

unsigned opf_double_to_power(double x, opf_power_round round, bool saturate)
{
    int exponent;
    x = fabs(x);
    if (isnan(x))
        return POWER_NAN;
    if (isinf(x))
        return saturate ? POWER_LARGEST : POWER_NAN;
    if (x < 0x1p-127)
        return saturate ? 0 : POWER_NAN;
    const double fraction = frexp(x, &exponent) * 2; /* in [1, 2) */
    const bool   up       = round == OPF_POWER_UP ? fraction > 1 : round == OPF_POWER_NEAREST && fraction >= 1.5;
    const int    power    = exponent - 1 + (up ? 1 : 0) + POWER_BIAS;
    if (power > POWER_LARGEST)
        return saturate ? POWER_LARGEST : POWER_NAN;
    return (unsigned)power;
}
