/* SPDX-License-Identifier: Apache-2.0 */
#include "random.h"

#include "elements.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

typedef struct generator {
    uint64_t s[4];
} generator;

static generator start(uint64_t seed, const char *name)
{
    generator g;
    uint64_t  hash = 0xcbf29ce484222325u;
    for (const char *c = name; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    uint64_t x = seed ^ hash;
    for (size_t i = 0; i < 4; i++) { /* splitmix64 */
        uint64_t z = x += 0x9e3779b97f4a7c15u;
        z          = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z          = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        g.s[i]     = z ^ (z >> 31);
    }
    return g;
}

static uint64_t rotate(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static uint64_t next(generator *g) /* xoshiro256** */
{
    uint64_t result = rotate(g->s[1] * 5, 7) * 9, t = g->s[1] << 17;
    g->s[2] ^= g->s[0];
    g->s[3] ^= g->s[1];
    g->s[1] ^= g->s[2];
    g->s[0] ^= g->s[3];
    g->s[2] ^= t;
    g->s[3] = rotate(g->s[3], 45);
    return result;
}

static double next_unit(generator *g)
{
    return (double)(next(g) >> 11) * 0x1p-53;
}

static void fill_normal(generator *g, opf_tensor *tensor, size_t count)
{
    for (size_t i = 0; i < count; i += 2) {
        double u = next_unit(g) + 0x1p-53, v = next_unit(g);
        double r = sqrt(-2 * log(u)), angle = 6.283185307179586 * v;
        cli_store_real(tensor->type, tensor->data, i, r * cos(angle));
        if (i + 1 < count)
            cli_store_real(tensor->type, tensor->data, i + 1, r * sin(angle));
    }
}

static double parse_real(const char *text, const char *name)
{
    char  *end;
    double x = strtod(text, &end);
    if (text[0] == '\0' || *end != '\0' || !isfinite(x))
        cli_die(CLI_USAGE, "-i %s: %s is no number", name, text);
    return x;
}

/* An integer of the tensor's type by its bits, sign extended. */
static uint64_t parse_bound(const char *text, opf_type type, const char *name)
{
    size_t   bits      = opf_type_bits(type);
    bool     is_signed = cli_type_kind(type) == CLI_KIND_SIGNED, fits;
    char    *end;
    uint64_t x;
    errno = 0;
    if (is_signed) {
        long long value = strtoll(text, &end, 10);
        fits            = bits == 64 || (value >= -(1LL << (bits - 1)) && value < 1LL << (bits - 1));
        x               = (uint64_t)value;
    } else {
        x    = strtoull(text, &end, 10);
        fits = text[0] != '-' && (type == OPF_BOOL ? x <= 1 : bits == 64 || x < 1ULL << bits);
    }
    if (text[0] == '\0' || *end != '\0' || errno != 0 || !fits)
        cli_die(CLI_USAGE, "-i %s: %s is no %s", name, text, opf_type_name(type));
    return x;
}

static void fill_integers(generator *g, opf_tensor *tensor, size_t count, const char *name, cli_random_range range)
{
    bool     is_signed = cli_type_kind(tensor->type) == CLI_KIND_SIGNED;
    uint64_t low = 0, high = 1;
    if (range.low != NULL) {
        low  = parse_bound(range.low, tensor->type, name);
        high = parse_bound(range.high, tensor->type, name);
        if (is_signed ? (int64_t)low > (int64_t)high : low > high)
            cli_die(CLI_USAGE, "-i %s: the range %s:%s is empty", name, range.low, range.high);
    }
    uint64_t span = high - low + 1; /* 0: all 2^64 */
    uint64_t bias = span == 0 ? 0 : -span % span;
    for (size_t i = 0; i < count; i++) {
        uint64_t x = next(g);
        while (x < bias)
            x = next(g);
        cli_store_integer(tensor->type, tensor->data, i, low + (span == 0 ? x : x % span));
    }
}

void cli_random_fill(opf_tensor *tensor, const char *name, uint64_t seed, cli_random_range range)
{
    generator g = start(seed, name);
    size_t    count, bytes;
    (void)cli_tensor_size(tensor->type, tensor->rank, tensor->dims, &count, &bytes);
    count *= cli_type_parts(tensor->type);
    if (cli_type_kind(tensor->type) != CLI_KIND_REAL) {
        fill_integers(&g, tensor, count, name, range);
    } else if (range.low == NULL) {
        fill_normal(&g, tensor, count);
    } else {
        double low = parse_real(range.low, name), high = parse_real(range.high, name);
        if (low > high)
            cli_die(CLI_USAGE, "-i %s: the range %s:%s is empty", name, range.low, range.high);
        for (size_t i = 0; i < count; i++)
            cli_store_real(tensor->type, tensor->data, i, low + next_unit(&g) * (high - low));
    }
}
