/* SPDX-License-Identifier: Apache-2.0 */
/* What every kind of bad model, written byte by byte, is refused with. */
#include "onnx_bytes.h"

/* ---- bad models ---- */

static void test_every_truncation(void **state)
{
    fixture *f = *state;
    msg      g = small_graph(), function = leaky_function(true);
    msg      model = model_of(&g, 8, 17);
    put_msg(&model, 25, &function);
    for (size_t n = 0; n < model.n; n++) {
        void      *copy;
        opf_status status = load_bytes(f, model.data, n, &copy);
        /* Cut between two fields, what is left may be whole. */
        assert_true(status == OPF_INVALID_MODEL || status == OPF_UNSUPPORTED || (status == OPF_OK && n + function.n + 8 > model.n));
        assert_true(status == OPF_OK || f->error.message[0] != '\0');
        free(copy);
        reset(f);
    }
}

static void test_every_corrupt_byte(void **state)
{
    fixture *f = *state;
    msg      g = small_graph(), function = leaky_function(true);
    msg      model = model_of(&g, 8, 17);
    put_msg(&model, 25, &function);
    const unsigned char flips[] = {0x01, 0x08, 0x80, 0xff};
    for (size_t i = 0; i < model.n; i++)
        for (size_t k = 0; k < sizeof flips; k++) {
            void *copy;
            model.data[i] ^= flips[k];
            opf_status status = load_bytes(f, model.data, model.n, &copy);
            assert_true(status == OPF_OK || status == OPF_INVALID_MODEL || status == OPF_UNSUPPORTED || status == OPF_LIMIT);
            model.data[i] ^= flips[k];
            reset(f);
            free(copy);
        }
}

static void test_bad_structure(void **state)
{
    fixture *f = *state;
    msg      g = small_graph(), model;
    add_node(&g, "Relu", "lost", "nowhere", "z");
    add_output(&g, "z");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "node lost (Relu): input nowhere is produced by no node");
    g = small_graph();
    add_node(&g, "Relu", "one", "p", "q");
    add_node(&g, "Relu", "two", "q", "p");
    add_output(&g, "p");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "node one (Relu) is on a cycle");
    g = small_graph();
    add_node(&g, "Relu", "twice", "x", "s");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "node twice (Relu): an output: the name s");
    g = small_graph();
    add_node(&g, "Relu", "", "x", "w");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "the name w is already that of a constant");
    g = small_graph();
    add_output(&g, "y");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "output y is listed twice");
    g = small_graph();
    add_output(&g, "missing");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "output missing");
    g = small_graph();
    add_initializer(&g, "w");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "initializer w is given twice");
    g = small_graph();
    add_node(&g, "Relu", "none", "", "z");
    add_output(&g, "z");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "node none (Relu): input 0");
    g = small_graph();
    add_node(&g, "Relu", "many", "x,x", "z");
    add_output(&g, "z");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "node many (Relu): 2 inputs, at most 1");
    g = small_graph();
    put_text(&g, 15, "");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "an initializer has no name");
    g = small_graph();
    add_sparse(&g, "v", 6, (const int64_t[]){0, 2, 6});
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "initializer v: sparse index 6 is outside [0, 6)");
    g = small_graph();
    add_sparse(&g, "v", (int64_t)1 << 30, (const int64_t[]){0, 2, 5});
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_LIMIT, "limit folding");
}

static void refuse_tensor(fixture *f, const msg *tensor, opf_status status, const char *says)
{
    msg g = small_graph();
    put_msg(&g, 5, tensor);
    msg model = model_of(&g, 8, 17);
    load_bad(f, &model, status, says);
}

static void test_bad_tensors(void **state)
{
    fixture *f = *state;
    msg      t;
    t = tensor_of("t", OPF_FLOAT, 4, three, sizeof three);
    refuse_tensor(f, &t, OPF_INVALID_MODEL, "initializer t: raw_data holds 12 bytes, type and dims need 16");
    t = tensor_of("t", OPF_FLOAT, -1, three, sizeof three);
    refuse_tensor(f, &t, OPF_INVALID_MODEL, "initializer t: dimension 0 is -1");
    t = tensor_of("t", OPF_FLOAT, INT64_MAX, three, sizeof three);
    put_int(&t, 1, 16);
    refuse_tensor(f, &t, OPF_LIMIT, "initializer t");
    put_int(&t, 1, 0);
    refuse_tensor(f, &t, OPF_LIMIT, "initializer t");
    t = tensor_of("t", OPF_FLOAT, (int64_t)1 << 50, three, sizeof three);
    refuse_tensor(f, &t, OPF_LIMIT, "tensor-bytes");
    t = tensor_of("t", OPF_FLOAT, 1, NULL, 0);
    for (int i = 0; i < 16; i++)
        put_int(&t, 1, 1);
    refuse_tensor(f, &t, OPF_LIMIT, "rank 17");
    t = tensor_of("t", OPF_STRING, 1, NULL, 0);
    put_text(&t, 6, "s");
    refuse_tensor(f, &t, OPF_UNSUPPORTED, "string");
    t = tensor_of("t", 99, 1, three, 4);
    refuse_tensor(f, &t, OPF_UNSUPPORTED, "99");
    t = tensor_of("t", OPF_FLOAT, 1, NULL, 0);
    refuse_tensor(f, &t, OPF_INVALID_MODEL, "float_data holds 0 elements");
    t = tensor_of("t", OPF_FLOAT, 1, three, 4);
    put_int(&t, 7, 3);
    refuse_tensor(f, &t, OPF_INVALID_MODEL, "both");
    t = tensor_of("t", OPF_FLOAT, 1, three, 4);
    put_text(&t, 3, "");
    refuse_tensor(f, &t, OPF_UNSUPPORTED, "segment");
}

static void test_bad_inputs(void **state)
{
    fixture      *f      = *state;
    msg           g      = small_graph(), model;
    const int64_t huge[] = {INT64_MAX, INT64_MAX}, odd[] = {-7, 0};
    msg           v      = value_of("big", OPF_FLOAT, 2, huge);
    put_msg(&g, 11, &v);
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_LIMIT, "input big");
    g = small_graph();
    v = value_of("text", OPF_STRING, -1, NULL);
    put_msg(&g, 11, &v);
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_UNSUPPORTED, "input text: string");
    g       = small_graph();
    v       = (msg){0};
    msg seq = {0};
    put_text(&seq, 4, "");
    put_text(&v, 1, "list");
    put_msg(&v, 2, &seq);
    put_msg(&g, 11, &v);
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_UNSUPPORTED, "input list is of kind sequence");
    g = small_graph();
    v = value_of("odd", OPF_FLOAT, 2, odd);
    put_msg(&g, 11, &v);
    model                  = model_of(&g, 8, 17);
    const opf_graph *graph = load_good(f, &model);
    const opf_value *value = value_named(graph, "odd");
    assert_false(opf_dim_is_number(value->info.dims[0]));
    assert_true(opf_dim_is(value->info.dims[1], 0));
}

static void test_limits(void **state)
{
    fixture *f     = *state;
    msg      g     = small_graph();
    msg      model = model_of(&g, 8, 17);
    f->limits.nodes = 1;
    load_bad(f, &model, OPF_LIMIT, "limit nodes");
    opf_limits_init(&f->limits);
    f->limits.model_bytes = 10;
    load_bad(f, &model, OPF_LIMIT, "model-bytes");
    opf_limits_init(&f->limits);
    f->limits.rank = 1;
    load_bad(f, &model, OPF_LIMIT, "input x has rank 2");
    /* Each amount of memory gives a model or an error. */
    opf_limits_init(&f->limits);
    for (size_t limit = 1; limit < 300000; limit += 30000) {
        void *copy = NULL;
        reset(f);
        opf_heap_init(&f->heap, NULL, limit);
        opf_dims *dims = opf_dims_create(&f->arena);
        if (dims != NULL) {
            opf_status status = opf_onnx_load(model.data, model.n, false, &f->options, &f->arena, dims, &f->pool, &f->loaded, &f->error);
            assert_true(status == OPF_OK || status == OPF_OUT_OF_MEMORY);
        }
        free(copy);
    }
    reset(f);
    opf_heap_init(&f->heap, NULL, 0);
}

/* ---- external data ---- */

static msg external_model(const char *location, const char *offset, const char *length)
{
    const char *keys[] = {"location", "offset", "length"}, *values[] = {location, offset, length};
    msg         g = {0}, t = tensor_of("e", OPF_FLOAT, 3, NULL, 0);
    for (int i = 0; i < 3; i++) {
        msg entry = {0};
        put_text(&entry, 1, keys[i]);
        put_text(&entry, 2, values[i]);
        put_msg(&t, 13, &entry);
    }
    put_int(&t, 14, 1);
    put_msg(&g, 5, &t);
    add_output(&g, "e");
    return model_of(&g, 8, 17);
}

static void write_bytes(const char *path, const void *data, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static void test_external_data(void **state)
{
    fixture *f        = *state;
    char     folder[] = "opfuse_load_XXXXXX", path[96], link_path[64], outside[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/data", folder);
    (void)snprintf(link_path, sizeof link_path, "%s/link", folder);
    (void)snprintf(outside, sizeof outside, "%s.outside", folder);
    unsigned char data[20] = {0};
    memcpy(data + 5, three, sizeof three);
    write_bytes(path, data, sizeof data);
    write_bytes(outside, data, sizeof data);
    (void)snprintf(path, sizeof path, "../%s", outside);
    assert_int_equal(symlink(path, link_path), 0);

    f->options.folder = folder;
    for (int read = 0; read < 2; read++) {
        f->options.no_mmap = read != 0;
        msg        good    = external_model("./data", "5", "12");
        opf_graph *graph   = load_good(f, &good);
        assert_true(opf_const_f64_at(value_named(graph, "e")->constant, 2) == 3.0);
        assert_int_equal(value_named(graph, "e")->constant->mapped, read == 0);
    }
    const struct {
        const char *location, *offset, *length, *says;
    } bad[] = {
        {"../x", "0", "12", "leaves the folder"},   {"a/../../x", "0", "12", "leaves the folder"},
        {"/etc/passwd", "0", "12", "relative"},     {"link", "0", "12", "through a link"},
        {"data", "9", "12", "of a file of 20"},     {"data", "18446744073709551615", "12", "of a file of 20"},
        {"data", "-1", "12", "must be a number"},   {"data", "0", "16", "length is 16"},
        {"data", "0", "1x", "must be a number"},    {"missing", "0", "12", "missing"},
        {"", "0", "12", "without a location"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        msg model = external_model(bad[i].location, bad[i].offset, bad[i].length);
        load_bad(f, &model, OPF_INVALID_MODEL, bad[i].says);
        assert_non_null(strstr(f->error.message, "initializer e"));
    }
    f->options.folder = NULL;
    msg model         = external_model("data", "0", "12");
    load_bad(f, &model, OPF_INVALID_MODEL, "has no folder");
    (void)snprintf(path, sizeof path, "%s/data", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(link_path), 0);
    assert_int_equal(unlink(outside), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_every_truncation),
        TEST(test_every_corrupt_byte),
        TEST(test_bad_structure),
        TEST(test_bad_tensors),
        TEST(test_bad_inputs),
        TEST(test_limits),
        TEST(test_external_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
