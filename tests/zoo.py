# SPDX-License-Identifier: Apache-2.0
"""Real architectures against ONNX Runtime: every model of a folder (default: build/zoo).

    python3 tests/zoo.py [FOLDER] [NAME…]

When build/zoo is empty, scripts/export_zoo.sh fills it if it can. Each model runs at several batches and lengths, fused,
unfused and at lower CPU levels, and is verified. An element may differ by 1e-4 + 1e-3·|b|, or by 1e-5 of the largest one:
logits of seeded weights reach 1000, and those of them that are near zero are differences of large terms, where ONNX Runtime
is as far from the exact result.
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

from harness import BUILD, ROOT, Tally, last_line, opfuse, opfuse_json

SIZES = [{"N": 1, "S": 7}, {"N": 3, "S": 33}, {"N": 2, "S": 128}]
MODES = [[], ["--no-fuse"], ["--cpu", "avx2"]]
SMALL = 1.5e9  # FLOPs of a run at N=1 that the scalar level still does in seconds
INTEGERS = {onnx.TensorProto.INT64: np.int64, onnx.TensorProto.INT32: np.int32}


def export(folder):
    """Fills the folder; the reason if that cannot be."""
    done = subprocess.run([ROOT / "scripts" / "export_zoo.sh", folder], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else last_line(done.stderr)


def symbols(graph):
    return {dim.dim_param for value in graph.input for dim in value.type.tensor_type.shape.dim if dim.dim_param}


def make_inputs(graph, sizes, seed):
    random = np.random.default_rng(seed)
    inputs = {}
    for value in graph.input:
        tensor = value.type.tensor_type
        shape = [sizes.get(dim.dim_param, 1) if dim.dim_param else dim.dim_value for dim in tensor.shape.dim]
        if tensor.elem_type not in INTEGERS:
            inputs[value.name] = random.standard_normal(shape).astype(np.float32)
        elif value.name == "input_ids":
            inputs[value.name] = random.integers(0, 1000, shape).astype(INTEGERS[tensor.elem_type])
        else:  # masks and kinds of tokens; no row is masked as a whole
            inputs[value.name] = random.integers(0, 2, shape).astype(INTEGERS[tensor.elem_type])
            inputs[value.name][..., 0] = 1
    return inputs


def difference(actual, expected):
    """What is wrong, or None."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return f"is {actual.dtype}{list(actual.shape)}, must be {expected.dtype}{list(expected.shape)}"
    error = np.abs(actual.astype(np.float64) - expected)
    size = np.abs(expected)
    bound = np.maximum(1e-4 + 1e-3 * size, 1e-5 * size.max(initial=0))
    wrong = int(np.count_nonzero(~(error <= bound)))
    return f"{wrong} of {error.size} elements are wrong, by up to {np.nanmax(error):.3g}" if wrong else None


def run(model, inputs, options, folder):
    """Outputs by name."""
    arguments = []
    for index, (name, value) in enumerate(inputs.items()):
        np.save(folder / f"input_{index}.npy", value)
        arguments += ["-i", f"{name}={folder / f'input_{index}.npy'}"]
    done = opfuse("run", model, *arguments, "-o", folder / "out", *options, timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}: {last_line(done.stderr)}")
    rows = [line.split("\t") for line in (folder / "out" / "outputs.tsv").read_text().splitlines()]
    return {row[0]: np.load(folder / "out" / row[1]) for row in rows if (folder / "out" / row[1]).exists()}


def check_run(model, inputs, expected, options):
    with tempfile.TemporaryDirectory() as folder:
        try:
            actual = run(model, inputs, options, pathlib.Path(folder))
        except (AssertionError, OSError, ValueError) as error:
            return str(error)
    for name, value in expected.items():
        wrong = difference(actual[name], value) if name in actual else "is missing"
        if wrong:
            return f"output {name} {wrong}"
    return None


def check_kernels(path, used):
    """What explain counts is what runs; every node that stays has a condition that failed."""
    sizes = [word for name in sorted(used) for word in ("--dim", f"{name}={2 if name == 'N' else 5}")]
    counted = opfuse_json("explain", path, *sizes)
    steps = opfuse_json("bench", path, "--runs", 1, "--warmup", 0, *sizes, timeout=300)["steps"]
    if len(steps) != counted["nodes_after"]:
        return f"explain counts {counted['nodes_after']} kernels, {len(steps)} ran"
    weak = [entry["node"] for entry in counted["kept"] if not entry["reason"] or entry["code"] == "NO_GAIN"]
    return f"kept without a condition that failed: {weak[:5]}" if weak else None


def check_model(path, tally):
    graph = onnx.load(path, load_external_data=False).graph
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in graph.output]
    used = symbols(graph)
    info = opfuse_json("info", path, *(argument for name in sorted(used) for argument in ("--dim", f"{name}=1")))
    small = (info.get("flops") or 0) < SMALL
    seen = []
    for seed, sizes in enumerate(SIZES):
        own = {name: size for name, size in sizes.items() if name in used}
        if own in seen:
            continue
        seen.append(own)
        inputs = make_inputs(graph, own, seed)
        expected = dict(zip(names, session.run(None, inputs)))
        modes = MODES + ([["--cpu", "scalar"]] if small and len(seen) == 1 else [])
        for mode in modes:
            label = " ".join([*(f"{name}={size}" for name, size in own.items()), *mode])
            tally.result(f"{path.stem}[{label}]", check_run(path, inputs, expected, mode))
    tally.result(f"{path.stem}:kernels", check_kernels(path, used))
    done = opfuse("verify", path, "--quiet", timeout=600)
    wrong = f"exit code {done.returncode}: {last_line(done.stdout + done.stderr)}" if done.returncode != 0 else None
    tally.result(f"{path.stem}:verify", wrong)


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else BUILD / "zoo"
    wanted = set(sys.argv[2:])
    tally = Tally()
    if not any(folder.glob("*.onnx")) and folder == BUILD / "zoo":
        reason = export(folder)
        if reason:
            tally.skip("zoo", reason)
    for path in sorted(folder.glob("*.onnx")):
        if not wanted or path.stem in wanted:
            check_model(path, tally)
    tally.finish()


if __name__ == "__main__":
    main()
