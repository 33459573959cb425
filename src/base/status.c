/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

opf_status opf_fail_at(opf_error *error, opf_status status, const char *file, int line, const char *format, ...)
{
    if (error == NULL)
        return status;
    error->status = status;
    error->file   = file;
    error->line   = line;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return status;
}

void opf_error_prefix(opf_error *error, const char *format, ...)
{
    if (error == NULL)
        return;
    char    text[sizeof error->message];
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t used = written < 0 ? 0 : (size_t)written;
    if (used >= sizeof text)
        used = sizeof text - 1;
    size_t room = sizeof text - used;
    size_t tail = strnlen(error->message, sizeof error->message - 1);
    if (tail > room - 1)
        tail = room - 1;
    memcpy(text + used, error->message, tail);
    text[used + tail] = '\0';
    memcpy(error->message, text, used + tail + 1);
}

const char *opf_status_text(opf_status status)
{
    switch (status) {
#define X(name, text)                                                                                                  \
    case OPF_##name:                                                                                                   \
        return text;
        OPF_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}

const char *opf_version(void)
{
    return "0.1.0";
}
