# SPDX-License-Identifier: Apache-2.0
"""Builds what the tests need and runs every suite; the last line counts the tests of all of them.

    python3 tests/run.py [--long] [SUITE…]

Output of a suite goes to build/tests/SUITE.log; what failed is shown. With CI=true warnings are errors. Each suite
ends with "N passed, N failed, N skipped", or is a folder of cmocka programs, whose functions are counted.

LANES suites run at a time, in the order of SUITES, so that a core is not idle where a suite uses one. What suites share
on disk they make one at a time (harness.alone).
"""

import concurrent.futures
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
LOGS = BUILD / "tests"
PYTHON = BUILD / "venv" / "bin" / "python"
VENV_STAMP = BUILD / "venv" / ".ready"
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)
CI = os.environ.get("CI") == "true"
TIMEOUT = 1200
CORES = len(os.sched_getaffinity(0))
LANES = 2


class Suite:
    def __init__(self, name, run, needs_venv=False, long=False):
        self.name, self.run, self.needs_venv, self.long = name, run, needs_venv, long


def execute(command, log, timeout=TIMEOUT, **environment):
    """Runs a command, appends it and its output to the log and returns (exit code, output)."""
    try:
        done = subprocess.run(list(map(str, command)), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=timeout, env={**os.environ, **environment}, check=False)
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as expired:
        code, output = -999, (expired.stdout or b"").decode(errors="replace") + f"\nno end within {timeout} s\n"
    log.write(f"$ {' '.join(map(str, command))}\n{output}")  # at once: other commands may write between
    return code, output


def build(preset, log, *options):
    """Configures and builds a preset with the tests; True when that worked."""
    werror = "ON" if CI else "OFF"
    configure = ["cmake", "--preset", preset, "-DOPFUSE_TESTS=ON", f"-DOPFUSE_WERROR={werror}", *options]
    compile_all = ["cmake", "--build", "--preset", preset, "-j", str(CORES)]
    return all(execute(command, log)[0] == 0 for command in (configure, compile_all))


# Whether each build that suites share has worked; it is made by the first of them, and the others wait.
BUILDS = {preset: (threading.Lock(), []) for preset in ("release", "asan", "tsan")}


def built(preset, log):
    lock, result = BUILDS[preset]
    with lock:
        if not result:
            result.append(build(preset, log))
        return result[0]


def tap_counts(output, code, name, log):
    """Counts a cmocka program's TAP lines. Tests that a crash kept from running have failed."""
    planned = sum(map(int, re.findall(r"^1\.\.(\d+)$", output, re.MULTILINE)))
    lines = re.findall(r"^(ok|not ok) \d+(.*)$", output, re.MULTILINE)
    skipped = sum(1 for _, rest in lines if "# SKIP" in rest)
    passed = sum(1 for state, rest in lines if state == "ok" and "# SKIP" not in rest)
    failed = len(lines) - passed - skipped + max(0, max(planned, 1) - len(lines))
    if code != 0 and failed == 0:
        failed = 1  # a leak or a sanitizer's report after the last test
    if failed:
        log.write(f"FAIL {name}: exit code {code}\n")
    return passed, failed, skipped


def run_program(program, log, arguments=(), timeout=600):
    """The counts of a cmocka program."""
    code, output = execute([program, *arguments], log, timeout, CMOCKA_MESSAGE_OUTPUT="TAP", **SANITIZER)
    return tap_counts(output, code, program.name, log)


# The longest programs begin first, so that none of them is alone at the end.
LONGEST = ("test_bands", "test_panelwise", "test_attention", "test_rule_graphs", "test_embedding", "test_random_graphs", "test_conv_transpose", "test_concat")


def unit(preset):
    """Every cmocka program of a build, one on each core."""

    def run(log):
        if not built(preset, log):
            return 0, 1, 0
        programs = sorted(p for p in (BUILD / preset / "tests").glob("test_*") if os.access(p, os.X_OK) and p.is_file())
        programs.sort(key=lambda p: LONGEST.index(p.name) if p.name in LONGEST else len(LONGEST))
        with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
            counts = list(pool.map(lambda program: run_program(program, log), programs))
        return functools.reduce(add, counts) if counts else (0, 1, 0)

    return run


SANITIZER = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1",
}


def add(a, b):
    return tuple(x + y for x, y in zip(a, b))


def counted(*command, before=None, **environment):
    """A command that ends with a line of counts."""

    def run(log):
        if before and not before(log):
            return 0, 1, 0
        code, output = execute(command, log, **environment)
        found = COUNTS.findall(output)
        if not found:
            return 0, 1, 0
        passed, failed, skipped = map(int, found[-1])
        return passed, max(failed, 1 if code != 0 else 0), skipped

    return run


def script(name, *arguments, **options):
    return counted(PYTHON if VENV_STAMP.exists() else sys.executable, "tests/" + name, *arguments, **options)


def clang_build(log):
    """The sources are clean with clang too."""
    if not shutil.which("clang"):
        return 0, 0, 1
    done = build("debug", log, "-DCMAKE_C_COMPILER=clang", "-B", str(BUILD / "clang"))
    return (1, 0, 0) if done else (0, 1, 0)


def random_graphs(log):
    """Graphs that no run has drawn before: what fails is named by its seed."""
    seed, total = int(time.time()) << 20, (0, 0, 0)
    for name, count in (("test_rule_graphs", 6_000_000), ("test_random_graphs", 100_000)):
        total = add(total, run_program(BUILD / "release" / "tests" / name, log, (seed, count), 4 * 3600))
    return total


def random_kernels(log):
    """Operands that no run has drawn before. Bounds are those of the mean and of many draws, so a seed may exceed one by a little."""
    first = int(time.time())
    runs = [counted(BUILD / "release" / "tests" / "checkkernels", seed)(log) for seed in range(first, first + 50)]
    return functools.reduce(add, runs)


def rule_graphs_asan(log):
    """All of what unit-asan runs a sample of."""
    return run_program(BUILD / "asan" / "tests" / "test_rule_graphs", log, (1,)) if built("asan", log) else (0, 1, 0)


ASAN = {"OPFUSE": str(BUILD / "asan" / "opfuse"), "before": functools.partial(built, "asan"), **SANITIZER}
# In the order in which they begin. What builds comes early, what is short comes last.
SUITES = [
    Suite("lint", counted(sys.executable, "tests/lint.py")),
    Suite("unit-asan", unit("asan")),
    Suite("docs", counted(sys.executable, "tests/docs.py")),
    Suite("conform", script("conform.py"), needs_venv=True),
    Suite("signatures", script("signatures.py"), needs_venv=True),
    Suite("real", script("real_models.py"), needs_venv=True),
    Suite("unit", unit("release")),
    Suite("conform-asan", script("conform.py", "--quick", "--threads", "2", **ASAN), needs_venv=True),
    Suite("optimize", script("optimize.py"), needs_venv=True),
    Suite("corpus-robust", script("corpus.py", "robust", "--sample", "600", **ASAN), needs_venv=True),
    Suite("oracle", script("oracle.py"), needs_venv=True),
    Suite("bench", script("bench.py"), needs_venv=True),
    Suite("examples", script("examples.py"), needs_venv=True),
    Suite("checkkernels", counted(BUILD / "release" / "tests" / "checkkernels")),
    Suite("corpus", script("corpus.py", "results"), needs_venv=True),
    Suite("cli", script("cli.py"), needs_venv=True),
    Suite("contrib", script("contrib.py"), needs_venv=True),
    Suite("cases", script("cases.py"), needs_venv=True),
    Suite("cases-asan", script("cases.py", **ASAN), needs_venv=True, long=True),
    Suite("cli-asan", script("cli.py", **ASAN), needs_venv=True, long=True),
    Suite("unit-tsan", unit("tsan"), long=True),
    Suite("rule-graphs-asan", rule_graphs_asan, long=True),
    Suite("conform-scalar", script("conform.py", "--cpu", "scalar"), needs_venv=True, long=True),
    Suite("conform-avx2", script("conform.py", "--cpu", "avx2"), needs_venv=True, long=True),
    Suite("corpus-asan", script("corpus.py", "results", **ASAN), needs_venv=True, long=True),
    Suite("corpus-robust-all", script("corpus.py", "robust", **ASAN), needs_venv=True, long=True),
    Suite("optimize-all", script("optimize.py", "--all", timeout=7200), needs_venv=True, long=True),
    Suite("zoo", script("zoo.py", timeout=7200), needs_venv=True, long=True),
    Suite("random-graphs", random_graphs, long=True),
    Suite("random-kernels", random_kernels, long=True),
    Suite("clang", clang_build, long=True),
]


def failures(path):
    """The lines of a log that say what failed, else its last ones."""
    lines = path.read_text().splitlines()
    found = [line for line in lines if re.match(r"FAIL |not ok |.*(error|runtime error|ERROR): ", line)]
    return ["    " + line for line in (found or lines)[-30:]]


def run_suite(suite):
    """(counts, what to print)"""
    if suite.needs_venv and not VENV_STAMP.exists():
        return (0, 0, 1), [f"{suite.name:18} skipped: the Python packages of tests/requirements.txt are not installed"]
    path = LOGS / f"{suite.name}.log"
    start = time.monotonic()
    with open(path, "w") as log:
        counts = suite.run(log)
    lines = ["{:18} {:5} passed, {:3} failed, {:3} skipped  {:6.1f} s".format(suite.name, *counts, time.monotonic() - start)]
    if counts[1]:
        lines += [*failures(path), f"    all of it: {path.relative_to(ROOT)}"]
    return counts, lines


def main():
    if "--help" in sys.argv or "-h" in sys.argv:
        sys.exit(print(__doc__ + "\nSuites: " + ", ".join(suite.name + (" (--long)" if suite.long else "") for suite in SUITES)))
    LOGS.mkdir(parents=True, exist_ok=True)
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    unknown = set(names) - {suite.name for suite in SUITES}
    if unknown:
        sys.exit(f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(s.name for s in SUITES)}")
    chosen = [s for s in SUITES if (s.name in names if names else not s.long or "--long" in sys.argv)]
    total = (0, 0, 0)
    with open(LOGS / "build.log", "w") as log:
        is_built = built("release", log)
    if is_built:
        with concurrent.futures.ThreadPoolExecutor(LANES) as pool:
            for done in concurrent.futures.as_completed([pool.submit(run_suite, suite) for suite in chosen]):
                counts, lines = done.result()
                print("\n".join(lines), flush=True)
                total = add(total, counts)
    else:
        print("\n".join(["build              failed", *failures(LOGS / "build.log")]))
        total = (0, 1, 0)
    summary = "{} passed, {} failed, {} skipped".format(*total)
    (LOGS / "summary.txt").write_text(summary + "\n")
    print(summary)
    sys.exit(1 if total[1] else 0)


if __name__ == "__main__":
    main()
