/* SPDX-License-Identifier: Apache-2.0 */
/* The rules that come with the library: their texts are in a list that the build makes of rules/rules.list. */
#include "fuse/builtin.h"

#include <string.h>

#ifdef __GNUC__
#pragma GCC diagnostic ignored "-Woverlength-strings"
#endif

const opf_builtin_rule opf_builtin_rules[] = {
#define OPF_OPS(...) (const opf_op *const[]){__VA_ARGS__, NULL}
#define OPF_RULE(name, family, ops, text) {name, family, ops, text},
#include "fuse/builtin_rules.def"
#undef OPF_RULE
#undef OPF_OPS
    {NULL, NULL, NULL, NULL},
};

const char *const *opf_fuse_rule_names(void)
{
    static const char *const names[] = {
#define OPF_RULE(name, family, ops, text) name,
#define OPF_ABSORBER(name)
#define OPF_ABSORBED(name, family) name,
#include "fuse/builtin_rules.def"
#include "fuse/absorbers.def"
#undef OPF_RULE
#undef OPF_ABSORBER
#undef OPF_ABSORBED
        NULL,
    };
    return names;
}

const char *opf_fuse_family(const char *rule)
{
    static const struct {
        const char *name, *family;
    } absorbed[] = {
#define OPF_ABSORBER(name)
#define OPF_ABSORBED(name, family) {name, family},
#include "fuse/absorbers.def"
#undef OPF_ABSORBER
#undef OPF_ABSORBED
    };
    for (const opf_builtin_rule *builtin = opf_builtin_rules; builtin->name != NULL; builtin++)
        if (strcmp(builtin->name, rule) == 0)
            return builtin->family;
    for (size_t i = 0; i < sizeof absorbed / sizeof absorbed[0]; i++)
        if (strcmp(absorbed[i].name, rule) == 0)
            return absorbed[i].family;
    return NULL;
}
