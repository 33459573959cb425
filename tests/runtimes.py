# SPDX-License-Identifier: Apache-2.0
"""Running a model on given inputs with opfuse, or with ONNX Runtime, and comparing as `opfuse test` does."""

import ctypes
import pathlib
import re
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

from harness import last_line, opfuse


def load_values(folder, stem, infos):
    """The files stem_N.pb of a data set, as arrays by the names of the model's inputs or outputs."""
    values = {}
    for path in folder.glob(f"{stem}_*.pb"):
        index = int(re.search(r"_(\d+)\.pb$", path.name).group(1))
        kind = infos[index].type.WhichOneof("value")
        data = path.read_bytes()
        if kind == "sequence_type":
            values[infos[index].name] = numpy_helper.to_list(onnx.SequenceProto.FromString(data))
        elif kind == "optional_type":
            values[infos[index].name] = numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
        else:
            tensor = onnx.TensorProto.FromString(data)
            values[tensor.name or infos[index].name] = numpy_helper.to_array(tensor)
    return values


def run_opfuse(model, inputs, options=()):
    """Outputs by name; AssertionError with the tool's message when it rejects the model."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        arguments = []
        for index, (key, value) in enumerate(inputs.items()):
            path = folder / f"input_{index}.pb"
            path.write_bytes(numpy_helper.from_array(value, key).SerializeToString())
            arguments += ["-i", f"{key}={path}"]
        done = opfuse("run", folder / "model.onnx", *arguments, "-o", folder / "out", "--format", "pb", *options)
        assert done.returncode == 0, f"exit code {done.returncode}: {last_line(done.stderr)}"
        listed = dict(line.split("\t") for line in (folder / "out" / "outputs.tsv").read_text().splitlines())
        tensors = {key: onnx.TensorProto.FromString((folder / "out" / file).read_bytes()) for key, file in listed.items()}
        return {key: numpy_helper.to_array(tensor) for key, tensor in tensors.items()}


def to_ort_value(value, info):
    """Numpy lacks types that ONNX has: those go in as the bytes of a tensor."""
    from onnxruntime import OrtValue

    kind = info.type.tensor_type.elem_type
    tensor = numpy_helper.from_array(value)
    if value.dtype.kind in "biufc" and value.dtype.isbuiltin == 1:
        return OrtValue.ortvalue_from_numpy(value)
    target = OrtValue.ortvalue_from_shape_and_type(value.shape, kind, "cpu")
    ctypes.memmove(target.data_ptr(), tensor.raw_data, len(tensor.raw_data))
    return target


def from_ort_value(value):
    if value.element_type() == onnx.TensorProto.STRING:
        return value.numpy()
    tensor = onnx.TensorProto(data_type=value.element_type(), dims=value.shape())
    tensor.raw_data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return numpy_helper.to_array(tensor)


def run_onnxruntime(model, inputs):
    import onnxruntime  # only for comparison, so only where it is asked for

    settings = onnxruntime.SessionOptions()
    # Without this its products of bytes saturate on processors that have AVX2 but no VNNI.
    settings.add_session_config_entry("session.x64quantprecision", "1")
    settings.log_severity_level = 4
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    infos = {info.name: info for info in model.graph.input}
    are_numbers = all(isinstance(value, np.ndarray) and value.dtype.kind not in "OUST" for value in inputs.values())
    if not are_numbers or any(not output.type.startswith("tensor(") for output in session.get_outputs()):
        return dict(zip(names, session.run(names, inputs)))
    values = {name: to_ort_value(value, infos[name]) for name, value in inputs.items()}
    return dict(zip(names, map(from_ort_value, session.run_with_ort_values(names, values))))


def difference(have, want, rtol, atol):
    """What is wrong with a result, or None: type and shape are equal, NaN equals NaN, infinities equal their like."""
    if isinstance(want, (list, tuple)):
        if not isinstance(have, (list, tuple)) or len(have) != len(want):
            return "not a sequence of that length"
        return next(filter(None, (difference(h, w, rtol, atol) for h, w in zip(have, want))), None)
    if want is None or have is None:
        return None if want is have else "only one of them has a value"
    have, want = np.asarray(have), np.asarray(want)
    if have.shape != want.shape:
        return f"shape {have.shape}, expected {want.shape}"
    if have.dtype.kind in "OU" or want.dtype.kind in "OUST":
        return None if have.astype(str).tolist() == want.astype(str).tolist() else "strings differ"
    if have.dtype != want.dtype:
        return f"type {have.dtype}, expected {want.dtype}"
    if have.dtype.kind in "biu" and have.dtype.name[:3] != "bfl":
        wrong = np.abs(have.astype(object) - want.astype(object)) > atol + rtol * np.abs(want.astype(object))
    else:
        wide = np.complex128 if have.dtype.kind == "c" else np.float64
        wrong = ~np.isclose(have.astype(wide), want.astype(wide), rtol=rtol, atol=atol, equal_nan=True)
    return f"{np.count_nonzero(wrong)} elements differ" if np.any(wrong) else None


def check_onnxruntime(case):
    """The first thing that is wrong with a case, or None."""
    model = onnx.load(case.folder / "model.onnx")
    weights = {tensor.name for tensor in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name not in weights] if case.name.startswith("real/") else model.graph.input
    try:
        for folder in sorted(case.folder.glob("test_data_set_*")):
            have = run_onnxruntime(model, load_values(folder, "input", infos))
            for key, want in load_values(folder, "output", model.graph.output).items():
                wrong = difference(have[key], want, case.rtol, case.atol)
                if wrong:
                    return f"output {key}: {wrong}"
    except Exception as error:  # whatever it raises belongs to this case alone
        return str(error).splitlines()[0][:200]
    return None
