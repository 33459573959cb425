/* SPDX-License-Identifier: Apache-2.0 */
#include "inputs.h"

#include "elements.h"
#include "files.h"
#include "random.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- sizes of symbols, as files and notes give them ---- */

typedef struct sizes {
    opf_named_value *items;
    size_t           n;
} sizes;

static const int64_t *find_size(const sizes *known, const char *symbol)
{
    for (size_t i = 0; i < known->n; i++)
        if (strcmp(known->items[i].name, symbol) == 0)
            return &known->items[i].value;
    return NULL;
}

static void add_size(sizes *known, const char *symbol, int64_t size)
{
    if (strcmp(symbol, "?") == 0 || find_size(known, symbol) != NULL)
        return;
    known->items             = cli_grow(known->items, known->n, sizeof *known->items);
    known->items[known->n++] = (opf_named_value){.name = symbol, .value = size};
}

static void learn_sizes(sizes *known, const opf_port *port, const opf_tensor *tensor)
{
    for (int32_t k = 0; port->rank == tensor->rank && k < port->rank; k++)
        if (port->symbols[k] != NULL)
            add_size(known, port->symbols[k], tensor->dims[k]);
}

/* ---- making one tensor ---- */

static void set_dims(opf_tensor *tensor, const opf_port *port, sizes *known, const cli_options *options,
                     cli_missing missing)
{
    tensor->type = port->type;
    tensor->rank = port->rank;
    if (port->rank < 0)
        cli_die(CLI_USAGE, "input %s has no rank: give its shape, as in --shape %s=1x3", port->name, port->name);
    for (int32_t k = 0; k < port->rank; k++) {
        const char    *symbol = port->symbols[k];
        const int64_t *size   = symbol == NULL ? NULL : find_size(known, symbol);
        tensor->dims[k]       = port->dims[k];
        if (symbol == NULL && port->dims[k] >= 0)
            continue;
        if (size == NULL && missing != CLI_MISSING_RANDOM)
            cli_die(CLI_USAGE, "input %s: dimension %d (%s) has no size: give --dim SYMBOL=N or --shape %s=...",
                    port->name, k, symbol == NULL ? "?" : symbol, port->name);
        if (size == NULL) {
            cli_note(options, "opfuse: dimension %d (%s) of input %s is taken as 1; --dim or --shape set it", k,
                     symbol == NULL ? "?" : symbol, port->name);
            add_size(known, symbol == NULL ? "?" : symbol, 1);
        }
        tensor->dims[k] = size == NULL ? 1 : *size;
    }
}

static void make_data(opf_tensor *tensor, const opf_port *port)
{
    size_t count;
    if (cli_type_kind(port->type) == CLI_KIND_NONE)
        cli_die(CLI_USAGE, "input %s has type %s: it cannot be made, give a file", port->name,
                opf_type_name(port->type));
    if (!cli_tensor_size(tensor->type, tensor->rank, tensor->dims, &count, &tensor->bytes) ||
        tensor->bytes > PTRDIFF_MAX - 64)
        cli_die(CLI_USAGE, "input %s: these sizes are too large", port->name);
    tensor->data = aligned_alloc(64, (tensor->bytes + 64) & ~(size_t)63);
    if (tensor->data == NULL)
        cli_die(CLI_SYSTEM, "input %s: out of memory for %zu bytes", port->name, tensor->bytes);
    memset(tensor->data, 0, tensor->bytes);
}

static void fill_ones(opf_tensor *tensor)
{
    size_t count, bytes, parts = cli_type_parts(tensor->type);
    (void)cli_tensor_size(tensor->type, tensor->rank, tensor->dims, &count, &bytes);
    for (size_t i = 0; i < count; i++) /* a complex one is 1 + 0i */
        if (cli_type_kind(tensor->type) == CLI_KIND_REAL)
            cli_store_real(tensor->type, tensor->data, i * parts, 1);
        else
            cli_store_integer(tensor->type, tensor->data, i, 1);
}

/* "random", "random:SEED" or "random:SEED:LO:HI"; range.low keeps NULL when there is none. The copy holds its texts. */
static bool parse_random(const char *from, char *copy, const char *name, uint64_t *seed, cli_random_range *range)
{
    if (strncmp(from, "random", 6) != 0 || (from[6] != '\0' && from[6] != ':'))
        return false;
    *seed  = 0;
    *range = (cli_random_range){0};
    if (from[6] == '\0')
        return true;
    char *end, *low = strchr(copy + 7, ':'), *high = low == NULL ? NULL : strchr(low + 1, ':');
    if (low != NULL)
        *low = '\0';
    if (high != NULL)
        *high = '\0';
    errno = 0;
    *seed = strtoull(copy + 7, &end, 10);
    if (copy[7] < '0' || copy[7] > '9' || *end != '\0' || errno != 0 || (low != NULL && high == NULL))
        cli_die(CLI_USAGE, "-i %s=%s: must be random, random:SEED or random:SEED:LO:HI", name, from);
    if (high != NULL)
        *range = (cli_random_range){.low = low + 1, .high = high + 1};
    return true;
}

static bool is_made(const char *from)
{
    return from == NULL || strcmp(from, "zeros") == 0 || strcmp(from, "ones") == 0 || strcmp(from, "random") == 0 ||
           strncmp(from, "random:", 7) == 0;
}

static void load_file(opf_tensor *tensor, const char *from, const char *name)
{
    opf_error error = {0};
    if (cli_ends_with(from, ".npz"))
        cli_npz_load(from, name, tensor);
    else if (cli_ends_with(from, ".npy") || cli_ends_with(from, ".pb"))
        cli_check(opf_tensor_load(from, tensor, NULL, 0, &error), &error);
    else
        cli_die(CLI_USAGE, "-i %s=%s: must be a .npy, .npz or .pb file, or random[:SEED[:LO:HI]], zeros or ones", name,
                from);
}

/* from NULL: random. */
static void make_tensor(cli_inputs *inputs, size_t index, const opf_port *port, const char *from, sizes *known,
                        const cli_options *options, cli_missing missing)
{
    opf_tensor      *tensor = &inputs->tensors[index];
    cli_random_range range  = {0};
    uint64_t         seed   = 0;
    char            *copy   = cli_format("%s", from == NULL ? "random" : from);
    bool             random = parse_random(from == NULL ? "random" : from, copy, port->name, &seed, &range);
    if (random && inputs->seed == 0)
        inputs->seed = seed;
    if (!random || range.low != NULL || missing != CLI_MISSING_EMPTY) {
        set_dims(tensor, port, known, options, missing);
        make_data(tensor, port);
        inputs->is_made[index] = true;
        if (random)
            cli_random_fill(tensor, port->name, seed, range);
        else if (strcmp(from, "ones") == 0)
            fill_ones(tensor);
    }
    free(copy);
}

/* ---- all of them ---- */

static const char *find_source(const cli_options *options, const char *name)
{
    for (size_t i = 0; i < options->n_inputs; i++)
        if (strcmp(options->inputs[i].name, name) == 0)
            return options->inputs[i].from;
    return NULL;
}

static void check_names(const cli_options *options, const opf_port *ports, size_t n)
{
    for (size_t i = 0; i < options->n_inputs; i++) {
        size_t k = 0;
        while (k < n && strcmp(ports[k].name, options->inputs[i].name) != 0)
            k++;
        if (k == n)
            cli_die(CLI_USAGE, "-i %s: the model has no such input; see: opfuse info %s", options->inputs[i].name,
                    options->paths.items[0]);
    }
}

void cli_inputs_make(cli_inputs *inputs, const opf_model *model, const cli_options *options, cli_missing missing)
{
    size_t    n     = opf_model_input_count(model);
    opf_port *ports = cli_alloc(n, sizeof *ports);
    sizes     known = {0};
    *inputs = (cli_inputs){.tensors = cli_alloc(n, sizeof(opf_tensor)), .is_made = cli_alloc(n, sizeof(bool)), .n = n};
    for (size_t i = 0; i < n; i++)
        (void)opf_model_input(model, i, &ports[i]);
    check_names(options, ports, n);
    for (size_t i = 0; i < n; i++) { /* files first: they tell sizes to the others */
        const char *from = find_source(options, ports[i].name);
        if (is_made(from))
            continue;
        load_file(&inputs->tensors[i], from, ports[i].name);
        learn_sizes(&known, &ports[i], &inputs->tensors[i]);
    }
    for (size_t i = 0; i < n; i++) {
        const char *from = find_source(options, ports[i].name);
        if (!is_made(from) || (from == NULL && (ports[i].has_default || missing == CLI_MISSING_EMPTY)))
            continue;
        if (from == NULL && missing == CLI_MISSING_DIES) {
            char *type = cli_port_text(&ports[i]);
            cli_die(CLI_USAGE, "input %s (%s) is not given: -i %s=FILE, or random, zeros, ones", ports[i].name, type,
                    ports[i].name);
        }
        make_tensor(inputs, i, &ports[i], from, &known, options, missing);
    }
    free(known.items);
    free(ports);
}

void cli_inputs_free(cli_inputs *inputs)
{
    for (size_t i = 0; i < inputs->n; i++)
        if (inputs->is_made[i])
            free(inputs->tensors[i].data);
        else if (inputs->tensors[i].data != NULL)
            opf_tensor_free(&inputs->tensors[i]);
    free(inputs->tensors);
    free(inputs->is_made);
}

char *cli_port_text(const opf_port *port)
{
    char  *text = NULL;
    size_t size = 0;
    FILE  *out  = open_memstream(&text, &size);
    if (out == NULL)
        cli_die(CLI_SYSTEM, "out of memory");
    (void)fprintf(out, "%s [", opf_type_name(port->type));
    for (int32_t k = 0; k < port->rank; k++) {
        (void)fputs(k == 0 ? "" : ", ", out);
        if (port->symbols[k] != NULL)
            (void)fputs(port->symbols[k], out);
        else
            (void)fprintf(out, "%lld", (long long)port->dims[k]);
    }
    (void)fputs(port->rank < 0 ? "...]" : "]", out);
    if (fclose(out) != 0)
        cli_die(CLI_SYSTEM, "out of memory");
    return text;
}
