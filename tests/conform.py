# SPDX-License-Identifier: Apache-2.0
"""The ONNX backend suite: every node test of the onnx package whose operators opfuse lists.

The package holds the tests as Python code; they are written once per version into build/conform/VERSION/all, and the
selected ones are linked below build/conform/VERSION/selected, which one `opfuse test` then runs. Cases that may fail
stand in tests/conform_skip.txt with a reason; one of them that passes is a failure.
"""

import json
import pathlib
import shutil
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

from harness import BUILD, ROOT, Tally, opfuse_json, supported_operators

# Their expected outputs are what another generator drew.
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
FOLDER = BUILD / "conform" / onnx.__version__


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


def write_case(folder, case):
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    for index, (inputs, outputs) in enumerate(case.data_sets):
        target = folder / f"test_data_set_{index}"
        target.mkdir()
        # Optional inputs that a case leaves out are no inputs of its graph either.
        for stem, values, infos in (("input", inputs, case.model.graph.input), ("output", outputs, case.model.graph.output)):
            for position, (value, info) in enumerate(zip(values, infos)):
                (target / f"{stem}_{position}.pb").write_bytes(to_proto(value, info).SerializeToString())


def generate():
    index = FOLDER / "index.json"
    if index.exists():
        return json.loads(index.read_text())
    shutil.rmtree(FOLDER, ignore_errors=True)
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        try:
            write_case(FOLDER / "all" / case.name, case)
        except Exception as error:  # a type that numpy_helper cannot write
            shutil.rmtree(FOLDER / "all" / case.name, ignore_errors=True)
            print(f"note: {case.name} could not be written: {error}")
            continue
        names[case.name] = operators(case.model)
    index.write_text(json.dumps(names))
    return names


def main():
    tally = Tally(ROOT / "tests" / "conform_skip.txt")
    names = generate()
    supported = supported_operators()
    selected = FOLDER / "selected"
    shutil.rmtree(selected, ignore_errors=True)
    selected.mkdir(parents=True)
    for name, wanted in names.items():
        if RANDOM.intersection(wanted):
            tally.skip(name, "its outputs are random")
        elif wanted and supported.issuperset(wanted):
            (selected / name).symlink_to(pathlib.Path("..") / "all" / name)
    count = sum(1 for _ in selected.iterdir())
    if not count:
        tally.result("selection", "no case uses only operators of `opfuse ops`")
        tally.finish()
    seen = {}
    report = opfuse_json("test", selected, *sys.argv[1:], codes=(0, 1), timeout=600)
    for case in report["cases"]:
        seen[case["name"]] = None if case["status"] == "passed" else f"{case['status']}: {case['reason']}"
    for path in sorted(selected.iterdir()):
        tally.result(path.name, seen.get(path.name, "not reported"))
    for pattern, _ in tally.gaps:
        if "*" not in pattern and pattern not in names:
            tally.result(pattern, "is listed as a known gap, but there is no such case")
    print(f"{count} of {len(names)} cases use only supported operators")
    tally.finish()


if __name__ == "__main__":
    main()
