/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transcendental functions of a vector. Coefficients are minimax fits of this project, rounded one after the other.
 * Errors against double: exp 1.5 ulp, the others below 6 ulp, denormal results included; NaN and infinities as in libm.
 */
#ifndef OPF_KERNELS_SIMD_MATH_H
#define OPF_KERNELS_SIMD_MATH_H

#include "kernels/simd/vec.h"

#include <math.h>

/* exp(x) = 2^n (1 + q): returns q = r + r^2 Q(r), |r| <= ln(2)/2. NaN passes into q. */
V_INLINE v_f v_exp_parts(v_f x, v_f *n)
{
    x             = v_min(v_set(89.0f), v_max(v_set(-105.0f), x)); /* beyond: infinity, zero */
    *n            = v_round(v_mul(x, v_set(1.44269504f)));
    v_f r         = v_fnma(*n, v_set(0.693147182f), x);
    r             = v_fnma(*n, v_set(-1.90465421e-9f), r);
    v_f q         = v_set(0.00138209981f);
    q             = v_fma(q, r, v_set(0.00836867094f));
    q             = v_fma(q, r, v_set(0.0416682623f));
    q             = v_fma(q, r, v_set(0.166665211f));
    q             = v_fma(q, r, v_set(0.49999994f));
    return v_fma(v_mul(r, r), q, r);
}

V_INLINE v_f v_exp(v_f x)
{
    v_f n;
    v_f q = v_exp_parts(x, &n);
    return v_scale(v_add(v_set(1.0f), q), n);
}

/* 1 + c1 r + … + c5 r^5 */
V_INLINE v_f v_series(v_f r, float c1, float c2, float c3, float c4, float c5)
{
    v_f p = v_fma(v_set(c5), r, v_set(c4));
    p     = v_fma(p, r, v_set(c3));
    p     = v_fma(p, r, v_set(c2));
    p     = v_fma(p, r, v_set(c1));
    return v_fma(p, r, v_set(1.0f));
}

/* exp(x) for x <= 0 in fewer operations: the quotient by ln 2 is rounded by the sum with a large number, and the
   polynomial is evaluated whole, which is exact enough where nothing is subtracted from the result. */
V_INLINE v_f v_exp_neg(v_f x)
{
    const v_f shift = v_set(12582912.0f); /* 1.5 * 2^23 */
    x               = v_max(v_set(-105.0f), x); /* beyond: zero */
    v_f n           = v_sub(v_fma(x, v_set(1.44269504f), shift), shift);
    v_f r           = v_fnma(n, v_set(0.693147182f), x);
    r               = v_fnma(n, v_set(-1.90465421e-9f), r);
    v_f p           = v_series(r, 0.49999994f, 0.166665211f, 0.0416682623f, 0.00836867094f, 0.00138209981f);
    return v_scale(v_fma(p, r, v_set(1.0f)), n);
}

/* 2^n q + (2^n - 1): exact where n is 0, no cancellation elsewhere. For x <= 0 (2^n stays in range). */
V_INLINE v_f v_expm1_neg(v_f x)
{
    v_f n;
    v_f q     = v_exp_parts(x, &n);
    v_f power = v_scale(v_set(1.0f), n);
    return v_fma(power, q, v_sub(power, v_set(1.0f)));
}

/* log(1 + f) for f in [sqrt(1/2)-1, sqrt(2)-1], plus e ln 2. */
V_INLINE v_f v_log_parts(v_f f, v_f e)
{
    v_f p = v_set(-0.076363951f);
    p     = v_fma(p, f, v_set(0.127621979f));
    p     = v_fma(p, f, v_set(-0.131596133f));
    p     = v_fma(p, f, v_set(0.142015815f));
    p     = v_fma(p, f, v_set(-0.166234091f));
    p     = v_fma(p, f, v_set(0.200012416f));
    p     = v_fma(p, f, v_set(-0.250008196f));
    p     = v_fma(p, f, v_set(0.333333313f));
    v_f s = v_mul(f, f);
    p     = v_fma(v_mul(s, f), p, v_mul(e, v_set(-1.90465421e-9f)));
    p     = v_fma(s, v_set(-0.5f), p);
    return v_fma(e, v_set(0.693147182f), v_add(f, p));
}

V_INLINE v_f v_log(v_f x)
{
    v_f e;
    v_f m = v_split(x, &e);
    v_f y = v_log_parts(v_sub(m, v_set(1.0f)), e);
    y     = v_select(v_eq(x, v_set(INFINITY)), x, y);
    y     = v_select(v_eq(x, v_zero()), v_set(-INFINITY), y);
    y     = v_select(v_lt(x, v_zero()), v_set(NAN), y);
    return v_select(v_is_nan(x), x, y);
}

/* log(1 + u) for u in [0, 1]; (u - 1)/2 is where 1 + u leaves the range of the polynomial. */
V_INLINE v_f v_log1p_unit(v_f u)
{
    v_m small = v_lt(u, v_set(0.41421354f));
    v_f f     = v_select(small, u, v_mul(v_sub(u, v_set(1.0f)), v_set(0.5f)));
    return v_log_parts(f, v_select(small, v_zero(), v_set(1.0f)));
}

/* The exponential of -|x| never overflows, and keeps small results exact to the last denormal. */
V_INLINE v_f v_sigmoid(v_f x)
{
    v_f e = v_exp_neg(v_neg_abs(x));
    return v_div(v_select_sign(x, e, v_set(1.0f)), v_add(v_set(1.0f), e));
}

/* x/(1 + 2^w), which is x sigmoid(-w ln 2). Of powers of 2 the part behind the point is exact, where those of e need a product. */
#ifdef V_SCALES /* to zero and to infinity, as they should be: no cases */
V_INLINE v_f v_gated(v_f x, v_f w)
{
    const v_f r = v_fraction(w);
    const v_f p = v_series(r, 0.693151295f, 0.240164444f, 0.0557999313f, 0.00901700556f, 0.00186714169f);
    return v_div(x, v_add(v_set(1.0f), v_scale(p, w)));
}
#else
/* An absolute error counts where the power is small: 0 below 2.4e-38. */
V_INLINE v_f v_gated(v_f x, v_f w)
{
    const v_f shift = v_set(12582912.0f); /* 1.5 * 2^23: a sum with it is rounded, its lowest bits the exponent */
    const v_f z = v_neg_abs(w), t = v_add(z, shift), r = v_sub(z, v_sub(t, shift));
    const v_f p = v_series(r, 0.693147004f, 0.240222424f, 0.0555073358f, 0.00967151672f, 0.00132647366f);
    const v_f e = v_keep(v_lt(v_set(-125.0f), z), v_add_exponent(p, t));
    return v_div(v_select_sign(w, x, v_mul(x, e)), v_add(v_set(1.0f), e));
}
#endif

V_INLINE v_f v_swish(v_f x, float beta)
{
    return v_gated(x, v_mul(x, v_set(-1.44269504f * beta)));
}

V_INLINE v_f v_hard_swish(v_f x)
{
    return v_mul(x, v_min(v_set(1.0f), v_max(v_zero(), v_fma(x, v_set(0.166666672f), v_set(0.5f)))));
}

V_INLINE v_f v_tanh(v_f x)
{
    v_f t = v_expm1_neg(v_mul(v_abs(x), v_set(-2.0f)));
    return v_sign_of(v_div(v_neg(t), v_add(v_set(2.0f), t)), x);
}

/* x P(x^2)/Q(x^2), all coefficients of Q positive; 1 from 3.925 on. 2e-7, or 6 ulp below 3. */
V_INLINE v_f v_erf_rational(v_f x)
{
    v_f z = v_max(v_set(-3.925f), v_min(v_set(3.925f), x));
    v_f u = v_mul(z, z);
    v_f p = v_set(1.98660306e-08f);
    p     = v_fma(p, u, v_set(-1.95603934e-06f));
    p     = v_fma(p, u, v_set(0.000142099045f));
    p     = v_fma(p, u, v_set(0.00371673028f));
    p     = v_fma(p, u, v_set(0.0506238379f));
    p     = v_fma(p, u, v_set(0.200312078f));
    p     = v_fma(p, u, v_set(1.12837911f));
    v_f q = v_set(0.000959329016f);
    q     = v_fma(q, u, v_set(0.014385229f));
    q     = v_fma(q, u, v_set(0.115157723f));
    q     = v_fma(q, u, v_set(0.510853589f));
    q     = v_fma(q, u, v_set(1.0f));
    v_f y = v_div(v_mul(p, z), q);
    return v_max(v_set(-1.0f), v_min(v_set(1.0f), y));
}

/* Near 1 the roundings of a quotient add up to more than 6 ulp: there 1 - erfc(z), erfc a polynomial of z - 3.4. Exactly 1
   from 3.92 on, where erfc is less than half a unit of the last place: 1 + erf(x) is 0 then, and not a small number. */
V_INLINE v_f v_erf(v_f x)
{
    v_f z = v_min(v_set(3.925f), v_abs(x));
    v_f d = v_sub(z, v_set(3.4f));
    v_f c = v_set(-0.000126517887f);
    c     = v_fma(c, d, v_set(0.000159591073f));
    c     = v_fma(c, d, v_set(-8.59751308e-05f));
    c     = v_fma(c, d, v_set(3.39088947e-05f));
    c     = v_fma(c, d, v_set(-1.0471399e-05f));
    c     = v_fma(c, d, v_set(1.55383157e-06f));
    c     = v_select(v_lt(z, v_set(3.92f)), c, v_set(0.0f));
    v_f y = v_sign_of(v_min(v_set(1.0f), v_sub(v_set(1.0f), c)), x);
    return v_select(v_lt(v_set(3.0f), z), y, v_erf_rational(x));
}

V_INLINE v_f v_gelu(v_f x)
{
    v_f h = v_mul(x, v_set(0.5f));
    return v_fma(h, v_erf_rational(v_mul(x, v_set(0.707106769f))), h);
}

/* 0.5 x (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3); by the logarithm of 2. */
V_INLINE v_f v_gelu_tanh(v_f x)
{
    v_f s = v_fma(v_mul(x, x), v_set(-0.102943242f), v_set(-2.30220819f));
    return v_gated(x, v_mul(x, s));
}

V_INLINE v_f v_softplus(v_f x)
{
    v_f y = v_log1p_unit(v_exp_neg(v_neg_abs(x)));
    return v_add(v_max(v_zero(), x), y);
}

/* x tanh(log(1 + e^x)) with the exponentials divided out: w = e^-|x|. */
V_INLINE v_f v_mish(v_f x)
{
    v_f w   = v_exp_neg(v_neg_abs(x));
    v_m neg = v_lt(x, v_zero());
    v_f two = v_set(2.0f);
    v_f top = v_select(neg, v_mul(w, v_add(w, two)), v_fma(two, w, v_set(1.0f)));
    v_f low = v_select(neg, two, v_mul(v_mul(two, w), w));
    return v_mul(x, v_div(top, v_add(top, low)));
}

#endif
