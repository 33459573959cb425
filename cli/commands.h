/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPFUSE_CLI_COMMANDS_H
#define OPFUSE_CLI_COMMANDS_H

#include "cli.h"

#define CLI_COMMAND(name) extern const cli_command cli_cmd_##name;
#include "commands.def"
#undef CLI_COMMAND

#endif
