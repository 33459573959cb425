/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The share of the machine that this process has: its affinity mask, and the limits of its control group and of the
 * groups above it, in either version. Inside a container the group's path often is not visible: then the root of the
 * mount is the container's own group.
 */
#include "cpu/cpu.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 1024 };

static bool read_line(const char *path, char *text, size_t bytes)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    const bool ok = fgets(text, (int)bytes, file) != NULL;
    fclose(file);
    return ok;
}

static bool has_word(const char *list, const char *word) /* list: comma-separated */
{
    const size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)) != NULL; p += n)
        if ((p == list || p[-1] == ',') && (p[n] == ',' || p[n] == 0))
            return true;
    return false;
}

/* The path of this process in the hierarchy of a controller ("" is version 2's single hierarchy). */
static bool group_of(const char *controller, char *path, size_t bytes)
{
    FILE *file = fopen("/proc/self/cgroup", "r");
    if (!file)
        return false;
    char line[PATH_BYTES];
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *list = strchr(line, ':');
        char *name = list ? strchr(list + 1, ':') : NULL;
        if (!name)
            continue;
        *name++ = 0;
        list++;
        if (*controller ? has_word(list, controller) : *list == 0)
            found = (size_t)snprintf(path, bytes, "%s", name) < bytes;
    }
    fclose(file);
    return found;
}

/* The lowest value that read gives for the group of this process and the groups above it; 0 is none. */
typedef uint64_t (*limit_fn)(const char *folder);

static uint64_t lowest(const char *controller, const char *mount, limit_fn read)
{
    char path[PATH_BYTES], folder[2 * PATH_BYTES];
    if (!group_of(controller, path, sizeof path))
        return 0;
    uint64_t best = 0;
    for (;;) {
        snprintf(folder, sizeof folder, "%s%s", mount, strcmp(path, "/") == 0 ? "" : path);
        const uint64_t limit = read(folder);
        if (limit && (!best || limit < best))
            best = limit;
        char *slash = strrchr(path, '/');
        if (!slash || path[0] == 0)
            return best;
        *slash = 0;
    }
}

static bool read_in(const char *folder, const char *name, char *text, size_t bytes)
{
    char path[3 * PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return read_line(path, text, bytes);
}

/* Cores of a quota, rounded up: half a core still runs one thread. */
static uint64_t cores_of(int64_t quota, int64_t period)
{
    return quota > 0 && period > 0 ? (uint64_t)(quota / period + (quota % period != 0)) : 0;
}

static uint64_t quota_v1(const char *folder)
{
    char quota[64], period[64];
    if (!read_in(folder, "cpu.cfs_quota_us", quota, sizeof quota) || !read_in(folder, "cpu.cfs_period_us", period, sizeof period))
        return 0;
    return cores_of(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

static uint64_t quota_v2(const char *folder)
{
    char text[128], *end; /* "max 100000" or "50000 100000" */
    if (!read_in(folder, "cpu.max", text, sizeof text))
        return 0;
    const int64_t quota = strtoll(text, &end, 10);
    return end == text ? 0 : cores_of(quota, strtoll(end, NULL, 10));
}

static uint64_t memory_file(const char *folder, const char *name)
{
    char text[64];
    return read_in(folder, name, text, sizeof text) ? strtoull(text, NULL, 10) : 0; /* "max" gives 0 */
}
static uint64_t memory_v1(const char *folder)
{
    return memory_file(folder, "memory.limit_in_bytes");
}
static uint64_t memory_v2(const char *folder)
{
    return memory_file(folder, "memory.max");
}

static uint64_t lower(uint64_t value, uint64_t limit)
{
    return limit && limit < value ? limit : value;
}

static uint64_t cores_of_affinity(void)
{
#ifdef __linux__
    for (size_t n = 1024; n <= (size_t)1 << 20; n *= 4) { /* the kernel refuses a set smaller than its own */
        cpu_set_t   *set   = CPU_ALLOC(n);
        const size_t bytes = CPU_ALLOC_SIZE(n);
        if (!set)
            break;
        const int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return (uint64_t)count;
    }
#endif
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint64_t)online : 1;
}

int32_t opf_cpu_usable_cores(void)
{
    uint64_t cores = cores_of_affinity();
    cores          = lower(cores, lowest("", "/sys/fs/cgroup", quota_v2));
    cores          = lower(cores, lowest("cpu", "/sys/fs/cgroup/cpu", quota_v1));
    return cores < 1 ? 1 : cores > INT32_MAX ? INT32_MAX : (int32_t)cores;
}

size_t opf_cpu_memory_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t   bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : (uint64_t)1 << 30;
    bytes            = lower(bytes, lowest("", "/sys/fs/cgroup", memory_v2));
    bytes            = lower(bytes, lowest("memory", "/sys/fs/cgroup/memory", memory_v1));
    return bytes > SIZE_MAX ? SIZE_MAX : (size_t)bytes;
}
