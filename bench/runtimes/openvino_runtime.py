# SPDX-License-Identifier: Apache-2.0
"""OpenVINO, CPU plugin, latency mode. Left alone it would compute in bfloat16 where the processor can."""

TITLE = "OpenVINO"
PACKAGES = ("openvino",)
CONVERTED = None


class Runtime:
    def __init__(self, path, inputs, threads):
        import openvino

        core = openvino.Core()
        model = core.read_model(path)
        model.reshape({name: array.shape for name, array in inputs.items()})
        settings = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": threads,
                    "INFERENCE_PRECISION_HINT": "f32"}
        self.compiled = core.compile_model(model, "CPU", settings)
        self.request = self.compiled.create_infer_request()
        self.inputs = inputs

    def run(self):
        self.request.infer(self.inputs, share_inputs=True, share_outputs=True)

    def outputs(self):
        return [self.request.get_output_tensor(index).data for index in range(len(self.compiled.outputs))]
