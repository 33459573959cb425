# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime, CPU provider, all optimizations (its default)."""

TITLE = "ONNX Runtime"
PACKAGES = ("onnxruntime",)
CONVERTED = None


class Runtime:
    def __init__(self, path, inputs, threads):
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 3
        settings.intra_op_num_threads = threads
        settings.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
        self.inputs = inputs
        self.results = None

    def run(self):
        self.results = self.session.run(None, self.inputs)

    def outputs(self):
        return self.results
