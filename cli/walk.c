/* SPDX-License-Identifier: Apache-2.0 */
#include "walk.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_DEPTH 64u

/* A folder on the way from the top: a link back to one of them is a loop. */
typedef struct level {
    const struct level *up;
    size_t              depth;
    dev_t               device;
    ino_t               inode;
} level;

static int compare_numbers(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* "PREFIX12SUFFIX"; leading zeros are none, as the name could not be made again from its number. */
static bool parse_name(const char *name, const char *prefix, const char *suffix, size_t *number)
{
    size_t length = strlen(prefix);
    if (strncmp(name, prefix, length) != 0 || name[length] < '0' || name[length] > '9' ||
        (name[length] == '0' && name[length + 1] >= '0' && name[length + 1] <= '9'))
        return false;
    char *end;
    errno   = 0;
    *number = strtoull(name + length, &end, 10);
    return errno == 0 && strcmp(end, suffix) == 0;
}

cli_numbers cli_find_numbers(const char *folder, const char *prefix, const char *suffix)
{
    cli_numbers found = {0};
    DIR        *dir   = opendir(folder);
    if (dir == NULL)
        return found;
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        size_t number;
        if (!parse_name(entry->d_name, prefix, suffix, &number))
            continue;
        found.items            = cli_grow(found.items, found.n, sizeof *found.items);
        found.items[found.n++] = number;
    }
    (void)closedir(dir);
    if (found.n != 0)
        qsort(found.items, found.n, sizeof *found.items, compare_numbers);
    return found;
}

static bool is_case(const char *folder)
{
    struct stat info;
    char       *path = cli_format("%s/model.onnx", folder);
    bool        ok   = stat(path, &info) == 0 && S_ISREG(info.st_mode);
    free(path);
    if (!ok)
        return false;
    cli_numbers sets = cli_find_numbers(folder, "test_data_set_", "");
    free(sets.items);
    return sets.n != 0;
}

static void add_case(cli_cases *cases, char *name, const char *folder)
{
    cases->items             = cli_grow(cases->items, cases->n, sizeof *cases->items);
    cases->items[cases->n++] = (cli_case){.name = name, .folder = cli_format("%s", folder)};
}

static bool is_loop(const level *up, const struct stat *info)
{
    for (; up != NULL; up = up->up)
        if (up->device == info->st_dev && up->inode == info->st_ino)
            return true;
    return false;
}

/* name: the folder's path below the top, "" for the top itself. */
static void walk(cli_cases *cases, const char *folder, const char *name, const level *up)
{
    struct stat info;
    if (stat(folder, &info) != 0 || !S_ISDIR(info.st_mode) || is_loop(up, &info) ||
        (up != NULL && up->depth >= MAX_DEPTH))
        return;
    if (name[0] != '\0' && is_case(folder)) {
        add_case(cases, cli_format("%s", name), folder);
        return;
    }
    level here = {.up = up, .depth = up == NULL ? 1 : up->depth + 1, .device = info.st_dev, .inode = info.st_ino};
    DIR  *dir  = opendir(folder);
    if (dir == NULL)
        cli_die(CLI_SYSTEM, "%s: %s", folder, strerror(errno));
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *below = cli_format("%s/%s", folder, entry->d_name);
        char *path  = cli_format("%s%s%s", name, name[0] == '\0' ? "" : "/", entry->d_name);
        walk(cases, below, path, &here);
        free(below);
        free(path);
    }
    (void)closedir(dir);
}

/* The last part of the path as given; "." and ".." have none of their own. */
static char *base_name(const char *path)
{
    size_t n = strlen(path), begin;
    while (n > 1 && path[n - 1] == '/')
        n--;
    for (begin = n; begin > 0 && path[begin - 1] != '/';)
        begin--;
    if (n > begin && strncmp(path + begin, "..", n - begin) != 0)
        return cli_format("%.*s", (int)(n - begin), path + begin);
    char *whole = realpath(path, NULL);
    if (whole == NULL || strcmp(whole, "/") == 0)
        return whole == NULL ? cli_format("%s", path) : whole;
    char *name = cli_format("%s", strrchr(whole, '/') + 1);
    free(whole);
    return name;
}

static int compare_cases(const void *a, const void *b)
{
    return strcmp(((const cli_case *)a)->name, ((const cli_case *)b)->name);
}

void cli_find_cases(cli_cases *cases, const char *path)
{
    struct stat info;
    size_t      first = cases->n;
    if (stat(path, &info) != 0)
        cli_die(CLI_SYSTEM, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        cli_die(CLI_USAGE, "%s: must be a folder", path);
    if (is_case(path))
        add_case(cases, base_name(path), path);
    else
        walk(cases, path, "", NULL);
    if (cases->n > first)
        qsort(cases->items + first, cases->n - first, sizeof *cases->items, compare_cases);
}

void cli_cases_free(cli_cases *cases)
{
    for (size_t i = 0; i < cases->n; i++) {
        free(cases->items[i].name);
        free(cases->items[i].folder);
    }
    free(cases->items);
}
