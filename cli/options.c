/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

/* Whole text as a number in [least, most]. */
static bool parse_integer(const char *text, int64_t least, int64_t most, int64_t *value)
{
    char *end;
    errno            = 0;
    long long parsed = strtoll(text, &end, 10);
    if (text[0] == '\0' || strchr(" \t\n\v\f\r", text[0]) != NULL || *end != '\0' || errno != 0 || parsed < least ||
        parsed > most)
        return false;
    *value = parsed;
    return true;
}

static void set_count(int64_t *field, const char *name, const char *value, int64_t least)
{
    if (!parse_integer(value, least, 1000000000, field))
        cli_die(CLI_USAGE, "%s %s: must be a number from %lld to 1000000000", name, value, (long long)least);
}

static void set_real(double *field, const char *name, const char *value)
{
    char *end;
    *field = strtod(value, &end);
    if (value[0] == '\0' || *end != '\0' || !isfinite(*field) || *field < 0)
        cli_die(CLI_USAGE, "%s %s: must be a number that is not negative", name, value);
}

/* Cuts "NAME=VALUE" at `at`, which is the first or the last '='. */
static char *split(const char *option, char *value, char *at, const char *form)
{
    if (at == NULL || at == value)
        cli_die(CLI_USAGE, "%s %s: must be %s", option, value, form);
    *at = '\0';
    return at + 1;
}

static void add_text(cli_texts *list, const char *text)
{
    list->items            = cli_grow(list->items, list->n, sizeof *list->items);
    list->items[list->n++] = text;
}

static void add_list(cli_texts *list, const char *option, char *value)
{
    for (char *item = value; item != NULL;) {
        char *comma = strchr(item, ',');
        if (comma != NULL)
            *comma = '\0';
        if (item[0] == '\0')
            cli_die(CLI_USAGE, "%s: names are separated by single commas", option);
        add_text(list, item);
        item = comma == NULL ? NULL : comma + 1;
    }
}

static void set_input(cli_options *o, const char *option, char *value)
{
    const char *from =
        split(option, value, strchr(value, '='), "NAME=FILE, NAME=random[:SEED[:LO:HI]], NAME=zeros or NAME=ones");
    for (size_t i = 0; i < o->n_inputs; i++)
        if (strcmp(o->inputs[i].name, value) == 0)
            cli_die(CLI_USAGE, "%s %s is given twice", option, value);
    o->inputs                = cli_grow(o->inputs, o->n_inputs, sizeof *o->inputs);
    o->inputs[o->n_inputs++] = (cli_source){.name = value, .from = from};
}

static void set_shape(cli_options *o, const char *option, char *value)
{
    /* The name may hold a '=', the shape cannot. */
    const char     *at    = split(option, value, strrchr(value, '='), "NAME=1x3x224x224 (nothing after = is a scalar)");
    opf_named_shape shape = {.name = value};
    while (*at != '\0') {
        char *end;
        errno          = 0;
        long long size = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : -1;
        if (size < 0 || errno != 0 || (*end != 'x' && *end != '\0') || (*end == 'x' && end[1] == '\0'))
            cli_die(CLI_USAGE, "%s %s=%s: sizes are numbers with x between them, as in 1x3x224x224", option, value, at);
        if (shape.rank == OPF_MAX_RANK)
            cli_die(CLI_USAGE, "%s %s: at most %d dimensions", option, value, OPF_MAX_RANK);
        shape.dims[shape.rank++] = size;
        at                       = *end == 'x' ? end + 1 : end;
    }
    o->shapes                = cli_grow(o->shapes, o->n_shapes, sizeof *o->shapes);
    o->shapes[o->n_shapes++] = shape;
}

static void set_dim(cli_options *o, const char *option, char *value)
{
    int64_t     size = 0;
    const char *text = split(option, value, strrchr(value, '='), "SYMBOL=N");
    if (!parse_integer(text, 0, INT64_MAX, &size))
        cli_die(CLI_USAGE, "%s %s=%s: the size must be a number that is not negative", option, value, text);
    o->dims              = cli_grow(o->dims, o->n_dims, sizeof *o->dims);
    o->dims[o->n_dims++] = (opf_named_value){.name = value, .value = size};
}

static void set_limit(cli_options *o, const char *option, char *value)
{
    static const char suffixes[] = "KMGT";
    char             *text       = split(option, value, strrchr(value, '='), "NAME=VALUE");
    size_t            n          = strlen(text);
    const char       *suffix     = n == 0 ? NULL : strchr(suffixes, text[n - 1]);
    unsigned          shift      = suffix == NULL ? 0 : 10 * (unsigned)(suffix - suffixes + 1);
    int64_t           limit      = 0;
    if (suffix != NULL)
        text[n - 1] = '\0';
    if (!parse_integer(text, 0, INT64_MAX >> shift, &limit))
        cli_die(CLI_USAGE, "%s %s: the value must be a number, K, M, G or T after it multiply by 1024 each", option,
                value);
    o->limits                = cli_grow(o->limits, o->n_limits, sizeof *o->limits);
    o->limits[o->n_limits++] = (opf_named_value){.name = value, .value = limit << shift};
}

static void set_choice(const char **field, const char *option, const char *value, const char *const *choices)
{
    for (size_t i = 0; choices[i] != NULL; i++)
        if (strcmp(choices[i], value) == 0) {
            *field = value;
            return;
        }
    char *list = cli_format("%s", choices[0]);
    for (size_t i = 1; choices[i] != NULL; i++) {
        char *longer = cli_format("%s%s%s", list, choices[i + 1] == NULL ? " or " : ", ", choices[i]);
        free(list);
        list = longer;
    }
    cli_die(CLI_USAGE, "%s %s: must be %s", option, value, list);
}

static const char *const cpu_levels[] = {"scalar", "avx2", "avx512", NULL}; /* opf_cpu_level, less OPF_CPU_AUTO */
static const char *const stages[]     = {"load", "simplify", "fuse", "plan", NULL};
static const char *const formats[]    = {"npy", "pb", NULL};
static const char *const targets[]    = {"onnx", "ort", "ort-all", NULL}; /* opf_target */

/* ---- the options ---- */

typedef struct spec {
    cli_option  id;
    const char *name, *argument; /* argument NULL: a flag */
    const char *help;
} spec;

static const spec specs[] = {
    {CLI_INPUT, "-i", "NAME=FILE", "input from a .npy, .npz or .pb file, or random[:SEED[:LO:HI]], zeros, ones"},
    {CLI_SHAPE, "--shape", "NAME=1x3x224x224", "shape of an input"},
    {CLI_DIM, "--dim", "SYMBOL=N", "size of a symbolic dimension"},
    {CLI_OUTPUT, "-o", "DIR", "write each output to a file there, and outputs.tsv, which maps names to files"},
    {CLI_MODEL_OUTPUT, "-o", "OUT.onnx", "the file to write"},
    {CLI_TARGET, "--target", "onnx|ort|ort-all", "standard operators (default); also those of com.microsoft; all of them"},
    {CLI_OPSET, "--opset", "N", "write this opset (default: the lowest from the model's on that says it all)"},
    {CLI_FORMAT, "--format", "npy|pb", "form of the output files (default npy)"},
    {CLI_RTOL, "--rtol", "X", "relative tolerance (default by type: 1e-3, float16 4e-3, bfloat16 2e-2)"},
    {CLI_ATOL, "--atol", "X", "absolute tolerance (default by type: 1e-4, float16 4e-3, bfloat16 2e-2, quantized 1)"},
    {CLI_EACH, "--each", NULL, "check every rewrite alone, so that a wrong one names itself"},
    {CLI_RUNS, "--runs", "N", "timed runs (default: as many as fit into --seconds, at least 5)"},
    {CLI_WARMUP, "--warmup", "N", "runs before them (default 3)"},
    {CLI_SECONDS, "--seconds", "S", "time for the timed runs (default 2)"},
    {CLI_ABLATE, "--ablate", NULL, "switch each fusion off in turn and measure what it gains"},
    {CLI_SERVE, "--serve", NULL, "measure on demand: each line `run N` on stdin is answered by the times of N runs"},
    {CLI_DOT, "--dot", "FILE", "write a picture of the kernels for Graphviz"},
    {CLI_NODE, "--node", "NAME", "all that is known about one node of the model"},
    {CLI_RULE, "--rule", "RULE", "only what this rule did and nearly did"},
    {CLI_STAGE, "--stage", "STAGE", "print the graph after load, simplify or fuse, or the steps of plan"},
    {CLI_MARKDOWN, "--markdown", NULL, "as a Markdown table"},
    {CLI_THREADS, "--threads", "N", "threads to use (default: the cores that this process may use)"},
    {CLI_CPU, "--cpu", "LEVEL", "scalar, avx2 or avx512: lowers the instruction set, never raises it"},
    {CLI_REFERENCE, "--reference", NULL, "the graph as loaded, on reference kernels"},
    {CLI_NO_FUSE, "--no-fuse", NULL, "the simplified graph without fusions"},
    {CLI_ONLY, "--only", "RULE,...", "fuse by these rules and families only"},
    {CLI_SKIP, "--skip", "RULE,...", "rules and families that do not fuse"},
    {CLI_RULES, "--rules", "FILE", "rules of your own, tried after the built-in ones"},
    {CLI_EXACT, "--exact", NULL, "direct kernels only (no Winograd)"},
    {CLI_FLUSH_DENORMALS, "--flush-denormals", NULL, "take denormal numbers as zero"},
    {CLI_FREEZE, "--freeze", NULL, "initializers that are also inputs are constants (from IR version 4)"},
    {CLI_OVERRIDABLE, "--overridable", "NAME,...", "initializers that may be fed (before IR version 4)"},
    {CLI_LIMIT, "--limit", "NAME=VALUE", "a limit on untrusted models: model-bytes, nodes, memory, ... (K, M, G, T)"},
    {CLI_NO_MMAP, "--no-mmap", NULL, "read the model file instead of mapping it"},
    {CLI_JSON, "--json", NULL, "result as JSON"},
    {CLI_QUIET, "--quiet", NULL, "nothing on stderr but errors"},
};

static void set_flag(cli_options *o, cli_option id)
{
    switch ((int)id) {
    case CLI_EACH: o->each = true; break;
    case CLI_ABLATE: o->ablate = true; break;
    case CLI_SERVE: o->serve = true; break;
    case CLI_MARKDOWN: o->markdown = true; break;
    case CLI_REFERENCE: o->reference = true; break;
    case CLI_NO_FUSE: o->no_fuse = true; break;
    case CLI_EXACT: o->exact = true; break;
    case CLI_FLUSH_DENORMALS: o->flush_denormals = true; break;
    case CLI_FREEZE: o->freeze = true; break;
    case CLI_NO_MMAP: o->no_mmap = true; break;
    case CLI_JSON: o->json = true; break;
    case CLI_QUIET: o->quiet = true; break;
    }
}

static void set_value(cli_options *o, cli_option id, const char *name, char *value)
{
    switch ((int)id) {
    case CLI_INPUT: set_input(o, name, value); break;
    case CLI_SHAPE: set_shape(o, name, value); break;
    case CLI_DIM: set_dim(o, name, value); break;
    case CLI_LIMIT: set_limit(o, name, value); break;
    case CLI_OUTPUT:
    case CLI_MODEL_OUTPUT: o->folder = value; break;
    case CLI_TARGET: set_choice(&o->target, name, value, targets); break;
    case CLI_OPSET: set_count(&o->opset, name, value, 1); break;
    case CLI_DOT: o->dot = value; break;
    case CLI_NODE: o->node = value; break;
    case CLI_RULE: o->rule = value; break;
    case CLI_FORMAT: set_choice(&o->format, name, value, formats); break;
    case CLI_STAGE: set_choice(&o->stage, name, value, stages); break;
    case CLI_CPU: set_choice(&o->cpu, name, value, cpu_levels); break;
    case CLI_RTOL: set_real(&o->rtol, name, value); break;
    case CLI_ATOL: set_real(&o->atol, name, value); break;
    case CLI_SECONDS: set_real(&o->seconds, name, value); break;
    case CLI_RUNS: set_count(&o->runs, name, value, 1); break;
    case CLI_WARMUP: set_count(&o->warmup, name, value, 0); break;
    case CLI_THREADS: set_count(&o->threads, name, value, 1); break;
    case CLI_ONLY: add_list(&o->only, name, value); break;
    case CLI_SKIP: add_list(&o->skip, name, value); break;
    case CLI_OVERRIDABLE: add_list(&o->overridable, name, value); break;
    case CLI_RULES: add_text(&o->rules, value); break;
    }
}

/* ---- parsing ---- */

static const spec *find_spec(const cli_command *command, const char *name, size_t length)
{
    const char *known = NULL; /* the same name may be another option in another command */
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        if (strlen(specs[i].name) != length || strncmp(specs[i].name, name, length) != 0)
            continue;
        if ((command->options & CLI_BIT(specs[i].id)) != 0)
            return &specs[i];
        known = specs[i].name;
    }
    if (known != NULL)
        cli_die(CLI_USAGE, "%s does not take %s; see: opfuse %s --help", command->name, known, command->name);
    cli_die(CLI_USAGE, "there is no option %.*s; see: opfuse %s --help", (int)length, name, command->name);
}

static void check_combinations(const cli_options *o)
{
    const cli_command *command = o->command;
    if (o->paths.n < command->min_paths)
        cli_die(CLI_USAGE, "%s needs %s; see: opfuse %s --help", command->name, command->arguments, command->name);
    if (o->paths.n > command->max_paths)
        cli_die(CLI_USAGE, "%s is one argument too many; see: opfuse %s --help", o->paths.items[command->max_paths],
                command->name);
    if (o->reference && o->no_fuse)
        cli_die(CLI_USAGE, "--reference and --no-fuse exclude each other: the reference is never fused");
    if (o->stage != NULL && (o->json || o->dot != NULL || o->node != NULL || o->rule != NULL))
        cli_die(CLI_USAGE, "--stage prints text: it goes with neither --json, --dot, --node nor --rule");
    if (o->ablate && (o->reference || o->no_fuse))
        cli_die(CLI_USAGE, "--ablate switches fusions off: there are none with --reference or --no-fuse");
    if (o->serve && (o->ablate || o->runs >= 0 || o->seconds >= 0))
        cli_die(CLI_USAGE,
                "--serve takes the number of runs from stdin: neither --runs, --seconds nor --ablate go with it");
    if (o->format != NULL && o->folder == NULL)
        cli_die(CLI_USAGE, "--format needs -o DIR");
    if (o->markdown && o->json)
        cli_die(CLI_USAGE, "--markdown and --json exclude each other");
}

void cli_options_parse(cli_options *o, const cli_command *command, int argc, char **argv)
{
    *o = (cli_options){
        .command = command, .rtol = -1, .atol = -1, .seconds = -1, .threads = -1, .runs = -1, .warmup = -1, .opset = -1};
    bool only_paths = false;
    for (int i = 0; i < argc; i++) {
        char *text = argv[i];
        if (only_paths || text[0] != '-' || text[1] == '\0') {
            add_text(&o->paths, text);
        } else if (strcmp(text, "--") == 0) {
            only_paths = true;
        } else if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0) {
            cli_print_help(command, stdout);
            exit(CLI_DONE);
        } else {
            bool        is_long = text[1] == '-';
            char       *equals  = is_long ? strchr(text, '=') : NULL;
            const spec *found   = find_spec(command, text, equals == NULL ? strlen(text) : (size_t)(equals - text));
            char       *value   = equals == NULL ? NULL : equals + 1;
            if (found->argument == NULL) {
                if (value != NULL)
                    cli_die(CLI_USAGE, "%s takes no value", found->name);
                set_flag(o, found->id);
                continue;
            }
            if (value == NULL && i + 1 < argc)
                value = argv[++i];
            if (value == NULL || value[0] == '\0')
                cli_die(CLI_USAGE, "%s needs a value: %s %s", found->name, found->name, found->argument);
            set_value(o, found->id, found->name, value);
        }
    }
    check_combinations(o);
}

void cli_options_free(cli_options *o)
{
    free(o->paths.items);
    free(o->inputs);
    free(o->shapes);
    free(o->dims);
    free(o->limits);
    free(o->only.items);
    free(o->skip.items);
    free(o->rules.items);
    free(o->overridable.items);
}

void cli_print_help(const cli_command *command, FILE *out)
{
    (void)fprintf(out, "opfuse %s %s%s[OPTIONS]\n\n%s.\n\n", command->name, command->arguments,
                  command->arguments[0] == '\0' ? "" : " ", command->summary);
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        char text[64];
        if ((command->options & CLI_BIT(specs[i].id)) == 0)
            continue;
        (void)snprintf(text, sizeof text, "%s%s%s", specs[i].name, specs[i].argument == NULL ? "" : " ",
                       specs[i].argument == NULL ? "" : specs[i].argument);
        (void)fprintf(out, "  %-26s %s\n", text, specs[i].help);
    }
    (void)fprintf(out, "\n%s", command->detail);
}

/* ---- for the library ---- */

static void print_log(void *user, const char *message)
{
    cli_note(user, "opfuse: %s", message);
}

opf_model_options cli_model_options(const cli_options *o)
{
    opf_model_options m = {
        .rules_files   = o->rules.items,
        .n_rules_files = o->rules.n,
        .only          = o->only.items,
        .n_only        = o->only.n,
        .skip          = o->skip.items,
        .n_skip        = o->skip.n,
        .dims          = o->dims,
        .n_dims        = o->n_dims,
        .shapes        = o->shapes,
        .n_shapes      = o->n_shapes,
        .limits        = o->limits,
        .n_limits      = o->n_limits,
        .overridable   = o->overridable.items,
        .n_overridable = o->overridable.n,
        .freeze        = o->freeze,
        .no_mmap       = o->no_mmap,
        .exact         = o->exact,
        .no_fuse       = o->no_fuse,
        .log           = print_log,
        .log_user      = (void *)(uintptr_t)o, /* only read */
    };
    for (size_t i = 0; o->cpu != NULL && cpu_levels[i] != NULL; i++)
        if (strcmp(o->cpu, cpu_levels[i]) == 0)
            m.level = (opf_cpu_level)(OPF_CPU_SCALAR + i);
    return m;
}

opf_session_options cli_session_options(const cli_options *o)
{
    return (opf_session_options){
        .threads         = o->threads < 0 ? 0 : (int32_t)o->threads,
        .mode            = o->reference ? OPF_MODE_REFERENCE
                           : o->no_fuse ? OPF_MODE_UNFUSED
                                        : OPF_MODE_FUSED,
        .flush_denormals = o->flush_denormals,
    };
}

opf_model *cli_open_model(const cli_options *o)
{
    opf_model_options options = cli_model_options(o);
    opf_model        *model   = NULL;
    opf_error         error   = {0};
    cli_check(opf_model_open(o->paths.items[0], &options, &model, &error), &error);
    return model;
}
