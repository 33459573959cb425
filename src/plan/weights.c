/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/weights.h"

#include "cpu/cpu.h"

#include "base/map.h"
#include "base/round.h"
#include "kernels/kern.h"
#include "plan/returned_pages.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

typedef struct {
    void  *data;
    size_t bytes;
} packed;

typedef struct {
    const opf_const  *c;
    opf_weight_format format;
    void             *dst;
    _Atomic size_t    touched; /* pieces of dst */
    _Atomic int64_t   next, built; /* the unit that nobody has taken; how many are there */
} job;

struct opf_weights {
    opf_heap       *heap;
    opf_arena       arena;
    pthread_mutex_t lock;
    opf_map         index; /* key to packed[] */
    packed         *list;
    uint32_t        n, capacity;
    job            *jobs; /* to build */
    uint32_t        n_jobs, job_capacity;
    size_t          bytes;
    size_t          extra_bytes, budget;
    const opf_kern *kern;
    opf_returned_pages returned;
};

opf_weights *opf_weights_create(opf_heap *heap, const opf_kern *kern)
{
    opf_weights *weights = opf_heap_alloc(heap, sizeof *weights);
    if (weights == NULL)
        return NULL;
    *weights = (opf_weights){.heap = heap, .kern = kern};
    opf_arena_init(&weights->arena, heap);
    opf_map_init(&weights->index, &weights->arena);
    if (pthread_mutex_init(&weights->lock, NULL) == 0) {
        if (pthread_mutex_init(&weights->returned.lock, NULL) == 0)
            return weights;
        (void)pthread_mutex_destroy(&weights->lock);
    }
    opf_heap_free(heap, weights, sizeof *weights);
    return NULL;
}

void opf_weights_destroy(opf_weights **weights)
{
    opf_weights *w = *weights;
    if (w == NULL)
        return;
    for (uint32_t i = 0; i < w->n; i++)
        opf_heap_free(w->heap, w->list[i].data, w->list[i].bytes);
    opf_arena_fini(&w->arena);
    (void)pthread_mutex_destroy(&w->returned.lock);
    (void)pthread_mutex_destroy(&w->lock);
    opf_heap_free(w->heap, w, sizeof *w);
    *weights = NULL;
}

size_t opf_weights_bytes(opf_weights *weights)
{
    (void)pthread_mutex_lock(&weights->lock);
    size_t bytes = weights->bytes;
    (void)pthread_mutex_unlock(&weights->lock);
    return bytes;
}

static void give_back_leaf(void *user, const opf_const *leaf)
{
    opf_returned_pages_add(user, leaf->data, leaf->bytes);
}

/* Rows that a unit alone reads are given back with it: else all of a large weight would be there twice until the last unit is built. */
static bool goes_by_units(const job *j)
{
    return j->format.rows != 0 && j->c->kind == OPF_CONST_BYTES && j->c->mapped && j->c->rank != 0 && j->c->dims[0] != 0;
}

static void give_back_unit(opf_returned_pages *returned, const job *j, int64_t unit)
{
    const opf_const *c   = j->c;
    const size_t     row = c->bytes / (size_t)c->dims[0], first = (size_t)(unit * j->format.rows) * row, n = (size_t)j->format.rows * row;
    opf_returned_pages_add(returned, (const char *)c->data + first, c->bytes - first < n ? c->bytes - first : n);
}

/* Under the lock. extra: bytes that count against so many budgets. */
static const void *find_or_ask(opf_weights *w, const opf_const *c, const opf_weight_format *format, size_t extra, size_t budgets)
{
    char     wanted[128]; /* a look-up allocates nothing */
    uint32_t i;
    (void)snprintf(wanted, sizeof wanted, "%u %s %lld %lld %lld %lld", c->id, format->name, (long long)format->numbers[0],
                   (long long)format->numbers[1], (long long)format->numbers[2], (long long)format->numbers[3]);
    if (opf_map_get(&w->index, wanted, &i))
        return w->list[i].data;
    if (extra != 0 && (w->extra_bytes > budgets * w->budget || extra > budgets * w->budget - w->extra_bytes))
        return NULL;
    const char *key = opf_arena_copy_string(&w->arena, wanted, strlen(wanted));
    if (key == NULL)
        return NULL;
    packed item = {.data = opf_heap_alloc(w->heap, format->bytes), .bytes = format->bytes};
    if (item.data == NULL)
        return NULL;
    const job todo = {.c = c, .format = *format, .dst = item.data};
    if (!OPF_PUSH(&w->arena, w->list, w->n, w->capacity, item)) {
        opf_heap_free(w->heap, item.data, item.bytes);
        return NULL;
    }
    if (!OPF_PUSH(&w->arena, w->jobs, w->n_jobs, w->job_capacity, todo) || !opf_map_put(&w->index, key, w->n - 1))
        return NULL; /* the item stays in the list and is freed with it */
    w->bytes += item.bytes;
    w->extra_bytes += extra;
    return item.data;
}

typedef struct {
    opf_weights *weights;
    char        *scratch; /* a piece a thread */
    size_t       scratch_bytes;
} workload;

/* Fresh memory in one call instead of a fault a page: two thirds of the time. */
static void touch(const job *j, size_t first, size_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    enum { PAGE = 4096 };
    const uintptr_t begin = ((uintptr_t)j->dst + first) & ~(uintptr_t)(PAGE - 1);
    (void)madvise((void *)begin, (uintptr_t)j->dst + first + bytes - begin, MADV_POPULATE_WRITE);
#else
    (void)j;
    (void)first;
    (void)bytes;
#endif
}

enum { TOUCHED = 1 << 16, PIECE = 1 << 18 }; /* bytes: the fewest worth a call; of many small units */

/* What L2 still holds when it is written: the share of a unit. Small ones go together. */
static void touch_unit(const job *j, int64_t unit)
{
    const size_t share = j->format.bytes / (size_t)j->format.units;
    if (share >= TOUCHED)
        touch(j, (size_t)unit * share, share);
}

static void touch_pieces(job *j)
{
    const size_t bytes = j->format.bytes;
    if (bytes < TOUCHED || bytes / (size_t)j->format.units >= TOUCHED)
        return;
    for (size_t at; (at = PIECE * atomic_fetch_add(&j->touched, 1)) < bytes;)
        touch(j, at, bytes - at < PIECE ? bytes - at : PIECE);
}

static void build_units(void *user, int32_t thread, int32_t threads)
{
    const workload *all     = user;
    void           *scratch = all->scratch_bytes == 0 ? NULL : all->scratch + (size_t)thread * all->scratch_bytes;
    opf_weights    *w       = all->weights;
    (void)threads;
    for (uint32_t i = 0; i < w->n_jobs; i++) {
        job       *j        = &w->jobs[i];
        const bool by_units = goes_by_units(j);
        touch_pieces(j);
        for (int64_t unit; (unit = atomic_fetch_add(&j->next, 1)) < j->format.units;) {
            touch_unit(j, unit);
            j->format.build(w->kern, j->c, j->format.numbers, unit, j->dst, scratch);
            if (by_units)
                give_back_unit(&w->returned, j, unit);
            else if (atomic_fetch_add(&j->built, 1) + 1 == j->format.units)
                opf_const_leaves(j->c, give_back_leaf, &w->returned);
        }
    }
}

/* Under the lock. */
static bool build_all(opf_weights *w, const opf_weights_team *team)
{
    workload     all     = {.weights = w};
    const size_t threads = team == NULL ? 1 : (size_t)team->threads;
    for (uint32_t i = 0; i < w->n_jobs; i++) {
        const size_t bytes = (w->jobs[i].format.scratch_bytes + 63) & ~(size_t)63;
        all.scratch_bytes  = bytes > all.scratch_bytes ? bytes : all.scratch_bytes;
    }
    if (all.scratch_bytes != 0 && (all.scratch = opf_heap_alloc(w->heap, threads * all.scratch_bytes)) == NULL)
        return false;
    if (team == NULL)
        build_units(&all, 0, 1);
    else
        team->run(team->pool, build_units, &all);
    opf_heap_free(w->heap, all.scratch, threads * all.scratch_bytes);
    opf_returned_pages_flush(&w->returned);
    w->n_jobs = 0;
    return true;
}

bool opf_weights_build(opf_weights *weights, const opf_weights_team *team)
{
    (void)pthread_mutex_lock(&weights->lock);
    const bool built = weights->n_jobs == 0 || build_all(weights, team);
    (void)pthread_mutex_unlock(&weights->lock);
    return built;
}

static const void *get(opf_weights *weights, const opf_const *c, const opf_weight_format *format, size_t extra, size_t budgets)
{
    (void)pthread_mutex_lock(&weights->lock);
    const void *data = find_or_ask(weights, c, format, extra, budgets);
    (void)pthread_mutex_unlock(&weights->lock);
    return data;
}

/* The job that is to build dst, by this thread and now. */
static bool build_now(opf_weights *w, const void *dst)
{
    for (uint32_t i = 0; i < w->n_jobs; i++) {
        job                     *j       = &w->jobs[i];
        const opf_weight_format *format  = &j->format;
        void                    *scratch = NULL;
        if (j->dst != dst)
            continue;
        if (format->scratch_bytes != 0 && (scratch = opf_heap_alloc(w->heap, format->scratch_bytes)) == NULL)
            return false;
        for (int64_t unit = 0; unit < format->units; unit++)
            format->build(w->kern, j->c, format->numbers, unit, j->dst, scratch);
        opf_heap_free(w->heap, scratch, format->scratch_bytes);
        opf_const_leaves(j->c, give_back_leaf, &w->returned);
        memmove(j, j + 1, (--w->n_jobs - i) * sizeof *j);
        return true;
    }
    return true; /* it is there */
}

const void *opf_weights_get_now(opf_weights *weights, const opf_const *c, const opf_weight_format *format)
{
    (void)pthread_mutex_lock(&weights->lock);
    const void *data = find_or_ask(weights, c, format, 0, 0);
    if (data != NULL && !build_now(weights, data))
        data = NULL;
    (void)pthread_mutex_unlock(&weights->lock);
    return data;
}

const void *opf_weights_get(opf_weights *weights, const opf_const *c, const opf_weight_format *format)
{
    return get(weights, c, format, 0, 0);
}

const void *opf_weights_get_extra(opf_weights *weights, const opf_const *c, const opf_weight_format *format, size_t extra, size_t budgets)
{
    return get(weights, c, format, extra, budgets);
}

void opf_weights_set_file(opf_weights *weights, const void *data, size_t bytes)
{
    (void)pthread_mutex_lock(&weights->lock);
    weights->returned.file = (opf_page_range){(uintptr_t)data, (uintptr_t)data + bytes};
    (void)pthread_mutex_unlock(&weights->lock);
}

void opf_weights_set_budget(opf_weights *weights, size_t bytes)
{
    (void)pthread_mutex_lock(&weights->lock);
    weights->budget = bytes;
    (void)pthread_mutex_unlock(&weights->lock);
}

bool opf_weights_stay_cached(const opf_weights *weights)
{
    enum { MOST = 112 << 20 };
    const size_t l3 = opf_cpu_l3_bytes();
    return 2 * weights->budget <= (l3 < MOST ? l3 : MOST);
}

static void build_plain(const opf_kern *kern, const opf_const *c, const int64_t *numbers, int64_t unit, void *dst, void *scratch)
{
    (void)kern;
    (void)numbers;
    (void)unit;
    (void)scratch;
    opf_const_write(c, dst);
}

const void *opf_weights_plain(opf_weights *weights, const opf_const *c)
{
    static const uint64_t nothing = 0;
    size_t                size    = opf_type_size(c->type);
    if (c->count == 0)
        return &nothing;
    if (c->kind == OPF_CONST_BYTES && (uintptr_t)c->data % (size == 0 ? 1 : size) == 0)
        return c->data;
    const opf_weight_format format = {.name = "plain", .bytes = opf_const_size(c), .units = 1, .build = build_plain};
    return opf_weights_get_now(weights, c, &format);
}

/* ---- formats ---- */

/* n whole lines of the first axis: where they lie if they are floats there, else read to scratch. */
static const float *lines_of(const opf_const *c, int64_t first, int64_t n, float *scratch)
{
    int64_t start[OPF_MAX_RANK] = {first}, count[OPF_MAX_RANK] = {n}, line = 1;
    for (int32_t i = 1; i < c->rank; i++)
        line *= count[i] = c->dims[i];
    if (c->kind == OPF_CONST_BYTES && c->type == OPF_FLOAT && (uintptr_t)c->data % sizeof(float) == 0)
        return (const float *)c->data + first * line;
    opf_const_read_f32(c, start, count, scratch);
    return scratch;
}

void opf_pack_rows(const opf_kern *kern, const float *rows, int64_t cols, int64_t k, int64_t taps, int64_t nr, float *panel)
{
    if (cols < nr)
        memset(panel, 0, (size_t)(k * taps * nr) * sizeof *panel);
    if (taps == 1) {
        kern->copy_2d(rows, 1, k, panel, nr, (size_t)k, (size_t)cols);
        return;
    }
    for (int64_t i = 0; i < k; i++)
        kern->copy_2d(rows + i * taps, 1, k * taps, panel + i * nr, k * nr, (size_t)taps, (size_t)cols);
}

/* numbers: k, n, nr, transposed */
static void build_panel(const opf_kern *kern, const opf_const *c, const int64_t *numbers, int64_t unit, void *dst, void *scratch)
{
    int64_t k = numbers[0], nr = numbers[2], n0 = unit * nr, cols = numbers[1] - n0 < nr ? numbers[1] - n0 : nr;
    float  *panel = (float *)dst + unit * k * nr, *rows = scratch;
    if (numbers[3] == 0 && cols == nr) {
        opf_const_read_f32(c, (int64_t[]){0, n0}, (int64_t[]){k, cols}, panel);
        return;
    }
    if (numbers[3] == 0) {
        memset(panel, 0, (size_t)(k * nr) * sizeof *panel);
        opf_const_read_f32(c, (int64_t[]){0, n0}, (int64_t[]){k, cols}, rows);
        for (int64_t i = 0; i < k; i++)
            memcpy(panel + i * nr, rows + i * cols, (size_t)cols * sizeof *panel);
        return;
    }
    opf_pack_rows(kern, lines_of(c, n0, cols, rows), cols, k, 1, nr, panel);
}

opf_weight_format opf_format_panels(int64_t k, int64_t n, int64_t nr, bool transposed)
{
    return (opf_weight_format){.name          = "panels",
                               .numbers       = {k, n, nr, transposed},
                               .bytes         = (size_t)(k * opf_round_up(n, nr)) * sizeof(float),
                               .units         = opf_round_up(n, nr) / nr,
                               .rows          = transposed ? nr : 0,
                               .build         = build_panel,
                               .scratch_bytes = (size_t)(k * nr) * sizeof(float)};
}

void opf_conv_panel(const opf_kern *kern, const opf_const *w, int64_t first, int64_t cols, int64_t taps, int64_t nr, float *panel, float *scratch)
{
    opf_pack_rows(kern, lines_of(w, first, cols, scratch), cols, w->dims[1], taps, nr, panel);
}

/* numbers: o per group, c, taps, groups * 1000 + nr */
static void build_conv(const opf_kern *kern, const opf_const *w, const int64_t *numbers, int64_t unit, void *dst, void *scratch)
{
    int64_t o = numbers[0], c = numbers[1], taps = numbers[2], nr = numbers[3] % 1000, panels = opf_round_up(o, nr) / nr;
    int64_t g = unit / panels, o0 = unit % panels * nr;
    opf_conv_panel(kern, w, g * o + o0, o - o0 < nr ? o - o0 : nr, taps, nr, (float *)dst + unit * taps * c * nr, scratch);
}

opf_weight_format opf_format_conv(int64_t o, int64_t c, int64_t taps, int64_t groups, int64_t nr)
{
    return (opf_weight_format){.name          = "conv",
                               .numbers       = {o / groups, c, taps, groups * 1000 + nr},
                               .bytes         = (size_t)(groups * opf_round_up(o / groups, nr) * c * taps) * sizeof(float),
                               .units         = groups * (opf_round_up(o / groups, nr) / nr),
                               .rows          = groups == 1 ? nr : 0,
                               .build         = build_conv,
                               .scratch_bytes = (size_t)(nr * c * taps) * sizeof(float)};
}

/* G of one axis, [points][taps], by Lagrange: what each tap gives to each of the points; an axis of one tap stays as it is. */
static void filter_matrix(int points, int taps, double *g)
{
    const double *a = points == 1 ? NULL : opf_winograd_pairs(points);
    memset(g, 0, (size_t)(points * taps) * sizeof *g);
    g[0] = g[points * taps - 1] = 1;
    for (int i = 0; i < points / 2 - 1; i++) {
        double power = 1 / (2 * a[i] * a[i]);
        for (int j = 0; j < points / 2 - 1; j++)
            power /= j == i ? 1 : a[i] * a[i] - a[j] * a[j];
        for (int k = 0; k < taps; k++, power *= a[i]) {
            g[(1 + 2 * i) * taps + k] = power;
            g[(2 + 2 * i) * taps + k] = k % 2 == 0 ? power : -power;
        }
    }
}

/* numbers: o, c, groups * 1000 + nr, points down * 100 + across. Scratch: the panel as it is, and what reads it. */
static void build_winograd(const opf_kern *kern, const opf_const *w, const int64_t *numbers, int64_t unit, void *dst, void *scratch)
{
    const int64_t        o = numbers[0], c = numbers[1], groups = numbers[2] / 1000, nr = numbers[2] % 1000, n = c * nr;
    const int64_t        panels = opf_round_up(o, nr) / nr, first = unit % panels * nr;
    const int            down = w->rank > 3 ? (int)w->dims[w->rank - 2] : 1, across = (int)w->dims[w->rank - 1];
    double               g[2][OPF_WINOGRAD_WINDOW * OPF_WINOGRAD_WINDOW];
    float               *taps = scratch;
    opf_winograd_filters filters = {.points  = {(int)numbers[3] / 100, (int)numbers[3] % 100},
                                    .taps    = {down, across},
                                    .g       = {g[0], g[1]},
                                    .w       = taps,
                                    .w_tap   = n,
                                    .u       = (float *)dst + unit * n,
                                    .u_point = groups * panels * n,
                                    .n       = (size_t)n};
    for (int axis = 0; axis < 2; axis++)
        filter_matrix(filters.points[axis], filters.taps[axis], g[axis]);
    opf_conv_panel(kern, w, unit / panels * o + first, o - first < nr ? o - first : nr, down * across, nr, taps, taps + n * down * across);
    kern->winograd_filters(&filters);
}

opf_weight_format opf_format_winograd(int64_t o, int64_t c, int64_t groups, int64_t nr, const int64_t taps[2], const int64_t points[2])
{
    const int64_t all = points[0] * points[1];
    return (opf_weight_format){.name          = "winograd",
                               .numbers       = {o, c, groups * 1000 + nr, points[0] * 100 + points[1]},
                               .bytes         = (size_t)(all * groups * opf_round_up(o, nr) * c) * sizeof(float),
                               .units         = groups * (opf_round_up(o, nr) / nr),
                               .rows          = groups == 1 ? nr : 0,
                               .build         = build_winograd,
                               .scratch_bytes = 2 * (size_t)(nr * c * taps[0] * taps[1]) * sizeof(float)};
}

/* numbers: o per group, c, taps * 100 + lanes, groups */
static void build_grouped(const opf_kern *kern, const opf_const *w, const int64_t *numbers, int64_t unit, void *dst, void *scratch)
{
    int64_t o = numbers[0], c = numbers[1], taps = numbers[2] / 100, lanes = numbers[2] % 100, groups = numbers[3];
    int64_t block = (int64_t)opf_grouped_block((size_t)c, (size_t)o, (size_t)lanes), first = unit * block;
    int64_t cols = (groups - first < block ? groups - first : block) * o;
    opf_conv_panel(kern, w, first * o, cols, taps, lanes, (float *)dst + unit * taps * c * lanes, scratch);
}

opf_weight_format opf_format_grouped(int64_t o, int64_t c, int64_t taps, int64_t groups, int64_t lanes)
{
    const int64_t blocks = (int64_t)opf_divide_up((size_t)groups, opf_grouped_block((size_t)c, (size_t)(o / groups), (size_t)lanes));
    return (opf_weight_format){.name          = "grouped",
                               .numbers       = {o / groups, c, taps * 100 + lanes, groups},
                               .bytes         = (size_t)(blocks * taps * c * lanes) * sizeof(float),
                               .units         = blocks,
                               .build         = build_grouped,
                               .scratch_bytes = (size_t)(lanes * c * taps) * sizeof(float)};
}

/* numbers: c, taps */
static void build_depthwise(const opf_kern *kern, const opf_const *w, const int64_t *numbers, int64_t unit, void *dst, void *scratch)
{
    (void)unit;
    opf_pack_rows(kern, lines_of(w, 0, numbers[0], scratch), numbers[0], 1, numbers[1], numbers[0], dst);
}

opf_weight_format opf_format_depthwise(int64_t c, int64_t taps)
{
    size_t bytes = (size_t)(c * taps) * sizeof(float);
    return (opf_weight_format){
        .name = "depthwise", .numbers = {c, taps}, .bytes = bytes, .units = 1, .build = build_depthwise, .scratch_bytes = bytes};
}

/* numbers: n per group, groups, nr */
static void build_vector(const opf_kern *kern, const opf_const *c, const int64_t *numbers, int64_t unit, void *dst, void *scratch)
{
    (void)kern;
    (void)unit;
    (void)scratch;
    int64_t n = numbers[0], groups = numbers[1], padded = opf_round_up(n, numbers[2]);
    float  *out = dst;
    memset(out, 0, (size_t)(groups * padded) * sizeof *out);
    for (int64_t g = 0; g < groups; g++)
        for (int64_t i = 0; i < n; i++)
            out[g * padded + i] = (float)opf_const_f64_at(c, c->count == 1 ? 0 : (size_t)(g * n + i));
}

opf_weight_format opf_format_vector(int64_t n, int64_t groups, int64_t nr)
{
    return (opf_weight_format){.name    = "vector",
                               .numbers = {n / groups, groups, nr},
                               .bytes   = (size_t)(groups * opf_round_up(n / groups, nr)) * sizeof(float),
                               .units   = 1,
                               .build   = build_vector};
}
