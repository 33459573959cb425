/* SPDX-License-Identifier: Apache-2.0 */
/* Files, mapped or read. */
#include "onnx/load.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static opf_status read_all(int file, const char *path, size_t size, opf_heap *heap, opf_mapping *mapping, opf_error *error)
{
    char *data = opf_heap_alloc(heap, size);
    OPF_OOM_IF(error, data == NULL);
    for (size_t at = 0; at < size;) {
        ssize_t n = read(file, data + at, size - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int reason = errno;
            opf_heap_free(heap, data, size);
            return opf_fail(error, OPF_IO, "%s: %s", path, n < 0 ? strerror(reason) : "the file became shorter while it was read");
        }
        at += (size_t)n;
    }
    *mapping = (opf_mapping){.data = data, .size = size};
    return OPF_OK;
}

static opf_status open_file(int file, const char *path, bool no_mmap, int64_t limit, opf_heap *heap, opf_mapping *mapping, opf_error *error)
{
    struct stat info;
    OPF_FAIL_IF(error, fstat(file, &info) != 0, OPF_IO, "%s: %s", path, strerror(errno));
    OPF_FAIL_IF(error, !S_ISREG(info.st_mode), OPF_IO, "%s: not a regular file", path);
    OPF_FAIL_IF(error, info.st_size > limit, OPF_LIMIT, "%s: %lld bytes, more than %lld (limit model-bytes)", path,
                (long long)info.st_size, (long long)limit);
    size_t size = (size_t)info.st_size;
    if (size == 0)
        return OPF_OK;
    if (no_mmap)
        return read_all(file, path, size, heap, mapping, error);
    void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED)
        return read_all(file, path, size, heap, mapping, error);
    *mapping = (opf_mapping){
        .data = data, .size = size, .is_mapped = true, .device = (uint64_t)info.st_dev, .inode = (uint64_t)info.st_ino};
    return OPF_OK;
}

opf_status opf_mapping_open(const char *path, bool no_mmap, int64_t limit, opf_heap *heap, opf_mapping *mapping, opf_error *error)
{
    *mapping = (opf_mapping){0};
    /* Not blocking: a pipe must not hang us before it is refused. */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    OPF_FAIL_IF(error, file < 0, OPF_IO, "%s: %s", path, strerror(errno));
    opf_status status = open_file(file, path, no_mmap, limit, heap, mapping, error);
    (void)close(file);
    return status;
}

bool opf_mapping_is_of(const opf_mapping *mapping, const char *path)
{
    struct stat info;
    return mapping->is_mapped && stat(path, &info) == 0 && (uint64_t)info.st_dev == mapping->device &&
           (uint64_t)info.st_ino == mapping->inode;
}

void opf_mapping_close(opf_mapping *mapping, opf_heap *heap)
{
    if (mapping->is_mapped)
        (void)munmap((void *)(uintptr_t)mapping->data, mapping->size);
    else
        opf_heap_free(heap, (void *)(uintptr_t)mapping->data, mapping->size);
    *mapping = (opf_mapping){0};
}
