/* SPDX-License-Identifier: Apache-2.0 */
/* Recipes against an element-by-element reading of their definition, on random shapes and boxes. */
#include "graph/constant.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

typedef struct fixture {
    opf_heap       heap;
    opf_arena      arena;
    opf_const_pool pool;
    uint64_t       random;
} fixture;

static uint32_t next(fixture *f, uint32_t below)
{
    f->random = f->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(f->random >> 33) % below;
}

static int setup(void **state)
{
    static fixture f;
    opf_heap_init(&f.heap, NULL, 0);
    opf_arena_init(&f.arena, &f.heap);
    f.pool   = (opf_const_pool){.arena = &f.arena, .next_id = 1};
    f.random = 20;
    *state   = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    opf_arena_fini(&f->arena);
    assert_int_equal(atomic_load(&f->heap.used), 0);
    return 0;
}

static double round_to(opf_type type, double x)
{
    char bytes[8];
    opf_store_f64(type, bytes, 0, x);
    return opf_load_f64(type, bytes, 0);
}

/* The definition of each kind, one element at a time. */
static double naive(const opf_const *c, const int64_t *index)
{
    int64_t inner[OPF_MAX_RANK] = {0};
    size_t  flat                = 0;
    for (int32_t i = 0; i < c->rank; i++) {
        inner[i] = index[i];
        flat     = flat * (size_t)c->dims[i] + (size_t)index[i];
    }
    switch (c->kind) {
    case OPF_CONST_BYTES:
        return opf_load_f64(c->type, c->data, flat);
    case OPF_CONST_SPLAT:
        return opf_load_f64(c->type, c->data, 0);
    case OPF_CONST_SCALE:
        return naive(c->args[0], index) * naive(c->args[1], &index[c->axis]);
    case OPF_CONST_CONCAT:
        for (uint32_t p = 0;; p++) {
            if (inner[c->axis] < c->args[p]->dims[c->axis])
                return naive(c->args[p], inner);
            inner[c->axis] -= c->args[p]->dims[c->axis];
        }
    case OPF_CONST_TRANSPOSE:
        for (int32_t i = 0; i < c->rank; i++)
            inner[c->perm[i]] = index[i];
        return naive(c->args[0], inner);
    case OPF_CONST_RESHAPE:
        for (int32_t i = c->args[0]->rank - 1; i >= 0; i--) {
            inner[i] = (int64_t)(flat % (size_t)c->args[0]->dims[i]);
            flat /= (size_t)c->args[0]->dims[i];
        }
        return naive(c->args[0], inner);
    case OPF_CONST_SLICE:
        for (int32_t i = 0; i < c->rank; i++)
            inner[i] += c->start[i];
        return naive(c->args[0], inner);
    case OPF_CONST_EXPAND:
        for (int32_t i = 0; i < c->rank; i++)
            inner[i] = c->args[0]->dims[i] == 1 ? 0 : index[i];
        return naive(c->args[0], inner);
    case OPF_CONST_CAST:
        return round_to(c->type, naive(c->args[0], index));
    case OPF_CONST_ADD:
        return naive(c->args[0], index) + naive(c->args[1], index);
    }
    return 0;
}

static const opf_const *random_bytes(fixture *f, opf_type type, int32_t rank, const int64_t *dims)
{
    size_t n = 1, bytes = 0;
    for (int32_t i = 0; i < rank; i++)
        n *= (size_t)dims[i];
    assert_true(opf_type_bytes(type, n, &bytes));
    char *data = (char *)opf_arena_alloc(&f->arena, bytes + 1) + 1; /* no alignment */
    for (size_t i = 0; i < n; i++)
        opf_store_f64(type, data, i, (double)next(f, 2001) / 64.0 - 15);
    return opf_const_bytes(&f->pool, type, rank, dims, data, bytes);
}

static const opf_const *random_step(fixture *f, const opf_const *c)
{
    int64_t dims[OPF_MAX_RANK];
    int32_t perm[OPF_MAX_RANK];
    memcpy(dims, c->dims, sizeof *dims * (size_t)c->rank);
    int32_t axis = c->rank == 0 ? 0 : (int32_t)next(f, (uint32_t)c->rank);
    switch (next(f, 8)) {
    case 0:
        return c->rank == 0 ? c : opf_const_scale(&f->pool, c, random_bytes(f, OPF_FLOAT, 1, &dims[axis]), axis);
    case 1: {
        if (c->rank == 0)
            return c;
        dims[axis]               = 1 + (int64_t)next(f, 5);
        const opf_const *parts[] = {c, random_bytes(f, c->type, c->rank, dims), c};
        return opf_const_concat(&f->pool, parts, 2 + next(f, 2), axis);
    }
    case 2:
        for (int32_t i = 0; i < c->rank; i++) {
            int32_t at = (int32_t)next(f, (uint32_t)i + 1);
            perm[i]    = perm[at];
            perm[at]   = i;
        }
        return opf_const_transpose(&f->pool, c, perm);
    case 3: { /* join two axes, or split one, or add a 1 */
        int32_t rank = c->rank;
        if (rank >= 2 && next(f, 2) == 0) {
            int32_t i = (int32_t)next(f, (uint32_t)rank - 1);
            dims[i] *= dims[i + 1];
            memmove(&dims[i + 1], &dims[i + 2], sizeof *dims * (size_t)(rank - i - 2));
            rank--;
        } else if (rank >= 1 && rank < 5) {
            int64_t by = dims[axis] % 2 == 0 ? 2 : dims[axis] % 3 == 0 ? 3 : 1;
            memmove(&dims[axis + 1], &dims[axis], sizeof *dims * (size_t)(rank - axis));
            dims[axis] = by;
            dims[axis + 1] /= by;
            rank++;
        }
        return opf_const_reshape(&f->pool, c, rank, dims);
    }
    case 4: { /* a box */
        int64_t start[OPF_MAX_RANK];
        for (int32_t i = 0; i < c->rank; i++) {
            start[i] = next(f, (uint32_t)dims[i]);
            dims[i]  = 1 + (int64_t)next(f, (uint32_t)(dims[i] - start[i]));
        }
        return opf_const_slice(&f->pool, c, start, dims);
    }
    case 5: /* axes of one element, repeated */
        for (int32_t i = 0; i < c->rank; i++)
            dims[i] = dims[i] == 1 && next(f, 2) == 0 ? 3 : dims[i];
        return opf_const_expand(&f->pool, c, dims);
    case 6:
        return opf_const_cast(&f->pool, c, next(f, 2) == 0 ? OPF_FLOAT16 : OPF_FLOAT);
    default:
        return opf_const_add(&f->pool, c, random_bytes(f, c->type, c->rank, dims));
    }
}

static void check_box(fixture *f, const opf_const *c, bool whole)
{
    int64_t start[OPF_MAX_RANK] = {0}, count[OPF_MAX_RANK] = {0}, index[OPF_MAX_RANK] = {0};
    size_t  n = 1;
    for (int32_t i = 0; i < c->rank; i++) {
        start[i] = whole ? 0 : next(f, (uint32_t)c->dims[i]);
        count[i] = whole ? c->dims[i] : 1 + next(f, (uint32_t)(c->dims[i] - start[i]));
        n *= (size_t)count[i];
    }
    double *wide   = OPF_NEW(&f->arena, double, n);
    float  *narrow = OPF_NEW(&f->arena, float, n);
    opf_const_read_f64(c, start, count, wide);
    opf_const_read_f32(c, start, count, narrow);
    for (size_t i = 0; i < n; i++) {
        size_t rest = i;
        for (int32_t d = c->rank - 1; d >= 0; d--) {
            index[d] = start[d] + (int64_t)(rest % (size_t)count[d]);
            rest /= (size_t)count[d];
        }
        double expected = naive(c, index);
        assert_true(wide[i] == expected || fabs(wide[i] - expected) <= 1e-12 * fabs(expected));
        assert_true(fabs((double)narrow[i] - expected) <= 6e-8 * fabs(expected));
    }
}

static void test_random_recipes(void **state)
{
    fixture *f = *state;
    for (int trial = 0; trial < 400; trial++) {
        int32_t          rank = (int32_t)next(f, 5);
        int64_t          dims[OPF_MAX_RANK] = {0};
        for (int32_t i = 0; i < rank; i++)
            dims[i] = 1 + (int64_t)next(f, rank <= 2 ? 40 : 7);
        const opf_type   types[] = {OPF_FLOAT, OPF_FLOAT, OPF_DOUBLE, OPF_FLOAT16, OPF_BFLOAT16};
        const opf_const *c       = random_bytes(f, types[next(f, 5)], rank, dims);
        for (uint32_t steps = next(f, 7); steps > 0 && c->count < 20000; steps--) {
            c = random_step(f, c);
            assert_non_null(c);
        }
        check_box(f, c, true);
        check_box(f, c, false);
        char *own = opf_arena_alloc(&f->arena, opf_const_size(c));
        opf_const_write(c, own);
        for (size_t i = 0; i < c->count; i += 1 + c->count / 7) {
            assert_true(round_to(c->type, opf_const_f64_at(c, i)) == opf_load_f64(c->type, own, i));
        }
        const char *data;
        int64_t     strides[OPF_MAX_RANK], last = 0;
        if (opf_const_strided_f32(c, &data, strides)) {
            for (int32_t i = 0; i < c->rank; i++)
                last += (c->dims[i] - 1) * strides[i];
            assert_true(opf_load_f64(OPF_FLOAT, data, (size_t)last) == opf_const_f64_at(c, c->count - 1));
        }
    }
}

static void test_integers_move_exactly(void **state)
{
    fixture         *f       = *state;
    const int64_t    a[]     = {INT64_MAX, INT64_MIN, 3, 4, 5, 6};
    const int64_t    dims[]  = {2, 3};
    const int32_t    perm[]  = {1, 0};
    const opf_const *c       = opf_const_bytes(&f->pool, OPF_INT64, 2, dims, a, sizeof a);
    const opf_const *t       = opf_const_transpose(&f->pool, c, perm);
    const opf_const *parts[] = {t, t};
    const opf_const *joined  = opf_const_concat(&f->pool, parts, 2, 0);
    int64_t          out[12];
    opf_const_write(joined, out);
    const int64_t expected[] = {INT64_MAX, 4, INT64_MIN, 5, 3, 6, INT64_MAX, 4, INT64_MIN, 5, 3, 6};
    assert_memory_equal(out, expected, sizeof out);
    assert_int_equal(opf_const_i64_at(joined, 8), INT64_MIN);
    assert_int_equal(opf_const_i64_at(opf_const_ints(&f->pool, a, 6), 0), INT64_MAX);
}

static void test_sub_byte_elements(void **state)
{
    fixture            *f      = *state;
    const unsigned char a[]    = {0x21, 0x43, 0x65};
    const int64_t       dims[] = {2, 3};
    const int32_t       perm[] = {1, 0};
    const opf_const    *c      = opf_const_bytes(&f->pool, OPF_UINT4, 2, dims, a, sizeof a);
    unsigned char       out[3] = {0};
    opf_const_write(opf_const_transpose(&f->pool, c, perm), out);
    const unsigned char expected[] = {0x41, 0x52, 0x63}; /* 1 4 2 5 3 6 */
    assert_memory_equal(out, expected, sizeof out);
}

static void test_compute(void **state)
{
    fixture         *f    = *state;
    const float      x[]  = {1, 2, 3}, y[] = {10, 20};
    const int64_t    dx[] = {3}, dy[] = {2, 1};
    const opf_const *a    = opf_const_bytes(&f->pool, OPF_FLOAT, 1, dx, x, sizeof x);
    const opf_const *b    = opf_const_bytes(&f->pool, OPF_FLOAT, 2, dy, y, sizeof y);
    const opf_const *c    = opf_const_compute(&f->pool, '-', b, a);
    assert_int_equal(c->rank, 2);
    assert_int_equal(c->type, OPF_DOUBLE);
    const double expected[] = {9, 8, 7, 19, 18, 17};
    for (size_t i = 0; i < 6; i++)
        assert_true(opf_const_f64_at(c, i) == expected[i]);
    const opf_const *root = opf_const_sqrt(&f->pool, opf_const_float(&f->pool, OPF_FLOAT, 2.25));
    assert_true(opf_const_f64_at(root, 0) == 1.5);
    const float      element = 4;
    const opf_const *splat   = opf_const_splat(&f->pool, OPF_FLOAT, 2, dy, &element);
    assert_true(opf_const_f64_at(splat, 1) == 4.0);
}

/* A chain of any length is read without deep recursion, and still rounded once. */
static void test_long_chains(void **state)
{
    fixture         *f      = *state;
    const float      x[]    = {1, 2, 3, 4};
    const int64_t    dims[] = {2, 2};
    const opf_const *base   = opf_const_bytes(&f->pool, OPF_FLOAT, 2, dims, x, sizeof x);
    const double     k      = 1 + 0x1p-30;
    const int64_t    two    = 2;
    const opf_const *vector = opf_const_splat(&f->pool, OPF_DOUBLE, 1, &two, &k);
    const opf_const *c      = base;
    for (int i = 0; i < 1000; i++)
        c = opf_const_scale(&f->pool, c, vector, i % 2);
    assert_true(c->depth < 32);
    assert_true(fabs(opf_const_f64_at(c, 0) - pow(k, 1000)) < 1e-7);
    const int32_t perm[] = {1, 0};
    for (int i = 0; i < 1001; i++)
        c = opf_const_transpose(&f->pool, c, perm);
    assert_true(c->depth < 32);
    assert_true(fabs(opf_const_f64_at(c, 1) - 3 * pow(k, 1000)) < 1e-6);
}

static void test_empty(void **state)
{
    fixture         *f       = *state;
    const int64_t    dims[]  = {2, 0, 3}, whole[] = {2, 0, 3}, zero[] = {0, 0, 0};
    const opf_const *c       = opf_const_bytes(&f->pool, OPF_FLOAT, 3, dims, NULL, 0);
    const int32_t    perm[]  = {2, 1, 0};
    const opf_const *parts[] = {c, c};
    double           none    = 0;
    opf_const_read_f64(opf_const_concat(&f->pool, parts, 2, 1), zero, whole, &none);
    opf_const_write(opf_const_transpose(&f->pool, c, perm), &none);
    assert_int_equal(opf_const_size(c), 0);
}

static void count_leaf(void *user, const opf_const *leaf)
{
    *(int *)user += leaf->mapped ? 1 : 100;
}

static void test_leaves(void **state)
{
    fixture         *f      = *state;
    const float      x[]    = {1, 2};
    const int64_t    dims[] = {2};
    const opf_const *m      = opf_const_mapped(&f->pool, OPF_FLOAT, 1, dims, x, sizeof x);
    const opf_const *b      = opf_const_bytes(&f->pool, OPF_FLOAT, 1, dims, x, sizeof x);
    int              n      = 0;
    opf_const_leaves(opf_const_add(&f->pool, m, b), count_leaf, &n);
    assert_int_equal(n, 1);
    assert_true(m->id != b->id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random_recipes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_integers_move_exactly, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sub_byte_elements, setup, teardown),
        cmocka_unit_test_setup_teardown(test_compute, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_chains, setup, teardown),
        cmocka_unit_test_setup_teardown(test_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leaves, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
