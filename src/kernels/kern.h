/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel slots. A kernel sees pointers, sizes and strides (in floats), never the graph; it returns void, allocates
 * nothing and cannot fail. Each slot has a scalar entry (ref/); a level overwrites the slots it does better, together
 * with the tile sizes that belong to them, so a kernel never meets foreign packing.
 */
#ifndef OPF_KERNELS_KERN_H
#define OPF_KERNELS_KERN_H

#include "opfuse/opfuse.h"

#include <stdbool.h>

/* ---- elementwise ---------------------------------------------------------------------------------------------------
 * dst[i] = f(a[i], b[i], …) over n contiguous floats; dst may be a or b. p: parameters named below. */
#define OPF_EW_MAP(X)                                                                                                  \
    X(COPY)                                                                                                            \
    X(ADD) X(SUB) X(MUL) X(DIV) X(MIN) X(MAX) X(POW) X(MOD /* p0: fmod */)                                                                   \
    X(RELU) X(CLIP /* p0 lo, p1 hi: min(max(x, lo), hi) */) X(LEAKY /* p0 alpha */) X(PRELU /* b: slope */)           \
    X(SIGMOID) X(TANH) X(ERF) X(EXP) X(LOG) X(SQRT) X(ABS) X(NEG) X(RECIPROCAL) X(SQUARE) X(FLOOR) X(CEIL) X(ROUND)    \
    X(SIGN) X(GELU) X(GELU_TANH) X(SWISH /* p0 beta: x*sigmoid(beta*x) */)                                             \
    X(HARD_SIGMOID /* p0 alpha, p1 beta */) X(HARD_SWISH /* x*max(0,min(1,x/6+0.5)) */) X(SOFTPLUS) X(MISH)            \
    X(ELU /* p0 alpha */) X(SELU /* p0 alpha, p1 gamma */) X(CELU /* p0 alpha > 0 */) X(SOFTSIGN)                          \
    X(THRESHOLDED_RELU /* p0 alpha */) X(SHRINK /* p0 bias, p1 lambd */) X(NAN_TO /* p0: what NaN becomes */)          \
    X(SIN) X(COS) X(TAN) X(ASIN) X(ACOS) X(ATAN) X(SINH) X(COSH) X(ASINH) X(ACOSH) X(ATANH)                            \
    X(AFFINE /* x*p0 + p1, each rounded */)                                                                            \
    X(QUANTIZE /* b: scale; p0 lo, p1 hi: the level of a/b above the zero point, in [lo, hi]; 0 for NaN */)
typedef enum opf_ew {
#define X(name) OPF_EW_##name,
    OPF_EW_MAP(X)
#undef X
    OPF_EW_COUNT
} opf_ew;
static inline bool opf_ew_reads_b(opf_ew op)
{
    return (op >= OPF_EW_ADD && op <= OPF_EW_MOD) || op == OPF_EW_PRELU || op == OPF_EW_QUANTIZE;
}
typedef void (*opf_ew_fn)(float *dst, const float *a, const float *b, size_t n, const float *p);

/* ---- matrix product ------------------------------------------------------------------------------------------------
 * One tile: c[r][n] = bias[n] + sum_t sum_k a[t*mr + r][k] * b[(t*kc + k)*nr + n], + residual[r][n], then clamped.
 * taps > 1 is an implicit convolution: one pointer a tap and row (a zero row where the window leaves the image).
 * gemm_lines reads element k of row r at line[offsets[k] + r*step] instead: pixels of one image line, taken where they lie.
 * gemm_panels takes one tile of few rows, by tile.a, and several panels, as wide as the tile is low, to the same bits: weights that are read once come from
 * memory a third faster from some places at a time than from one. */
enum { OPF_GEMM_PANELS = 4 }; /* at most */
/* Two lines of cache: what is larger, compilers fill by string instructions, which loads behind them have to wait for. */
typedef struct opf_gemm_tile {
    const float *const *a;        /* taps * mr row pointers, row r of tap t at [t*mr + r]; rows beyond `rows` repeat a valid one */
    const float        *line;     /* gemm_lines: taps is 1 */
    const uint32_t     *offsets;
    uint32_t            step; /* 1 or 2 */
    uint32_t            next_b_rate; /* floats of next_b a k */
    size_t              taps, kc; /* kc contiguous elements a tap */
    const float        *b;        /* packed panel [taps*kc][nr], 64-byte aligned */
    const float        *bias;     /* nr values a panel, zero-padded, or NULL */
    float              *c;
    ptrdiff_t           c_stride; /* between rows */
    const float        *residual; /* or NULL; may be c */
    ptrdiff_t           residual_stride;
    float               lo, hi; /* clamp; -INFINITY, INFINITY for none. NaN passes through */
    /* What comes after this tile, to prefetch meanwhile, or NULL. */
    const float *const *next_a;      /* row pointers like a, of the same taps and kc */
    const float        *next_b;      /* a share of the panel that follows: opf_gemm_fetch; or a line of the image */
    ptrdiff_t           next_b_gap;  /* to the other place that is read at a time, where a k step has two lines */
} opf_gemm_tile;

enum { OPF_LINE = 16 }; /* floats of a line of cache */
_Static_assert(sizeof(opf_gemm_tile) <= 2 * OPF_LINE * sizeof(float), "two lines of cache");

/* Each of n tiles fetches a share of the next panel, k steps deep, from one place or two, the first one here; returns the floats from
   one to the next. */
static inline size_t opf_gemm_fetch_from(opf_gemm_tile *tile, size_t places, const float *panel, size_t k, size_t nr, size_t n)
{
    const size_t half = k * nr / 2;
    tile->next_b      = panel;
    tile->next_b_rate = (uint32_t)((nr + n * places - 1) / (n * places));
    tile->next_b_gap  = places == 2 ? (ptrdiff_t)half : tile->next_b_rate > OPF_LINE ? OPF_LINE : 0;
    return panel == NULL ? 0 : k * nr / places / n;
}

/* Memory gives more from two places at a time than from one, if they are pages apart: hardware that fetches ahead tells places
   apart by their page. */
static inline size_t opf_gemm_fetch(opf_gemm_tile *tile, const float *panel, size_t k, size_t nr, size_t n)
{
    enum { PAGE = 1024 };
    return opf_gemm_fetch_from(tile, nr > OPF_LINE && k * nr / 2 >= PAGE ? 2 : 1, panel, k, nr, n);
}

typedef void (*opf_gemm_fn)(const opf_gemm_tile *tile, size_t rows, size_t cols); /* 1..mr, 1..nr */

/* Tiles of as many rows each, one below the other, from rows of one tap that lie a_row apart, for the panels of some columns, b_panel
 * apart, tile by tile: to the same bits as by gemm. tile.a, line, next_a are not read; tile.next_b is the first tile's share. */
typedef struct opf_gemm_strip {
    opf_gemm_tile tile;
    size_t        b_panel; /* floats between panels */
    const float  *a;
    ptrdiff_t     a_row;
    opf_ew        then;  /* instead of the clamp: SWISH or HARD_SWISH; COPY: neither */
    float         param; /* of SWISH */
    bool          every_other; /* a row's elements are its floats 0, 2, 4, ...; then is COPY */
    size_t        tiles;
    bool          fetches_rows; /* in each tile those of the one below, and so below the last one */
    bool          bare;         /* the sums as they are: no bias, residual, bounds, then; whole vectors of one panel, c_stride nr */
    size_t        next_b_step;  /* floats between the shares of the next panel */
} opf_gemm_strip;

/* ---- convolution to planes -------------------------------------------------------------------------------------------
 * c[f][p] = bias[f] + sum_k w[k][f] * lines[offsets[k] + p], then clamped: a line of each of a few filters, whose pixels fill the
 * vectors. Pixels of an input line lie next to each other. */
enum { OPF_PLANES_FILTERS = 8 };
typedef struct opf_planes {
    const float    *lines;
    const uint32_t *offsets;
    size_t          k;
    const float    *w;    /* [k][filters] */
    const float    *bias; /* a number a filter, or NULL */
    size_t          filters, pixels; /* filters: 1..OPF_PLANES_FILTERS */
    float          *c;
    ptrdiff_t       c_line; /* between filters */
    float           lo, hi; /* clamp; NaN passes through */
} opf_planes;

/* ---- depthwise convolution -----------------------------------------------------------------------------------------
 * Lines of output pixels, channels-last. Lines of the window outside the image are NULL, and pixels outside it are
 * skipped: they add nothing, not even zero times infinity. */
enum { OPF_DEPTHWISE_LINES = 16 };
typedef struct opf_depthwise {
    const float *const *rows; /* [lines][n_rows]: the input line, at its pixel 0, under each line of the window */
    const float        *w;    /* [n_rows][taps], w_tap apart */
    size_t              w_tap; /* c or more */
    size_t              lines, n_rows, taps; /* lines: 1..OPF_DEPTHWISE_LINES */
    size_t              step; /* windows of neighbouring lines share input: rows[o][r] is rows[o + 1][r - step]; 0: they do not */
    int64_t             in;    /* pixels of an input line */
    int64_t             first; /* where tap 0 of output pixel 0 is on it */
    int64_t             stride, dilation;
    ptrdiff_t           pixel; /* floats between pixels of an input line */
    const float        *bias;  /* or NULL */
    float              *dst;
    ptrdiff_t           dst_line, dst_pixel;
    size_t              pixels, c;
    float               lo, hi; /* clamp; NaN passes through */
    opf_ew              then;   /* what follows instead: SWISH or HARD_SWISH; COPY: nothing. Not in groups */
    float               param;  /* of SWISH */
} opf_depthwise;

/* ---- grouped convolution ------------------------------------------------------------------------------------------------
 * The same for groups of a few channels each, as many groups as fit at a time: they are a block, whose filters lie in `grouped_lanes`
 * lanes and whose channels fit as many. A filter reads the channels of its group only. */
typedef struct opf_grouped {
    opf_depthwise lines;   /* c: channels of the input; w: [blocks][n_rows][taps][in][lanes], zeros in lanes without a filter; bias, dst: of filters */
    size_t        in, out; /* channels and filters of a group, half of the lanes at most */
} opf_grouped;

/* Groups of a block. */
static inline size_t opf_grouped_block(size_t in, size_t out, size_t lanes)
{
    return lanes / (in > out ? in : out);
}

/* ---- Winograd's convolutions, channels-last ----------------------------------------------------------------------------
 * A tile of `size` results along an axis comes from a window of `points` = size + taps - 1 pixels: as many products, one a point,
 * replace size * taps multiplications a channel. Both axes alike, or one alone: then all pixels are `row` apart, whichever it is.
 * The transforms of a tile; the products between them are those of the table. */
enum { OPF_WINOGRAD_TILE = 4, OPF_WINOGRAD_WINDOW = 8 }; /* at most; of two axes: 6 */

/* The points of a window of 4, 6 or 8 are 0, ± each of these, whose product is 1, and infinity. */
static inline const double *opf_winograd_pairs(int64_t points)
{
    static const double of[][3] = {{1.0}, {0.70710678118654752440, 1.4142135623730950488}, {0.5, 1.0, 2.0}};
    return of[points / 2 - 2];
}

/* The filters, once: those of a panel, all its channels side by side. */
typedef struct opf_winograd_filters {
    int           points[2], taps[2]; /* down, across */
    const double *g[2];               /* [points][taps] of each axis */
    const float  *w;
    ptrdiff_t     w_tap; /* between the n filters of one of taps[0] * taps[1] */
    float        *u;
    ptrdiff_t     u_point;
    size_t        n; /* a multiple of nr */
} opf_winograd_filters;

typedef struct opf_winograd_input {
    int          points, axes; /* 4 or 6, and 8 of one axis; 2 or 1 */
    const float *x;            /* of the window's pixel at the top left, which may lie outside */
    ptrdiff_t    row, pixel;
    int          top, bottom, left, right; /* the rows and columns that are inside, end exclusive; zeros elsewhere */
    size_t       c;
    float       *v; /* one row of c a point; written up to the next multiple of 16 floats */
    ptrdiff_t    v_point;
} opf_winograd_input;

typedef struct opf_winograd_output {
    int          points, axes, size; /* points of 4 and 8: size 2; of 6: 4 or 2 */
    const float *m;                  /* one row of nr sums a point */
    ptrdiff_t    m_point;
    const float *bias; /* nr values, or NULL */
    float       *c;
    ptrdiff_t    row, pixel;
    const float *residual; /* or NULL; may be c */
    ptrdiff_t    residual_row, residual_pixel;
    size_t       rows, pixels, cols; /* 1..size (one axis: one of the two is 1), 1..nr */
    float        lo, hi;
} opf_winograd_output;

/* ---- normalised columns -----------------------------------------------------------------------------------------------
 * y[r][c] = (x[r][c] - mean[c]) * scale[c] * gain[r] + shift[c] + offset[r], clamped. Statistics belong to columns: channels of
 * channels-last pixels, or pixels of channels-first images. */
typedef struct opf_columns {
    const float *x;
    ptrdiff_t    x_row; /* between rows; columns are contiguous */
    float       *y;     /* may be x, with the same rows */
    ptrdiff_t    y_row;
    size_t       rows, cols;
    const float *mean, *scale; /* a number a column */
    const float *shift;        /* the same, or NULL: 0 */
    const float *gain, *offset; /* a number a row, or NULL: 1 and 0 */
    float        lo, hi;        /* clamp; NaN passes through */
} opf_columns;

/* ---- turned pairs -----------------------------------------------------------------------------------------------------
 * n pairs of a row, (a, b) becoming (a*cos - b*sin, b*cos' + a*sin'). The first of pair k is at k*step, the second `gap`
 * behind it; the angles likewise, where a gap of 0 means that both have the same. */
typedef struct opf_turn {
    size_t       n;
    const float *x, *cos, *sin;
    float       *y; /* may be x, with the same step and gap */
    ptrdiff_t    x_step, x_gap, y_step, y_gap, cos_step, cos_gap, sin_step, sin_gap;
} opf_turn;

/* y = (x - mean)*scale + shift over a row, clamped. */
typedef struct opf_affine {
    float mean, scale, shift;
    float lo, hi; /* NaN passes through */
} opf_affine;

/* ---- resampled lines -------------------------------------------------------------------------------------------------
 * dst[p][i] = sum over taps t of weights[t*pixels + p] * line[places[t*pixels + p] + i], over the c channels i of each pixel p.
 * Taps of weight 0 are not read: infinity times 0 adds nothing. */
typedef struct opf_resample {
    const float   *line;
    const int32_t *places;  /* in floats */
    const float   *weights; /* NULL: one tap, copied */
    size_t         taps, pixels, c;
    float         *dst; /* dense */
} opf_resample;

/* ---- pooled lines -----------------------------------------------------------------------------------------------------
 * dst[p*dst_pixel + i] = the greatest of taps[t][p*pixel + i], or scale times their sum in the order of the taps, for the c channels i
 * of each pixel p. No taps: -infinity, and 0 * scale. */
typedef struct opf_pool {
    const float *const *taps; /* where pixel 0 finds them */
    size_t              n_taps;
    ptrdiff_t           pixel;
    float              *dst; /* of max may be one of the taps, where dst_pixel is pixel */
    ptrdiff_t           dst_pixel;
    size_t              pixels, c;
    float               scale; /* of sums */
} opf_pool;

/* ---- the table ----------------------------------------------------------------------------------------------------- */

typedef struct opf_kern {
    opf_cpu_level level;

    size_t      mr, nr; /* of gemm and of packed panels: [n/nr][k][nr] */
    opf_gemm_fn gemm, gemm_lines;
    void (*gemm_strip)(const opf_gemm_strip *strip, size_t rows, size_t cols); /* rows: of a tile */
    void (*gemm_panels)(const opf_gemm_strip *strip, size_t rows, size_t cols); /* cols/nr panels, rounded up: 2..OPF_GEMM_PANELS, and times rows mr at most */
    const char *gemm_name; /* "gemm_f32_6x16" */
    /* A transposed product whose B is not constant: packs K x N floats at b (strides in floats) to panels of nr, zero padded. */
    void (*pack_b)(const float *b, ptrdiff_t row, ptrdiff_t col, size_t k, size_t n, float *dst);

    opf_ew_fn ew[OPF_EW_COUNT];
    /* A unary operator in place: rows of cols floats, `row` apart. NULL: of binary operators, and where ew alone is there. */
    void (*ew_rows[OPF_EW_COUNT])(float *x, ptrdiff_t row, size_t rows, size_t cols, const float *p);

    /* One row of n: y = (x - mean)/sqrt(var + eps)*gamma + beta; gamma, beta may be NULL; mean, inv_std receive the
       statistics when not NULL. Two passes. y may be x. */
    void (*layer_norm)(const float *x, const float *gamma, const float *beta, float *y, size_t n, float eps, float *mean,
                       float *inv_std);
    void (*rms_norm)(const float *x, const float *gamma, float *y, size_t n, float eps);
    void (*softmax)(const float *x, float *y, size_t n);     /* one row; a row of -inf gives NaN */
    void (*log_softmax)(const float *x, float *y, size_t n);
    void (*turn)(const opf_turn *t);
    float (*reduce_sum)(const float *x, size_t n); /* in a fixed order, as all sums */
    float (*abs_sum)(const float *x, size_t n);
    float (*square_sum)(const float *x, size_t n, float mean); /* of (x - mean)^2 */
    float (*reduce_max)(const float *x, size_t n); /* NaN if any; n >= 1 */

    void (*depthwise)(const opf_depthwise *d);
    void (*grouped)(const opf_grouped *g);
    size_t grouped_lanes;
    void (*planes)(const opf_planes *p);
    void (*winograd_input)(const opf_winograd_input *tile);
    void (*winograd_filters)(const opf_winograd_filters *filters); /* in double, rounded once */
    bool (*winograd_output)(const opf_winograd_output *tile); /* false, and nothing stored: a sum is not finite */
    void (*pool_max)(const opf_pool *line); /* NaN if any */
    void (*pool_sum)(const opf_pool *line);
    /* dst[c] = scale * sum over n pixels at x + i*stride; of absolute values; of (x - mean[c])^2, mean NULL: 0. */
    void (*pixel_sum)(const float *x, ptrdiff_t stride, size_t n, float scale, float *dst, size_t c);
    void (*pixel_abs_sum)(const float *x, ptrdiff_t stride, size_t n, float *dst, size_t c);
    void (*pixel_square_sum)(const float *x, ptrdiff_t stride, size_t n, const float *mean, float *dst, size_t c);
    void (*normalise)(const float *x, const opf_affine *affine, float *y, size_t n); /* y may be x */
    void (*normalise_columns)(const opf_columns *tile);
    void (*scale_columns)(const opf_columns *tile); /* x*scale + shift, each rounded as MUL and ADD are; the rest is not read */

    /* dst[i] = sum of weights[r] * rows[r][i] over n_rows rows of n. */
    void (*blend)(const float *const *rows, const float *weights, size_t n_rows, float *dst, size_t n);
    void (*resample)(const opf_resample *r);

    /* dst[r*dst_row + c] = src[r*src_row + c*src_col]: dst rows contiguous. Handles src_col == 1 (copy) and src_row == 1
       (transpose) fast. */
    void (*copy_2d)(const float *src, ptrdiff_t src_row, ptrdiff_t src_col, float *dst, ptrdiff_t dst_row, size_t rows, size_t cols);
    /* Two rows at a time, side by side element by element: a[0], b[0], a[1], b[1], … Strides are those of rows. */
    void (*zip)(const float *a, ptrdiff_t a_row, const float *b, ptrdiff_t b_row, float *dst, ptrdiff_t dst_row, size_t rows, size_t cols);
} opf_kern;

/* level AUTO: the best of the machine; a level the machine lacks is lowered to the best it has. */
void opf_kern_init(opf_kern *kern, opf_cpu_level level);

/* ---- programs ------------------------------------------------------------------------------------------------------
 * The steps of an epilogue, a prologue or a region, lowered: run on a tile of rows x cols that lies in L1. */
enum { OPF_PROGRAM_MAX = 32, OPF_PROGRAM_OPERANDS = 16, OPF_PROGRAM_COLS = 512 };

typedef struct opf_instr {
    opf_ew  op;
    int16_t args[2];   /* 0: the tile as it comes; i > 0: result of instruction i-1; i < 0: operand -i-1 */
    float   params[2];
    int16_t store;     /* index of the store that receives this result too, -1: none */
} opf_instr;

typedef struct opf_program {
    uint32_t  n; /* instructions; the last one is the result; 0: the tile itself */
    uint32_t  n_operands, n_stores;
    opf_type  levels; /* of the result: UINT8 or INT8, whole numbers that fit; NONE: floats */
    opf_instr instr[OPF_PROGRAM_MAX];
} opf_program;

/* An operand or store seen from element [0][0] of the tile. Strides in elements; 0 broadcasts. */
typedef struct opf_operand {
    const void *data;
    ptrdiff_t   row, col;
    opf_type    levels; /* UINT8 or INT8, read as numbers; NONE: floats */
    const void *const *rows; /* floats whose rows begin here, at any byte address, instead of at data + r*row; or NULL */
} opf_operand;
typedef struct opf_store {
    float    *data;
    ptrdiff_t row, col;
} opf_store;

/* Runs the program over rows x cols: tile at src (row stride src_row, contiguous columns; NULL when no instruction reads
   arg 0), result to dst (row stride dst_row, column stride 1); dst may be src. scratch: opf_program_scratch floats. Any cols: works in
   pieces of OPF_PROGRAM_COLS. dst is an array of levels where the program says so. */
void opf_program_run(const opf_kern *kern, const opf_program *program, const opf_operand *operands, const opf_store *stores,
                     const float *src, ptrdiff_t src_row, float *dst, ptrdiff_t dst_row, size_t rows, size_t cols, float *scratch);
size_t opf_program_scratch(const opf_program *program); /* floats */
/* Unary operators one after the other: with dst at src they run in place, without scratch and operands. */
bool opf_program_is_chain(const opf_program *program);

#endif
