# SPDX-License-Identifier: Apache-2.0
"""Cases of the backend suite whose outputs are random: another generator draws other numbers, so what is checked are
their type, their shape, and, on an input that is much longer, their distribution."""

import numpy as np
import onnx

import runtimes

REPEATS = 2000
SIGMAS = 6


def is_random(case):
    name = case.name.rpartition("/")[2]
    return name.startswith("test_bernoulli") or (name.startswith("test_training_dropout") and "zero_ratio" not in name)


def enlarge(model):
    """The same model on an input that is longer along axis 0."""
    larger = onnx.ModelProto()
    larger.CopyFrom(model)
    for info in [larger.graph.input[0], *larger.graph.output, *larger.graph.value_info]:
        shape = info.type.tensor_type.shape
        if shape.dim and shape.dim[0].dim_value:
            shape.dim[0].dim_value *= REPEATS
    return larger


def demand_share(what, hits, share):
    """A share of hits among n draws is within six sigmas of the right one."""
    sigma = np.sqrt(share * (1 - share) / hits.shape[0])
    wrong = np.abs(hits.mean(axis=0) - share) > SIGMAS * sigma + 1e-12
    assert not np.any(wrong), f"{what}: {hits.mean(axis=0)[wrong].flat[0]:.4f} of the draws, expected {np.broadcast_to(share, wrong.shape)[wrong].flat[0]:.4f}"


def check_bernoulli(inputs, outputs, is_expanded):
    (p,), (y,) = inputs.values(), outputs.values()
    draws = y.astype(np.float64).reshape(REPEATS, -1)
    assert np.all((draws == 0) | (draws == 1)), "a result is neither 0 nor 1"
    share = p.reshape(REPEATS, -1)[0].astype(np.float64)
    # The function by which ONNX defines Bernoulli gives 1 where the draw is above p: its expansion has 1 - p.
    demand_share("ones", draws, 1 - share if is_expanded else share)


def check_dropout(inputs, outputs):
    x, *rest = inputs.values()
    y, *masks = outputs.values()
    ratio = float(rest[0]) if rest else 0.5
    kept = masks[0] if masks else (y != 0) | (x == 0)
    assert np.array_equal(kept, (y != 0) | (x == 0)), "the mask is not that of the result"
    scaled = (x / (1 - ratio)).astype(y.dtype)
    assert np.allclose(y[kept], scaled[kept], rtol=1e-5, atol=0), "what is kept is not scaled by 1/(1 - ratio)"
    demand_share("dropped", ~kept.reshape(-1, 1), np.float64(ratio))


def check(case, run):
    """Runs a case as it stands and enlarged; what is wrong, or None."""
    model = onnx.load(case.folder / "model.onnx")
    folder = case.folder / "test_data_set_0"
    inputs = runtimes.load_values(folder, "input", model.graph.input)
    try:
        have = run(model, inputs)
        for key, want in runtimes.load_values(folder, "output", model.graph.output).items():
            assert have[key].dtype == want.dtype and have[key].shape == want.shape, f"output {key}: type or shape differ"
        first = next(iter(inputs))
        many = {**inputs, first: np.concatenate([inputs[first]] * REPEATS)}
        outputs = run(enlarge(model), many)
        if "dropout" in case.name:
            check_dropout(many, outputs)
        else:
            check_bernoulli(many, outputs, case.name.endswith("_expanded"))
    except Exception as error:  # whatever goes wrong belongs to this case alone
        return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return None
