# SPDX-License-Identifier: Apache-2.0
"""Rules about the sources themselves: who may include whom, sizes, order of lists, licence lines."""

import concurrent.futures
import os
import re
import subprocess
import sys

from harness import ROOT, Tally

# A layer includes itself and what it depends on.
LAYERS = {
    "base": set(),
    "cpu": {"base"},
    "graph": {"base"},
    "kernels": {"base", "cpu"},
    "ops": {"base", "cpu", "graph", "kernels"},
    "onnx": {"base", "cpu", "graph", "kernels", "ops"},
    "simplify": {"base", "cpu", "graph", "kernels", "ops"},
}
LAYERS["fuse"] = LAYERS["ops"] | {"ops", "onnx", "simplify"}
LAYERS["plan"] = LAYERS["fuse"] | {"fuse"}
LAYERS["exec"] = LAYERS["plan"] | {"plan"}
API = LAYERS["exec"] | {"exec"}

MAX_LINES = 800
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
GENERATED = {"onnx/onnx.pb.h", "fuse/builtin_rules.def"}


def sources(folder, *suffixes):
    return sorted(p for p in (ROOT / folder).rglob("*") if p.suffix in suffixes)


def includes(path):
    return INCLUDE.findall(path.read_text())


def check_layer(path):
    """An error text, or None."""
    relative = path.relative_to(ROOT / "src")
    layer = relative.parts[0] if len(relative.parts) > 1 else None
    allowed = API if layer is None else LAYERS.get(layer)
    if allowed is None:
        return f"{layer}/ is no layer that the design knows"
    for mark, name in includes(path):
        if mark == "<" or name == "opfuse/opfuse.h" or name in GENERATED:
            continue
        if (path.parent / name).exists() and "/" not in name:
            target = path.parent / name
        else:
            target = ROOT / "src" / name
        if not target.exists():
            return f'"{name}" is not below src/'
        parts = target.relative_to(ROOT / "src").parts
        if len(parts) > 1 and parts[0] != layer and parts[0] not in allowed:
            return f'{layer or "the API"} must not include "{name}"'
    return None


def check_cli(path):
    """The tool stands on the public header alone, as any program of a user does."""
    for mark, name in includes(path):
        own = (path.parent / name).exists() and "/" not in name
        if mark == '"' and not own and name != "opfuse/opfuse.h":
            return f'"{name}" is neither the public header nor in its own folder'
    return None


def find_cycle():
    """A chain of headers that include each other, or None."""
    graph = {}
    for path in sources("src", ".h"):
        name = str(path.relative_to(ROOT / "src"))
        graph[name] = [t for _, t in includes(path) if (ROOT / "src" / t).exists()]
    done, trail = set(), []

    def visit(name):
        if name in trail:
            return " -> ".join(trail[trail.index(name):] + [name])
        if name in done:
            return None
        trail.append(name)
        for target in graph.get(name, ()):
            cycle = visit(target)
            if cycle:
                return cycle
        trail.pop()
        done.add(name)
        return None

    return next(filter(None, map(visit, list(graph))), None)


def check_header(path):
    """Each header compiles alone. Vector headers need the instruction set of their level."""
    flags = ["-std=c17", "-D_GNU_SOURCE", "-Iinclude", "-Isrc", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    if "simd" in path.parts or "vec" in path.parts:
        if os.uname().machine != "x86_64":
            return None
        level = "-mavx512f -mavx512bw -mavx512dq -mavx512vl" if "512" in path.name else ""
        flags += ["-mavx2", "-mfma", "-mf16c", *level.split()]
    done = subprocess.run(["cc", *flags, "-fsyntax-only", "-x", "c", str(path)], cwd=ROOT, capture_output=True,
                          text=True, check=False)
    errors = [line for line in done.stderr.splitlines() if "error" in line and "pragma once" not in line]
    return errors[0] if done.returncode else None


def check_public_header():
    """Usable from C++ too."""
    text = '#include "opfuse/opfuse.h"\nint main() { return opf_version() == nullptr; }\n'
    for compiler in ("c++", "clang++"):
        try:
            done = subprocess.run([compiler, "-std=c++11", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-fsyntax-only",
                                   "-x", "c++", "-"], input=text, cwd=ROOT, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            continue
        return done.stderr.splitlines()[0] if done.returncode else None
    return "no C++ compiler"


def check_sorted(path):
    names = re.findall(r"^OPF_OP\((\w+)\)", path.read_text(), re.MULTILINE)
    return next((f"{b} stands after {a}" for a, b in zip(names, names[1:]) if b <= a), None)


def check_tested(name):
    """Each operator is looked at by a unit test of its own, beside the cases of the backend suite."""
    files = [*(ROOT / "tests" / "unit").glob("test_ops_*.c"), ROOT / "tests" / "unit" / "test_control.c"]
    use = re.compile(rf"\b(opf_op_{name}\b|(RUN|RUN_OK|REFUSE)\({name},|{name}[<(])")
    return None if any(use.search(path.read_text()) for path in files) else "no unit test of operators runs it"


def check_shape(path):
    """Size of a file and its licence line."""
    lines = path.read_text().splitlines()
    if len(lines) > MAX_LINES:
        return f"{len(lines)} lines, at most {MAX_LINES}"
    if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:2]):
        return "no SPDX line at its head"
    return None


def main():
    tally = Tally()
    for path in sources("src", ".c", ".h"):
        tally.result(f"layer {path.relative_to(ROOT)}", check_layer(path))
    for path in sources("cli", ".c", ".h"):
        tally.result(f"cli {path.relative_to(ROOT)}", check_cli(path))
    cycle = find_cycle()
    tally.result("no include cycle", cycle)
    headers = sources("src", ".h") + sources("include", ".h") + sources("cli", ".h")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, error in zip(headers, pool.map(check_header, headers)):
            tally.result(f"alone {path.relative_to(ROOT)}", error)
    error = check_public_header()
    if error == "no C++ compiler":
        tally.skip("opfuse.h in C++", error)
    else:
        tally.result("opfuse.h in C++", error)
    tally.result("ops.def sorted", check_sorted(ROOT / "src" / "ops" / "ops.def"))
    for name in re.findall(r"^OPF_OP\((\w+)\)", (ROOT / "src" / "ops" / "ops.def").read_text(), re.MULTILINE):
        tally.result(f"tested {name}", check_tested(name))
    for folder in ("src", "include", "cli", "bench", "tests", "examples", "scripts"):
        for path in sources(folder, ".c", ".h", ".py", ".sh"):
            tally.result(f"shape {path.relative_to(ROOT)}", check_shape(path))
    tally.finish()


if __name__ == "__main__":
    sys.exit(main())
