# SPDX-License-Identifier: Apache-2.0
"""What the test scripts share: where things lie, counting, lists of known gaps, running the tool."""

import contextlib
import fcntl
import fnmatch
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
OPFUSE = pathlib.Path(os.environ.get("OPFUSE", BUILD / "release" / "opfuse"))


@contextlib.contextmanager
def alone(name):
    """No other process is in a block of this name: suites that run side by side make what they share one at a time."""
    BUILD.mkdir(exist_ok=True)
    with open(BUILD / f".{name}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Tally:
    """Counts checks, prints what did not pass, and ends with the line that tests/run.py reads."""

    def __init__(self, skip_list=None):
        self.passed = self.failed = self.skipped = 0
        self.gaps = read_skip_list(skip_list) if skip_list else []

    def result(self, name, error=None):
        """One check: error is None when it passed. A known gap that passes is a failure: the list must shrink."""
        reason = next((reason for pattern, reason in self.gaps if fnmatch.fnmatchcase(name, pattern)), None)
        if reason is None and error is None:
            self.passed += 1
        elif reason is None:
            self.failed += 1
            print(f"FAIL {name}: {error}")
        elif error is None:
            self.failed += 1
            print(f"FAIL {name}: passes, but is listed as a known gap ({reason})")
        else:
            self.skip(name, reason)

    def skip(self, name, reason):
        self.skipped += 1
        print(f"SKIP {name}: {reason}")

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        sys.stdout.flush()
        sys.exit(1 if self.failed else 0)


def read_skip_list(path):
    """Lines "PATTERN REASON…"; # starts a comment."""
    gaps = []
    for line in pathlib.Path(path).read_text().splitlines():
        fields = line.split(None, 1)
        if fields and not fields[0].startswith("#"):
            gaps.append((fields[0], fields[1] if len(fields) > 1 else "no reason given"))
    return gaps


def opfuse(*arguments, timeout=120, **options):
    """Runs the tool. A crash or a hang shows as a return code that no contract knows."""
    command = [str(OPFUSE), *map(str, arguments)]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **options)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, -999, "", f"no end within {timeout} s")


def opfuse_json(*arguments, codes=(0,), timeout=120):
    """Runs the tool with --json; stdout must be one JSON document and nothing else."""
    done = opfuse(*arguments, "--json", timeout=timeout)
    if done.returncode not in codes:
        raise AssertionError(f"exit code {done.returncode}: {last_line(done.stderr)}")
    return json.loads(done.stdout)


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"


def supported_operators():
    """Names of the operators that the tool lists."""
    listed = opfuse_json("ops")["operators"]
    return {f"{op['domain']}/{op['name']}" if op["domain"] else op["name"] for op in listed}
