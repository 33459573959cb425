/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/report.h"

#include "base/map.h"
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

bool opf_report_fusion(opf_fuse_report *report, const char *rule, const char *anchor, const char *const *origin, uint32_t n_origin)
{
    const char **copy   = opf_arena_copy(report->arena, origin, n_origin * sizeof *origin);
    opf_fusion   fusion = {.rule = rule, .anchor = anchor, .origin = copy, .n_origin = n_origin};
    return copy != NULL && OPF_PUSH(report->arena, report->fusions, report->n_fusions, report->fusions_capacity, fusion);
}

bool opf_report_miss(opf_fuse_report *report, const char *rule, const char *start, opf_miss_code code, const char *node, uint32_t matched,
                     uint32_t of, const char *reason, ...)
{
    char    message[400];
    va_list list;
    va_start(list, reason);
    vsnprintf(message, sizeof message, reason, list);
    va_end(list);
    opf_miss *miss = NULL;
    for (uint32_t i = 0; i < report->n_misses && miss == NULL; i++)
        if (strcmp(report->misses[i].start, start) == 0 && strcmp(report->misses[i].rule, rule) == 0)
            miss = &report->misses[i];
    if (miss != NULL && miss->matched >= matched)
        return true;
    const char *copy = opf_arena_copy_string(report->arena, message, strlen(message));
    opf_miss    now  = {.rule = rule, .start = start, .code = code, .node = node, .reason = copy, .matched = matched, .of = of};
    if (copy == NULL)
        return false;
    if (miss != NULL) {
        *miss = now;
        return true;
    }
    return OPF_PUSH(report->arena, report->misses, report->n_misses, report->misses_capacity, now);
}

/* ---- finishing ---- */

static bool same_family(const char *a, const char *b)
{
    const char *x = opf_fuse_family(a), *y = opf_fuse_family(b);
    return strcmp(a, b) == 0 || (x != NULL && y != NULL && strcmp(x, y) == 0);
}

/* The start node is in the fusion, and the fusion is what the miss might have been: one of the same family; or the miss
   was a faint one, for want of half of its operators, and the node is no kernel of its own any more. A node at fault may
   well be fused otherwise, with the neighbour that was in the way; that is no reason to say nothing. */
static bool is_faint(const opf_miss *miss)
{
    return miss->code == OPF_MISS_OP && miss->matched * 2 <= miss->of;
}

static bool answers(const opf_fusion *fusion, const opf_miss *miss)
{
    return same_family(miss->rule, fusion->rule) || (is_faint(miss) && strcmp(fusion->anchor, miss->start) != 0);
}

static void drop_answered(const opf_fuse_report *report, const opf_map *starts, bool *drop)
{
    for (uint32_t f = 0; f < report->n_fusions; f++) {
        const opf_fusion *fusion = &report->fusions[f];
        for (uint32_t o = 0; o < fusion->n_origin; o++) {
            uint32_t first;
            if (!opf_map_get(starts, fusion->origin[o], &first))
                continue;
            for (uint32_t m = first; m < report->n_misses; m++)
                drop[m] = drop[m] || (strcmp(report->misses[m].start, fusion->origin[o]) == 0 && answers(fusion, &report->misses[m]));
        }
    }
}

/* Of several faint misses of one start node the first says enough, and none where there is a better one. */
static void drop_faint(const opf_fuse_report *report, const opf_map *starts, bool *drop)
{
    bool *said = OPF_NEW(report->arena, bool, report->n_misses);
    for (uint32_t faint = 0; faint < 2 && said != NULL; faint++)
        for (uint32_t m = 0; m < report->n_misses; m++) {
            uint32_t first;
            if (drop[m] || is_faint(&report->misses[m]) != (faint == 1) || !opf_map_get(starts, report->misses[m].start, &first))
                continue;
            drop[m]     = faint == 1 && said[first];
            said[first] = true;
        }
}

static int nearest_first(const void *a, const void *b)
{
    const opf_miss *x = a, *y = b;
    uint64_t        p = (uint64_t)x->matched * y->of, q = (uint64_t)y->matched * x->of;
    if (p != q)
        return p > q ? -1 : 1;
    int order = strcmp(x->rule, y->rule);
    return order != 0 ? order : strcmp(x->start, y->start);
}

void opf_report_finish(opf_fuse_report *report)
{
    opf_map starts;
    opf_map_init(&starts, report->arena);
    bool *drop = OPF_NEW(report->arena, bool, report->n_misses);
    bool  ok   = drop != NULL;
    for (uint32_t m = 0; ok && m < report->n_misses; m++)
        ok = opf_map_get(&starts, report->misses[m].start, NULL) || opf_map_put(&starts, report->misses[m].start, m);
    if (ok) {
        drop_answered(report, &starts, drop);
        drop_faint(report, &starts, drop);
        uint32_t n = 0;
        for (uint32_t m = 0; m < report->n_misses; m++)
            if (!drop[m])
                report->misses[n++] = report->misses[m];
        report->n_misses = n;
    }
    if (report->n_misses != 0)
        qsort(report->misses, report->n_misses, sizeof *report->misses, nearest_first);
}
