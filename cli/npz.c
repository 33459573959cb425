/* SPDX-License-Identifier: Apache-2.0 */
/* .npz is a zip archive of .npy files, stored or deflated. Every offset and length of it is checked before use. */
#include "files.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define END_SIGNATURE     0x06054b50u
#define END64_SIGNATURE   0x06064b50u
#define LOCATOR_SIGNATURE 0x07064b50u
#define ENTRY_SIGNATURE   0x02014b50u
#define LOCAL_SIGNATURE   0x04034b50u
#define END_SIZE          22u
#define LOCATOR_SIZE      20u
#define END64_SIZE        56u
#define ENTRY_SIZE        46u
#define LOCAL_SIZE        30u
#define MAX_INFLATION     1032u /* deflate cannot grow data more than that */

typedef struct archive {
    const char          *path;
    const unsigned char *data;
    size_t               size;
} archive;

typedef struct entry {
    const char *name; /* not terminated */
    size_t      name_length;
    unsigned    method;
    uint32_t    crc;
    uint64_t    packed, size, offset;
} entry;

_Noreturn static void reject(const archive *a, const char *what)
{
    cli_die(CLI_REJECTED, "%s: %s", a->path, what);
}

static const unsigned char *at(const archive *a, uint64_t offset, uint64_t length)
{
    if (offset > a->size || length > a->size - offset)
        reject(a, "not a whole .npz archive");
    return a->data + offset;
}

static uint64_t number(const unsigned char *p, size_t bytes)
{
    uint64_t x = 0;
    for (size_t i = 0; i < bytes; i++)
        x |= (uint64_t)p[i] << (8 * i);
    return x;
}

/* Where the table of entries begins, and how many there are. */
static uint64_t find_table(const archive *a, uint64_t *count)
{
    size_t end = a->size < END_SIZE ? 0 : a->size - END_SIZE + 1;
    while (end > 0 && a->size - end < END_SIZE + 0xffffu && number(a->data + end - 1, 4) != END_SIGNATURE)
        end--;
    if (end == 0 || number(at(a, end - 1, END_SIZE), 4) != END_SIGNATURE)
        reject(a, "not an .npz archive");
    const unsigned char *p = a->data + --end;
    *count                 = number(p + 10, 2);
    uint64_t offset        = number(p + 16, 4);
    if (end < LOCATOR_SIZE || number(p - LOCATOR_SIZE, 4) != LOCATOR_SIGNATURE)
        return offset;
    p = at(a, number(p - LOCATOR_SIZE + 8, 8), END64_SIZE);
    if (number(p, 4) != END64_SIGNATURE)
        reject(a, "the end of the .npz archive is broken");
    *count = number(p + 32, 8);
    return number(p + 48, 8);
}

/* Sizes that do not fit into 32 bits stand in an extra field, in this order, those only that are 0xffffffff. */
static void read_zip64(const archive *a, const unsigned char *extra, size_t length, entry *e)
{
    uint64_t *const fields[] = {&e->size, &e->packed, &e->offset};
    while (length >= 4) {
        size_t part = (size_t)number(extra + 2, 2);
        if (part > length - 4)
            reject(a, "an extra field of the .npz archive is broken");
        if (number(extra, 2) == 1) {
            const unsigned char *p = extra + 4, *end = p + part;
            for (size_t i = 0; i < 3; i++) {
                if (*fields[i] != UINT32_MAX)
                    continue;
                if (end - p < 8)
                    reject(a, "a size in the .npz archive is missing");
                *fields[i] = number(p, 8);
                p += 8;
            }
        }
        extra += 4 + part;
        length -= 4 + part;
    }
}

static uint64_t read_entry(const archive *a, uint64_t offset, entry *e)
{
    const unsigned char *p = at(a, offset, ENTRY_SIZE);
    if (number(p, 4) != ENTRY_SIGNATURE)
        reject(a, "the table of the .npz archive is broken");
    size_t name = (size_t)number(p + 28, 2), extra = (size_t)number(p + 30, 2), comment = (size_t)number(p + 32, 2);
    (void)at(a, offset, ENTRY_SIZE + name + extra + comment);
    if ((number(p + 8, 2) & 1) != 0)
        reject(a, "the .npz archive is encrypted");
    *e = (entry){.name        = (const char *)p + ENTRY_SIZE,
                 .name_length = name,
                 .method      = (unsigned)number(p + 10, 2),
                 .crc         = (uint32_t)number(p + 16, 4),
                 .packed      = number(p + 20, 4),
                 .size        = number(p + 24, 4),
                 .offset      = number(p + 42, 4)};
    read_zip64(a, p + ENTRY_SIZE + name, extra, e);
    return offset + ENTRY_SIZE + name + extra + comment;
}

static bool is_named(const entry *e, const char *name)
{
    size_t n = strlen(name);
    return e->name_length >= n && memcmp(e->name, name, n) == 0 &&
           (e->name_length == n || (e->name_length == n + 4 && memcmp(e->name + n, ".npy", 4) == 0));
}

static void inflate_entry(const archive *a, const entry *e, const unsigned char *packed, unsigned char *data)
{
    z_stream stream = {0};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
        cli_die(CLI_SYSTEM, "out of memory");
    uint64_t left_in = e->packed, left_out = e->size;
    int      state  = Z_OK;
    stream.next_in  = (Bytef *)(uintptr_t)packed; /* zlib only reads it */
    stream.next_out = data;
    while (state == Z_OK) { /* zlib counts in 32 bits */
        uInt in = left_in < UINT_MAX ? (uInt)left_in : UINT_MAX, out = left_out < UINT_MAX ? (uInt)left_out : UINT_MAX;
        stream.avail_in  = in;
        stream.avail_out = out;
        state            = inflate(&stream, Z_NO_FLUSH);
        left_in -= in - stream.avail_in;
        left_out -= out - stream.avail_out;
        if (state == Z_OK && stream.avail_in == in && stream.avail_out == out)
            state = Z_BUF_ERROR;
    }
    (void)inflateEnd(&stream);
    if (state == Z_MEM_ERROR)
        cli_die(CLI_SYSTEM, "out of memory");
    if (state != Z_STREAM_END || left_out != 0)
        reject(a, "compressed data of the .npz archive is broken");
}

static unsigned char *extract(const archive *a, const entry *e)
{
    const unsigned char *p = at(a, e->offset, LOCAL_SIZE);
    if (number(p, 4) != LOCAL_SIGNATURE)
        reject(a, "an entry of the .npz archive is broken");
    uint64_t             begin  = e->offset + LOCAL_SIZE + number(p + 26, 2) + number(p + 28, 2);
    const unsigned char *packed = at(a, begin, e->packed);
    if (e->method != 0 && e->method != 8)
        reject(a, "compressed by a method other than deflate");
    if (e->method == 0 ? e->size != e->packed : e->size / MAX_INFLATION > e->packed)
        reject(a, "a size in the .npz archive is wrong");
    unsigned char *data = cli_alloc((size_t)e->size, 1);
    if (e->method == 0)
        memcpy(data, packed, (size_t)e->size);
    else
        inflate_entry(a, e, packed, data);
    if (crc32_z(0, data, (size_t)e->size) != e->crc)
        reject(a, "the checksum of the .npz archive is wrong");
    return data;
}

/* The entry of that name; if there is none, the only one there is. */
static entry find_entry(const archive *a, const char *name)
{
    uint64_t count, offset = find_table(a, &count);
    entry    e = {0};
    for (uint64_t i = 0; i < count; i++) { /* each entry takes bytes, so a wrong count ends at the archive's end */
        offset = read_entry(a, offset, &e);
        if (is_named(&e, name))
            return e;
    }
    if (count != 1)
        cli_die(CLI_REJECTED, "%s: holds %llu arrays, none of them is called %s", a->path, (unsigned long long)count,
                name);
    return e;
}

void cli_npz_load(const char *path, const char *name, opf_tensor *tensor)
{
    archive        a        = {.path = path};
    opf_error      error    = {0};
    unsigned char *contents = cli_read_file(path, &a.size);
    a.data                  = contents;
    entry          e        = find_entry(&a, name);
    unsigned char *data     = extract(&a, &e);
    opf_status     status   = opf_tensor_parse(data, (size_t)e.size, true, tensor, NULL, 0, &error);
    free(data);
    free(contents);
    if (status != OPF_OK)
        cli_die(cli_exit_code(status), "%s: %s", path, cli_message(status, &error));
}
