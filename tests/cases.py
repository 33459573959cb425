# SPDX-License-Identifier: Apache-2.0
"""Runs a folder of small models with right answers (default: ../shared/cases, when it is there).

A case is a folder with case.json: `expect` (run, reject, "run or reject", manual), bounds `rtol` and `atol`, and
`ops_after`, counts of operators in the fused graph. Results are checked as NAME, counts as NAME:ops. Gaps that are
known stand in tests/cases_skip.txt with a reason.

probes/probes.tsv lists models without answers: `verify` must hold, no more kernels than it says may remain, and as many
must run as explain counts. They are checked as probes/NAME.
"""

import concurrent.futures
import json
import os
import pathlib
import sys

import onnx

from harness import ROOT, Tally, last_line, opfuse, opfuse_json

REJECTED = 3


def check_run(folder, case):
    report = opfuse_json("test", folder, "--rtol", case["rtol"], "--atol", case["atol"], codes=(0, 1, 3))
    result = report["cases"][0]
    return None if result["status"] == "passed" else f"{result['status']}: {result['reason']}"


def input_arguments(folder):
    """-i for each input file; a nameless tensor belongs to the input of its index."""
    names = [value.name for value in onnx.load(folder / "model.onnx", load_external_data=False).graph.input]
    for path in sorted((folder / "test_data_set_0").glob("input_*.pb")):
        tensor = onnx.TensorProto.FromString(path.read_bytes())
        index = int(path.stem.rpartition("_")[2])
        yield from ("-i", f"{tensor.name or names[index]}={path}")


def check_reject(folder):
    done = opfuse("run", folder / "model.onnx", *input_arguments(folder))
    if done.returncode != REJECTED:
        return f"exit code {done.returncode}, must be {REJECTED}: {last_line(done.stderr)}"
    if not done.stderr.strip() or done.stdout:
        return "a rejected model must give a message on stderr and nothing on stdout"
    return None


def check_ops(folder, case):
    after = opfuse_json("explain", folder / "model.onnx")["ops_after"]
    wrong = [f"{op}: {after.get(op, 0)}, must be {count}" for op, count in case["ops_after"].items()
             if after.get(op, 0) != count]
    return "; ".join(wrong) or None


def check_outcome(folder, case):
    if case["expect"] == "run":
        return check_run(folder, case)
    if case["expect"] == "reject":
        return check_reject(folder)
    return None if check_reject(folder) is None else check_run(folder, case)


def check_probe(model, most):
    """most: kernels that may remain; empty: any number."""
    done = opfuse("verify", model, "--quiet")
    if done.returncode == REJECTED and "unsupported operator" in done.stderr:
        return None
    if done.returncode:
        return f"verify: exit code {done.returncode}: {last_line(done.stderr)}"
    kernels = opfuse_json("explain", model)["nodes_after"]
    steps = len(opfuse_json("bench", model, "--runs", 1, "--warmup", 0, "--quiet")["steps"])
    if steps != kernels:
        return f"explain counts {kernels} kernels, bench runs {steps}"
    return f"{kernels} kernels are left, must be at most {most}" if most and kernels > int(most) else None


def probes_of(root):
    """(name, model, most) of each probe."""
    table = root / "probes" / "probes.tsv"
    for line in table.read_text().splitlines()[1:] if table.exists() else ():
        name, _, most = (line + "\t\t").split("\t")[:3]
        yield f"probes/{name}", root / "probes" / f"{name}.onnx", most


def attempt(check, *arguments):
    try:
        return check(*arguments)
    except Exception as error:  # whatever goes wrong belongs to this case alone
        return f"{type(error).__name__}: {error}"


def checks_of(folder):
    """(name, error) of each check of a case; error "manual" for a case that is no test."""
    case = json.loads((folder / "case.json").read_text())
    if case["expect"] == "manual":
        return [(folder.name, "manual")]
    results = [(folder.name, attempt(check_outcome, folder, case))]
    if "ops_after" in case:
        results.append((folder.name + ":ops", attempt(check_ops, folder, case)))
    return results


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT.parent / "shared" / "cases"
    tally = Tally(ROOT / "tests" / "cases_skip.txt")
    folders = sorted(path.parent for path in root.glob("*/case.json"))
    if not folders:
        tally.skip("cases", f"there is no folder {os.path.relpath(root, ROOT)}")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for results in pool.map(checks_of, folders):
            for name, error in results:
                if error == "manual":
                    tally.skip(name, "measured by hand")
                else:
                    tally.result(name, error)
        probes = list(probes_of(root))
        for (name, _, _), error in zip(probes, pool.map(lambda probe: attempt(check_probe, *probe[1:]), probes)):
            tally.result(name, error)
    tally.finish()


if __name__ == "__main__":
    main()
