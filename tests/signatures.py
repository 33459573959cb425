# SPDX-License-Identifier: Apache-2.0
"""Every signature of every operator: each form that an opset gave it, and each type of its newest one, on a model of one
node made from tests/arguments.py. What is right is told by the onnx package's reference evaluator and by ONNX Runtime;
where they differ, opfuse must agree with one of them. tests/signatures_skip.txt lists what may fail, with reasons.

    python3 tests/signatures.py [NAME…]     all operators, or these
"""

import hashlib
import json
import pathlib
import shutil
import sys
import warnings
import zlib

import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import runtimes
from arguments import ARGUMENTS, DEFAULT
from harness import BUILD, ROOT, Tally, opfuse_json

FOLDER = BUILD / "signatures"
PREFERRED = ["float", "int64", "int32", "uint8", "int8", "bool"]
SPECIALS = [0.0, np.nan, np.inf, -np.inf]


def history():
    found = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "" and not schema.deprecated:
            found.setdefault(schema.name, []).append(schema)
    return {name: sorted(schemas, key=lambda s: s.since_version) for name, schemas in found.items()}


def element(type_text):
    """TensorProto's number of "tensor(float)", or None for what is no tensor of numbers."""
    name = type_text.removeprefix("tensor(").rstrip(")")
    if not type_text.startswith("tensor(") or name in ("string", "complex64", "complex128"):
        return None
    return TensorProto.DataType.Value(name.upper())


def allowed(schema):
    """The types of each variable, the preferred one first; a formal with a type of its own is its own variable."""
    types = {}
    for constraint in schema.type_constraints:
        names = [t for t in constraint.allowed_type_strs if element(t) is not None]
        types[constraint.type_param_str] = sorted(names, key=lambda t: next(
            (i for i, p in enumerate(PREFERRED) if t == f"tensor({p})"), len(PREFERRED)))
    for formal in [*schema.inputs, *schema.outputs]:
        types.setdefault(formal.type_str, [formal.type_str])
    return {key: names for key, names in types.items() if names}


def numbers(rng, shape, kind, entry):
    """Random numbers of a type; integers stay small, so that every type holds them."""
    low, high = entry.get("_range", (-2, 3))
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    size = int(np.prod(shape))
    if entry.get("_distinct"):
        flat = rng.permutation(size).astype(np.float64)
    elif is_float(kind):
        flat = rng.uniform(low, high, size)
    else:
        unsigned = TensorProto.DataType.Name(kind).startswith(("U", "BOOL"))
        flat = rng.integers(max(int(np.ceil(low)), 0) if unsigned else int(np.ceil(low)), max(int(high), 2), size).astype(np.float64)
    if entry.get("_special"):
        flat[: len(SPECIALS)] = SPECIALS[: flat.size]
    return flat.astype(np.float32).astype(dtype).reshape(shape)


def is_float(kind):
    return "FLOAT" in TensorProto.DataType.Name(kind) or kind == TensorProto.DOUBLE


class Unfit(Exception):
    """These arguments, or this type, do not go with the signature."""


def value_of(rng, given, kind, entry):
    if isinstance(given, tuple):
        return numbers(rng, given, kind, entry)
    array = np.asarray(given)
    if kind is None or (array.dtype.kind == "f" and not is_float(kind) and np.any(array != np.floor(array))):
        raise Unfit
    return array.astype(np.float64).astype(helper.tensor_dtype_to_np_dtype(kind)) if array.dtype.kind == "f" else \
        array.astype(helper.tensor_dtype_to_np_dtype(kind))


def choose_types(schema, variable, type_text):
    """The type of each variable: the one that is tried, and the first allowed elsewhere."""
    return {key: element(type_text if key == variable else names[0]) for key, names in allowed(schema).items()}


def build(schema, version, entry, variable, type_text, seed):
    """(model, inputs by name) of one node."""
    rng = np.random.default_rng(seed)
    kinds = choose_types(schema, variable, type_text)
    if version < entry.get("_since", 1) or version > entry.get("_until", 10**6):
        raise Unfit
    kind = element(type_text)
    if (entry.get("_only_integers") and is_float(kind)) or (entry.get("_only_numbers") and kind == TensorProto.BOOL) or \
       (entry.get("_only_signed") and TensorProto.DataType.Name(kind).startswith("U")):
        raise Unfit
    names, values = [], {}
    for formal in schema.inputs:
        is_many = formal.option == defs.OpSchema.FormalParameterOption.Variadic
        if formal.name not in entry:
            if formal.option == defs.OpSchema.FormalParameterOption.Single:
                raise Unfit
            names.append("")
            continue
        for i, given in enumerate(entry[formal.name] if is_many else [entry[formal.name]]):
            names.append("" if given is None else f"{formal.name}_{i}" if is_many else formal.name)
            if given is not None:
                values[names[-1]] = value_of(rng, given, kinds.get(formal.type_str), entry)
    while names and not names[-1]:
        names.pop()
    attributes = {name: float(entry[name]) if attribute.type == defs.OpSchema.AttrType.FLOAT else entry[name]
                  for name, attribute in schema.attributes.items() if name in entry and name not in values}
    if any(attribute.required and name not in attributes and name not in (entry.get("_type"),) for name, attribute in schema.attributes.items()):
        raise Unfit
    result = schema.outputs[0].type_str
    if entry.get("_type") in schema.attributes and result in kinds and kinds[result] is not None:
        attributes[entry["_type"]] = kinds[result] if schema.attributes[entry["_type"]].type == defs.OpSchema.AttrType.INT else \
            TensorProto.DataType.Name(kinds[result])
    if entry.get("_same_size") and len({np.dtype(helper.tensor_dtype_to_np_dtype(kinds[f.type_str])).itemsize
                                        for f in (schema.inputs[0], schema.outputs[0])}) > 1:
        raise Unfit
    if "_tensor" in entry:
        attributes[entry["_tensor"]] = numpy_helper.from_array(numbers(rng, (1,), kinds[result], entry))
    count = entry.get("_outputs", 1)
    outputs = [f"y{i}" for i in range(count)]
    node = helper.make_node(schema.name, names, outputs, **attributes)
    # What a list or a number gives is a constant, as shapes and axes are in models.
    constants = {name for name in values if not isinstance(entry.get(name, ()), tuple)}
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in values.items() if n not in constants],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(v, n) for n, v in values.items() if n in constants])
    opset = helper.make_opsetid("", version)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10 if version < 22 else onnx.IR_VERSION)
    return model, {n: v for n, v in values.items() if n not in constants}


def trials(name, schemas, since):
    """(label, schema, opset, entry, variable, type): older forms in their first type, the newest one in all of them."""
    entries = ARGUMENTS.get(name, DEFAULT)
    for schema in schemas:
        version = schema.since_version
        if version < since:
            continue
        variables = allowed(schema)
        for number, entry in enumerate(entries):
            if schema is not schemas[-1]:
                first = next(iter(variables))
                yield f"{name}-{version}/{number}", schema, version, entry, first, variables[first][0]
                continue
            seen = set()
            for variable, types in variables.items():
                for type_text in types:
                    label = f"{name}-{version}/{number}/{variable}={type_text[7:-1] if type_text.startswith('tensor(') else type_text}"
                    if element(type_text) is not None and label not in seen:
                        seen.add(label)
                        yield label, schema, version, entry, variable, type_text


def ask_reference(model, inputs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with np.errstate(all="ignore"):
            return [np.asarray(value) for value in ReferenceEvaluator(model).run(None, inputs)]


def ask_onnxruntime(model, inputs):
    return list(runtimes.run_onnxruntime(model, inputs).values())


def fits(model, answer, schema, kinds):
    """The types and ranks are those that the signature promises: the evaluator does not keep to them for every type."""
    used = {formal.type_str for formal in schema.inputs}
    for info, formal, tensor in zip(onnx.shape_inference.infer_shapes(model).graph.output, schema.outputs, answer):
        promised = info.type.tensor_type
        kind = kinds.get(formal.type_str) if formal.type_str in used else promised.elem_type
        if kind not in (0, None, tensor.data_type) or (promised.HasField("shape") and len(promised.shape.dim) != len(tensor.dims)):
            return False
    return True


def answers_of(model, inputs, entry, schema, kinds):
    """What each runtime gives; one that does not take the model gives nothing."""
    found = []
    for ask in (ask_onnxruntime,) if entry.get("_only_onnxruntime") else (ask_reference, ask_onnxruntime):
        try:
            answer = [numpy_helper.from_array(value) for value in ask(model, inputs)]
            if fits(model, answer, schema, kinds):
                found.append(answer)
        except Exception:  # NotImplementedError, RuntimeError, TypeError, …: it cannot tell
            pass
    return found


def write_case(folder, model, inputs, answers):
    (folder / "test_data_set_0").mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for i, value in enumerate(inputs.values()):
        (folder / "test_data_set_0" / f"input_{i}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())
    for number, answer in enumerate(answers):
        for i, tensor in enumerate(answer):
            (folder / "test_data_set_0" / f"{'output' if number == 0 else 'other'}_{i}.pb").write_bytes(tensor.SerializeToString())


def generate():
    """{label: (folder, number of answers)}; written again when the generator or a package changed."""
    import onnxruntime

    key = hashlib.sha256("".join([(ROOT / "tests" / n).read_text() for n in ("arguments.py", "signatures.py")]).encode()).hexdigest()
    key += f" {onnx.__version__} {onnxruntime.__version__}"
    since = {op["name"]: op["since"] for op in opfuse_json("ops")["operators"] if op["domain"] == ""}
    key += json.dumps(since)
    stamp = FOLDER / "index.json"
    if stamp.exists() and json.loads(stamp.read_text())["key"] == key:
        return json.loads(stamp.read_text())["cases"]
    shutil.rmtree(FOLDER, ignore_errors=True)
    cases = {}
    for name, schemas in sorted(history().items()):
        for label, schema, version, entry, variable, type_text in trials(name, schemas, since[name]) if name in since else ():
            try:
                model, inputs = build(schema, version, entry, variable, type_text, zlib.crc32(label.encode()))
            except Unfit:
                continue
            folder = FOLDER / f"{len(cases):05}"
            answers = answers_of(model, inputs, entry, schema, choose_types(schema, variable, type_text))
            write_case(folder, model, inputs, answers)
            cases[label] = [str(folder), len(answers)]
    stamp.write_text(json.dumps({"key": key, "cases": cases}))
    return cases


def ask_opfuse(folders):
    """Error text or None by folder name."""
    selected = FOLDER / "selected"
    shutil.rmtree(selected, ignore_errors=True)
    selected.mkdir()
    for folder in folders:
        (selected / folder.name).symlink_to(folder)
    seen = {}
    for case in opfuse_json("test", selected, codes=(0, 1), timeout=600)["cases"] if folders else ():
        reason = (case["reason"] or "").replace(f"{selected}/{case['name']}/", "")
        seen[case["name"]] = None if case["status"] == "passed" else f"{case['status']}: {reason}"
    return seen


def second_opinion(folders):
    """Puts the other runtime's answers in the place of the first one's, for those that have any."""
    chosen = []
    for folder in folders:
        others = sorted((folder / "test_data_set_0").glob("other_*.pb"))
        target = FOLDER / "second" / folder.name
        if others:
            (target / "test_data_set_0").mkdir(parents=True)
            (target / "model.onnx").symlink_to(folder / "model.onnx")
            for path in (folder / "test_data_set_0").glob("input_*.pb"):
                (target / "test_data_set_0" / path.name).symlink_to(path)
            for path in others:
                (target / "test_data_set_0" / path.name.replace("other", "output")).symlink_to(path)
            chosen.append(target)
    return chosen


def main():
    tally = Tally(ROOT / "tests" / "signatures_skip.txt")
    wanted = set(sys.argv[1:])
    cases = {label: (pathlib.Path(folder), n) for label, (folder, n) in generate().items() if not wanted or label.split("-")[0] in wanted}
    errors = ask_opfuse([folder for folder, _ in cases.values()])
    shutil.rmtree(FOLDER / "second", ignore_errors=True)
    again = ask_opfuse(second_opinion([folder for folder, _ in cases.values() if errors.get(folder.name)]))
    for label, (folder, answers) in cases.items():
        error = errors.get(folder.name, "not reported")
        if error and folder.name in again:
            error = error if again[folder.name] else None
        if answers == 0 and error is None:
            tally.skip(label, "runs, but no other runtime takes it")
        else:
            tally.result(label, error)
    tally.finish()


if __name__ == "__main__":
    main()
