# SPDX-License-Identifier: Apache-2.0
"""Carries out the how-to pages of docs/: a page is right when its own listings build and its own test passes.

A fenced block says what it is for in its first line, after the language:
    file=PATH       a new file
    insert=PATH     lines for a list that is kept sorted between its neighbours
    after=PATH      a line of PATH begins as the first line does; the others go in after it
    run             commands, run in the tree after it is built; $BUILD is the build folder
The C example of README.md is compiled too, docs/fusions.md and docs/operators.md must be what their scripts in scripts/
write, and the tests that docs/conditions.md names must exist. The source tree is copied to build/docs-test/tree. The listings
of all pages go in before the first commands run: the tree is built once.
"""

import os
import re
import shutil
import subprocess
import sys

from harness import BUILD, ROOT, Tally

PAGES = ("add-an-operator.md", "add-a-kernel.md", "add-a-fusion.md")
COPIED = ("CMakeLists.txt", "CMakePresets.json", "cmake", "include", "src", "cli", "bench", "examples", "tests")
TREE = BUILD / "docs-test" / "tree"
OUT = BUILD / "docs-test" / "build"
BLOCK = re.compile(r"^```(\w+) (run|file|insert|after)(?:=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def copy_tree():
    """Copies what changed, so that a second run compiles little; files that are not in the sources go."""
    wanted = set()
    for name in COPIED:
        source = ROOT / name
        for path in [source] if source.is_file() else source.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                relative = path.relative_to(ROOT)
                wanted.add(relative)
                target = TREE / relative
                if not target.exists() or target.read_bytes() != path.read_bytes():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, target)
    for path in list(TREE.rglob("*")):
        if path.is_file() and path.relative_to(TREE) not in wanted:
            path.unlink()


def insert_sorted(path, lines):
    present = path.read_text().splitlines()
    for line in lines:
        last = max((i for i, other in enumerate(present) if other < line and other[:1] == line[:1]), default=len(present) - 1)
        present.insert(last + 1, line)
    path.write_text("\n".join(present) + "\n")


def insert_after(path, lines):
    present = path.read_text().splitlines()
    at = next((i + 1 for i, line in enumerate(present) if line.startswith(lines[0])), None)
    if at is None:
        raise AssertionError(f"{path.relative_to(TREE)} has no line that begins {lines[0]!r}")
    path.write_text("\n".join(present[:at] + lines[1:] + present[at:]) + "\n")


def command(*words, shell=False):
    environment = {**os.environ, "BUILD": str(OUT)}
    done = subprocess.run(words[0] if shell else words, cwd=TREE, shell=shell, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        errors = [line for line in lines if re.search(r"error|FAIL|\*\*\*", line, re.IGNORECASE)] or lines
        raise AssertionError(" / ".join(errors[:3]))


def apply(page):
    """Applies a page's listings in order."""
    blocks = BLOCK.findall((ROOT / "docs" / page).read_text())
    if len({kind == "run" for _, kind, _, _ in blocks}) != 2:
        raise AssertionError("the page has no listings, or no commands")
    for _, kind, name, text in blocks:
        if kind == "file":
            path = TREE / name
            if path.exists():
                raise AssertionError(f"{name} exists already")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif kind == "insert":
            insert_sorted(TREE / name, text.splitlines())
        elif kind == "after":
            insert_after(TREE / name, text.splitlines())


def run_commands(page):
    command("cmake", "-S", TREE, "-B", OUT, "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O1", "-DOPFUSE_TESTS=ON")
    for _, kind, _, text in BLOCK.findall((ROOT / "docs" / page).read_text()):
        if kind == "run":
            command(text, shell=True)


def check_readme():
    """Its example compiles against the public header."""
    example = re.search(r"^```c\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL).group(1)
    path = TREE.parent / "readme.c"
    path.write_text(example)
    command("cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-fsyntax-only", path)


def check_made(script):
    """A page that a script writes is what it would write now."""
    done = subprocess.run([sys.executable, ROOT / "scripts" / script, "--check"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stderr.strip().splitlines()[-1])


def held_by(reference):
    """Whether a test of docs/conditions.md exists: a paragraph of tests/conditions, or a function of tests/unit that runs."""
    file, _, name = reference.partition(" ")
    path = ROOT / "tests" / ("unit/" + file if file.endswith(".c") else f"conditions/{file}.txt")
    if not path.exists():
        return False
    text = path.read_text()
    if file.endswith(".c"):
        return len(re.findall(rf"\b{name}\b", text)) >= 2
    return name in covered(text)


def covered(text):
    """Numbers of the paragraphs of a file of tests/conditions."""
    return {match.group(1) for match in re.finditer(r"(?:\A|\n\n)(\d+) ", text)}


def check_conditions():
    """The page lists conditions 1 to 100 in order, each with tests that exist, and every tested graph has its row."""
    rows = re.findall(r"^\| (\d+) \|([^|]+)\|(.+)\|$", (ROOT / "docs" / "conditions.md").read_text(), re.MULTILINE)
    if [int(number) for number, _, _ in rows] != list(range(1, 101)):
        raise AssertionError("the conditions are not those from 1 to 100, in order")
    named = set()
    for number, _, tests in rows:
        references = re.findall(r"`([^`]+)`", tests)
        missing = [reference for reference in references if not held_by(reference)]
        if missing or not references:
            raise AssertionError(f"condition {number} names no test that exists: {', '.join(missing)}")
        named.update(references)
    for path in sorted((ROOT / "tests" / "conditions").glob("*.txt")):
        for number in covered(path.read_text()):
            if f"{path.stem} {number}" not in named:
                raise AssertionError(f"tests/conditions/{path.name} has condition {number}, which the page does not name")


MADE = {"fusions.md": "make_fusions_md.py", "operators.md": "make_operators_md.py"}


def attempt(action, *arguments):
    """What is wrong, or None."""
    try:
        action(*arguments)
    except (AssertionError, OSError) as error:
        return str(error) or type(error).__name__
    return None


def main():
    tally = Tally()
    copy_tree()
    tally.result("README.md", attempt(check_readme))
    tally.result("conditions.md", attempt(check_conditions))
    for page, script in MADE.items():
        tally.result(page, attempt(check_made, script))
    applied = {page: attempt(apply, page) for page in PAGES}
    for page, error in applied.items():
        tally.result(page, error or attempt(run_commands, page))
    tally.finish()


if __name__ == "__main__":
    sys.exit(main())
