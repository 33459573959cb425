/* SPDX-License-Identifier: Apache-2.0 */
/* opfuse COMMAND [OPTIONS]: finds the command, and prints its result when it has come to an end. */
#include "commands.h"
#include "options.h"

#include <stdlib.h>
#include <string.h>

static const cli_command *const commands[] = {
#define CLI_COMMAND(name) &cli_cmd_##name,
#include "commands.def"
#undef CLI_COMMAND
};

static void print_usage(FILE *out)
{
    (void)fputs("opfuse runs ONNX models on the CPU, fuses their operators and explains every fusion.\n\n"
                "  opfuse COMMAND [OPTIONS]\n\n",
                out);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "%s %s", commands[i]->name, commands[i]->arguments);
        (void)fprintf(out, "  %-16s %s\n", text, commands[i]->summary);
    }
    (void)fputs("  help [COMMAND]   this page, or the options of a command with examples\n\n"
                "Exit codes: 0 done; 1 a check failed; 2 wrong usage; 3 the model or an input was rejected;\n"
                "4 the system failed (memory, files). Results go to stdout, everything else to stderr.\n",
                out);
}

static const cli_command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    cli_die(CLI_USAGE, "there is no command %s; see: opfuse help", name);
}

static void close_stdout(void)
{
    if (fflush(stdout) != 0 || ferror(stdout) != 0)
        cli_die(CLI_SYSTEM, "stdout could not be written");
}

static cli_exit run_command(const cli_command *command, int argc, char **argv)
{
    cli_options options;
    char       *text = NULL;
    size_t      size = 0;
    cli_options_parse(&options, command, argc, argv);
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        cli_die(CLI_SYSTEM, "out of memory");
    cli_exit code = command->run(&options, out);
    cli_progress(&options, "", 0, 0);
    if (fclose(out) != 0)
        cli_die(CLI_SYSTEM, "out of memory");
    cli_write_clean(stdout, text, size);
    free(text);
    cli_options_free(&options);
    return code;
}

int main(int argc, char **argv)
{
    cli_exit code = CLI_DONE;
    if (argc < 2) {
        print_usage(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("opfuse %s\n", opf_version());
    } else if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        if (argc > 2)
            cli_print_help(find_command(argv[2]), stdout);
        else
            print_usage(stdout);
    } else if (argv[1][0] == '-') {
        cli_die(CLI_USAGE, "%s: the command comes first; see: opfuse help", argv[1]);
    } else {
        code = run_command(find_command(argv[1]), argc - 2, argv + 2);
    }
    close_stdout();
    return (int)code;
}
