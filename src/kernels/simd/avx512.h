/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors of 16 floats: AVX-512 F, BW, DQ, VL. avx2.h gives the same names.
 * v_max(a, b) and v_min(a, b) return b when either is NaN: put the data second and NaN passes.
 */
#ifndef OPF_KERNELS_SIMD_AVX512_H
#define OPF_KERNELS_SIMD_AVX512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define OPF_K(name) opf_##name##__avx512
#define V_N         16

typedef __m512    v_f;
typedef __m512i   v_i;
typedef __mmask16 v_m;

static inline v_m v_first(size_t n) /* the first n < 16 lanes */
{
    return (v_m)((1u << n) - 1u);
}

static inline v_f v_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void v_store(float *p, v_f x) { _mm512_storeu_ps(p, x); }
static inline v_f v_load_n(const float *p, size_t n) { return _mm512_maskz_loadu_ps(v_first(n), p); }
static inline v_f v_load_n_or(const float *p, size_t n, v_f fill) { return _mm512_mask_loadu_ps(fill, v_first(n), p); }
static inline void v_store_n(float *p, v_f x, size_t n) { _mm512_mask_storeu_ps(p, v_first(n), x); }
typedef __m512i v_i; /* an integer a lane */
static inline v_i  v_load_i(const int32_t *p) { return _mm512_loadu_si512(p); }
static inline v_f  v_permute(v_f x, v_i lanes) { return _mm512_permutexvar_ps(lanes, x); } /* x[lanes[i]] in lane i */
static inline v_f v_gather(const float *p, const int32_t *places) /* p[places[i]] in lane i */
{
    return _mm512_i32gather_ps(_mm512_loadu_si512(places), p, 4);
}
static inline v_f v_gather_n(const float *p, const int32_t *places, size_t n) /* zeros behind */
{
    return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), v_first(n), _mm512_maskz_loadu_epi32(v_first(n), places), p, 4);
}
static inline v_f v_set(float x) { return _mm512_set1_ps(x); }
static inline v_f v_zero(void) { return _mm512_setzero_ps(); }

static inline v_f v_add(v_f a, v_f b) { return _mm512_add_ps(a, b); }
static inline v_f v_sub(v_f a, v_f b) { return _mm512_sub_ps(a, b); }
static inline v_f v_mul(v_f a, v_f b) { return _mm512_mul_ps(a, b); }
static inline v_f v_div(v_f a, v_f b) { return _mm512_div_ps(a, b); }
static inline v_f v_fma(v_f a, v_f b, v_f c) { return _mm512_fmadd_ps(a, b, c); }   /* a*b + c */
static inline v_f v_fnma(v_f a, v_f b, v_f c) { return _mm512_fnmadd_ps(a, b, c); } /* c - a*b */
static inline v_f v_max(v_f a, v_f b) { return _mm512_max_ps(a, b); }
static inline v_f v_min(v_f a, v_f b) { return _mm512_min_ps(a, b); }
static inline v_f v_sqrt(v_f a) { return _mm512_sqrt_ps(a); }
static inline v_f v_abs(v_f a) { return _mm512_abs_ps(a); }
static inline v_f v_neg(v_f a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
static inline v_f v_neg_abs(v_f a) { return _mm512_or_ps(a, _mm512_set1_ps(-0.0f)); }
static inline v_f v_sign_of(v_f magnitude, v_f sign) /* |magnitude| with the sign of sign; magnitude >= 0 */
{
    return _mm512_or_ps(magnitude, _mm512_and_ps(sign, _mm512_set1_ps(-0.0f)));
}
static inline v_f v_round(v_f a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline v_f v_floor(v_f a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline v_f v_ceil(v_f a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }

static inline v_m v_lt(v_f a, v_f b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
static inline v_m v_eq(v_f a, v_f b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
static inline v_m v_is_nan(v_f a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
static inline v_f v_select(v_m m, v_f yes, v_f no) { return _mm512_mask_blend_ps(m, no, yes); }
static inline v_f v_select_sign(v_f x, v_f yes, v_f no) /* by the sign bit of x, of NaN too */
{
    return _mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(x)), no, yes);
}
static inline v_f v_keep(v_m m, v_f x) { return _mm512_maskz_mov_ps(m, x); } /* else zero */
static inline void v_zip(v_f a, v_f b, v_f *low, v_f *high) /* a[0], b[0], a[1], b[1], … */
{
    const v_i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    *low            = _mm512_permutex2var_ps(a, first, b);
    *high           = _mm512_permutex2var_ps(a, _mm512_add_epi32(first, _mm512_set1_epi32(8)), b);
}
static inline v_f v_even(v_f a, v_f b) /* a[0], a[2], …, b[0], b[2], … */
{
    return _mm512_permutex2var_ps(a, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), b);
}
static inline v_m v_m_none(void) { return 0; }
static inline v_m v_m_or(v_m a, v_m b) { return (v_m)(a | b); }
static inline v_m v_m_numbers(v_m m, v_f a, v_f b) { return _mm512_mask_cmp_ps_mask(m, a, b, _CMP_ORD_Q); } /* of m, where neither is NaN */
static inline int v_m_any(v_m a) { return a != 0; }

/* x * 2^n, a normal number as x is; n: the lowest bits of t */
static inline v_f v_add_exponent(v_f x, v_f t)
{
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), _mm512_slli_epi32(_mm512_castps_si512(t), 23)));
}
/* x * 2^floor(n); rounded once where the result is denormal, infinity beyond the largest number. One instruction. */
#define V_SCALES
static inline v_f v_scale(v_f x, v_f n) { return _mm512_scalef_ps(x, n); }
static inline v_f v_fraction(v_f x) { return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); } /* x - floor(x); 0 of infinity */
/* x > 0 finite: x = m * 2^e with m in [sqrt(1/2), sqrt(2)); denormals too. */
static inline v_f v_split(v_f x, v_f *e)
{
    v_f   m   = _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
    v_f   k   = _mm512_getexp_ps(x);
    v_m   big = _mm512_cmp_ps_mask(m, _mm512_set1_ps(1.41421354f), _CMP_GT_OQ);
    *e        = _mm512_mask_add_ps(k, big, k, _mm512_set1_ps(1.0f));
    return _mm512_mask_mul_ps(m, big, m, _mm512_set1_ps(0.5f));
}

static inline float v_sum(v_f x)
{
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b        = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
static inline float v_max_of(v_f x) /* NaN not told apart */
{
    __m256 a = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b        = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

static inline void v_transpose(v_f r[V_N])
{
    v_f t[V_N];
    for (int i = 0; i < 16; i += 4) { /* 4x4 blocks within each 128-bit lane */
        v_f a = _mm512_unpacklo_ps(r[i], r[i + 1]), b = _mm512_unpackhi_ps(r[i], r[i + 1]);
        v_f c = _mm512_unpacklo_ps(r[i + 2], r[i + 3]), d = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
        t[i]     = _mm512_shuffle_ps(a, c, 0x44);
        t[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
        t[i + 2] = _mm512_shuffle_ps(b, d, 0x44);
        t[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
    }
    for (int i = 0; i < 4; i++) { /* then the lanes themselves */
        v_f a = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88), b = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd);
        v_f c = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88), d = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
        r[i]      = _mm512_shuffle_f32x4(a, c, 0x88);
        r[i + 4]  = _mm512_shuffle_f32x4(b, d, 0x88);
        r[i + 8]  = _mm512_shuffle_f32x4(a, c, 0xdd);
        r[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
}

/* Half a vector in double. */
typedef __m512d v_d;
static inline v_d  v_d_set(double x) { return _mm512_set1_pd(x); }
static inline v_d  v_d_mul(v_d a, v_d b) { return _mm512_mul_pd(a, b); }
static inline v_d  v_d_fma(v_d a, v_d b, v_d c) { return _mm512_fmadd_pd(a, b, c); }
static inline v_d  v_d_load_f(const float *p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
static inline void v_d_store_f(float *p, v_d x) { _mm256_storeu_ps(p, _mm512_cvtpd_ps(x)); }
static inline double v_d_sum(v_f a, v_f b) /* of all lanes of both */
{
    const v_d low = _mm512_add_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(a)), _mm512_cvtps_pd(_mm512_castps512_ps256(b)));
    return _mm512_reduce_add_pd(
        _mm512_add_pd(low, _mm512_add_pd(_mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(b, 1)))));
}

#endif
