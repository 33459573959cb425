/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

opf_status opf_output_open(opf_output *output, const char *path, opf_error *error)
{
    struct stat info;
    *output = (opf_output){.path = path, .file = -1};
    OPF_FAIL_IF(error, stat(path, &info) == 0 && !S_ISREG(info.st_mode), OPF_IO, "%s: exists and is not a regular file", path);
    for (unsigned n = 0; output->file < 0 && n < 100; n++) {
        int length = snprintf(output->temporary, sizeof output->temporary, "%s.%ld-%u.tmp", path, (long)getpid(), n);
        OPF_FAIL_IF(error, length < 0 || (size_t)length >= sizeof output->temporary, OPF_IO, "%s: the path is too long", path);
        output->file = open(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        OPF_FAIL_IF(error, output->file < 0 && errno != EEXIST, OPF_IO, "%s: %s", path, strerror(errno));
    }
    OPF_FAIL_IF(error, output->file < 0, OPF_IO, "%s: no name for a temporary file beside it is free", path);
    return OPF_OK;
}

opf_status opf_output_write(opf_output *output, const void *data, size_t bytes, opf_error *error)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t n = write(output->file, at, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        OPF_FAIL_IF(error, n <= 0, OPF_IO, "%s: %s", output->path, n < 0 ? strerror(errno) : "nothing could be written");
        at += n;
        bytes -= (size_t)n;
    }
    return OPF_OK;
}

opf_status opf_output_commit(opf_output *output, opf_error *error)
{
    bool ok      = fsync(output->file) == 0;
    ok           = close(output->file) == 0 && ok;
    output->file = -1;
    if (ok && rename(output->temporary, output->path) == 0)
        return OPF_OK;
    opf_status status = opf_fail(error, OPF_IO, "%s: %s", output->path, strerror(errno));
    (void)unlink(output->temporary);
    return status;
}

void opf_output_discard(opf_output *output)
{
    if (output->file < 0)
        return;
    (void)close(output->file);
    (void)unlink(output->temporary);
    output->file = -1;
}
