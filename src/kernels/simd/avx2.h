/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors of 8 floats: AVX2 and FMA. avx512.h gives the same names.
 * v_max(a, b) and v_min(a, b) return b when either is NaN: put the data second and NaN passes.
 */
#ifndef OPF_KERNELS_SIMD_AVX2_H
#define OPF_KERNELS_SIMD_AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define OPF_K(name) opf_##name##__avx2
#define V_N         8

typedef __m256  v_f;
typedef __m256i v_i;
typedef __m256  v_m; /* a lane is all ones or all zeros */

static inline v_i v_first(size_t n) /* the first n < 8 lanes */
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline v_f v_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void v_store(float *p, v_f x) { _mm256_storeu_ps(p, x); }
static inline v_f v_load_n(const float *p, size_t n) { return _mm256_maskload_ps(p, v_first(n)); }
static inline v_f v_load_n_or(const float *p, size_t n, v_f fill)
{
    return _mm256_blendv_ps(fill, v_load_n(p, n), _mm256_castsi256_ps(v_first(n)));
}
static inline void v_store_n(float *p, v_f x, size_t n) { _mm256_maskstore_ps(p, v_first(n), x); }
typedef __m256i v_i; /* an integer a lane */
static inline v_i  v_load_i(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
static inline v_f  v_permute(v_f x, v_i lanes) { return _mm256_permutevar8x32_ps(x, lanes); } /* x[lanes[i]] in lane i */
static inline v_f v_gather(const float *p, const int32_t *places) /* p[places[i]] in lane i */
{
    return _mm256_i32gather_ps(p, _mm256_loadu_si256((const __m256i *)(const void *)places), 4);
}
static inline v_f v_gather_n(const float *p, const int32_t *places, size_t n) /* zeros behind */
{
    return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), p, _mm256_maskload_epi32(places, v_first(n)), _mm256_castsi256_ps(v_first(n)), 4);
}
static inline v_f v_set(float x) { return _mm256_set1_ps(x); }
static inline v_f v_zero(void) { return _mm256_setzero_ps(); }

static inline v_f v_add(v_f a, v_f b) { return _mm256_add_ps(a, b); }
static inline v_f v_sub(v_f a, v_f b) { return _mm256_sub_ps(a, b); }
static inline v_f v_mul(v_f a, v_f b) { return _mm256_mul_ps(a, b); }
static inline v_f v_div(v_f a, v_f b) { return _mm256_div_ps(a, b); }
static inline v_f v_fma(v_f a, v_f b, v_f c) { return _mm256_fmadd_ps(a, b, c); }   /* a*b + c */
static inline v_f v_fnma(v_f a, v_f b, v_f c) { return _mm256_fnmadd_ps(a, b, c); } /* c - a*b */
static inline v_f v_max(v_f a, v_f b) { return _mm256_max_ps(a, b); }
static inline v_f v_min(v_f a, v_f b) { return _mm256_min_ps(a, b); }
static inline v_f v_sqrt(v_f a) { return _mm256_sqrt_ps(a); }
static inline v_f v_abs(v_f a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
static inline v_f v_neg_abs(v_f a) { return _mm256_or_ps(a, _mm256_set1_ps(-0.0f)); }
static inline v_f v_neg(v_f a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
static inline v_f v_sign_of(v_f magnitude, v_f sign) /* |magnitude| with the sign of sign; magnitude >= 0 */
{
    return _mm256_or_ps(magnitude, _mm256_and_ps(sign, _mm256_set1_ps(-0.0f)));
}
static inline v_f v_round(v_f a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline v_f v_floor(v_f a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline v_f v_ceil(v_f a) { return _mm256_round_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }

static inline v_m v_lt(v_f a, v_f b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
static inline v_m v_eq(v_f a, v_f b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
static inline v_m v_is_nan(v_f a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
static inline v_f v_select_sign(v_f x, v_f yes, v_f no) { return _mm256_blendv_ps(no, yes, x); } /* of NaN too */
static inline v_f v_select(v_m m, v_f yes, v_f no) { return _mm256_blendv_ps(no, yes, m); }
static inline v_f v_keep(v_m m, v_f x) { return _mm256_and_ps(m, x); } /* else zero */
static inline void v_zip(v_f a, v_f b, v_f *low, v_f *high) /* a[0], b[0], a[1], b[1], … */
{
    v_f even = _mm256_unpacklo_ps(a, b), odd = _mm256_unpackhi_ps(a, b); /* of each 128-bit lane */
    *low     = _mm256_permute2f128_ps(even, odd, 0x20);
    *high    = _mm256_permute2f128_ps(even, odd, 0x31);
}
static inline v_f v_even(v_f a, v_f b) /* a[0], a[2], …, b[0], b[2], … */
{
    const __m256d lanes = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88)); /* of each 128-bit lane of a, then of b */
    return _mm256_castpd_ps(_mm256_permute4x64_pd(lanes, 0xd8));
}
static inline v_m v_m_none(void) { return _mm256_setzero_ps(); }
static inline v_m v_m_or(v_m a, v_m b) { return _mm256_or_ps(a, b); }
static inline v_m v_m_numbers(v_m m, v_f a, v_f b) { return _mm256_and_ps(m, _mm256_cmp_ps(a, b, _CMP_ORD_Q)); } /* of m, where neither is NaN */
static inline int v_m_any(v_m a) { return _mm256_movemask_ps(a) != 0; }

static inline v_f v_pow2(v_i n) /* 2^n of a normal result */
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
/* x * 2^n, a normal number as x is; n: the lowest bits of t */
static inline v_f v_add_exponent(v_f x, v_f t)
{
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), _mm256_slli_epi32(_mm256_castps_si256(t), 23)));
}
/* x * 2^n for x of about 1 and n integral in [-250, 250]: the first factor leaves x normal, so that a denormal result
   is rounded once. */
static inline v_f v_scale(v_f x, v_f n)
{
    v_i k = _mm256_cvtps_epi32(n);
    v_i a = _mm256_srai_epi32(k, 1);
    return _mm256_mul_ps(_mm256_mul_ps(x, v_pow2(a)), v_pow2(_mm256_sub_epi32(k, a)));
}
/* x > 0 finite: x = m * 2^e with m in [sqrt(1/2), sqrt(2)); denormals too. */
static inline v_f v_split(v_f x, v_f *e)
{
    const v_i half = _mm256_castps_si256(_mm256_set1_ps(0.707106769f));
    v_m small      = v_lt(x, v_set(1.17549435e-38f));
    v_f y          = v_select(small, v_mul(x, v_set(16777216.0f)), x);
    v_i d          = _mm256_sub_epi32(_mm256_castps_si256(y), half);
    v_i k          = _mm256_srai_epi32(d, 23);
    v_f m          = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_and_si256(d, _mm256_set1_epi32(0x7fffff)), half));
    *e             = v_sub(_mm256_cvtepi32_ps(k), _mm256_and_ps(small, v_set(24.0f)));
    return m;
}

static inline float v_sum(v_f x)
{
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    b        = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
static inline float v_max_of(v_f x) /* NaN not told apart */
{
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    b        = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

static inline void v_transpose(v_f r[V_N])
{
    v_f t[V_N];
    for (int i = 0; i < 8; i += 4) { /* 4x4 blocks within each 128-bit lane */
        v_f a = _mm256_unpacklo_ps(r[i], r[i + 1]), b = _mm256_unpackhi_ps(r[i], r[i + 1]);
        v_f c = _mm256_unpacklo_ps(r[i + 2], r[i + 3]), d = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
        t[i]     = _mm256_shuffle_ps(a, c, 0x44);
        t[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
        t[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
        t[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
    for (int i = 0; i < 4; i++) { /* then the lanes themselves */
        r[i]     = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
    }
}

/* Half a vector in double. */
typedef __m256d v_d;
static inline v_d  v_d_set(double x) { return _mm256_set1_pd(x); }
static inline v_d  v_d_mul(v_d a, v_d b) { return _mm256_mul_pd(a, b); }
static inline v_d  v_d_fma(v_d a, v_d b, v_d c) { return _mm256_fmadd_pd(a, b, c); }
static inline v_d  v_d_load_f(const float *p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
static inline void v_d_store_f(float *p, v_d x) { _mm_storeu_ps(p, _mm256_cvtpd_ps(x)); }
static inline double v_d_sum(v_f a, v_f b) /* of all lanes of both */
{
    const v_d low = _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(a)), _mm256_cvtps_pd(_mm256_castps256_ps128(b)));
    const v_d all = _mm256_add_pd(low, _mm256_add_pd(_mm256_cvtps_pd(_mm256_extractf128_ps(a, 1)), _mm256_cvtps_pd(_mm256_extractf128_ps(b, 1))));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(all), _mm256_extractf128_pd(all, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

#endif
