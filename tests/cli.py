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
    for command in ("info", "run", "explain", "optimize", "verify", "bench", "test", "ops"):
        assert command in text, f"help does not name {command}"


@check
def help_of_each_command(_):
    for command in ("info", "run", "explain", "optimize", "verify", "bench", "test", "ops"):
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


def tensor(name, value):
    return numpy_helper.from_array(np.asarray(value, np.float32), name)


def only_miss(path, rule, *options):
    misses = [miss for miss in opfuse_json("explain", path, *options)["missed"] if miss["rule"] == rule]
    assert misses, f"no near miss of {rule}"
    assert misses[0]["node"] in opfuse("explain", path, *options).stdout
    return misses[0]


def conv_model(path, nodes, outputs=("y",), inputs=(), initializers=(), **options):
    """x: float [N, 2, H, W], w: 2 channels."""
    save_model(path, [helper.make_node("Conv", ["x", "w"], ["c"], name="conv"), *nodes],
               [floats("x", "N", 2, "H", "W"), *inputs], [floats(name, None, None, None, None) for name in outputs],
               [tensor("w", np.ones((2, 2, 1, 1))), *initializers], **options)


def norm_node(source="c", target="y"):
    return helper.make_node("BatchNormalization", [source, "scale", "bias", "mean", "var"], [target], name="norm")


NORM = [tensor(name, np.ones(2)) for name in ("scale", "bias", "mean", "var")]


@check
def miss_of_a_convolution_read_twice(folder):
    conv_model(folder / "m.onnx", [norm_node(), helper.make_node("Exp", ["c"], ["z"], name="reader")], ("y", "z"), initializers=NORM)
    miss = only_miss(folder / "m.onnx", "conv-bn")
    assert (miss["code"], miss["node"]) == ("USED_OUTSIDE", "reader") and "c is also read by reader" in miss["reason"], miss
    assert "nothing else reads" in miss["remedy"], miss


@check
def miss_of_a_residual_of_another_shape(folder):
    nodes = [helper.make_node("Add", ["c", "r"], ["s"], name="sum"), helper.make_node("Relu", ["s"], ["y"], name="relu")]
    conv_model(folder / "m.onnx", nodes, inputs=[floats("r", "N", 2, "A", "B")])
    miss = only_miss(folder / "m.onnx", "conv-add-relu")
    assert (miss["code"], miss["node"], miss["start"]) == ("SHAPE_UNKNOWN", "sum", "conv"), miss
    assert "float[N,2,A,B]" in miss["reason"] and "float[N,2,H,W]" in miss["reason"], miss
    sizes = [word for pair in ("N=1", "H=8", "W=8", "A=1", "B=1") for word in ("--dim", pair)]
    assert any(fusion["rule"] == "conv-add-relu" for fusion in opfuse_json("explain", folder / "m.onnx", *sizes)["fusions"])
    sizes = [word for pair in ("N=1", "H=1", "W=1", "A=8", "B=8") for word in ("--dim", pair)]
    miss = only_miss(folder / "m.onnx", "conv-add-relu", *sizes)
    assert (miss["code"], miss["node"]) == ("SHAPE", "sum"), miss


@check
def miss_of_a_weight_that_is_also_an_input(folder):
    conv_model(folder / "m.onnx", [norm_node()], inputs=[floats("w", 2, 2, 1, 1)], initializers=NORM)
    miss = only_miss(folder / "m.onnx", "conv-bn")
    assert miss["code"] == "CONST" and "w is also a graph input" in miss["reason"] and "--freeze" in miss["remedy"], miss
    assert opfuse_json("explain", folder / "m.onnx", "--freeze")["fusions"][0]["rule"] == "conv-bn"


@check
def kept_names_neighbour_and_condition(folder):
    nodes = [helper.make_node("Transpose", ["x"], ["t"], name="turn", perm=[1, 0, 2]), helper.make_node("Reshape", ["t", "shape"], ["f"], name="flat"),
             helper.make_node("Softmax", ["f"], ["p"], name="soft"), helper.make_node("GatherND", ["p", "rows"], ["g"], name="pick"),
             helper.make_node("Relu", ["g"], ["r"], name="relu"), helper.make_node("Cast", ["r"], ["i"], name="cast", to=TensorProto.INT32),
             helper.make_node("Concat", ["i", "i"], ["y"], name="join", axis=0)]
    save_model(folder / "m.onnx", nodes, [floats("x", 3, 4, 5), helper.make_tensor_value_info("rows", TensorProto.INT64, ["K", 1])],
               [helper.make_tensor_value_info("y", TensorProto.INT32, None)], [numpy_helper.from_array(np.array([4, 15]), "shape")])
    report = opfuse_json("explain", folder / "m.onnx")
    kept = {entry["node"]: entry for entry in report["kept"]}
    wanted = {"flat": ("turn", "NO_KERNEL", "strides"), "soft": ("flat", "NO_KERNEL", "row"), "pick": ("relu", "NO_KERNEL", "indices"),
              "relu": ("cast", "DTYPE", "int32"), "cast": ("relu", "DTYPE", "int32"), "join": ("cast", "NO_KERNEL", "side by side")}
    for node, (other, code, word) in wanted.items():
        entry = kept[node]
        assert (entry["other"], entry["code"]) == (other, code) and word in entry["reason"], entry
    neg_model(folder / "n.onnx")
    for options in (("--only", "conv-bn"), ("--no-fuse",)):
        assert {entry["code"] for entry in opfuse_json("explain", folder / "n.onnx", *options)["kept"][1:]} == {"DISABLED"}, options


@check
def einsums_that_stay_say_why(folder):
    for equation, shapes, code, word in (("ii->i", ["NN"], "NO_KERNEL", "a label twice"), ("ij,jk,kl->il", ["IJ", "JK", "KL"], "NO_KERNEL", "infinity"),
                                         ("ij,jk->ik", ["IJ", "HK"], "SHAPE_UNKNOWN", "not proven equal")):
        inputs = [floats(f"x{i}", *shape) for i, shape in enumerate(shapes)]
        save_model(folder / "m.onnx", [helper.make_node("Einsum", [x.name for x in inputs], ["y"], name="sum", equation=equation)], inputs,
                   [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
        kept, = [entry for entry in opfuse_json("explain", folder / "m.onnx")["kept"] if entry["op"] == "Einsum"]
        assert (kept["node"], kept["code"]) == ("sum", code) and word in kept["reason"], kept


def branch(name, op):
    return helper.make_graph([helper.make_node("Neg", ["x"], [f"{name}_t"], name="neg"), helper.make_node(op, [f"{name}_t"], [f"{name}_o"], name="last")],
                             name, [], [floats(f"{name}_o", "N", 3)])


@check
def explain_bodies_and_data(folder):
    """Bodies count once each, under names with their path; so do kernels behind a shape that depends on data."""
    nodes = [helper.make_node("If", ["go"], ["a"], name="choice", then_branch=branch("then", "Exp"), else_branch=branch("other", "Softmax"))]
    save_model(folder / "if.onnx", nodes, [floats("x", "N", 3), helper.make_tensor_value_info("go", TensorProto.BOOL, [])], [floats("a", "N", 3)])
    report = opfuse_json("explain", folder / "if.onnx")
    assert report["nodes_before"] == 5 and report["ops_after"] == {"Elementwise": 1, "Neg": 1, "Softmax": 1}, report["ops_after"]
    kept = {entry["node"]: entry for entry in report["kept"]}
    assert "choice/else_branch/last" in kept and kept["choice/else_branch/last"]["other"] == "choice/else_branch/neg", kept
    assert opfuse_json("explain", folder / "if.onnx", "--node", "choice/else_branch/last")["nodes"][0]["is_kernel"]

    nodes = [helper.make_node("NonZero", ["x"], ["i"], name="find"), helper.make_node("Transpose", ["i"], ["t"], name="turn", perm=[1, 0]),
             helper.make_node("Cast", ["t"], ["f"], name="cast", to=TensorProto.FLOAT), helper.make_node("Exp", ["f"], ["e"], name="exp"),
             helper.make_node("Neg", ["e"], ["y"], name="neg")]
    save_model(folder / "data.onnx", nodes, [floats("x", 2, 3)], [floats("y", None, 2)])
    report = opfuse_json("explain", folder / "data.onnx")
    assert report["bytes_before"] is None, "sizes depend on data"
    steps = opfuse_json("bench", folder / "data.onnx", "--runs", 2)["steps"]
    assert report["nodes_after"] == len(steps), (report["ops_after"], [step["name"] for step in steps])


GOOD_RULE = "rule double-neg\nmatch\n    y = Neg(Neg*(x))\nrewrite\n    y = Identity(x)\n"


def neg_model(path, last="Exp"):
    save_model(path, [helper.make_node("Neg", ["x"], ["a"], name="first"), helper.make_node("Neg", ["a"], ["b"], name="second"),
                      helper.make_node(last, ["b"], ["y"], name="third")], [floats("x", "N", 4)], [floats("y", "N", 4)])


@check
def user_rules(folder):
    """Parsed, checked, applied and explained as the rules of the library are."""
    (folder / "good.rule").write_text(GOOD_RULE)
    (folder / "other.rule").write_text("# Of no use.\nrule exp-neg family signs\nmatch\n    y = Reciprocal(Exp*(x))\nrewrite\n    y = Exp(x)\n")
    neg_model(folder / "m.onnx", "Softmax")
    both = ("--rules", folder / "good.rule", "--rules", folder / "other.rule")
    report = opfuse_json("explain", folder / "m.onnx", *both)
    assert [fusion["rule"] for fusion in report["fusions"]] == ["double-neg"], report["fusions"]
    assert report["fusions"][0]["origin"] == ["first", "second"] and report["ops_after"] == {"Softmax": 1}, report
    assert {f["rule"] for f in opfuse_json("explain", folder / "m.onnx", *both, "--rule", "double-neg")["fusions"]} == {"double-neg"}
    expect(0, "verify", folder / "m.onnx", *both, "--each")
    assert all(f["rule"] != "double-neg" for f in opfuse_json("explain", folder / "m.onnx", *both, "--skip", "double-neg")["fusions"])
    assert all(f["rule"] != "double-neg" for f in opfuse_json("explain", folder / "m.onnx", *both, "--only", "signs")["fusions"])
    assert [f["rule"] for f in opfuse_json("explain", folder / "m.onnx", *both, "--only", "double-neg")["fusions"]] == ["double-neg"]
    expect(2, "explain", folder / "m.onnx", *both, "--only", "double-negation")
    expect(4, "explain", folder / "m.onnx", "--rules", folder / "missing.rule")


@check
def user_rules_that_miss(folder):
    """A near miss of a user's rule, and one that is unsound in shapes: refused, by name."""
    (folder / "good.rule").write_text(GOOD_RULE)
    nodes = [helper.make_node("Neg", ["x"], ["a"], name="first"), helper.make_node("Neg", ["a"], ["y"], name="second"), helper.make_node("Exp", ["a"], ["z"], name="reader")]
    save_model(folder / "m.onnx", nodes, [floats("x", 4)], [floats("y", 4), floats("z", 4)])
    miss = only_miss(folder / "m.onnx", "double-neg", "--rules", folder / "good.rule")
    assert (miss["code"], miss["node"]) == ("USED_OUTSIDE", "reader"), miss
    (folder / "shape.rule").write_text("rule no-sum\nmatch\n    y = Neg(ReduceSum*(x, a))\nrewrite\n    y = Neg(x)\n")
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["s"], name="sum"), helper.make_node("Neg", ["s"], ["y"], name="neg")]
    save_model(folder / "s.onnx", nodes, [floats("x", 4, 3)], [floats("y", 4, 1)], [numpy_helper.from_array(np.array([1]), "axes")])
    miss = only_miss(folder / "s.onnx", "no-sum", "--rules", folder / "shape.rule")
    assert miss["code"] == "SHAPE" and "float[4,1]" in miss["reason"] and "float[4,3]" in miss["reason"], miss


@check
def user_rules_with_errors(folder):
    """Messages name file, line and column."""
    for text, place, word in (
            ("rule broken\nmatch\n    y = Conv(\n", "4:1", ""),
            ("rule a\nmatch\n    y = Rleu(x)\nrewrite\n    y = Relu(x)\n", "3:9", "Rleu"),
            ("rule a\nmatch\n    y = Relu(x)\nrewrite\n    y = Relu(w)\n", "5:14", "w is bound nowhere"),
            ("rule a\nmatch\n    y = Relu(x) { slope = 1 }\nrewrite\n    y = Relu(x)\n", "3:19", "slope"),
            ("rule silu\nmatch\n    y = Relu(x)\nrewrite\n    y = Relu(x)\n", "1:1", "there is a rule silu already"),
            ("rule a\nmatch\n    y = Relu(x)\nwhere\n    fine(x)\nrewrite\n    y = Relu(x)\n", "5:5", "fine")):
        (folder / "bad.rule").write_text(text)
        message = expect(2, "explain", RESIDUAL, "--rules", folder / "bad.rule").stderr
        assert f"bad.rule:{place}" in message and word in message, message
    (folder / "good.rule").write_text(GOOD_RULE)
    message = expect(2, "explain", RESIDUAL, "--rules", folder / "good.rule", "--rules", folder / "good.rule").stderr
    assert "there is a rule double-neg already" in message, message


# ---- verify, bench, test, ops, info, optimize ----

@check
def verify(_):
    for model in (RESIDUAL, TRANSFORMER):
        expect(0, "verify", model)
    expect(0, "verify", RESIDUAL, "--each")


@check
def verify_inputs(folder):
    """Sizes do not repeat, indices stay in range through Cast and Reshape, and kinds are adversarial."""
    double_model(folder / "m.onnx")
    checks = opfuse_json("verify", folder / "m.onnx")["checks"]
    labels = [entry["input"] for entry in checks]
    assert len(set(labels)) == len(labels), f"repeated: {labels}"
    for kind in ("random", "zeros", "large", "denormal", "nan", "infinite"):
        assert any(label.startswith(kind) for label in labels), f"no {kind}: {labels}"
    assert {label for label in labels if label.startswith("random")} >= {f"random N={n}" for n in (1, 2, 7, 33)}, labels
    nodes = [helper.make_node("Cast", ["i"], ["j"], to=TensorProto.INT64), helper.make_node("Unsqueeze", ["j", "axis"], ["k"]),
             helper.make_node("Gather", ["table", "k"], ["y"])]
    save_model(folder / "g.onnx", nodes, [helper.make_tensor_value_info("i", TensorProto.INT32, ["N"])], [floats("y", None, None, 2)],
               [tensor("table", np.zeros((3, 2))), numpy_helper.from_array(np.array([0]), "axis")])
    expect(0, "verify", folder / "g.onnx")


@check
def verify_names_what_is_wrong(folder):
    """Every rewrite alone: right ones pass beside wrong ones, and kernels whose own result differs are named."""
    (folder / "wrong.rule").write_text("rule wrong\nmatch\n    y = Sin(Cos*(x))\nrewrite\n    y = Sin(x)\n")
    (folder / "right.rule").write_text(GOOD_RULE)
    nodes, source = [], "x"
    for i, op in enumerate(("Cos", "Sin", "Relu", "Neg", "Neg", "Softmax", "Cos", "Sin", "MatMul")):
        nodes.append(helper.make_node(op, [source, "w"] if op == "MatMul" else [source], [f"v{i}"], name=f"{op}_{i}"))
        source = f"v{i}"
    save_model(folder / "m.onnx", nodes, [floats("x", "N", 4)], [floats(source, "N", 4)], [tensor("w", np.eye(4))])
    rules = ("--rules", folder / "wrong.rule", "--rules", folder / "right.rule")
    report = opfuse_json("verify", folder / "m.onnx", *rules, "--each", codes=(1,))
    assert not report["passed"] and report["wrong_rewrite"].startswith("wrong at "), report["wrong_rewrite"]
    each = {}
    for entry in report["checks"]:
        if "rewrite" in entry:
            each[entry["rewrite"]] = each.get(entry["rewrite"], True) and entry["passed"]
    assert sum(name.startswith("wrong at ") for name in each) == 2, each
    assert all(passed != name.startswith("wrong at ") for name, passed in each.items()), each
    assert any(name.startswith("double-neg at ") for name in each), each
    first = next(entry for entry in report["nodes"] if not entry["passed"])
    assert report["wrong_node"] == first["node"], report["wrong_node"]
    text = opfuse("verify", folder / "m.onnx", *rules, "--each").stdout
    assert "the first rewrite that is wrong: wrong at " in text and f"differs: {first['node']}" in text, text
    assert opfuse_json("verify", folder / "m.onnx", "--rules", folder / "right.rule", "--each")["wrong_rewrite"] is None


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
    demand_keys(json.loads(lines[0]), "open_ms", "first_run_ms", "resident_before")
    answers = [json.loads(line) for line in lines[1:]]
    assert [len(answer) for answer in answers] == [2, 3]
    assert all(len(pair) == 2 and min(pair) > 0 for answer in answers for pair in answer)


@check
def bench_ablate(_):
    report = opfuse_json("bench", RESIDUAL, "--runs", 3, "--ablate")
    assert any(entry["off"] == "conv-bn" for entry in report["ablation"])
    for entry in report["ablation"]:
        demand_keys(entry, "off", "median_ms", "min_ms", "slowdown")


@check
def a_weight_that_is_also_an_input_and_not_fed(folder):
    conv_model(folder / "m.onnx", [norm_node()], inputs=[floats("w", 2, 2, 1, 1)], initializers=NORM)
    explained = opfuse_json("explain", folder / "m.onnx")
    assert explained["nodes_unfed"] == 1 and not explained["fusions"], explained
    assert "a run that feeds no initializer: 1 kernels" in expect(0, "explain", folder / "m.onnx").stdout
    report = opfuse_json("bench", folder / "m.onnx", "--runs", 3, "--ablate")
    assert len(report["steps"]) == 1 and [entry["off"] for entry in report["ablation"]] == ["conv-bn"], report
    report = opfuse_json("bench", folder / "m.onnx", "--runs", 3, "--ablate", "-i", "w=random")
    assert len(report["steps"]) == explained["nodes_after"] and not report["ablation"], report
    checks = opfuse_json("verify", folder / "m.onnx", "--each")["checks"]
    assert any(c.get("rewrite", "").startswith("conv-bn") for c in checks), "the graph that runs is what is taken apart"
    assert any("defaults fed" in c["input"] for c in checks), checks
    assert "nodes_unfed" not in opfuse_json("explain", folder / "m.onnx", "--freeze")


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
def quantized_outputs(folder):
    """Off by one level is right by default, more is not, and a bound that is given holds as it stands."""
    scale = [numpy_helper.from_array(np.float32(0.5), "s"), numpy_helper.from_array(np.uint8(3), "z")]
    data = folder / "case" / "test_data_set_0"
    data.mkdir(parents=True)
    save_model(folder / "case" / "model.onnx", [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])], [floats("x", 3)],
               [helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, [3])], initializers=scale)
    (data / "input_0.pb").write_bytes(numpy_helper.from_array(np.array([1, 2, 3], np.float32), "x").SerializeToString())
    for expected, code in (([6, 7, 8], 0), ([7, 7, 9], 1)):
        (data / "output_0.pb").write_bytes(numpy_helper.from_array(np.array(expected, np.uint8), "y").SerializeToString())
        expect(code, "test", folder)
    (data / "output_0.pb").write_bytes(numpy_helper.from_array(np.array([6, 7, 9], np.uint8), "y").SerializeToString())
    expect(1, "test", folder, "--rtol", 0, "--atol", 0)
    expect(0, "verify", folder / "case" / "model.onnx")


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


@check
def optimize_says_what_it_did(folder):
    out = folder / "out.onnx"
    done = expect(0, "optimize", RESIDUAL, "-o", out)
    assert not done.stdout and "opset 13" in done.stderr and str(out) in done.stderr, done.stderr
    assert not expect(0, "optimize", RESIDUAL, "-o", out, "--quiet").stderr
    report = opfuse_json("optimize", RESIDUAL, "-o", out, "--opset", "17")
    demand_keys(report, "model", "output", "external", "opset", "ir_version", "raised", "nodes", "ops", "weight_bytes", "file_bytes")
    assert report["opset"] == 17 and report["external"] is None and report["raised"] is None, report
    assert report["nodes"] == sum(report["ops"].values()) == len(onnx.load(out).graph.node), report
    assert report["file_bytes"] == out.stat().st_size, report
    for target, expected in (("onnx", ""), ("ort", "com.microsoft"), ("ort-all", "com.microsoft")):
        expect(0, "optimize", TRANSFORMER, "-o", out, "--target", target)
        domains = {node.domain for node in onnx.load(out).graph.node}
        assert domains == {"", expected}, f"{target}: {domains}"


@check
def optimize_refuses(folder):
    model = folder / "model.onnx"
    double_model(model)
    before = model.read_bytes()
    expect(2, "optimize", model)
    expect(2, "optimize", model, "-o", folder / "out.onnx", "--target", "tflite")
    expect(2, "optimize", model, "-o", folder / "out.onnx", "--opset", "99")
    assert str(model) in expect(2, "optimize", model, "-o", model).stderr
    assert model.read_bytes() == before
    expect(0, "optimize", model, "-o", model, "--no-mmap")
    expect(4, "optimize", model, "-o", folder / "nowhere" / "out.onnx")
    save_model(model, [helper.make_node("Trilu", ["x"], ["y"], name="half")], [floats("x", 3, 3)], [floats("y", 3, 3)])
    assert "half" in expect(3, "optimize", model, "-o", folder / "out.onnx", "--opset", "13").stderr
    assert [path.name for path in folder.iterdir()] == ["model.onnx"]


@check
def optimize_with_sizes(folder):
    double_model(folder / "model.onnx")
    for options, expected in (((), "N"), (("--dim", "N=4"), 4), (("--shape", "x=5x3"), 5)):
        expect(0, "optimize", folder / "model.onnx", "-o", folder / "out.onnx", *options)
        graph = onnx.load(folder / "out.onnx").graph
        for value in (*graph.input, *graph.output):
            dim = value.type.tensor_type.shape.dim[0]
            assert (dim.dim_param or dim.dim_value) == expected, f"{options}: {value}"


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
