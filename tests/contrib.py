# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX Runtime beside ONNX Runtime: models of one node of tests/contrib_cases.py, each with what ONNX Runtime
makes of it. tests/contrib_skip.txt lists what may fail, with reasons.

    python3 tests/contrib.py [NAME…]     all operators, or these
"""

import itertools
import re
import shutil
import sys
import zlib

import numpy as np
import onnx
from onnx import helper, numpy_helper

import runtimes
from contrib_cases import CASES, MS, Drawn
from harness import BUILD, ROOT, Tally, opfuse_json

FOLDER = BUILD / "contrib"
WAYS = ([], ["--reference"])


def build(case):
    """(model, inputs that are fed). Constants of a case become initializers."""
    rng = np.random.default_rng(zlib.crc32(case.label.encode()))
    names, fed, constants = [], {}, []
    for number, given in enumerate(case.inputs):
        names.append("" if given is None else f"i{number}")
        if given is None:
            continue
        is_drawn = isinstance(given, Drawn)
        value = given.draw(rng) if is_drawn else given
        if not is_drawn or given.is_constant:
            constants.append(numpy_helper.from_array(value, names[-1]))
        else:
            fed[names[-1]] = value
    outputs = ["" if name is None else f"o{number}" for number, name in enumerate(case.outputs)]
    node = helper.make_node(case.operator, names, outputs, domain=case.domain, **case.attributes)
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in fed.items()],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) if kind == "qk" else onnx.ValueInfoProto(name=name)
         for name, kind in zip(outputs, case.outputs) if name], constants)
    opsets = [helper.make_opsetid("", 16), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), fed


def write(folder, model, inputs, answers):
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for stem, values in (("input", inputs), ("output", answers)):
        for index, (name, value) in enumerate(values.items()):
            (data / f"{stem}_{index}.pb").write_bytes(numpy_helper.from_array(value, name).SerializeToString())


def main():
    tally = Tally(ROOT / "tests" / "contrib_skip.txt")
    wanted = set(sys.argv[1:])
    shutil.rmtree(FOLDER, ignore_errors=True)
    cases = [case for case in CASES if not wanted or case.operator in wanted]
    for case in cases:
        model, inputs = build(case)
        try:
            answers = runtimes.run_onnxruntime(model, inputs)
        except Exception as error:  # a case that ONNX Runtime does not take tells nothing
            tally.result(case.label, f"ONNX Runtime: {str(error).splitlines()[0][:200]}")
            continue
        write(FOLDER / str(case.within) / re.sub(r"\W", "_", case.label), model, inputs, answers)
    seen = {}
    for within, way in itertools.product({case.within for case in cases}, WAYS):
        bounds = [] if within is None else ["--rtol", 0, "--atol", within]
        for entry in opfuse_json("test", FOLDER / str(within), *bounds, *way, codes=(0, 1), timeout=600)["cases"]:
            reason = re.sub(r"^\S*/(?=model\.onnx|output_)", "", entry["reason"] or "")
            if entry["status"] != "passed":
                seen.setdefault(entry["name"], " ".join([*way, reason]))
            else:
                seen.setdefault(entry["name"], None)
    for case in cases:
        name = re.sub(r"\W", "_", case.label)
        if name in seen:
            tally.result(case.label, seen[name])
    tally.finish()


if __name__ == "__main__":
    sys.exit(main())
