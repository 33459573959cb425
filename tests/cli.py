# SPDX-License-Identifier: Apache-2.0
"""The command line's contracts: exit codes, what goes to stdout and what to stderr, files, shapes of JSON."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness import ROOT, Tally, opfuse, opfuse_json

DIGITS = ROOT / "examples" / "digits"
RESIDUAL = DIGITS / "residual.onnx"
TRANSFORMER = DIGITS / "transformer.onnx"
IMAGES = DIGITS / "test_images.npy"
LABELS = DIGITS / "test_labels.npy"

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def expect(code, *arguments, **options):
    """Runs the tool and demands an exit code; a failure must speak on stderr only."""
    done = opfuse(*arguments, **options)
    assert done.returncode == code, f"{' '.join(map(str, arguments))}: exit code {done.returncode}, must be {code}: {done.stderr.strip()[-300:]}"
    if code >= 2:
        assert done.stderr.strip(), "no message on stderr"
        assert not done.stdout, f"stdout of a failure: {done.stdout[:200]}"
    return done


def demand_keys(document, *names):
    missing = [name for name in names if name not in document]
    assert not missing, f"keys missing: {missing}"


def save_model(path, nodes, inputs, outputs, initializers=(), opset=17, ir=8):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir), path)


def floats(name, *dims):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


def double_model(path):
    """y = x + x, x: float [N, 3]."""
    save_model(path, [helper.make_node("Add", ["x", "x"], ["y"], name="twice")], [floats("x", "N", 3)], [floats("y", "N", 3)])


def run_scores(folder, *options, model=RESIDUAL):
    expect(0, "run", model, "-i", f"image={IMAGES}", "-o", folder, *options)
    return np.load(folder / "scores.npy")


# ---- usage ----

@check
def version_and_help(_):
    assert expect(0, "--version").stdout.strip(), "empty version"
    text = expect(0, "help").stdout
    for command in ("info", "run", "explain", "verify", "bench", "test", "ops"):
        assert command in text, f"help does not name {command}"


@check
def help_of_each_command(_):
    for command in ("info", "run", "explain", "verify", "bench", "test", "ops"):
        text = expect(0, command, "--help").stdout
        assert text == expect(0, "help", command).stdout
        assert "Examples:" in text and f"opfuse {command}" in text, command


@check
def wrong_usage(_):
    expect(2)
    expect(2, "frobnicate", RESIDUAL)
    expect(2, "explain")
    expect(2, "explain", RESIDUAL, "--no-such-option")
    expect(2, "run", RESIDUAL, "--threads", "many")
    expect(2, "run", RESIDUAL, "--cpu", "z80", "-i", f"image={IMAGES}")
    expect(2, "explain", RESIDUAL, "--stage", "dinner")
    expect(2, "explain", RESIDUAL, "--skip", "no-such-rule")


@check
def missing_and_broken_files(folder):
    expect(4, "info", folder / "missing.onnx")
    (folder / "noise.onnx").write_bytes(bytes(range(256)) * 8)
    expect(3, "info", folder / "noise.onnx")
    (folder / "short.onnx").write_bytes(RESIDUAL.read_bytes()[:50000])
    expect(3, "info", folder / "short.onnx")
    (folder / "empty.onnx").write_bytes(b"")
    expect(3, "info", folder / "empty.onnx")


@check
def unsupported_operators_are_all_named(folder):
    nodes = [helper.make_node("Frob", ["x"], ["a"], name="first", domain="odd"), helper.make_node("Knob", ["a"], ["y"], name="second", domain="odd")]
    graph = helper.make_graph(nodes, "g", [floats("x", 1)], [floats("y", 1)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("odd", 1)], ir_version=8), folder / "odd.onnx")
    message = expect(3, "info", folder / "odd.onnx").stderr
    for word in ("Frob", "Knob", "first", "second"):
        assert word in message, f"{word} is not named: {message}"


@check
def limits(_):
    assert "nodes" in expect(3, "info", RESIDUAL, "--limit", "nodes=3").stderr
    expect(2, "info", RESIDUAL, "--limit", "no-such-limit=3")


# ---- run ----

@check
def run_writes_outputs(folder):
    scores = run_scores(folder)
    labels = np.load(LABELS)
    assert scores.shape == (len(labels), 10) and scores.dtype == np.float32
    assert (scores.argmax(1) == labels).mean() > 0.95, "digits are not recognised"
    assert (folder / "outputs.tsv").read_text().split() == ["scores", "scores.npy"]


@check
def run_modes_agree(folder):
    for model in (RESIDUAL, TRANSFORMER):
        fused = run_scores(folder, model=model)
        for option in ("--no-fuse", "--reference", "--exact", "--no-mmap", "--flush-denormals"):
            np.testing.assert_allclose(run_scores(folder, option, model=model), fused, rtol=1e-3, atol=1e-4, err_msg=option)
        np.testing.assert_allclose(run_scores(folder, "--cpu", "scalar", model=model), fused, rtol=1e-3, atol=1e-4)


@check
def run_does_not_depend_on_threads(folder):
    for model in (RESIDUAL, TRANSFORMER):
        one = run_scores(folder, "--threads", 1, model=model)
        two = run_scores(folder, "--threads", 2, model=model)
        assert np.array_equal(one.view(np.uint32), two.view(np.uint32)), "bits differ"


@check
def run_input_forms(folder):
    double_model(folder / "m.onnx")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(folder / "a=b.npy", x)
    np.savez(folder / "x.npz", x=x)
    (folder / "x.pb").write_bytes(numpy_helper.from_array(x, "x").SerializeToString())
    for source in ("a=b.npy", "x.npz", "x.pb"):
        expect(0, "run", folder / "m.onnx", "-i", f"x={folder / source}", "-o", folder / "out")
        assert np.array_equal(np.load(folder / "out" / "y.npy"), x + x), source
    for form, low, high in (("zeros", 0, 0), ("ones", 2, 2), ("random:3:5:6", 10, 12)):
        expect(0, "run", folder / "m.onnx", "-i", f"x={form}", "--shape", "x=4x3", "-o", folder / "out")
        y = np.load(folder / "out" / "y.npy")
        assert y.shape == (4, 3) and y.min() >= low and y.max() <= high, form
    expect(0, "run", folder / "m.onnx", "-i", "x=random:1", "--dim", "N=5", "-o", folder / "out")
    first = np.load(folder / "out" / "y.npy")
    expect(0, "run", folder / "m.onnx", "-i", "x=random:1", "--dim", "N=5", "-o", folder / "out")
    assert first.shape == (5, 3) and np.array_equal(first, np.load(folder / "out" / "y.npy")), "a seed must repeat"
    expect(0, "run", folder / "m.onnx", "-i", f"x={folder / 'x.pb'}", "-o", folder / "pb", "--format", "pb")
    tensor = TensorProto.FromString((folder / "pb" / "y.pb").read_bytes())
    assert np.array_equal(numpy_helper.to_array(tensor), x + x)


@check
def run_archives(folder):
    """.npz: deflated, the only array under another name, several of which none fits, broken at any byte."""
    double_model(folder / "m.onnx")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez_compressed(folder / "x.npz", other=x)
    expect(0, "run", folder / "m.onnx", "-i", f"x={folder / 'x.npz'}", "-o", folder / "out")
    assert np.array_equal(np.load(folder / "out" / "y.npy"), x + x)
    np.savez(folder / "two.npz", a=x, b=x)
    expect(3, "run", folder / "m.onnx", "-i", f"x={folder / 'two.npz'}")
    whole = (folder / "x.npz").read_bytes()
    for at in range(0, len(whole), 17):
        (folder / "cut.npz").write_bytes(whole[:at])
        expect(3, "run", folder / "m.onnx", "-i", f"x={folder / 'cut.npz'}")
        (folder / "bent.npz").write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1:])
        done = opfuse("run", folder / "m.onnx", "-i", f"x={folder / 'bent.npz'}")
        assert done.returncode in (0, 3), f"byte {at}: exit code {done.returncode}: {done.stderr}"


@check
def run_types(folder):
    """Inputs of every type can be made, and outputs that .npy cannot hold are written as .pb."""
    for name in ("FLOAT16", "BFLOAT16", "DOUBLE", "FLOAT8E4M3FN", "FLOAT8E5M2", "INT4", "UINT8", "INT64", "BOOL"):
        value = helper.make_tensor_value_info("x", TensorProto.DataType.Value(name), [5])
        result = helper.make_tensor_value_info("y", TensorProto.DataType.Value(name), [5])
        save_model(folder / "m.onnx", [helper.make_node("Identity", ["x"], ["y"])], [value], [result], opset=21, ir=10)
        expect(0, "run", folder / "m.onnx", "-i", "x=ones", "-o", folder / "out", "--format", "pb")
        tensor = TensorProto.FromString((folder / "out" / "y.pb").read_bytes())
        assert np.all(numpy_helper.to_array(tensor).astype(np.float64) == 1), name
        expect(2 if name in ("BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "INT4") else 0,
               "run", folder / "m.onnx", "-i", "x=random", "-o", folder / "out")


@check
def run_rejects_inputs(folder):
    double_model(folder / "m.onnx")
    np.save(folder / "wide.npy", np.zeros((2, 4), np.float32))
    np.save(folder / "ints.npy", np.zeros((2, 3), np.int64))
    (folder / "noise.npy").write_bytes(b"noise")
    expect(2, "run", folder / "m.onnx")
    expect(2, "run", folder / "m.onnx", "-i", "nobody=zeros", "--dim", "N=1")
    expect(3, "run", folder / "m.onnx", "-i", f"x={folder / 'wide.npy'}")
    expect(3, "run", folder / "m.onnx", "-i", f"x={folder / 'ints.npy'}")
    expect(3, "run", folder / "m.onnx", "-i", f"x={folder / 'noise.npy'}")
    expect(4, "run", folder / "m.onnx", "-i", f"x={folder / 'missing.npy'}")


@check
def run_cannot_write(folder):
    double_model(folder / "m.onnx")
    (folder / "file").write_text("")
    expect(4, "run", folder / "m.onnx", "-i", "x=ones", "--dim", "N=1", "-o", folder / "file" / "out")


@check
def run_output_names(folder):
    """Names become files: other bytes become _, clashes are numbered, the table keeps the names."""
    names = ["a/b", "a:b", "../up"]
    save_model(folder / "m.onnx", [helper.make_node(op, ["x"], [n]) for op, n in zip(("Neg", "Abs", "Exp"), names)],
               [floats("x", 2)], [floats(n, 2) for n in names])
    expect(0, "run", folder / "m.onnx", "-i", "x=ones", "-o", folder / "out")
    table = dict(line.split("\t") for line in (folder / "out" / "outputs.tsv").read_text().splitlines())
    assert set(table) == set(names) and len(set(table.values())) == 3
    for file in table.values():
        assert set(file) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") and file[0] != "."
        assert (folder / "out" / file).exists()


# ---- explain ----

@check
def explain_json(_):
    report = opfuse_json("explain", RESIDUAL)
    demand_keys(report, "model", "opset", "nodes_before", "nodes_after", "ops_before", "ops_after", "bytes_before",
                "bytes_after", "fusions", "missed", "kept")
    graph = onnx.load(RESIDUAL).graph
    assert report["opset"] == 13
    assert report["nodes_before"] == sum(node.op_type != "Constant" for node in graph.node)
    assert report["nodes_before"] == sum(report["ops_before"].values())
    assert report["nodes_after"] == sum(report["ops_after"].values())
    assert report["bytes_before"] is None, "sizes are not known"
    assert report["ops_before"]["BatchNormalization"] == 8
    for gone in ("BatchNormalization", "Relu", "Add"):
        assert gone not in report["ops_after"], f"{gone} is left"
    assert report["ops_after"]["Conv"] == 8
    rules = [fusion["rule"] for fusion in report["fusions"]]
    assert rules.count("conv-bn") == 8 and rules.count("conv-add-relu") == 3, rules
    for fusion in report["fusions"]:
        demand_keys(fusion, "rule", "anchor", "origin")
    for kept in report["kept"]:
        demand_keys(kept, "node", "op", "code", "other", "reason")


@check
def explain_transformer(_):
    after = opfuse_json("explain", TRANSFORMER)["ops_after"]
    assert after.get("LayerNormalization") == 5 and after.get("Erf") is None and after.get("Pow") is None, after
    rules = [fusion["rule"] for fusion in opfuse_json("explain", TRANSFORMER)["fusions"]]
    assert rules.count("layer-norm") == 5 and rules.count("gelu-erf") == 2 and "qkv" in rules, rules


@check
def explain_with_sizes(_):
    report = opfuse_json("explain", RESIDUAL, "--dim", "N=1")
    assert 0 < report["bytes_after"] < report["bytes_before"]


@check
def explain_selection(_):
    nothing = opfuse_json("explain", RESIDUAL, "--no-fuse")
    assert not nothing["fusions"] and nothing["ops_after"]["BatchNormalization"] == 8
    skipped = opfuse_json("explain", RESIDUAL, "--skip", "conv-bn")
    assert all(fusion["rule"] != "conv-bn" for fusion in skipped["fusions"])
    only = opfuse_json("explain", RESIDUAL, "--only", "conv-bn")
    assert {fusion["rule"] for fusion in only["fusions"]} == {"conv-bn"}


@check
def explain_text_forms(folder):
    text = expect(0, "explain", RESIDUAL).stdout
    assert "conv-bn" in text
    for stage in ("load", "simplify", "fuse", "plan"):
        assert "Conv" in expect(0, "explain", RESIDUAL, "--stage", stage).stdout, stage
    expect(0, "explain", RESIDUAL, "--dot", folder / "g.dot")
    assert (folder / "g.dot").read_text().lstrip().startswith("digraph")
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg", "-o", os.devnull, folder / "g.dot"], check=True, timeout=60)


@check
def explain_one_node(_):
    node = onnx.load(RESIDUAL).graph.node
    relu = next(n.name for n in node if n.op_type == "Relu")
    report = opfuse_json("explain", RESIDUAL, "--node", relu)
    assert any(relu in entry["origin"] for entry in report["nodes"]), "where did it go?"
    assert report["fusions"] and all(relu in fusion["origin"] for fusion in report["fusions"])
    assert relu in expect(0, "explain", RESIDUAL, "--node", relu).stdout
    expect(2, "explain", RESIDUAL, "--node", "nobody")
    assert {f["rule"] for f in opfuse_json("explain", RESIDUAL, "--rule", "conv-bn")["fusions"]} == {"conv-bn"}
    expect(2, "explain", RESIDUAL, "--rule", "no-such-rule")


@check
def near_misses(folder):
    """A layer norm whose exponent is 3 is refused with code and reason."""
    def constant(name, value):
        return numpy_helper.from_array(np.array(value, np.float32), name)

    nodes = [helper.make_node("ReduceMean", ["x"], ["m"], axes=[-1], name="mean"),
             helper.make_node("Sub", ["x", "m"], ["d"], name="sub"),
             helper.make_node("Pow", ["d", "three"], ["p"], name="pow"),
             helper.make_node("ReduceMean", ["p"], ["v"], axes=[-1], name="var"),
             helper.make_node("Add", ["v", "eps"], ["e"], name="eps_add"),
             helper.make_node("Sqrt", ["e"], ["s"], name="sqrt"),
             helper.make_node("Div", ["d", "s"], ["y"], name="div")]
    save_model(folder / "m.onnx", nodes, [floats("x", 2, 8)], [floats("y", 2, 8)], [constant("three", 3), constant("eps", 1e-5)])
    report = opfuse_json("explain", folder / "m.onnx")
    misses = [miss for miss in report["missed"] if miss["rule"] == "layer-norm"]
    assert misses, "no near miss of layer-norm"
    demand_keys(misses[0], "rule", "start", "code", "node", "reason", "matched", "of")
    assert any(miss["code"] == "CONST" and miss["node"] == "pow" for miss in misses), misses


@check
def user_rules(folder):
    (folder / "bad.rule").write_text("rule broken\nmatch\n    y = Conv(\n")
    message = expect(2, "explain", RESIDUAL, "--rules", folder / "bad.rule").stderr
    assert "bad.rule:" in message, message
    (folder / "good.rule").write_text("rule double-neg\nmatch\n    y = Neg(Neg*(x))\nrewrite\n    y = Identity(x)\n")
    expect(0, "explain", RESIDUAL, "--rules", folder / "good.rule")


# ---- verify, bench, test, ops, info, optimize ----

@check
def verify(_):
    for model in (RESIDUAL, TRANSFORMER):
        expect(0, "verify", model)
    expect(0, "verify", RESIDUAL, "--each")
    # A user's rule that is wrong must be found, and named.
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "wrong.rule").write_text("rule wrong\nmatch\n    y = Exp(Neg*(x))\nrewrite\n    y = Exp(x)\n")
        save_model(path / "m.onnx", [helper.make_node("Neg", ["x"], ["t"]), helper.make_node("Exp", ["t"], ["y"])],
                   [floats("x", 4)], [floats("y", 4)])
        done = opfuse("verify", path / "m.onnx", "--rules", path / "wrong.rule", "--each")
        assert done.returncode == 1 and "wrong" in done.stdout + done.stderr, f"exit code {done.returncode}: {done.stderr}"


@check
def bench(_):
    done = opfuse("bench", RESIDUAL, "--runs", 5, "--warmup", 1, "--json")
    assert done.returncode == 0, done.stderr
    assert "N" in done.stderr, "a symbol taken as 1 is told on stderr"
    report = json.loads(done.stdout)
    demand_keys(report, "model", "cpu", "threads", "runs", "open_ms", "first_run_ms", "median_ms", "min_ms", "p90_ms",
                "peak_rss_bytes", "arena_bytes", "weight_bytes", "flops", "gflops", "steps")
    assert report["runs"] == 5 and 0 < report["min_ms"] <= report["median_ms"] <= report["p90_ms"]
    for step in report["steps"]:
        demand_keys(step, "name", "kernel", "origin", "ms", "gflops", "gbps")
    assert len(report["steps"]) == opfuse_json("explain", RESIDUAL)["nodes_after"], "steps and nodes_after differ"
    report = opfuse_json("bench", TRANSFORMER, "--runs", 3, "--dim", "N=2")
    assert len(report["steps"]) == opfuse_json("explain", TRANSFORMER)["nodes_after"], "steps and nodes_after differ"


@check
def unfused_runs_on_the_same_kernels(_):
    """Fused against unfused is a claim about fusion only while neither falls back to reference kernels."""
    for model in (RESIDUAL, TRANSFORMER):
        for options in ((), ("--no-fuse",)):
            steps = opfuse_json("bench", model, "--runs", 3, *options)["steps"]
            slow = sorted({step["name"] for step in steps if step["kernel"] == "reference"})
            assert not slow, f"{model.name} {' '.join(options)}: on reference kernels: {slow}"


@check
def bench_serve(_):
    lines = expect(0, "bench", RESIDUAL, "--serve", input="run 2\nrun 3\n").stdout.splitlines()
    demand_keys(json.loads(lines[0]), "open_ms", "first_run_ms")
    assert [len(json.loads(line)) for line in lines[1:]] == [2, 3]


@check
def bench_ablate(_):
    report = opfuse_json("bench", RESIDUAL, "--runs", 3, "--ablate")
    assert any(entry["off"] == "conv-bn" for entry in report["ablation"])
    for entry in report["ablation"]:
        demand_keys(entry, "off", "median_ms", "min_ms", "slowdown")


def write_case(folder, expected):
    double_model_folder = folder / "test_data_set_0"
    double_model_folder.mkdir(parents=True)
    double_model(folder / "model.onnx")
    x = np.ones((1, 3), np.float32)
    (double_model_folder / "input_0.pb").write_bytes(numpy_helper.from_array(x, "x").SerializeToString())
    (double_model_folder / "output_0.pb").write_bytes(numpy_helper.from_array(np.full((1, 3), expected, np.float32), "y").SerializeToString())


@check
def test_command(folder):
    write_case(folder / "all" / "good", 2)
    assert expect(0, "test", folder / "all").stdout.strip().endswith("1 passed, 0 failed, 0 skipped")
    assert opfuse_json("test", folder / "all" / "good")["cases"][0]["name"] == "good"
    write_case(folder / "all" / "deep" / "bad", 3)
    save_model(folder / "odd.onnx", [helper.make_node("Frob", ["x"], ["y"], domain="odd")], [floats("x", 1)], [floats("y", 1)])
    (folder / "all" / "odd" / "test_data_set_0").mkdir(parents=True)
    model = onnx.load(folder / "odd.onnx")
    model.opset_import.append(helper.make_opsetid("odd", 1))
    onnx.save(model, folder / "all" / "odd" / "model.onnx")
    (folder / "all" / "linked").symlink_to("good")
    assert expect(1, "test", folder / "all").stdout.strip().endswith("2 passed, 1 failed, 1 skipped")
    report = opfuse_json("test", folder / "all", codes=(1,))
    assert {case["name"]: case["status"] for case in report["cases"]} == {
        "good": "passed", "linked": "passed", "deep/bad": "failed", "odd": "skipped"}, report
    assert (report["passed"], report["failed"], report["skipped"]) == (2, 1, 1)
    assert all(case["reason"] for case in report["cases"] if case["status"] != "passed")
    (folder / "nothing").mkdir()
    expect(2, "test", folder / "nothing")
    (folder / "all" / "deep" / "loop").symlink_to("..")  # a folder inside itself is not walked twice
    assert len(opfuse_json("test", folder / "all", codes=(1,))["cases"]) == 4


@check
def ops(_):
    text = expect(0, "ops").stdout
    assert "Conv" in text and "LayerNormalization" in text
    assert expect(0, "ops", "--markdown").stdout.lstrip().startswith("|")


@check
def info(_):
    text = expect(0, "info", RESIDUAL).stdout
    for word in ("image", "scores", "Conv", "BatchNormalization", "13"):
        assert word in text, f"{word} is missing"
    opfuse_json("info", RESIDUAL)


@check
def optimize(folder):
    expect(0, "optimize", RESIDUAL, "-o", folder / "fused.onnx")
    onnx.checker.check_model(str(folder / "fused.onnx"))
    assert all(node.op_type != "BatchNormalization" for node in onnx.load(folder / "fused.onnx").graph.node)
    np.testing.assert_allclose(run_scores(folder, model=folder / "fused.onnx"), run_scores(folder), rtol=1e-3, atol=1e-4)


def main():
    tally = Tally(ROOT / "tests" / "cli_skip.txt")
    wanted = set(sys.argv[1:])
    for function in CHECKS:
        if wanted and function.__name__ not in wanted:
            continue
        error = None
        with tempfile.TemporaryDirectory() as folder:
            try:
                function(pathlib.Path(folder))
            except Exception as problem:  # one check that breaks must not hide the others
                error = f"{type(problem).__name__}: {str(problem).strip()[:600]}"
        tally.result(function.__name__, error)
    tally.finish()


if __name__ == "__main__":
    main()
