# SPDX-License-Identifier: Apache-2.0
"""MNN on models converted by its own converter, high precision (32-bit floats)."""

import sys

import numpy as np

from runtimes import NotTaken

TITLE = "MNN"
PACKAGES = ("MNN",)
CONVERTED = "model.mnn"
# The converter itself: the command `mnnconvert` around it reports every use to a server, and installs packages for that.
CONVERT = """import sys, _tools
_tools.mnnconvert(["mnnconvert", "-f", "ONNX", "--modelFile", sys.argv[1], "--MNNModel", sys.argv[2], "--bizCode", "opfuse"])
"""


def conversion(model, target, inputs):
    del inputs  # shapes stay symbolic
    return [sys.executable, "-c", CONVERT, model, target]


class Runtime:
    def __init__(self, path, inputs, threads):
        from MNN import expr, nn

        types = {"float32": expr.float, "int64": expr.int, "int32": expr.int, "uint8": expr.uint8, "int8": expr.int8}
        odd = next((a.dtype for a in inputs.values() if str(a.dtype) not in types), None)
        if odd is not None:
            raise NotTaken(f"MNN has no inputs of type {odd}")
        manager = nn.create_runtime_manager(({"backend": "CPU", "precision": "high", "numThread": threads},))
        # All outputs, in the order of the model: an empty list.
        self.module = nn.load_module_from_file(str(path), list(inputs), [], runtime_manager=manager)
        self.values = [a.astype(np.int32) if a.dtype == np.int64 else a for a in inputs.values()]
        self.inputs = [expr.placeholder(list(a.shape), expr.NCHW, types[str(a.dtype)]) for a in inputs.values()]
        self.results = None

    def run(self):
        for variable, value in zip(self.inputs, self.values):
            variable.write(value)
        self.results = [result.read() for result in self.module.onForward(self.inputs)]

    def outputs(self):
        return self.results
