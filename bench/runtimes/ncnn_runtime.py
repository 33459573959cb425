# SPDX-License-Identifier: Apache-2.0
"""ncnn on models converted by pnnx: packed layouts and Winograd on, nothing in 16 or 8 bits. It has no batch axis."""

import importlib.util
import pathlib

import numpy as np

from runtimes import NotTaken

TITLE = "ncnn"
PACKAGES = ("ncnn", "pnnx")
CONVERTED = "model.ncnn.param"


def conversion(model, target, inputs):
    """pnnx runs the model to learn its shapes, so it gets the inputs. It writes beside the model: a link to it will do."""
    if any(array.ndim > 0 and array.shape[0] != 1 for array in inputs.values()):
        raise NotTaken("ncnn has no batch axis")
    folder, link = target.parent, target.parent / "model.onnx"
    link.unlink(missing_ok=True)
    link.symlink_to(model)
    files = [folder / f"{index}.npy" for index in range(len(inputs))]
    for path, array in zip(files, inputs.values()):
        np.save(path, array)
    # The file itself: the module around it needs torch.
    tool = pathlib.Path(importlib.util.find_spec("pnnx").origin).parent / "pnnx"
    return [tool, link, "input=" + ",".join(map(str, files)), "fp16=0"]


def without_batch(array):
    """One example, in the types that ncnn knows."""
    array = array[0] if array.ndim > 1 else array
    return np.ascontiguousarray(array.astype(np.int32) if array.dtype == np.int64 else array)


class Runtime:
    def __init__(self, path, inputs, threads):
        import ncnn

        self.net = ncnn.Net()
        options = self.net.opt
        options.num_threads = threads
        options.use_vulkan_compute = False
        options.use_packing_layout = options.use_winograd_convolution = options.use_sgemm_convolution = True
        for name in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_packed", "bf16_storage", "int8_inference"):
            setattr(options, "use_" + name, False)
        weights = str(path)[: -len("param")] + "bin"
        if self.net.load_param(str(path)) != 0 or self.net.load_model(weights) != 0:
            raise NotTaken("ncnn does not load what pnnx wrote (layers that it lacks)")
        # A Mat of an array is a view that does not keep it.
        mats = [ncnn.Mat(without_batch(array)).clone() for array in inputs.values()]
        self.inputs = list(zip(self.net.input_names(), mats))
        self.results = None

    def run(self):
        extractor = self.net.create_extractor()
        for name, mat in self.inputs:
            extractor.input(name, mat)
        self.results = []
        for name in self.net.output_names():
            status, mat = extractor.extract(name)
            if status != 0:
                raise NotTaken(f"ncnn cannot compute {name} (status {status})")
            self.results.append(mat)

    def outputs(self):
        return [np.array(mat) for mat in self.results]
