/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"
#include "commands.h"
#include "inputs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_WARMUP  3
#define DEFAULT_SECONDS 2.0
#define LEAST_RUNS      5u
#define PROFILED_RUNS   5u

/* ---- one model, ready to run ---- */

void cli_runner_open(cli_runner *runner, const cli_options *options, const opf_model_options *model_options)
{
    opf_error           error           = {0};
    opf_session_options session_options = cli_session_options(options);
    *runner                             = (cli_runner){.options = options};
    double start                        = cli_now_ms();
    cli_check(opf_model_open(options->paths.items[0], model_options, &runner->model, &error), &error);
    runner->open_ms = cli_now_ms() - start;
    cli_inputs_make(&runner->inputs, runner->model, options, CLI_MISSING_RANDOM);
    runner->n_outputs = opf_model_output_count(runner->model);
    runner->outputs   = cli_alloc(runner->n_outputs, sizeof *runner->outputs);
    start             = cli_now_ms();
    cli_check(opf_session_create(runner->model, &session_options, &runner->session, &error), &error);
    cli_check(opf_session_prepare(runner->session, runner->inputs.tensors, runner->inputs.n, &error), &error);
    runner->open_ms += cli_now_ms() - start;
}

void cli_runner_close(cli_runner *runner)
{
    opf_session_destroy(&runner->session);
    cli_inputs_free(&runner->inputs);
    opf_model_destroy(&runner->model);
    free(runner->outputs);
}

double cli_runner_run(cli_runner *runner)
{
    opf_error error = {0};
    for (size_t i = 0; i < runner->n_outputs; i++)
        runner->outputs[i] = (opf_tensor){0};
    double     start  = cli_now_ms();
    opf_status status = opf_session_run(runner->session, runner->inputs.tensors, runner->inputs.n, runner->outputs,
                                        runner->n_outputs, &error);
    double     ms     = cli_now_ms() - start;
    cli_check(status, &error);
    return ms;
}

/* ---- many runs ---- */

void cli_samples_add(cli_samples *samples, double ms)
{
    samples->ms               = cli_grow(samples->ms, samples->n, sizeof *samples->ms);
    samples->ms[samples->n++] = ms;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sort_samples(cli_samples *samples)
{
    qsort(samples->ms, samples->n, sizeof *samples->ms, compare);
}

double cli_samples_median(const cli_samples *samples)
{
    size_t n = samples->n;
    return n % 2 == 1 ? samples->ms[n / 2] : (samples->ms[n / 2 - 1] + samples->ms[n / 2]) / 2;
}

static double ninth_decile(const cli_samples *samples)
{
    return samples->ms[(9 * samples->n + 9) / 10 - 1];
}

void cli_measure(const cli_options *options, cli_runner *runners, cli_samples *samples, size_t n, const char *what)
{
    int64_t warmup  = options->warmup < 0 ? DEFAULT_WARMUP : options->warmup;
    double  seconds = options->seconds < 0 ? DEFAULT_SECONDS : options->seconds;
    for (int64_t r = 0; r < warmup; r++)
        for (size_t i = 0; i < n; i++)
            (void)cli_runner_run(&runners[i]);
    double start = cli_now_ms(), shown = start;
    for (size_t r = 0;; r++) {
        double now = cli_now_ms();
        if (options->runs >= 0 ? r >= (size_t)options->runs : r >= LEAST_RUNS && now - start >= 1e3 * seconds)
            break;
        if (now - shown > 200 && options->runs >= 0) {
            cli_progress(options, what, r, (size_t)options->runs);
            shown = now;
        } else if (now - shown > 200) {
            cli_progress(options, what, (size_t)((now - start) / 1e3), (size_t)seconds + 1);
            shown = now;
        }
        for (size_t i = 0; i < n; i++)
            cli_samples_add(&samples[i], cli_runner_run(&runners[i]));
    }
    for (size_t i = 0; i < n; i++)
        sort_samples(&samples[i]);
    cli_progress(options, "", 0, 0);
}

/* ---- the result ---- */

typedef struct result {
    double      open_ms, first_ms;
    cli_samples samples;
    size_t      peak_bytes;
    opf_profile profile;
    json_t     *ablation; /* NULL without --ablate */
} result;

static double rate(double amount, double ms)
{
    return amount > 0 && ms > 0 ? amount / ms * 1e-6 : 0; /* per ms, in units of 1e9 per second */
}

static void print_json(const cli_options *options, const result *r, FILE *out)
{
    json_t *document = json_object(), *steps = json_array();
    double  median = cli_samples_median(&r->samples);
    for (size_t i = 0; i < r->profile.n_steps; i++) {
        const opf_step_profile *s      = &r->profile.steps[i];
        json_t                 *object = json_object();
        cli_json_set(object, "name", cli_json_text(s->name));
        cli_json_set(object, "kernel", cli_json_text(s->kernel));
        cli_json_set(object, "origin", cli_json_texts(s->origin, s->n_origin));
        cli_json_set(object, "ms", cli_json_number(s->ms));
        cli_json_set(object, "gflops", cli_json_number(rate(s->flops, s->ms)));
        cli_json_set(object, "gbps", cli_json_number(rate(s->bytes, s->ms)));
        cli_json_add(steps, object);
    }
    cli_json_set(document, "model", cli_json_text(options->paths.items[0]));
    cli_json_set(document, "cpu", cli_json_text(r->profile.cpu));
    cli_json_set(document, "threads", json_integer(r->profile.threads));
    cli_json_set(document, "runs", json_integer((json_int_t)r->samples.n));
    cli_json_set(document, "open_ms", cli_json_number(r->open_ms));
    cli_json_set(document, "first_run_ms", cli_json_number(r->first_ms));
    cli_json_set(document, "median_ms", cli_json_number(median));
    cli_json_set(document, "min_ms", cli_json_number(r->samples.ms[0]));
    cli_json_set(document, "p90_ms", cli_json_number(ninth_decile(&r->samples)));
    cli_json_set(document, "peak_rss_bytes", json_integer((json_int_t)r->peak_bytes));
    cli_json_set(document, "arena_bytes", json_integer((json_int_t)r->profile.arena_bytes));
    cli_json_set(document, "weight_bytes", json_integer((json_int_t)r->profile.weight_bytes));
    cli_json_set(document, "flops", cli_json_known(r->profile.flops));
    cli_json_set(document, "gflops", cli_json_number(rate(r->profile.flops, median)));
    cli_json_set(document, "steps", steps);
    if (r->ablation != NULL)
        cli_json_set(document, "ablation", json_incref(r->ablation));
    cli_json_print(document, out);
}

static void print_steps(const opf_profile *profile, FILE *out)
{
    double total = 0;
    for (size_t i = 0; i < profile->n_steps; i++)
        total += profile->steps[i].ms;
    (void)fprintf(out, "\n%9s %6s %9s %7s  %-26s %s\n", "ms", "%", "GFLOP/s", "GB/s", "kernel", "step");
    for (size_t i = 0; i < profile->n_steps; i++) {
        const opf_step_profile *s = &profile->steps[i];
        (void)fprintf(out, "%9.4f %6.1f %9.1f %7.1f  %-26s %s", s->ms, total > 0 ? 100 * s->ms / total : 0,
                      rate(s->flops, s->ms), rate(s->bytes, s->ms), s->kernel, s->name);
        (void)fprintf(out, s->n_origin > 1 ? " (%zu nodes)\n" : "\n", s->n_origin);
    }
}

static void print_text(const cli_options *options, const result *r, FILE *out)
{
    char   a[32], b[32], c[32];
    double median = cli_samples_median(&r->samples);
    (void)fprintf(out, "%s on %s, %d thread%s\n", options->paths.items[0], r->profile.cpu, r->profile.threads,
                  r->profile.threads == 1 ? "" : "s");
    (void)fprintf(out, "median %.4f ms, min %.4f ms, p90 %.4f ms of %zu runs\n", median, r->samples.ms[0],
                  ninth_decile(&r->samples), r->samples.n);
    (void)fprintf(out, "open %.2f ms, first run %.3f ms\n", r->open_ms, r->first_ms);
    (void)fprintf(out, "%s, %.1f GFLOP/s\n", cli_scaled(r->profile.flops, "FLOP", a), rate(r->profile.flops, median));
    (void)fprintf(out, "activations %s, packed weights %s, peak %s\n",
                  cli_scaled((double)r->profile.arena_bytes, "B", a),
                  cli_scaled((double)r->profile.weight_bytes, "B", b), cli_scaled((double)r->peak_bytes, "B", c));
    print_steps(&r->profile, out);
    if (r->ablation == NULL)
        return;
    (void)fprintf(out, "\n%-22s %10s %10s %9s\n", "without", "median ms", "min ms", "slowdown");
    for (size_t i = 0; i < json_array_size(r->ablation); i++) {
        const json_t *entry = json_array_get(r->ablation, i);
        (void)fprintf(out, "%-22s %10.4f %10.4f %8.3fx\n", json_string_value(json_object_get(entry, "off")),
                      json_number_value(json_object_get(entry, "median_ms")),
                      json_number_value(json_object_get(entry, "min_ms")),
                      json_number_value(json_object_get(entry, "slowdown")));
    }
}

/* ---- the command ---- */

static size_t peak_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * 1024 : 0;
}

/* Times of single steps come from a session of their own: taking them would slow the runs that are measured. */
static opf_session *profile(cli_runner *runner, opf_profile *p)
{
    opf_error           error   = {0};
    opf_session        *plain   = runner->session;
    opf_session_options options = cli_session_options(runner->options);
    options.profile             = true;
    runner->session             = NULL;
    cli_check(opf_session_create(runner->model, &options, &runner->session, &error), &error);
    for (size_t r = 0; r < PROFILED_RUNS; r++)
        (void)cli_runner_run(runner);
    cli_check(opf_session_profile(runner->session, p, &error), &error);
    opf_session *profiled = runner->session;
    runner->session       = plain;
    return profiled;
}

/* Of all threads, in ms. */
static double cpu_ms(void)
{
    struct timespec spent;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return 1e3 * (double)spent.tv_sec + 1e-6 * (double)spent.tv_nsec;
}

/* 0: not known. */
static size_t resident_bytes(void)
{
    FILE         *file  = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    if (file == NULL)
        return 0;
    if (fscanf(file, "%*u %lu", &pages) != 1)
        pages = 0;
    (void)fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* The opening line tells open_ms, first_run_ms, and how many bytes were resident before; then every line `run N` is answered by a list of N
   pairs, the wall time and the CPU time of a run. */
static void serve(cli_runner *runner, double first_ms, size_t resident_before)
{
    char line[64];
    (void)printf("{\"open_ms\": %.6f, \"first_run_ms\": %.6f, \"resident_before\": %zu}\n", runner->open_ms, first_ms, resident_before);
    while (fflush(stdout) == 0 && fgets(line, sizeof line, stdin) != NULL) {
        char *end;
        long  n = strncmp(line, "run ", 4) == 0 ? strtol(line + 4, &end, 10) : 0;
        if (n < 1 || *end != '\n')
            cli_die(CLI_USAGE, "--serve reads lines of the form: run N");
        cli_samples wall = {0}, cpu = {0};
        for (long i = 0; i < n; i++) {
            double start = cpu_ms();
            cli_samples_add(&wall, cli_runner_run(runner));
            cli_samples_add(&cpu, cpu_ms() - start);
        }
        for (size_t i = 0; i < wall.n; i++)
            (void)printf("%s[%.6f, %.6f]", i == 0 ? "[" : ", ", wall.ms[i], cpu.ms[i]);
        (void)puts("]");
        free(wall.ms);
        free(cpu.ms);
    }
}

static cli_exit run(const cli_options *options, FILE *out)
{
    opf_model_options model_options = cli_model_options(options);
    const size_t      resident      = resident_bytes();
    cli_runner        runner;
    cli_runner_open(&runner, options, &model_options);
    result r   = {.open_ms = runner.open_ms};
    r.first_ms = cli_runner_run(&runner);
    if (options->serve) {
        serve(&runner, r.first_ms, resident);
        cli_runner_close(&runner);
        return CLI_DONE;
    }
    cli_measure(options, &runner, &r.samples, 1, "bench");
    r.peak_bytes          = peak_bytes();
    opf_session *profiled = profile(&runner, &r.profile);
    if (options->ablate)
        r.ablation = cli_ablate(options, &runner);
    if (options->json)
        print_json(options, &r, out);
    else
        print_text(options, &r, out);
    json_decref(r.ablation);
    free(r.samples.ms);
    opf_session_destroy(&profiled);
    cli_runner_close(&runner);
    return CLI_DONE;
}

const cli_command cli_cmd_bench = {
    .name      = "bench",
    .arguments = "MODEL",
    .summary   = "latency, and where the time goes",
    .detail =
        "Inputs that -i does not give are random; a symbol without a size is 1. open_ms is load, fuse, plan and pack.\n"
        "--ablate opens the model once more for each rule that fused something, with that rule off, and runs the two\n"
        "in turn; slowdown is the ratio of their medians.\n"
        "--serve is for programs that compare runtimes: it prints a line with open_ms, first_run_ms and resident_before,\n"
        "the bytes resident before the model was opened, answers each line `run N` on stdin with a JSON list of N pairs\n"
        "[wall time, CPU time of all threads] in ms, and ends with stdin.\n\n"
        "Examples:\n"
        "  opfuse bench model.onnx --threads 1\n"
        "  opfuse bench model.onnx --dim batch=8 --runs 100 --warmup 10 --json\n"
        "  opfuse bench model.onnx --ablate\n",
    .options = CLI_BIT(CLI_INPUT) | CLI_SIZE_OPTIONS | CLI_BIT(CLI_RUNS) | CLI_BIT(CLI_WARMUP) | CLI_BIT(CLI_SECONDS) |
               CLI_BIT(CLI_ABLATE) | CLI_BIT(CLI_SERVE) | CLI_SESSION_OPTIONS | CLI_MODEL_OPTIONS | CLI_COMMON_OPTIONS,
    .min_paths = 1,
    .max_paths = 1,
    .run       = run,
};
