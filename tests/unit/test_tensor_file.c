/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in .npy and .pb files: round trips, every form of header, and damage. */
#include "opfuse/opfuse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[] = "opfuse_test_XXXXXX";

static int setup(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(folder);
}

static const char *path_of(const char *name)
{
    static char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void check_round_trip(const char *file, const opf_tensor *tensor, const char *name, const char *expected_name)
{
    opf_error   error;
    opf_tensor  back;
    char        own_name[64];
    const char *path   = path_of(file);
    opf_status  status = opf_tensor_save(path, tensor, name, &error);
    if (status != OPF_OK)
        fail_msg("%s", error.message);
    status = opf_tensor_load(path, &back, own_name, sizeof own_name, &error);
    if (status != OPF_OK)
        fail_msg("%s", error.message);
    assert_string_equal(own_name, expected_name);
    assert_int_equal(back.type, tensor->type);
    assert_int_equal(back.rank, tensor->rank);
    assert_int_equal(back.bytes, tensor->bytes);
    for (int32_t i = 0; i < back.rank; i++)
        assert_int_equal(back.dims[i], tensor->dims[i]);
    if (back.bytes != 0)
        assert_memory_equal(back.data, tensor->data, back.bytes);
    opf_tensor_free(&back);
    assert_null(back.data);
    assert_int_equal(unlink(path), 0);
}

static void test_round_trips(void **state)
{
    (void)state;
    unsigned char data[6 * 16];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 37);
    for (int t = 1; t < OPF_TYPE_COUNT; t++) {
        opf_type type = (opf_type)t;
        size_t   bits = opf_type_bits(type);
        if (type == OPF_STRING)
            continue;
        opf_tensor tensor = {.type = type, .rank = 2, .dims = {2, 3}, .data = data, .bytes = (6 * bits + 7) / 8};
        check_round_trip("t.pb", &tensor, "x/y", "x/y");
        bool in_numpy = type <= OPF_COMPLEX128;
        if (in_numpy) {
            check_round_trip("t.npy", &tensor, "x", "");
        } else {
            opf_error error;
            assert_int_equal(opf_tensor_save(path_of("t.npy"), &tensor, NULL, &error), OPF_UNSUPPORTED);
            assert_non_null(strstr(error.message, ".pb"));
        }
    }
}

static void test_shapes(void **state)
{
    (void)state;
    float      data[3]  = {1, -2, 3};
    opf_tensor scalar   = {.type = OPF_FLOAT, .rank = 0, .data = data, .bytes = 4};
    opf_tensor vector   = {.type = OPF_FLOAT, .rank = 1, .dims = {3}, .data = data, .bytes = 12};
    opf_tensor empty    = {.type = OPF_FLOAT, .rank = 3, .dims = {2, 0, 5}, .data = NULL, .bytes = 0};
    opf_tensor big_rank = {.type = OPF_FLOAT, .rank = 16, .data = data, .bytes = 4};
    for (int i = 0; i < 16; i++)
        big_rank.dims[i] = 1;
    const opf_tensor *all[] = {&scalar, &vector, &empty, &big_rank};
    for (size_t i = 0; i < 4; i++) {
        check_round_trip("s.npy", all[i], NULL, "");
        check_round_trip("s.pb", all[i], NULL, "");
    }
}

/* A .npy file of one version around a header's text. */
static size_t make_npy(char *file, int version, const char *header, const void *data, size_t bytes)
{
    size_t n = strlen(header), start = version == 1 ? 10 : 12;
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (char)version;
    file[7] = 0;
    memset(file + 8, 0, 4);
    file[8] = (char)(n & 255);
    file[9] = (char)(n >> 8);
    memcpy(file + start, header, n);
    memcpy(file + start + n, data, bytes);
    return start + n + bytes;
}

static void test_npy_forms(void **state)
{
    (void)state;
    char       file[512];
    opf_tensor t;
    opf_error  error;
    const unsigned char big[] = {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6};
    for (int version = 1; version <= 3; version++) {
        size_t n = make_npy(file, version, "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n", big, sizeof big);
        assert_int_equal(opf_tensor_parse(file, n, true, &t, NULL, 0, &error), OPF_OK);
        const int16_t expected[] = {1, 3, 5, 2, 4, 6};
        assert_int_equal(t.type, OPF_INT16);
        assert_int_equal(t.dims[0], 2);
        assert_memory_equal(t.data, expected, sizeof expected);
        opf_tensor_free(&t);
        for (size_t cut = 0; cut < n; cut++)
            assert_int_not_equal(opf_tensor_parse(file, cut, true, &t, NULL, 0, &error), OPF_OK);
    }
    size_t n = make_npy(file, 1, "{\"shape\": (), \"fortran_order\": False, \"descr\": \"|b1\"}", big + 1, 1);
    assert_int_equal(opf_tensor_parse(file, n, true, &t, NULL, 0, &error), OPF_OK);
    assert_int_equal(t.rank, 0);
    assert_int_equal(t.type, OPF_BOOL);
    opf_tensor_free(&t);
    const struct {
        const char *header;
        opf_status  status;
        const char *says;
    } bad[] = {
        {"{'descr': '<U5', 'fortran_order': False, 'shape': (1,), }", OPF_UNSUPPORTED, "<U5"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", OPF_UNSUPPORTED, "plain"},
        {"{'descr': '|V2', 'fortran_order': False, 'shape': (1,), }", OPF_UNSUPPORTED, "|V2"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", OPF_INVALID_INPUT, "large"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 4), }", OPF_LIMIT, "large"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", OPF_INVALID_INPUT, "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), }", OPF_LIMIT, "16"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (100,), }", OPF_INVALID_INPUT, "cut off"},
        {"{'descr': '<f4', 'fortran_order': False, }", OPF_INVALID_INPUT, "missing"},
        {"[]", OPF_INVALID_INPUT, "dictionary"},
        {"", OPF_INVALID_INPUT, "dictionary"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        n = make_npy(file, 1, bad[i].header, big, sizeof big);
        assert_int_equal(opf_tensor_parse(file, n, true, &t, NULL, 0, &error), bad[i].status);
        if (strstr(error.message, bad[i].says) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", error.message, bad[i].says);
    }
    n = make_npy(file, 4, "{}", big, 0);
    assert_int_equal(opf_tensor_parse(file, n, true, &t, NULL, 0, &error), OPF_UNSUPPORTED);
}

static void test_pb_typed_fields(void **state)
{
    (void)state;
    opf_tensor t;
    opf_error  error;
    char       name[8];
    /* dims 2, type int8, int32_data packed: 1, -1 (ten bytes), name "ab" */
    const unsigned char int8s[] = {0x08, 2, 0x10, 3, 0x2a, 11, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0x42, 2, 'a', 'b'};
    assert_int_equal(opf_tensor_parse(int8s, sizeof int8s, false, &t, name, sizeof name, &error), OPF_OK);
    const int8_t expected[] = {1, -1};
    assert_string_equal(name, "ab");
    assert_int_equal(t.bytes, 2);
    assert_memory_equal(t.data, expected, 2);
    opf_tensor_free(&t);
    assert_int_equal(opf_tensor_parse(int8s, sizeof int8s, false, &t, name, 2, &error), OPF_BUFFER_TOO_SMALL);
    for (size_t cut = 0; cut < 17; cut++)
        assert_int_not_equal(opf_tensor_parse(int8s, cut, false, &t, NULL, 0, &error), OPF_OK);
    /* floats: one packed run and one element by itself */
    const unsigned char floats[] = {0x08, 3, 0x10, 1, 0x22, 8, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0x25, 0, 0, 0x40, 0x40};
    assert_int_equal(opf_tensor_parse(floats, sizeof floats, false, &t, NULL, 0, &error), OPF_OK);
    const float wanted[] = {1, 2, 3};
    assert_memory_equal(t.data, wanted, sizeof wanted);
    opf_tensor_free(&t);
    const unsigned char strings[] = {0x08, 1, 0x10, 8, 0x32, 1, 'x'};
    assert_int_equal(opf_tensor_parse(strings, sizeof strings, false, &t, NULL, 0, &error), OPF_UNSUPPORTED);
}

static void test_saving_is_whole_or_not_at_all(void **state)
{
    (void)state;
    opf_error  error;
    float      x      = 1;
    opf_tensor tensor = {.type = OPF_FLOAT, .rank = 0, .data = &x, .bytes = 4};
    assert_int_equal(opf_tensor_save(path_of("no/such.npy"), &tensor, NULL, &error), OPF_IO);
    assert_int_equal(opf_tensor_save(path_of("t.txt"), &tensor, NULL, &error), OPF_INVALID_ARGUMENT);
    assert_int_equal(opf_tensor_save("/dev/null.npy/x.npy", &tensor, NULL, &error), OPF_IO);
    tensor.bytes = 3;
    assert_int_equal(opf_tensor_save(path_of("t.npy"), &tensor, NULL, &error), OPF_INVALID_ARGUMENT);
    assert_int_equal(access(path_of("t.npy"), F_OK), -1);
    tensor.bytes = 4;
    assert_int_equal(mkdir(path_of("d.npy"), 0777), 0);
    assert_int_equal(opf_tensor_save(path_of("d.npy"), &tensor, NULL, &error), OPF_IO);
    assert_int_equal(rmdir(path_of("d.npy")), 0);
    opf_tensor back;
    assert_int_equal(opf_tensor_load(path_of("missing.npy"), &back, NULL, 0, &error), OPF_IO);
    assert_int_equal(opf_tensor_load(folder, &back, NULL, 0, &error), OPF_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),     cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_npy_forms),       cmocka_unit_test(test_pb_typed_fields),
        cmocka_unit_test(test_saving_is_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
