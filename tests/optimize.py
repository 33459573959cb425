# SPDX-License-Identifier: Apache-2.0
"""What `opfuse optimize` writes, against the model that it was written from.

    python3 tests/optimize.py                    a sample of ../shared/cases and corpus, and the models of the examples
    python3 tests/optimize.py [OPTION…] PATH…    every .onnx file at or under each path
    python3 tests/optimize.py --all              all cases, all of the corpus, build/zoo

    --target T          onnx, ort or ort-all only (default: all three)
    --opset N           write this opset
    --options "…"       more options of `optimize`
    --jobs N            models at a time (default: the cores)

Of each model that opfuse takes: the checker of the onnx package accepts the file (if it accepts the model), ONNX Runtime
loads it (if it loads the model) and gives the same outputs, opfuse plans the same kernels for it, and writes it again as
the same graph. Inputs are those of test_data_set_0 beside the model where they fit, else random. A model that ONNX Runtime does not run
is checked as far as that goes and counts as skipped.
"""

import argparse
import hashlib
import multiprocessing
import multiprocessing.pool
import os
import pathlib
import sys
import tempfile
import traceback

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

import corpus
from harness import BUILD, ROOT, Tally, last_line, opfuse, opfuse_json

TARGETS = ["onnx", "ort", "ort-all"]
SAMPLE = 90  # models of a folder, at most
REJECTED = 3
SIZES = [2, 1, 8]  # of symbolic dimensions, the first that ONNX Runtime takes
RUNTIME_MESSAGES = 4  # fatal errors only


# ---- graphs ----


def digest(*parts):
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def tensor_digest(tensor, folder):
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        onnx.external_data_helper.load_external_data_for_tensor(tensor, folder)
    return digest(tensor.data_type, list(tensor.dims), hashlib.sha256(tensor.raw_data).hexdigest())  # always raw


def attribute_digest(attribute, folder, outer):
    if attribute.type == onnx.AttributeProto.GRAPH:
        return digest(attribute.name, graph_digest(attribute.g, folder, outer))
    if attribute.type == onnx.AttributeProto.TENSOR:
        return digest(attribute.name, tensor_digest(attribute.t, folder))
    return digest(attribute.SerializeToString(deterministic=True))


def graph_digest(graph, folder, outer=None):
    """What a graph computes: the same for two graphs that differ in names of nodes and of inner values only."""
    values = dict(outer or {}, **{"": "absent"})
    values.update((tensor.name, tensor_digest(tensor, folder)) for tensor in graph.initializer)
    for index, value in enumerate(graph.input):
        values[value.name] = digest("input", value.name if outer is None else index)
    found = []
    for node in graph.node:
        attributes = sorted(attribute_digest(a, folder, values) for a in node.attribute)
        own = digest(node.domain, node.op_type, attributes, [values[name] for name in node.input])
        found.append(own)
        values.update((name, digest(own, index)) for index, name in enumerate(node.output))
    return digest(sorted(found), [values[value.name] for value in graph.output],
                  [value.SerializeToString(deterministic=True) for value in graph.output] if outer is None else [])


def model_digest(path):
    model = onnx.load(path, load_external_data=False)
    opsets = sorted((entry.domain, entry.version) for entry in model.opset_import)
    metadata = sorted((entry.key, entry.value) for entry in model.metadata_props)
    return digest(opsets, model.ir_version, model.producer_name, model.doc_string, metadata,
                  graph_digest(model.graph, path.parent))


# ---- running ----


def session(path, optimized):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = RUNTIME_MESSAGES
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def stored_inputs(path, graph):
    inputs = {}
    for index, value in enumerate(graph.input):
        file = path.parent / "test_data_set_0" / f"input_{index}.pb"
        if file.exists():
            tensor = onnx.TensorProto.FromString(file.read_bytes())
            inputs[tensor.name or value.name] = numpy_helper.to_array(tensor)
    return inputs


def random_inputs(graph, size):
    random = np.random.default_rng(1)
    given = {tensor.name for tensor in graph.initializer}
    inputs = {}
    for value in graph.input:
        tensor = value.type.tensor_type
        if value.name in given:
            continue
        shape = [dim.dim_value if dim.HasField("dim_value") else size for dim in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if np.issubdtype(dtype, np.floating):
            inputs[value.name] = random.standard_normal(shape).astype(dtype)
        else:
            inputs[value.name] = random.integers(0, 2, shape).astype(dtype)
    return inputs


def run_original(path, graph):
    """Inputs and what ONNX Runtime makes of them without any optimization; or the reason why it does not."""
    try:
        runtime = session(path, optimized=False)
    except Exception as error:  # of any kind that its C++ side throws
        return None, f"ONNX Runtime does not load it: {last_line(str(error))[:150]}"
    reason = "no inputs"
    for size in [None, *SIZES]:  # None: what is stored, which may belong to another model in the folder
        try:
            inputs = random_inputs(graph, size) if size else stored_inputs(path, graph)
            known = {value.name for value in runtime.get_inputs()} | {v.name for v in runtime.get_overridable_initializers()}
            inputs = {name: value for name, value in inputs.items() if name in known}
            return (inputs, runtime.run(None, inputs)), None
        except Exception as error:
            reason = f"ONNX Runtime does not run it: {last_line(str(error))[:150]}"
    return None, reason


def difference(actual, expected, is_quantized, is_half):
    """Of one output; bounds grow with its largest element, as those of `verify` do. Where something is quantized on the
    way, the last bit of a sum may tip a few elements to the next level."""
    few = 0.01 * expected.size if is_quantized and isinstance(expected, np.ndarray) else 0
    if not isinstance(expected, np.ndarray):
        return None
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return f"is {actual.dtype}{list(actual.shape)}, must be {expected.dtype}{list(expected.shape)}"
    if not np.issubdtype(expected.dtype, np.number):
        return None if np.array_equal(actual, expected) else "differs"
    with np.errstate(all="ignore"):
        if not np.issubdtype(expected.dtype, np.floating):
            quantized = expected.dtype.itemsize == 1  # half-way cases round by the last bit of a sum
            wrong = np.abs(actual.astype(object) - expected.astype(object)) > (1 if quantized else 0)
            return f"{np.count_nonzero(wrong)} of {wrong.size} elements differ" if wrong.sum() > few else None
        half = is_half or expected.dtype.itemsize == 2
        wide, right = actual.astype(np.float64), expected.astype(np.float64)
        size = np.abs(right)
        finite = size[np.isfinite(size)]
        bound = (1e-2 if half else 1e-4) * max(1, finite.max(initial=0) * 0.1) + (1e-2 if half else 1e-3) * size
        wrong = ~(np.abs(wide - right) <= bound) & ~((wide == right) | (np.isnan(wide) & np.isnan(right)))
    return f"{np.count_nonzero(wrong)} of {wrong.size} elements differ" if wrong.sum() > few else None


RANDOM = ("Random", "Bernoulli", "Multinomial", "Dropout")
QUANTIZED = ("QuantizeLinear", "DynamicQuantize", "QLinear", "QGemm", "QAttention")


def has_any(graph, kinds):
    return any(node.op_type.startswith(kinds) or any(has_any(a.g, kinds) for a in node.attribute if a.HasField("g"))
               for node in graph.node)


def has_half(graph):
    """Something is computed in half precision."""
    values = [value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)]
    casts = [attribute.i for node in graph.node if node.op_type == "Cast" for attribute in node.attribute]
    return onnx.TensorProto.FLOAT16 in values + casts


# ---- checks ----


def checker_error(path):
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:
        return last_line(str(error))[:300]
    return None


def compare(path, out, original, optimized):
    inputs, expected = original
    try:
        runtime = session(out, optimized)
        known = {value.name for value in runtime.get_inputs()} | {v.name for v in runtime.get_overridable_initializers()}
        actual = runtime.run(None, {name: value for name, value in inputs.items() if name in known})
        names = [value.name for value in runtime.get_outputs()]
    except Exception as error:
        return f"ONNX Runtime: {str(error)[:400]}"
    graph = onnx.load(path, load_external_data=False).graph
    wanted = [value.name for value in graph.output]
    if names != wanted:
        return f"outputs are {names}, must be {wanted}"
    if has_any(graph, RANDOM):
        return None
    for name, have, want in zip(names, actual, expected):
        wrong = difference(have, want, has_any(graph, QUANTIZED), has_half(graph))
        if wrong:
            return f"output {name} {wrong}"
    return None


def is_rough(path):
    """What ONNX Runtime's optimizer makes of it differs by whole levels."""
    graph = onnx.load(path, load_external_data=False).graph
    return has_any(graph, QUANTIZED) or has_half(graph)


def check_file(path, out, original):
    wrong = checker_error(out)
    if wrong and checker_error(path) is None:
        return f"the checker: {wrong}"
    wrong = compare(path, out, original, optimized=True) if original else None
    if wrong and (is_rough(path) or compare(path, path, original, optimized=True)):
        # Its optimizer rounds elsewhere, or fails with the model itself.
        return compare(path, out, original, optimized=False)
    return wrong


def check_again(path, out, folder, options, arguments):
    """The same kernels, and the same file when it is written once more."""
    before, after = (opfuse_json("explain", model, *options)["ops_after"] for model in (path, out))
    if before != after:
        less = {op: after.get(op, 0) - before.get(op, 0) for op in {*before, *after} if after.get(op, 0) != before.get(op, 0)}
        return f"opfuse plans other kernels: {less}"
    done = opfuse("optimize", out, "-o", folder / "again.onnx", *arguments, *options)
    if done.returncode != 0:
        return f"the second time exit code {done.returncode}: {last_line(done.stderr)}"
    if model_digest(out) != model_digest(folder / "again.onnx"):
        return "the second time another graph is written"
    return None


def check_model(path, targets, options, opset):
    """[(target, error)], and the reason if ONNX Runtime does not run the model."""
    done = opfuse("explain", path, *options)
    if done.returncode == REJECTED:
        return [], "opfuse rejects it"
    model = onnx.load(path, load_external_data=False)
    original, reason = run_original(path, model.graph)
    results = []
    for target in targets:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            out = folder / "out.onnx"
            arguments = ["--target", target, *(["--opset", opset] if opset else [])]
            done = opfuse("optimize", path, "-o", out, *arguments, *options)
            if done.returncode != 0:
                results.append((target, f"exit code {done.returncode}: {last_line(done.stderr)[:300]}"))
                continue
            wrong = check_file(path, out, original) or check_again(path, out, folder, options, arguments)
            results.append((target, wrong))
    return results, reason


def work(pipe, *arguments):
    try:
        pipe.send(check_model(*arguments))
    except Exception:
        pipe.send(([("any", traceback.format_exc(limit=-2))], None))


def in_child(*arguments):
    """In a process of its own: a runtime that crashes takes one model with it."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=work, args=(theirs, *arguments))
    child.start()
    theirs.close()
    try:
        if ours.poll(300):
            return ours.recv()
        child.kill()
        return [], "no end within 300 s"
    except EOFError:
        return [], "the process crashed"
    finally:
        child.join()


# ---- which models ----


def find(paths):
    for path in paths:
        path = pathlib.Path(path)
        yield from [path] if path.is_file() else sorted(path.rglob("*.onnx"))


def spread(models, n):
    return [models[i * len(models) // n] for i in range(n)] if len(models) > n else models


def sample():
    yield from find([ROOT / "examples"])
    yield from spread(list(find([ROOT.parent / "shared" / "cases"])), SAMPLE)
    if corpus.unpack() is None:
        yield from spread([path for path in find([corpus.FOLDER / "ort", corpus.FOLDER / "onnx"])], SAMPLE)


def label(path):
    for root in (BUILD, ROOT, ROOT.parent / "shared"):
        if root in path.parents:
            return str(path.relative_to(root))
    return str(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--opset")
    parser.add_argument("--options", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--all", action="store_true")
    parser.add_argument("paths", nargs="*")
    arguments = parser.parse_args()
    if arguments.all:
        arguments.paths = [ROOT.parent / "shared" / "cases", BUILD / "zoo", *([corpus.FOLDER] if corpus.unpack() is None else [])]
    tally = Tally(ROOT / "tests" / "optimize_skip.txt")
    models = list(find(arguments.paths) if arguments.paths else sample())
    targets = arguments.target or TARGETS
    with multiprocessing.pool.ThreadPool(arguments.jobs) as pool:
        jobs = [(path, targets, arguments.options.split(), arguments.opset) for path in models]
        for path, (results, reason) in zip(models, pool.imap(lambda job: in_child(*job), jobs)):
            for target, wrong in results:
                if wrong is None and reason:
                    tally.skip(f"{label(path)}:{target}", reason)
                else:
                    tally.result(f"{label(path)}:{target}", wrong)
            if not results:
                tally.skip(label(path), reason)
            sys.stdout.flush()
    tally.finish()


if __name__ == "__main__":
    main()
