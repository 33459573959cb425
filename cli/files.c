/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool cli_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

unsigned char *cli_read_file(const char *path, size_t *size)
{
    struct stat info;
    int         file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hang us before it is refused */
    if (file < 0 || fstat(file, &info) != 0)
        cli_die(CLI_SYSTEM, "%s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        cli_die(CLI_SYSTEM, "%s: not a regular file", path);
    *size               = (size_t)info.st_size;
    unsigned char *data = cli_alloc(*size, 1);
    for (size_t at = 0; at < *size;) {
        ssize_t n = read(file, data + at, *size - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            cli_die(CLI_SYSTEM, "%s: %s", path, n < 0 ? strerror(errno) : "became shorter while it was read");
        at += (size_t)n;
    }
    (void)close(file);
    return data;
}

void cli_write_file(const char *path, const char *data, size_t size)
{
    char *temporary = cli_format("%s.%ld.tmp", path, (long)getpid());
    int   file      = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0)
        cli_die(CLI_SYSTEM, "%s: %s", path, strerror(errno));
    bool ok = true;
    for (size_t at = 0; ok && at < size;) {
        ssize_t n = write(file, data + at, size - at);
        ok        = n > 0 || (n < 0 && errno == EINTR);
        at += n > 0 ? (size_t)n : 0;
    }
    ok         = ok && fsync(file) == 0;
    int reason = errno;
    if (close(file) != 0 && ok) {
        ok     = false;
        reason = errno;
    }
    if (ok && rename(temporary, path) != 0) {
        ok     = false;
        reason = errno;
    }
    if (!ok) {
        (void)unlink(temporary);
        cli_die(CLI_SYSTEM, "%s: %s", path, strerror(reason));
    }
    free(temporary);
}

void cli_make_folder(const char *path)
{
    char *copy = cli_format("%s", path);
    for (char *slash = strchr(copy + 1, '/');; slash = strchr(slash + 1, '/')) {
        struct stat info;
        if (slash != NULL)
            *slash = '\0';
        if (mkdir(copy, 0777) != 0 && (errno != EEXIST || stat(copy, &info) != 0 || !S_ISDIR(info.st_mode)))
            cli_die(CLI_SYSTEM, "%s: %s", copy, errno == EEXIST ? "is not a folder" : strerror(errno));
        if (slash == NULL)
            break;
        *slash = '/';
    }
    free(copy);
}
