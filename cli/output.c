/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include "files.h"

#include <stdlib.h>
#include <string.h>

#define MAX_STEM 200u /* file systems take 255 bytes; room for a number and an ending */

static bool is_taken(char *const *files, size_t n, const char *file)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(files[i], file) == 0)
            return true;
    return false;
}

static void make_stem(const char *name, char *stem)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t            n         = strnlen(name, MAX_STEM);
    for (size_t i = 0; i < n; i++)
        stem[i] = strchr(allowed, name[i]) == NULL || (i == 0 && name[i] == '.') ? '_' : name[i];
    if (n == 0)
        stem[n++] = '_';
    stem[n] = '\0';
}

char **cli_output_files(const char *const *names, size_t n, const char *ending)
{
    char **files = cli_alloc(n, sizeof *files);
    for (size_t i = 0; i < n; i++) {
        char stem[MAX_STEM + 1];
        make_stem(names[i], stem);
        files[i] = cli_format("%s.%s", stem, ending);
        for (size_t number = 2; is_taken(files, i, files[i]); number++) {
            free(files[i]);
            files[i] = cli_format("%s_%zu.%s", stem, number, ending);
        }
    }
    return files;
}

/* Tabs, line ends and backslashes of a name are written as \t, \n, \r and \\. */
static void write_field(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        switch (*text) {
        case '\t': (void)fputs("\\t", out); break;
        case '\n': (void)fputs("\\n", out); break;
        case '\r': (void)fputs("\\r", out); break;
        case '\\': (void)fputs("\\\\", out); break;
        default: (void)putc(*text, out);
        }
}

void cli_output_write(const cli_options *options, const char *const *names, const opf_tensor *tensors,
                      char *const *files, size_t n)
{
    char  *table = NULL;
    size_t size  = 0;
    FILE  *out   = open_memstream(&table, &size);
    if (out == NULL)
        cli_die(CLI_SYSTEM, "out of memory");
    cli_make_folder(options->folder);
    for (size_t i = 0; i < n; i++) {
        opf_error error = {0};
        char     *path  = cli_format("%s/%s", options->folder, files[i]);
        cli_check(opf_tensor_save(path, &tensors[i], names[i], &error), &error);
        free(path);
        write_field(out, names[i]);
        (void)fprintf(out, "\t%s\n", files[i]);
    }
    if (fclose(out) != 0)
        cli_die(CLI_SYSTEM, "out of memory");
    char *path = cli_format("%s/outputs.tsv", options->folder);
    cli_write_file(path, table, size);
    free(path);
    free(table);
}
