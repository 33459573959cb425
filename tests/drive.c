/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drive MODEL fused|unfused|reference THREADS
 *
 * One session, many runs, for tests in Python: steps come on stdin, results go to stdout, numbers as they lie in memory.
 *     a step      every input in the model's order: int32 type, int32 rank, int64 dims…, data; or int32 -1-k: output k of
 *                 the last good step
 *     a result    int32 status; int64 bytes that the model and the session hold; then every output: int32 type, int32 rank,
 *                 int64 dims…, data; or, when the status is not 0: int32 length, the message
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <opfuse/opfuse.h>

typedef struct driver {
    opf_model   *model;
    opf_session *session;
    size_t       n_inputs, n_outputs;
    opf_tensor  *inputs, *outputs, *last; /* last: results of the last good step, in memory of the driver */
} driver;

/* ---- memory of the library ---- */

static void *take(void *user, size_t bytes, size_t alignment)
{
    void *memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (memory != NULL)
        atomic_fetch_add((atomic_size_t *)user, bytes);
    return memory;
}

static void give(void *user, void *memory, size_t bytes)
{
    atomic_fetch_sub((atomic_size_t *)user, bytes);
    free(memory);
}

/* ---- the protocol ---- */

static bool get(void *data, size_t bytes)
{
    return bytes == 0 || fread(data, 1, bytes, stdin) == bytes;
}

static void put(const void *data, size_t bytes)
{
    if (bytes > 0 && fwrite(data, 1, bytes, stdout) != bytes)
        exit(1);
}

static size_t size_of(const opf_tensor *t)
{
    size_t elements = 1;
    for (int32_t i = 0; i < t->rank; i++)
        elements *= (size_t)t->dims[i];
    return (elements * opf_type_bits(t->type) + 7) / 8;
}

static bool resize(opf_tensor *t, size_t bytes)
{
    void *data = realloc(t->data, bytes > 0 ? bytes : 1);
    if (data == NULL)
        return false;
    t->data  = data;
    t->bytes = bytes;
    return true;
}

static bool get_input(driver *d, opf_tensor *t)
{
    int32_t type;
    if (!get(&type, sizeof type))
        return false;
    if (type < 0) {
        size_t k = (size_t)(-1 - type);
        if (k >= d->n_outputs || !resize(t, d->last[k].bytes))
            return false;
        t->type = d->last[k].type;
        t->rank = d->last[k].rank;
        memcpy(t->dims, d->last[k].dims, sizeof t->dims);
        if (t->bytes > 0)
            memcpy(t->data, d->last[k].data, t->bytes);
        return true;
    }
    t->type = (opf_type)type;
    return get(&t->rank, sizeof t->rank) && t->rank >= 0 && t->rank <= OPF_MAX_RANK && get(t->dims, (size_t)t->rank * sizeof *t->dims) &&
           resize(t, size_of(t)) && get(t->data, t->bytes);
}

static bool keep_outputs(driver *d)
{
    for (size_t i = 0; i < d->n_outputs; i++) {
        opf_tensor *t = &d->last[i];
        if (!resize(t, size_of(&d->outputs[i])))
            return false;
        t->type = d->outputs[i].type;
        t->rank = d->outputs[i].rank;
        memcpy(t->dims, d->outputs[i].dims, sizeof t->dims);
        if (t->bytes > 0)
            memcpy(t->data, d->outputs[i].data, t->bytes);
        int32_t head[2] = {(int32_t)t->type, t->rank};
        put(head, sizeof head);
        put(t->dims, (size_t)t->rank * sizeof *t->dims);
        put(t->data, t->bytes);
    }
    return true;
}

static bool step(driver *d, atomic_size_t *live)
{
    for (size_t i = 0; i < d->n_inputs; i++)
        if (!get_input(d, &d->inputs[i]))
            return false;
    opf_error error;
    memset(d->outputs, 0, d->n_outputs * sizeof *d->outputs);
    int32_t status = (int32_t)opf_session_run(d->session, d->inputs, d->n_inputs, d->outputs, d->n_outputs, &error);
    int64_t held   = (int64_t)atomic_load(live);
    put(&status, sizeof status);
    put(&held, sizeof held);
    if (status != OPF_OK) {
        int32_t length = (int32_t)strlen(error.message);
        put(&length, sizeof length);
        put(error.message, (size_t)length);
    } else if (!keep_outputs(d)) {
        return false;
    }
    return fflush(stdout) == 0;
}

static void free_all(opf_tensor *tensors, size_t n)
{
    for (size_t i = 0; tensors != NULL && i < n; i++)
        free(tensors[i].data);
    free(tensors);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: drive MODEL fused|unfused|reference THREADS\n");
        return 2;
    }
    atomic_size_t             live      = 0;
    const opf_allocator       allocator = {take, give, &live};
    const opf_model_options   options   = {.allocator = &allocator};
    const opf_session_options session   = {
          .threads = atoi(argv[3]),
          .mode    = strcmp(argv[2], "reference") == 0 ? OPF_MODE_REFERENCE : strcmp(argv[2], "unfused") == 0 ? OPF_MODE_UNFUSED : OPF_MODE_FUSED,
    };
    driver    d = {0};
    opf_error error;
    if (opf_model_open(argv[1], &options, &d.model, &error) || opf_session_create(d.model, &session, &d.session, &error)) {
        fprintf(stderr, "drive: %s\n", error.message);
        opf_model_destroy(&d.model);
        return 1;
    }
    d.n_inputs  = opf_model_input_count(d.model);
    d.n_outputs = opf_model_output_count(d.model);
    d.inputs    = calloc(d.n_inputs + 1, sizeof *d.inputs);
    d.outputs   = calloc(d.n_outputs + 1, sizeof *d.outputs);
    d.last      = calloc(d.n_outputs + 1, sizeof *d.last);
    if (d.inputs != NULL && d.outputs != NULL && d.last != NULL)
        while (step(&d, &live))
            continue;
    free_all(d.inputs, d.n_inputs);
    free_all(d.last, d.n_outputs);
    free(d.outputs);
    opf_session_destroy(&d.session);
    opf_model_destroy(&d.model);
    if (atomic_load(&live) != 0)
        fprintf(stderr, "drive: %zu bytes were not given back\n", (size_t)atomic_load(&live));
    return atomic_load(&live) != 0;
}
