/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/report.h"

#include "fuse/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *opf_miss_code_name(opf_miss_code code)
{
    static const char *const names[] = {
#define X(name) #name,
        OPF_MISS_MAP(X)
#undef X
    };
    return (size_t)code < sizeof names / sizeof names[0] ? names[code] : "?";
}

bool opf_report_fusion(opf_fuse_report *report, const char *rule, const char *anchor, const char *const *origin,
                       uint32_t n_origin)
{
    const char **copy = opf_arena_copy(report->arena, origin, n_origin * sizeof *origin);
    opf_fusion fusion = {.rule = rule, .anchor = anchor, .origin = copy, .n_origin = n_origin};
    return copy != NULL &&
           OPF_PUSH(report->arena, report->fusions, report->n_fusions, report->fusions_capacity, fusion);
}

/* Index of the miss, or n_misses; *last: the last miss of that start, UINT32_MAX when there is none. */
static uint32_t find_miss(const opf_fuse_report *report, const char *rule, const char *start, uint32_t *last)
{
    uint32_t at;
    *last = UINT32_MAX;
    if (!opf_map_get(&report->by_start, start, &at))
        return report->n_misses;
    for (;; at = report->misses[at].next) {
        *last = at;
        if (strcmp(report->misses[at].rule, rule) == 0)
            return at;
        if (report->misses[at].next == 0)
            return report->n_misses;
    }
}

bool opf_report_miss(opf_fuse_report *report, const char *rule, const char *start, opf_miss_code code, const char *node,
                     uint32_t matched, uint32_t of, const char *reason, ...)
{
    char message[400];
    va_list list;
    va_start(list, reason);
    vsnprintf(message, sizeof message, reason, list);
    va_end(list);
    if (report->by_start.arena == NULL)
        opf_map_init(&report->by_start, report->arena);
    uint32_t last;
    uint32_t at = find_miss(report, rule, start, &last);
    if (at != report->n_misses && report->misses[at].matched >= matched)
        return true;
    opf_miss now = {.rule = rule, .start = start, .code = code, .node = node, .matched = matched, .of = of};
    now.reason = opf_arena_copy_string(report->arena, message, strlen(message));
    if (now.reason == NULL)
        return false;
    if (at != report->n_misses) {
        now.next = report->misses[at].next;
        report->misses[at] = now;
        return true;
    }
    if (!OPF_PUSH(report->arena, report->misses, report->n_misses, report->misses_capacity, now))
        return false;
    if (last == UINT32_MAX)
        return opf_map_put(&report->by_start, start, at);
    report->misses[last].next = at;
    return true;
}

/* ---- finishing ---- */

static bool same_family(const char *a, const char *b)
{
    const char *x = opf_fuse_family(a), *y = opf_fuse_family(b);
    return strcmp(a, b) == 0 || (x != NULL && y != NULL && strcmp(x, y) == 0);
}

/* The start node is in the fusion, and the fusion is what the miss might have been: one of the same family; or the miss
   was a faint one, for want of half of its operators, and the node is no kernel of its own any more. A node at fault
   may well be fused otherwise, with the neighbour that was in the way; that is no reason to say nothing. */
static bool is_faint(const opf_miss *miss)
{
    return miss->code == OPF_MISS_OP && miss->matched * 2 <= miss->of;
}

static bool answers(const opf_fusion *fusion, const opf_miss *miss)
{
    return same_family(miss->rule, fusion->rule) || (is_faint(miss) && strcmp(fusion->anchor, miss->start) != 0);
}

static void drop_answered(const opf_fuse_report *report, bool *drop)
{
    for (uint32_t f = 0; f < report->n_fusions; f++) {
        const opf_fusion *fusion = &report->fusions[f];
        for (uint32_t o = 0; o < fusion->n_origin; o++) {
            uint32_t at;
            if (!opf_map_get(&report->by_start, fusion->origin[o], &at))
                continue;
            do {
                drop[at] = drop[at] || answers(fusion, &report->misses[at]);
                at = report->misses[at].next;
            } while (at != 0);
        }
    }
}

/* Of several faint misses of one start node the first says enough, and none where there is a better one. */
static void drop_faint(const opf_fuse_report *report, bool *drop)
{
    bool *said = OPF_NEW(report->arena, bool, report->n_misses);
    for (uint32_t faint = 0; faint < 2 && said != NULL; faint++)
        for (uint32_t m = 0; m < report->n_misses; m++) {
            const opf_miss *miss = &report->misses[m];
            uint32_t first;
            if (drop[m] || miss->code == OPF_MISS_DISABLED || miss->code == OPF_MISS_BUDGET ||
                is_faint(miss) != (faint == 1) || !opf_map_get(&report->by_start, miss->start, &first))
                continue;
            drop[m] = faint == 1 && said[first];
            said[first] = true;
        }
}

static int nearest_first(const void *a, const void *b)
{
    const opf_miss *x = a, *y = b;
    uint64_t p = (uint64_t)x->matched * y->of, q = (uint64_t)y->matched * x->of;
    if (p != q)
        return p > q ? -1 : 1;
    int order = strcmp(x->rule, y->rule);
    return order != 0 ? order : strcmp(x->start, y->start);
}

void opf_report_finish(opf_fuse_report *report)
{
    bool *drop = OPF_NEW(report->arena, bool, report->n_misses);
    if (report->n_misses == 0 || drop == NULL)
        return;
    drop_answered(report, drop);
    drop_faint(report, drop);
    uint32_t n = 0;
    for (uint32_t m = 0; m < report->n_misses; m++)
        if (!drop[m])
            report->misses[n++] = report->misses[m];
    report->n_misses = n;
    opf_map_init(&report->by_start, report->arena);
    if (n != 0)
        qsort(report->misses, n, sizeof *report->misses, nearest_first);
}
