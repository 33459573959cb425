/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_fuse [-n RUNS] MODEL…: what each stage before the plan costs, in milliseconds of thread CPU time, least of RUNS
 * (default 20). load maps the file, reads the graph and infers its shapes on symbols; simplify and fuse are the stages
 * of that name. Nothing runs, and no weight is packed.
 */
#include "base/limits.h"
#include "fuse/fuse.h"
#include "onnx/load.h"
#include "ops/infer.h"
#include "simplify/simplify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum stage { LOAD, SIMPLIFY, FUSE, N_STAGES };

typedef struct times {
    double ms[N_STAGES];
    uint32_t nodes[N_STAGES]; /* alive after the stage, bodies not counted */
    uint32_t n_rewrites;
} times;

static double thread_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static uint32_t count_nodes(const opf_graph *graph)
{
    uint32_t n = 0;
    for (opf_node_id id = 1; id < graph->n_nodes; id++)
        n += opf_node_is_alive(opf_graph_node(graph, id));
    return n;
}

/* The stage that began at *since has ended with this graph. */
static void end_stage(times *t, enum stage stage, const opf_graph *graph, double *since)
{
    t->ms[stage] = fmin(t->ms[stage], thread_ms() - *since);
    t->nodes[stage] = count_nodes(graph);
    *since = thread_ms();
}

static opf_status run_stages(const opf_mapping *file, const char *folder, const opf_limits *limits, opf_heap *heap,
                             opf_arena *arena, opf_loaded *loaded, times *t, double since, opf_error *error)
{
    opf_const_pool consts = {.arena = arena, .next_id = 1};
    const opf_load_options load = {.limits = limits, .heap = heap, .folder = folder};
    const opf_fuse_options fuse = {.stop_after = -1};
    opf_fuse_report report = {.arena = arena};
    opf_dims *dims = opf_dims_create(arena);
    OPF_OOM_IF(error, dims == NULL);
    OPF_TRY(opf_onnx_load(file->data, file->size, file->is_mapped, &load, arena, dims, &consts, loaded, error));
    OPF_TRY(opf_infer_graph(loaded->graph, error));
    end_stage(t, LOAD, loaded->graph, &since);
    OPF_TRY(opf_simplify(loaded->graph, limits, heap, error));
    end_stage(t, SIMPLIFY, loaded->graph, &since);
    OPF_TRY(opf_fuse(loaded->graph, &fuse, &report, error));
    end_stage(t, FUSE, loaded->graph, &since);
    t->n_rewrites = report.n_fusions;
    return OPF_OK;
}

static opf_status run_once(const char *path, const char *folder, times *t, opf_error *error)
{
    opf_heap heap;
    opf_arena arena;
    opf_limits limits;
    opf_mapping file = {0};
    opf_loaded loaded = {0};
    opf_heap_init(&heap, NULL, 0);
    opf_arena_init(&arena, &heap);
    opf_limits_init(&limits);
    const double since = thread_ms();
    opf_status status = opf_mapping_open(path, false, limits.model_bytes, &heap, &file, error);
    if (status == OPF_OK)
        status = run_stages(&file, folder, &limits, &heap, &arena, &loaded, t, since, error);
    opf_loaded_fini(&loaded, &heap);
    if (file.data != NULL)
        opf_mapping_close(&file, &heap);
    opf_arena_fini(&arena);
    return status;
}

static bool bench_model(const char *path, long runs)
{
    times t = {.ms = {INFINITY, INFINITY, INFINITY}};
    opf_error error;
    const char *slash = strrchr(path, '/');
    const int length = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);
    char *folder = malloc((size_t)length + 1);
    opf_status status = folder == NULL ? OPF_OUT_OF_MEMORY : OPF_OK;
    if (folder != NULL)
        (void)snprintf(folder, (size_t)length + 1, "%s", slash == NULL ? "." : path);
    for (long run = 0; status == OPF_OK && run < runs; run++)
        status = run_once(path, folder, &t, &error);
    if (status == OPF_OK)
        printf("%-32s %8.2f %8.2f %8.2f %8u %8u %8u %8u\n", slash == NULL ? path : slash + 1, t.ms[LOAD],
               t.ms[SIMPLIFY], t.ms[FUSE], t.nodes[LOAD], t.nodes[SIMPLIFY], t.nodes[FUSE], t.n_rewrites);
    else
        fprintf(stderr, "bench_fuse: %s: %s\n", path, folder == NULL ? "not enough memory" : error.message);
    free(folder);
    return status == OPF_OK;
}

int main(int argc, char **argv)
{
    long runs = 20;
    int first = 1, failed = 0;
    if (argc > 2 && strcmp(argv[1], "-n") == 0) {
        runs = strtol(argv[2], NULL, 10);
        first = 3;
    }
    if (first >= argc || runs < 1) {
        fputs("usage: bench_fuse [-n RUNS] MODEL...\n", stderr);
        return 2;
    }
    printf("%-32s %8s %8s %8s %8s %8s %8s %8s\n", "thread CPU ms, nodes after", "load", "simplify", "fuse", "loaded",
           "simple", "fused", "rewrites");
    for (int i = first; i < argc; i++)
        failed += !bench_model(argv[i], runs);
    return failed != 0;
}
