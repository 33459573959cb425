/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading constants. One walk serves all readers: a box of a recipe is read into a strided destination. Movement
 * (transpose, reshape, concat, slice, expand) only changes what box is read and where it goes; arithmetic goes through chunks of
 * doubles on the stack, so that nothing is allocated and each element is rounded once, at the end.
 */
#include "graph/constant.h"

enum { CHUNK = 512 };

/* Where a box goes: element [i...] at data + offset + sum i*strides, in elements of the type. */
typedef struct target {
    opf_type type;
    char    *data;
    int64_t  offset;
    int64_t  strides[OPF_MAX_RANK];
} target;

static void read_box(const opf_const *c, const int64_t *start, const int64_t *count, const target *dst);

static void set_dense(int32_t rank, const int64_t *count, int64_t *strides)
{
    int64_t step = 1;
    for (int32_t i = rank - 1; i >= 0; i--) {
        strides[i] = step;
        step *= count[i];
    }
}

static size_t box_count(int32_t rank, const int64_t *count)
{
    size_t n = 1;
    for (int32_t i = 0; i < rank; i++)
        n *= (size_t)count[i];
    return n;
}

/* ---- strided constants ---- */

/* Strides of the same elements under other dims, if there are any. */
static bool reshape_strides(int32_t rank, const int64_t *dims, const int64_t *strides, int32_t new_rank, const int64_t *new_dims,
                            int64_t *new_strides)
{
    int64_t sizes[OPF_MAX_RANK], steps[OPF_MAX_RANK]; /* runs of dims that are one evenly strided row, last one first */
    int32_t runs = 0;
    for (int32_t i = rank - 1; i >= 0; i--) {
        if (dims[i] == 1)
            continue;
        if (runs > 0 && strides[i] == steps[runs - 1] * sizes[runs - 1]) {
            sizes[runs - 1] *= dims[i];
        } else {
            sizes[runs]   = dims[i];
            steps[runs++] = strides[i];
        }
    }
    int32_t run  = 0;
    int64_t left = runs > 0 ? sizes[0] : 1, step = runs > 0 ? steps[0] : 1;
    for (int32_t i = new_rank - 1; i >= 0; i--) {
        new_strides[i] = step;
        if (new_dims[i] == 1)
            continue;
        if (left == 1 && ++run < runs) {
            left           = sizes[run];
            step           = steps[run];
            new_strides[i] = step;
        }
        if (left % new_dims[i] != 0)
            return false;
        left /= new_dims[i];
        step *= new_dims[i];
    }
    return true;
}

/* The leaf whose elements c shows from *offset on at strides (in elements). Constants without elements have no strides. */
static const opf_const *find_strided(const opf_const *c, int64_t strides[OPF_MAX_RANK], int64_t *offset)
{
    if (c->count == 0)
        return NULL;
    *offset = 0;
    if (c->kind == OPF_CONST_BYTES) {
        set_dense(c->rank, c->dims, strides);
        return c;
    }
    if (c->kind == OPF_CONST_SPLAT) {
        for (int32_t i = 0; i < c->rank; i++)
            strides[i] = 0;
        return c;
    }
    if (c->kind != OPF_CONST_TRANSPOSE && c->kind != OPF_CONST_RESHAPE && c->kind != OPF_CONST_SLICE &&
        c->kind != OPF_CONST_EXPAND)
        return NULL;
    const opf_const *a = c->args[0];
    int64_t          inner[OPF_MAX_RANK];
    const opf_const *leaf = find_strided(a, inner, offset);
    if (leaf == NULL)
        return NULL;
    if (c->kind == OPF_CONST_RESHAPE)
        return reshape_strides(a->rank, a->dims, inner, c->rank, c->dims, strides) ? leaf : NULL;
    for (int32_t i = 0; i < c->rank; i++)
        strides[i] = c->kind == OPF_CONST_TRANSPOSE ? inner[c->perm[i]] : c->dims[i] == a->dims[i] ? inner[i] : 0;
    for (int32_t i = 0; c->kind == OPF_CONST_SLICE && i < c->rank; i++) {
        strides[i] = inner[i];
        *offset += c->start[i] * inner[i];
    }
    return leaf;
}

bool opf_const_strided_f32(const opf_const *c, const char **data, int64_t strides[OPF_MAX_RANK])
{
    int64_t          offset;
    const opf_const *leaf = c->type == OPF_FLOAT ? find_strided(c, strides, &offset) : NULL;
    if (leaf == NULL || leaf->type != OPF_FLOAT)
        return false;
    *data = (const char *)leaf->data + offset * (int64_t)sizeof(float);
    return true;
}

/* ---- copying between strided arrays ---- */

/* Two dimensions, the inner one last; d and s step through destination and source. */
typedef struct plane {
    int64_t n[2], d[2], s[2];
} plane;

/* Tiles, so that both sides stay within few cache lines when one is the transpose of the other. */
#define COPY_PLANE(ctype)                                                                                              \
    for (int64_t i0 = 0; i0 < p->n[0]; i0 += 16)                                                                       \
        for (int64_t j0 = 0; j0 < p->n[1]; j0 += 16)                                                                   \
            for (int64_t i = i0; i < i0 + 16 && i < p->n[0]; i++)                                                      \
                for (int64_t j = j0; j < j0 + 16 && j < p->n[1]; j++)                                                  \
                    memcpy(dst + (i * p->d[0] + j * p->d[1]) * (int64_t)sizeof(ctype),                                 \
                           src + (i * p->s[0] + j * p->s[1]) * (int64_t)sizeof(ctype), sizeof(ctype))

static void copy_plane(size_t size, const plane *p, char *dst, const char *src)
{
    if (p->d[1] == 1 && p->s[1] == 1) {
        for (int64_t i = 0; i < p->n[0]; i++)
            memcpy(dst + i * p->d[0] * (int64_t)size, src + i * p->s[0] * (int64_t)size, (size_t)p->n[1] * size);
        return;
    }
    typedef struct {
        char bytes[16];
    } wide;
    switch (size) {
    case 1:
        COPY_PLANE(uint8_t);
        break;
    case 2:
        COPY_PLANE(uint16_t);
        break;
    case 4:
        COPY_PLANE(uint32_t);
        break;
    case 8:
        COPY_PLANE(uint64_t);
        break;
    default:
        COPY_PLANE(wide);
        break;
    }
}

static void copy_sub_byte(size_t bits, const plane *p, char *dst, int64_t to, const char *src, int64_t from)
{
    for (int64_t i = 0; i < p->n[0]; i++)
        for (int64_t j = 0; j < p->n[1]; j++)
            opf_store_bits(bits, dst, (size_t)(to + i * p->d[0] + j * p->d[1]),
                           opf_load_bits(bits, src, (size_t)(from + i * p->s[0] + j * p->s[1])));
}

#define CONVERT_PLANE(from_type, to_type)                                                                              \
    for (int64_t i = 0; i < p->n[0]; i++) {                                                                            \
        char       *d = dst + i * p->d[0] * (int64_t)sizeof(to_type);                                                  \
        const char *s = src + i * p->s[0] * (int64_t)sizeof(from_type);                                                \
        if (p->d[1] == 1 && p->s[1] == 1) {                                                                            \
            CONVERT_ROW(from_type, to_type, 1, 1)                                                                      \
        } else {                                                                                                       \
            CONVERT_ROW(from_type, to_type, p->s[1], p->d[1])                                                          \
        }                                                                                                              \
    }
#define CONVERT_ROW(from_type, to_type, source_step, target_step)                                                      \
    for (int64_t j = 0; j < p->n[1]; j++) {                                                                            \
        from_type x;                                                                                                   \
        memcpy(&x, s + j * (source_step) * (int64_t)sizeof x, sizeof x);                                               \
        to_type y = (to_type)x;                                                                                        \
        memcpy(d + j * (target_step) * (int64_t)sizeof y, &y, sizeof y);                                               \
    }

static void convert_plane(opf_type to, opf_type from, const plane *p, char *dst, const char *src)
{
    if (from == OPF_FLOAT && to == OPF_DOUBLE) {
        CONVERT_PLANE(float, double)
    } else if (from == OPF_DOUBLE && to == OPF_FLOAT) {
        CONVERT_PLANE(double, float)
    } else {
        int64_t to_size = (int64_t)opf_type_size(to), from_size = (int64_t)opf_type_size(from);
        for (int64_t i = 0; i < p->n[0]; i++)
            for (int64_t j = 0; j < p->n[1]; j++)
                opf_store_f64(to, dst + (i * p->d[0] + j * p->d[1]) * to_size, 0,
                              opf_load_f64(from, src + (i * p->s[0] + j * p->s[1]) * from_size, 0));
    }
}

static void copy_one(const target *dst, int64_t to, opf_type type, const char *src, int64_t from, const plane *p)
{
    size_t bits = opf_type_bits(type);
    if (bits < 8) {
        copy_sub_byte(bits, p, dst->data, to, src, from);
        return;
    }
    char       *d = dst->data + to * (int64_t)opf_type_size(dst->type);
    const char *s = src + from * (int64_t)(bits / 8);
    if (type == dst->type)
        copy_plane(bits / 8, p, d, s);
    else
        convert_plane(dst->type, type, p, d, s);
}

typedef struct axis {
    int64_t n, d, s;
} axis;

/* Axes of the box in the order of the destination, without those of one element, neighbours merged where both sides
   allow it; the axis along which the source is dense, if another, comes last but one. At least two axes. */
static int32_t arrange(int32_t rank, const int64_t *count, const int64_t *d, const int64_t *s, axis *list)
{
    axis    sorted[OPF_MAX_RANK];
    int32_t n = 0;
    for (int32_t i = 0; i < rank; i++) {
        if (count[i] == 1)
            continue;
        int32_t at = n++;
        for (; at > 0 && sorted[at - 1].d < d[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = (axis){count[i], d[i], s[i]};
    }
    list[0]        = (axis){1, 0, 0};
    list[1]        = (axis){1, 1, 1};
    int32_t merged = 0;
    for (int32_t i = 0; i < n; i++) {
        axis *last = merged > 0 ? &list[merged - 1] : NULL;
        if (last != NULL && last->d == sorted[i].d * sorted[i].n && last->s == sorted[i].s * sorted[i].n)
            *last = (axis){last->n * sorted[i].n, sorted[i].d, sorted[i].s};
        else
            list[merged++] = sorted[i];
    }
    if (merged < 2) {
        if (merged == 1)
            list[1] = list[0];
        list[0] = (axis){1, 0, 0};
        return 2;
    }
    for (int32_t i = 0; i < merged - 2; i++)
        if (list[merged - 1].s != 1 && list[i].s == 1) {
            axis moved = list[i];
            memmove(&list[i], &list[i + 1], (size_t)(merged - 2 - i) * sizeof *list);
            list[merged - 2] = moved;
            break;
        }
    return merged;
}

static void copy_box(int32_t rank, const int64_t *count, opf_type type, const char *src, int64_t from, const int64_t *strides,
                     const target *dst)
{
    axis    axes[OPF_MAX_RANK + 2];
    int32_t n    = arrange(rank, count, dst->strides, strides, axes);
    plane   p    = {{axes[n - 2].n, axes[n - 1].n}, {axes[n - 2].d, axes[n - 1].d}, {axes[n - 2].s, axes[n - 1].s}};
    int64_t index[OPF_MAX_RANK] = {0}, to = dst->offset;
    for (;;) {
        copy_one(dst, to, type, src, from, &p);
        int32_t i = n - 3;
        for (; i >= 0; i--) {
            to += axes[i].d;
            from += axes[i].s;
            if (++index[i] < axes[i].n)
                break;
            to -= axes[i].d * axes[i].n;
            from -= axes[i].s * axes[i].n;
            index[i] = 0;
        }
        if (i < 0)
            return;
    }
}

/* ---- movement ---- */

static void read_concat(const opf_const *c, const int64_t *start, const int64_t *count, const target *dst)
{
    int64_t at = 0, end = start[c->axis] + count[c->axis];
    for (uint32_t i = 0; i < c->n_args; i++) {
        const opf_const *part = c->args[i];
        int64_t          size = part->dims[c->axis];
        int64_t          low = start[c->axis] > at ? start[c->axis] : at, high = end < at + size ? end : at + size;
        if (low < high) {
            int64_t s[OPF_MAX_RANK], n[OPF_MAX_RANK];
            memcpy(s, start, sizeof *s * (size_t)c->rank);
            memcpy(n, count, sizeof *n * (size_t)c->rank);
            s[c->axis] = low - at;
            n[c->axis] = high - low;
            target piece = *dst;
            piece.offset += (low - start[c->axis]) * dst->strides[c->axis];
            read_box(part, s, n, &piece);
        }
        at += size;
    }
}

static void read_slice(const opf_const *c, const int64_t *start, const int64_t *count, const target *dst)
{
    int64_t s[OPF_MAX_RANK];
    for (int32_t i = 0; i < c->rank; i++)
        s[i] = c->start[i] + start[i];
    read_box(c->args[0], s, count, dst);
}

/* Each repetition is read anew: nothing is kept in between. */
static void read_expand(const opf_const *c, const int64_t *start, const int64_t *count, const target *dst)
{
    const opf_const *a = c->args[0];
    int64_t          s[OPF_MAX_RANK], n[OPF_MAX_RANK], index[OPF_MAX_RANK] = {0};
    target           piece = *dst;
    for (int32_t i = 0; i < c->rank; i++) {
        s[i] = a->dims[i] == c->dims[i] ? start[i] : 0;
        n[i] = a->dims[i] == c->dims[i] ? count[i] : 1;
    }
    for (;;) {
        read_box(a, s, n, &piece);
        int32_t i = c->rank - 1;
        for (; i >= 0; i--) {
            if (n[i] == count[i])
                continue;
            piece.offset += dst->strides[i];
            if (++index[i] < count[i])
                break;
            piece.offset -= dst->strides[i] * count[i];
            index[i] = 0;
        }
        if (i < 0)
            return;
    }
}

static void read_transpose(const opf_const *c, const int64_t *start, const int64_t *count, const target *dst)
{
    int64_t s[OPF_MAX_RANK], n[OPF_MAX_RANK];
    target  turned = *dst;
    for (int32_t i = 0; i < c->rank; i++) {
        s[c->perm[i]]              = start[i];
        n[c->perm[i]]              = count[i];
        turned.strides[c->perm[i]] = dst->strides[i];
    }
    read_box(c->args[0], s, n, &turned);
}

/* Elements [at, at + n) in row-major order, as the largest boxes that tile them, to every step-th place. */
static void read_run(const opf_const *c, int64_t at, int64_t n, target dst, int64_t step)
{
    int64_t dense[OPF_MAX_RANK];
    set_dense(c->rank, c->dims, dense);
    while (n > 0) {
        int32_t k = 0; /* the outermost axis whose whole rows of the inner ones fit */
        while (k < c->rank - 1 && (at % dense[k] != 0 || n < dense[k]))
            k++;
        int64_t start[OPF_MAX_RANK], count[OPF_MAX_RANK], taken = 1;
        for (int32_t i = 0; i < c->rank; i++) {
            start[i] = at / dense[i] % c->dims[i];
            count[i] = i < k ? 1 : c->dims[i];
            if (i == k) {
                int64_t rows = n / dense[k], left = c->dims[k] - start[k];
                count[k] = rows < left ? rows : left;
                taken    = count[k] * dense[k];
            } else if (i > k) {
                start[i] = 0;
            }
            dst.strides[i] = step * dense[i];
        }
        read_box(c, start, count, &dst);
        at += taken;
        n -= taken;
        dst.offset += taken * step;
    }
}

static void read_reshape(const opf_const *c, const int64_t *start, const int64_t *count, const target *dst)
{
    int64_t dense[OPF_MAX_RANK];
    set_dense(c->rank, c->dims, dense);
    /* Inner axes that are read whole, into evenly spaced places, make longer runs. */
    int32_t inner = c->rank;
    int64_t run = 1, step = 1;
    while (inner > 0) {
        int32_t i = inner - 1;
        if (run > 1 && count[i] > 1 && dst->strides[i] != step * run)
            break;
        if (run == 1)
            step = dst->strides[i];
        run *= count[i];
        inner = i;
        if (count[i] != c->dims[i])
            break;
    }
    int64_t at = 0, index[OPF_MAX_RANK] = {0};
    for (int32_t i = 0; i < c->rank; i++)
        at += start[i] * dense[i];
    target piece = *dst;
    for (;;) {
        read_run(c->args[0], at, run, piece, step);
        int32_t i = inner - 1;
        for (; i >= 0; i--) {
            at += dense[i];
            piece.offset += dst->strides[i];
            if (++index[i] < count[i])
                break;
            at -= dense[i] * count[i];
            piece.offset -= dst->strides[i] * count[i];
            index[i] = 0;
        }
        if (i < 0)
            return;
    }
}

/* ---- arithmetic ---- */

/* A box of at most CHUNK elements, computed in place in dense doubles. */
static void compute_chunk(const opf_const *c, const int64_t *start, const int64_t *count, double *x)
{
    size_t n     = box_count(c->rank, count);
    target dense = {.type = OPF_DOUBLE, .data = (char *)x};
    set_dense(c->rank, count, dense.strides);
    read_box(c->args[0], start, count, &dense);
    if (c->kind == OPF_CONST_CAST) {
        for (size_t i = 0; i < n; i++) {
            char rounded[sizeof(double)];
            opf_store_f64(c->type, rounded, 0, x[i]);
            x[i] = opf_load_f64(c->type, rounded, 0);
        }
        return;
    }
    double y[CHUNK];
    dense.data = (char *)y;
    if (c->kind == OPF_CONST_ADD) {
        read_box(c->args[1], start, count, &dense);
        for (size_t i = 0; i < n; i++)
            x[i] += y[i];
        return;
    }
    dense.strides[0] = 1;
    read_box(c->args[1], &start[c->axis], &count[c->axis], &dense);
    size_t rows = (size_t)count[c->axis], inner = box_count(c->rank - c->axis - 1, count + c->axis + 1);
    for (size_t i = 0; i < n; i += rows * inner)
        for (size_t r = 0; r < rows; r++)
            for (size_t j = 0; j < inner; j++)
                x[i + r * inner + j] *= y[r];
}

static void read_arithmetic(const opf_const *c, const int64_t *start, const int64_t *count, const target *dst)
{
    size_t n = box_count(c->rank, count);
    if (n <= CHUNK) {
        double  x[CHUNK];
        int64_t dense[OPF_MAX_RANK];
        compute_chunk(c, start, count, x);
        set_dense(c->rank, count, dense);
        copy_box(c->rank, count, OPF_DOUBLE, (const char *)x, 0, dense, dst);
        return;
    }
    int32_t k = 0;
    while (count[k] == 1)
        k++;
    int64_t inner = (int64_t)(n / (size_t)count[k]), rows = inner >= CHUNK ? 1 : CHUNK / inner;
    int64_t s[OPF_MAX_RANK], m[OPF_MAX_RANK];
    memcpy(s, start, sizeof *s * (size_t)c->rank);
    memcpy(m, count, sizeof *m * (size_t)c->rank);
    target piece = *dst;
    for (int64_t i = 0; i < count[k]; i += rows) {
        s[k]         = start[k] + i;
        m[k]         = count[k] - i < rows ? count[k] - i : rows;
        piece.offset = dst->offset + i * dst->strides[k];
        read_arithmetic(c, s, m, &piece);
    }
}

static void read_box(const opf_const *c, const int64_t *start, const int64_t *count, const target *dst)
{
    for (int32_t i = 0; i < c->rank; i++)
        if (count[i] == 0)
            return;
    int64_t          strides[OPF_MAX_RANK], from;
    const opf_const *leaf = find_strided(c, strides, &from);
    if (leaf != NULL) {
        for (int32_t i = 0; i < c->rank; i++)
            from += start[i] * strides[i];
        copy_box(c->rank, count, leaf->type, leaf->data, from, strides, dst);
    } else if (c->kind == OPF_CONST_CONCAT) {
        read_concat(c, start, count, dst);
    } else if (c->kind == OPF_CONST_SLICE) {
        read_slice(c, start, count, dst);
    } else if (c->kind == OPF_CONST_EXPAND) {
        read_expand(c, start, count, dst);
    } else if (c->kind == OPF_CONST_TRANSPOSE) {
        read_transpose(c, start, count, dst);
    } else if (c->kind == OPF_CONST_RESHAPE) {
        read_reshape(c, start, count, dst);
    } else {
        read_arithmetic(c, start, count, dst);
    }
}

/* ---- entries ---- */

static void read_dense(const opf_const *c, const int64_t *start, const int64_t *count, opf_type type, void *data)
{
    target dst = {.type = type, .data = data};
    set_dense(c->rank, count, dst.strides);
    read_box(c, start, count, &dst);
}

void opf_const_read_f64(const opf_const *c, const int64_t *start, const int64_t *count, double *dst)
{
    read_dense(c, start, count, OPF_DOUBLE, dst);
}

void opf_const_read_f32(const opf_const *c, const int64_t *start, const int64_t *count, float *dst)
{
    read_dense(c, start, count, OPF_FLOAT, dst);
}

void opf_const_read(const opf_const *c, const int64_t *start, const int64_t *count, void *dst)
{
    read_dense(c, start, count, c->type, dst);
}

void opf_const_write(const opf_const *c, void *dst)
{
    const int64_t zeros[OPF_MAX_RANK] = {0};
    size_t        bytes               = opf_const_size(c);
    if (c->kind == OPF_CONST_BYTES) {
        if (bytes != 0)
            memcpy(dst, c->data, bytes);
        return;
    }
    if (opf_type_bits(c->type) < 8) /* elements are put into bytes that are there */
        memset(dst, 0, bytes);
    read_dense(c, zeros, c->dims, c->type, dst);
}

size_t opf_const_size(const opf_const *c)
{
    size_t bytes = 0;
    return opf_type_bytes(c->type, c->count, &bytes) ? bytes : 0;
}

static void read_element(const opf_const *c, size_t i, opf_type type, void *data)
{
    int64_t start[OPF_MAX_RANK], ones[OPF_MAX_RANK];
    for (int32_t d = c->rank - 1; d >= 0; d--) {
        start[d] = (int64_t)(i % (size_t)c->dims[d]);
        ones[d]  = 1;
        i /= (size_t)c->dims[d];
    }
    read_dense(c, start, ones, type, data);
}

double opf_const_f64_at(const opf_const *c, size_t i)
{
    if (c->kind == OPF_CONST_BYTES)
        return opf_load_f64(c->type, c->data, i);
    double x = 0;
    read_element(c, i, OPF_DOUBLE, &x);
    return x;
}

int64_t opf_const_i64_at(const opf_const *c, size_t i)
{
    if (c->kind == OPF_CONST_BYTES)
        return opf_load_i64(c->type, c->data, i);
    char element[16] = {0};
    read_element(c, i, c->type, element);
    return opf_load_i64(c->type, element, 0);
}
