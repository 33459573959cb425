# SPDX-License-Identifier: Apache-2.0
"""The ONNX backend suite on disk: the cases of the onnx package, written once per version below build/conform/VERSION.

The package holds the node tests as Python code and the others (simple, pytorch-converted, pytorch-operator, and the
light models of the suite `real`) as files; what it lacks comes from ../shared/corpus, whose node tests are those of an
older version and are run too. A case lies in TOLERANCE/SUITE/NAME and is called SUITE/NAME.
"""

import collections
import importlib.metadata
import json
import pathlib
import shutil
import warnings

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case import model as model_cases
from onnx.backend.test.case.node import collect_testcases

import corpus
from harness import BUILD, alone

FOLDER = BUILD / "conform" / onnx.__version__
PACKAGE = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data"
CORPUS = corpus.FOLDER / "onnx" / "onnx" / "backend" / "test" / "data"
FORMAT = 1  # of what is written here: another number writes all of it again

Case = collections.namedtuple("Case", "name folder rtol atol operators")


def operators(model):
    """All operators of a model, bodies and local functions included, as domain/name."""
    local = {(f.domain, f.name) for f in model.functions}
    found = set()

    def visit(nodes):
        for node in nodes:
            if (node.domain, node.op_type) not in local:
                domain = "" if node.domain == "ai.onnx" else node.domain
                found.add(f"{domain}/{node.op_type}" if domain else node.op_type)
            for attribute in node.attribute:
                for graph in [attribute.g, *attribute.graphs]:
                    visit(graph.node)

    visit(model.graph.node)
    for function in model.functions:
        visit(function.node)
    return sorted(found)


def to_proto(value, info):
    if isinstance(value, (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto)):
        return value
    kind = info.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.from_list(value, info.name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, info.name)
    return numpy_helper.from_array(np.asarray(value), info.name)


def write_set(folder, index, model, inputs, outputs):
    target = folder / f"test_data_set_{index}"
    target.mkdir(parents=True)
    # Optional inputs that a case leaves out are no inputs of its graph either.
    for stem, values, infos in (("input", inputs, model.graph.input), ("output", outputs, model.graph.output)):
        for position, (value, info) in enumerate(zip(values, infos)):
            (target / f"{stem}_{position}.pb").write_bytes(to_proto(value, info).SerializeToString())


class Writer:
    """Puts cases in place and keeps their list."""

    def __init__(self):
        self.index = {}

    def place(self, suite, name, model, rtol, atol):
        """The folder for a case. Two roundings of bfloat16 are allowed where an output has that type, as the suite does."""
        types = {output.type.tensor_type.elem_type for output in model.graph.output}
        if TensorProto.BFLOAT16 in types:
            rtol = max(rtol, 2**-6)
        folder = pathlib.Path(f"rtol-{rtol:g}") / suite / name
        self.index[f"{suite}/{name}"] = [str(folder), rtol, atol, operators(model)]
        (FOLDER / folder).parent.mkdir(parents=True, exist_ok=True)
        return FOLDER / folder

    def add_node_tests(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cases = collect_testcases(None)
        for case in cases:
            folder = self.place("node", case.name, case.model, case.rtol, case.atol)
            for index, (inputs, outputs) in enumerate(case.data_sets):
                write_set(folder, index, case.model, inputs, outputs)
            (folder / "model.onnx").write_bytes(case.model.SerializeToString())

    def add_files(self, suite, source):
        for path in sorted(source.glob("test_*/model.onnx")):
            bounds = {"rtol": 1e-3, "atol": 1e-7}
            data = path.parent / "data.json"
            if data.exists():
                bounds.update(json.loads(data.read_text()))
            folder = self.place(suite, path.parent.name, onnx.load(path, load_external_data=False), bounds["rtol"], bounds["atol"])
            folder.symlink_to(path.parent)

    def add_light_models(self, source):
        """Full-size architectures whose weights are constants; the input is a ramp, as the suite's runner makes it."""
        bounds = {case.name: (case.rtol, case.atol) for case in model_cases.collect_testcases() if case.kind == "real"}
        for path in sorted(source.glob("light_*.onnx")):
            name = "test_" + path.stem.removeprefix("light_")
            model = onnx.load(path)
            folder = self.place("real", name, model, *bounds.get(name, (1e-3, 1e-7)))
            weights = {tensor.name for tensor in model.graph.initializer}
            ramps = []
            for info in model.graph.input:
                if info.name not in weights:
                    shape = [d.dim_value or 1 for d in info.type.tensor_type.shape.dim]
                    size = int(np.prod(shape))
                    ramps.append((np.arange(size) / size).astype(np.float32).reshape(shape))
            outputs = [onnx.load_tensor(path.with_name(f"{path.stem}_output_{i}.pb")) for i in range(len(model.graph.output))]
            model.graph.ClearField("initializer")
            write_set(folder, 0, onnx.ModelProto(graph=onnx.GraphProto(
                input=[i for i in model.graph.input if i.name not in weights], output=model.graph.output)), ramps, outputs)
            (folder / "model.onnx").symlink_to(path)


def from_package_or_corpus(*parts):
    """Where a folder of data files is, or None."""
    return next((root.joinpath(*parts) for root in (PACKAGE, CORPUS) if root.joinpath(*parts).is_dir()), None)


def generate():
    """All cases, the light models (which take longer than all others) last."""
    has_corpus = corpus.unpack() is None
    with alone("conform"):
        return generate_with(has_corpus)


def generate_with(has_corpus):
    stamp = FOLDER / "index.json"
    version = [FORMAT, has_corpus, *(importlib.metadata.version(package) for package in ("onnx", "numpy", "ml_dtypes"))]
    if not stamp.exists() or json.loads(stamp.read_text()).get("version") != version:
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        writer = Writer()
        writer.add_node_tests()
        for suite in ("simple", "pytorch-converted", "pytorch-operator"):
            source = from_package_or_corpus(suite)
            if source:
                writer.add_files(suite, source)
        if (CORPUS / "node").is_dir():
            writer.add_files("older-node", CORPUS / "node")
        light = from_package_or_corpus("light")
        if light:
            writer.add_light_models(light)
        stamp.write_text(json.dumps({"version": version, "cases": writer.index}))
    cases = json.loads(stamp.read_text())["cases"]
    return [Case(name, FOLDER / folder, *rest) for name, (folder, *rest) in cases.items()]
