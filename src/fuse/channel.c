/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/channel.h"

#include <math.h>
#include <string.h>

const opf_const *opf_channel_vector(opf_const_pool *pool, const opf_const *c, int64_t channels)
{
    static const double zero = 0.0;
    const opf_const *flat = opf_const_reshape(pool, c, 1, &(int64_t){(int64_t)c->count});
    const opf_const *base = opf_const_splat(pool, OPF_DOUBLE, 1, &channels, &zero);
    return flat != NULL && base != NULL ? opf_const_compute(pool, '+', base, flat) : NULL;
}

bool opf_channel_is_finite(const opf_const *vector)
{
    for (size_t i = 0; i < vector->count; i++)
        if (!isfinite(opf_const_f64_at(vector, i)))
            return false;
    return true;
}

bool opf_channel_divides(const opf_const *vector)
{
    for (size_t i = 0; i < vector->count; i++)
        if (fabs(opf_const_f64_at(vector, i)) < 1e-30)
            return false;
    return true;
}

bool opf_channel_keeps_range(opf_type type, const opf_const *vector, bool divides)
{
    for (size_t i = 0; type == OPF_FLOAT16 && i < vector->count; i++) {
        const double x = fabs(opf_const_f64_at(vector, i));
        if (divides ? x < 1 : x > 1)
            return false;
    }
    return true;
}

const opf_const *opf_channel_reciprocal(opf_const_pool *pool, const opf_const *vector)
{
    static const double one = 1.0;
    const opf_const *ones = opf_const_splat(pool, OPF_DOUBLE, 1, vector->dims, &one);
    return ones != NULL ? opf_const_compute(pool, '/', ones, vector) : NULL;
}

/* factors[g] for each of the `rows` rows of group g, [groups * rows]. */
static const opf_const *repeat(opf_const_pool *pool, const opf_const *factors, int64_t groups, int64_t rows)
{
    static const double zero = 0.0;
    const int64_t all = groups * rows;
    const opf_const *column = opf_const_reshape(pool, factors, 2, (const int64_t[]){groups, 1});
    const opf_const *base = opf_const_splat(pool, OPF_DOUBLE, 2, (const int64_t[]){groups, rows}, &zero);
    const opf_const *full = column != NULL && base != NULL ? opf_const_compute(pool, '+', base, column) : NULL;
    return full != NULL ? opf_const_reshape(pool, full, 1, &all) : NULL;
}

const opf_const *opf_channel_scale_columns(opf_const_pool *pool, const opf_const *w, const opf_const *factors,
                                           int64_t groups)
{
    static const int32_t swap[] = {0, 2, 1, 3};
    if (groups == 1 || w->count == 0)
        return opf_const_scale(pool, w, factors, 1);
    const int64_t rows = w->dims[0] / groups, columns = w->dims[1], rest = (int64_t)w->count / (w->dims[0] * columns);
    if (columns == 1) {
        const opf_const *factor = repeat(pool, factors, groups, rows);
        return factor != NULL ? opf_const_scale(pool, w, factor, 0) : NULL;
    }
    /* The columns of all groups as rows, and back. */
    const opf_const *c = opf_const_reshape(pool, w, 4, (const int64_t[]){groups, rows, columns, rest});
    c = c != NULL ? opf_const_transpose(pool, c, swap) : NULL;
    c = c != NULL ? opf_const_reshape(pool, c, 3, (const int64_t[]){groups * columns, rows, rest}) : NULL;
    c = c != NULL ? opf_const_scale(pool, c, factors, 0) : NULL;
    c = c != NULL ? opf_const_reshape(pool, c, 4, (const int64_t[]){groups, columns, rows, rest}) : NULL;
    c = c != NULL ? opf_const_transpose(pool, c, swap) : NULL;
    return c != NULL ? opf_const_reshape(pool, c, w->rank, w->dims) : NULL;
}

const opf_const *opf_channel_shift_rows(opf_const_pool *pool, const opf_const *w, const opf_const *terms,
                                        int64_t groups)
{
    const int64_t rows = w->dims[0], columns = w->dims[1], taps = (int64_t)w->count / (rows * columns);
    double *row = OPF_NEW(pool->arena, double, (size_t)(columns * taps));
    double *sums = OPF_NEW(pool->arena, double, (size_t)rows);
    if (row == NULL || sums == NULL)
        return NULL;
    int64_t start[OPF_MAX_RANK] = {0}, count[OPF_MAX_RANK];
    memcpy(count, w->dims, (size_t)w->rank * sizeof *count);
    count[0] = 1;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t first = r / (rows / groups) * columns;
        start[0] = r;
        opf_const_read_f64(w, start, count, row);
        sums[r] = 0;
        for (int64_t c = 0; c < columns; c++)
            for (int64_t i = 0; i < taps; i++)
                sums[r] += row[c * taps + i] * opf_const_f64_at(terms, (size_t)(first + c));
    }
    return opf_const_bytes(pool, OPF_DOUBLE, 1, &rows, sums, (size_t)rows * sizeof *sums);
}
