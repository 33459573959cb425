# SPDX-License-Identifier: Apache-2.0
"""Builds what the tests need and runs every suite; the last line counts the tests of all of them.

    python3 tests/run.py [--long] [SUITE…]

Output of a suite goes to build/tests/SUITE.log; what failed is shown. With CI=true warnings are errors. Each suite
ends with "N passed, N failed, N skipped", or is a folder of cmocka programs, whose functions are counted.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
LOGS = BUILD / "tests"
PYTHON = BUILD / "venv" / "bin" / "python"
VENV_STAMP = BUILD / "venv" / ".ready"
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)
CI = os.environ.get("CI") == "true"
TIMEOUT = 1200


class Suite:
    def __init__(self, name, run, needs_venv=False, long=False):
        self.name, self.run, self.needs_venv, self.long = name, run, needs_venv, long


def execute(command, log, timeout=TIMEOUT, **environment):
    """Runs a command, appends its output to the log and returns (exit code, output)."""
    log.write("$ " + " ".join(map(str, command)) + "\n")
    log.flush()
    try:
        done = subprocess.run(list(map(str, command)), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=timeout, env={**os.environ, **environment}, check=False)
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as expired:
        code, output = -999, (expired.stdout or b"").decode(errors="replace") + f"\nno end within {timeout} s\n"
    log.write(output)
    return code, output


def build(preset, log, *options):
    """Configures and builds a preset with the tests; True when that worked."""
    werror = "ON" if CI else "OFF"
    configure = ["cmake", "--preset", preset, "-DOPFUSE_TESTS=ON", f"-DOPFUSE_WERROR={werror}", *options]
    compile_all = ["cmake", "--build", "--preset", preset, "-j", str(os.cpu_count())]
    return all(execute(command, log)[0] == 0 for command in (configure, compile_all))


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


def unit(preset):
    """Every cmocka program of a build."""

    def run(log):
        if preset != "release" and not build(preset, log):
            return 0, 1, 0
        programs = sorted(p for p in (BUILD / preset / "tests").glob("test_*") if os.access(p, os.X_OK) and p.is_file())
        total = (0, 0, 0) if programs else (0, 1, 0)
        for program in programs:
            code, output = execute([program], log, 300, CMOCKA_MESSAGE_OUTPUT="TAP", **SANITIZER)
            total = add(total, tap_counts(output, code, program.name, log))
        return total

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
        code, output = execute([BUILD / "release" / "tests" / name, seed, count], log, 4 * 3600, CMOCKA_MESSAGE_OUTPUT="TAP")
        total = add(total, tap_counts(output, code, name, log))
    return total


ASAN_TOOL = str(BUILD / "asan" / "opfuse")
SUITES = [
    Suite("lint", counted(sys.executable, "tests/lint.py")),
    Suite("unit", unit("release")),
    Suite("checkkernels", counted(BUILD / "release" / "tests" / "checkkernels")),
    Suite("cli", script("cli.py"), needs_venv=True),
    Suite("conform", script("conform.py"), needs_venv=True),
    Suite("signatures", script("signatures.py"), needs_venv=True),
    Suite("contrib", script("contrib.py"), needs_venv=True),
    Suite("cases", script("cases.py"), needs_venv=True),
    Suite("optimize", script("optimize.py"), needs_venv=True),
    Suite("corpus", script("corpus.py", "results"), needs_venv=True),
    Suite("oracle", script("oracle.py"), needs_venv=True),
    Suite("real", script("real_models.py"), needs_venv=True),
    Suite("examples", script("examples.py"), needs_venv=True),
    Suite("bench", script("bench.py"), needs_venv=True),
    Suite("docs", counted(sys.executable, "tests/docs.py")),
    Suite("unit-asan", unit("asan")),
    Suite("conform-asan", script("conform.py", "--quick", "--threads", "2", OPFUSE=ASAN_TOOL, **SANITIZER), needs_venv=True),
    Suite("corpus-robust", script("corpus.py", "robust", "--sample", "600", OPFUSE=ASAN_TOOL, **SANITIZER), needs_venv=True),
    Suite("cases-asan", script("cases.py", OPFUSE=ASAN_TOOL, **SANITIZER), needs_venv=True, long=True),
    Suite("cli-asan", script("cli.py", OPFUSE=ASAN_TOOL, **SANITIZER), needs_venv=True, long=True),
    Suite("unit-tsan", unit("tsan"), long=True),
    Suite("conform-scalar", script("conform.py", "--cpu", "scalar"), needs_venv=True, long=True),
    Suite("conform-avx2", script("conform.py", "--cpu", "avx2"), needs_venv=True, long=True),
    Suite("corpus-asan", script("corpus.py", "results", OPFUSE=ASAN_TOOL, **SANITIZER), needs_venv=True, long=True),
    Suite("corpus-robust-all", script("corpus.py", "robust", OPFUSE=ASAN_TOOL, **SANITIZER), needs_venv=True, long=True),
    Suite("optimize-all", script("optimize.py", "--all", timeout=7200), needs_venv=True, long=True),
    Suite("zoo", script("zoo.py", timeout=7200), needs_venv=True, long=True),
    Suite("random-graphs", random_graphs, long=True),
    Suite("clang", clang_build, long=True),
]


def show_failures(path):
    lines = path.read_text().splitlines()
    failures = [line for line in lines if re.match(r"FAIL |not ok |.*(error|runtime error|ERROR): ", line)]
    for line in (failures or lines)[-30:]:
        print("    " + line)


def run_suite(suite):
    if suite.needs_venv and not VENV_STAMP.exists():
        print(f"{suite.name:18} skipped: the Python packages of tests/requirements.txt are not installed")
        return 0, 0, 1
    path = LOGS / f"{suite.name}.log"
    start = time.monotonic()
    with open(path, "w") as log:
        counts = suite.run(log)
    print(f"{suite.name:18} {counts[0]:5} passed, {counts[1]:3} failed, {counts[2]:3} skipped  {time.monotonic() - start:6.1f} s")
    if counts[1]:
        show_failures(path)
        print(f"    all of it: {path.relative_to(ROOT)}")
    sys.stdout.flush()
    return counts


def main():
    LOGS.mkdir(parents=True, exist_ok=True)
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    unknown = set(names) - {suite.name for suite in SUITES}
    if unknown:
        sys.exit(f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(s.name for s in SUITES)}")
    chosen = [s for s in SUITES if (s.name in names if names else not s.long or "--long" in sys.argv)]
    total = (0, 0, 0)
    with open(LOGS / "build.log", "w") as log:
        built = build("release", log)
    if built:
        for suite in chosen:
            total = add(total, run_suite(suite))
    else:
        print("build              failed")
        show_failures(LOGS / "build.log")
        total = (0, 1, 0)
    summary = "{} passed, {} failed, {} skipped".format(*total)
    (LOGS / "summary.txt").write_text(summary + "\n")
    print(summary)
    sys.exit(1 if total[1] else 0)


if __name__ == "__main__":
    main()
