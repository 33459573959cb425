/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/npy.h"

#include <stdio.h>
#include <string.h>

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

static const struct {
    opf_type type;
    char     code[4];
} codes[] = {
    {OPF_BOOL, "b1"},   {OPF_INT8, "i1"},   {OPF_INT16, "i2"},  {OPF_INT32, "i4"},   {OPF_INT64, "i8"},  {OPF_UINT8, "u1"},     {OPF_UINT16, "u2"},
    {OPF_UINT32, "u4"}, {OPF_UINT64, "u8"}, {OPF_FLOAT16, "f2"}, {OPF_FLOAT, "f4"}, {OPF_DOUBLE, "f8"}, {OPF_COMPLEX64, "c8"}, {OPF_COMPLEX128, "c16"},
};

/* The header is the text of a Python dictionary: this reads what numpy writes. */
typedef struct scanner {
    const char *at, *end;
} scanner;

static void skip_space(scanner *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t'))
        s->at++;
}

static bool take(scanner *s, char c)
{
    skip_space(s);
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static bool take_word(scanner *s, const char *word)
{
    skip_space(s);
    size_t n = strlen(word);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
        return false;
    s->at += n;
    return true;
}

static bool take_quoted(scanner *s, char *text, size_t room)
{
    skip_space(s);
    if (s->at == s->end || (*s->at != '\'' && *s->at != '"'))
        return false;
    char   quote = *s->at++;
    size_t n     = 0;
    while (s->at < s->end && *s->at != quote && n + 1 < room)
        text[n++] = *s->at++;
    text[n] = '\0';
    return take(s, quote);
}

static opf_status read_shape(scanner *s, opf_npy *npy, opf_error *error)
{
    OPF_FAIL_IF(error, !take(s, '('), OPF_INVALID_INPUT, "npy header: shape is no tuple");
    while (!take(s, ')')) {
        int64_t d = 0;
        OPF_FAIL_IF(error, npy->rank == OPF_MAX_RANK, OPF_LIMIT, "npy header: more than %d dimensions", OPF_MAX_RANK);
        skip_space(s);
        OPF_FAIL_IF(error, s->at == s->end || *s->at < '0' || *s->at > '9', OPF_INVALID_INPUT, "npy header: bad shape");
        for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
            OPF_FAIL_IF(error, __builtin_mul_overflow(d, 10, &d) || __builtin_add_overflow(d, *s->at - '0', &d), OPF_INVALID_INPUT,
                        "npy header: a dimension is too large");
        npy->dims[npy->rank++] = d;
        (void)take(s, 'L'); /* Python 2 */
        if (!take(s, ',')) {
            OPF_FAIL_IF(error, !take(s, ')'), OPF_INVALID_INPUT, "npy header: bad shape");
            break;
        }
    }
    return OPF_OK;
}

static opf_status read_descr(scanner *s, opf_npy *npy, opf_error *error)
{
    char text[32];
    OPF_FAIL_IF(error, !take_quoted(s, text, sizeof text), OPF_UNSUPPORTED, "npy header: only plain element types are supported");
    bool has_order = strchr("<>=|", text[0]) != NULL && text[0] != '\0';
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strcmp(text + has_order, codes[i].code) == 0)
            npy->type = codes[i].type;
    OPF_FAIL_IF(error, npy->type == OPF_TYPE_NONE, OPF_UNSUPPORTED, "npy element type %s is not supported", text);
    npy->is_big_endian = text[0] == '>';
    return OPF_OK;
}

static opf_status read_dictionary(scanner *s, opf_npy *npy, opf_error *error)
{
    char key[32];
    bool has_shape = false;
    OPF_FAIL_IF(error, !take(s, '{'), OPF_INVALID_INPUT, "npy header: no dictionary");
    while (!take(s, '}')) {
        OPF_FAIL_IF(error, !take_quoted(s, key, sizeof key) || !take(s, ':'), OPF_INVALID_INPUT, "npy header: bad dictionary");
        if (strcmp(key, "descr") == 0) {
            OPF_TRY(read_descr(s, npy, error));
        } else if (strcmp(key, "fortran_order") == 0) {
            npy->is_fortran = take_word(s, "True");
            OPF_FAIL_IF(error, !npy->is_fortran && !take_word(s, "False"), OPF_INVALID_INPUT, "npy header: bad fortran_order");
        } else if (strcmp(key, "shape") == 0 && !has_shape) {
            has_shape = true;
            OPF_TRY(read_shape(s, npy, error));
        } else {
            return opf_fail(error, OPF_INVALID_INPUT, "npy header: unexpected key %s", key);
        }
        (void)take(s, ',');
    }
    OPF_FAIL_IF(error, npy->type == OPF_TYPE_NONE || !has_shape, OPF_INVALID_INPUT, "npy header: descr or shape is missing");
    return OPF_OK;
}

opf_status opf_npy_read(const void *bytes, size_t size, opf_npy *npy, opf_error *error)
{
    const unsigned char *b = bytes;
    *npy                   = (opf_npy){.type = OPF_TYPE_NONE};
    OPF_FAIL_IF(error, size < 10 || memcmp(b, magic, sizeof magic) != 0, OPF_INVALID_INPUT, "not a .npy file");
    OPF_FAIL_IF(error, b[6] < 1 || b[6] > 3, OPF_UNSUPPORTED, "npy version %d.%d: 1 to 3 are supported", b[6], b[7]);
    size_t start  = b[6] == 1 ? 10 : 12;
    size_t length = (size_t)b[8] | (size_t)b[9] << 8;
    OPF_FAIL_IF(error, size < start, OPF_INVALID_INPUT, "the .npy file is cut off");
    if (b[6] > 1)
        length |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
    OPF_FAIL_IF(error, length > size - start, OPF_INVALID_INPUT, "the .npy file is cut off in its header");
    scanner s = {(const char *)b + start, (const char *)b + start + length};
    OPF_TRY(read_dictionary(&s, npy, error));
    npy->data = start + length;
    return OPF_OK;
}

opf_status opf_npy_write(const opf_tensor *tensor, char header[OPF_NPY_HEADER], size_t *length, opf_error *error)
{
    const char *code = NULL;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].type == tensor->type)
            code = codes[i].code;
    OPF_FAIL_IF(error, code == NULL, OPF_UNSUPPORTED, "numpy has no %s: write .pb instead", opf_type_name(tensor->type));
    enum { START = 10 };
    char  *text = header + START;
    size_t room = OPF_NPY_HEADER - START, n = 0;
    n += (size_t)snprintf(text, room, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", code[1] == '1' && code[2] == '\0' ? '|' : '<',
                          code);
    for (int32_t i = 0; i < tensor->rank; i++)
        n += (size_t)snprintf(text + n, room - n, "%lld,%s", (long long)tensor->dims[i], i + 1 < tensor->rank ? " " : "");
    n += (size_t)snprintf(text + n, room - n, "), }");
    while ((START + n + 1) % 64 != 0)
        text[n++] = ' ';
    text[n++] = '\n';
    memcpy(header, magic, sizeof magic);
    header[6] = 1;
    header[7] = 0;
    header[8] = (char)(n & 255);
    header[9] = (char)(n >> 8);
    *length   = START + n;
    return OPF_OK;
}
