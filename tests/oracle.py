# SPDX-License-Identifier: Apache-2.0
"""What ONNX Runtime's optimizer does with models that nobody here wrote, as a measure for opfuse's fusions.

    python3 tests/oracle.py [PATTERN…]     models whose path contains a pattern; without one, all

Needs ../shared/corpus. Three kinds of checks, exceptions with their reasons in tests/oracle_skip.txt:

`kernels:MODEL`  fusion_oracle.tsv: opfuse leaves no more kernels than ONNX Runtime's `extended` level leaves nodes. Some
                 of its operators stand for several kernels (WEIGHTS); bodies count on both sides. Of the models judged,
                 fewer than 2 % may be exceptions.
`row:FILE:TEST`  expectations.tsv: what a test of ONNX Runtime's optimizer says must go from a model has gone, and what
                 it says must stay, stays. A fused kernel counts under its anchor's name (ANCHORS).
`kept:MODEL`     of every model of the corpus: every elementwise, normalisation or data-movement kernel has an entry in
                 `kept` that names the condition that failed; "could be fused, but is not" is none.
"""

import collections
import concurrent.futures
import csv
import json
import re
import sys

import corpus
from corpus import FOLDER, SHARED
from harness import ROOT, Tally, last_line, opfuse

EXCEPTIONS = ROOT / "tests" / "oracle_skip.txt"
MOST_EXCEPTIONS = 0.02
SECONDS = 60

# Kernels behind one operator of ONNX Runtime.
WEIGHTS = {
    "com.microsoft::EmbedLayerNormalization": 4,
    "com.microsoft::Attention": 2,
    "com.microsoft::MultiHeadAttention": 2,
    "com.microsoft::DynamicQuantizeMatMul": 2,
}

# What a fused operator of ONNX Runtime may be called here: the kernels that remain of what it replaced.
ANCHORS = {
    "com.microsoft.FusedMatMul": ["MatMul"],
    "com.microsoft.FusedGemm": ["Gemm"],
    "com.microsoft.FusedConv": ["Conv"],
    "Gemm": ["MatMul"],
    "SimplifiedLayerNormalization": ["RMSNormalization"],
    "com.microsoft.SkipLayerNormalization": ["LayerNormalization"],
    "com.microsoft.EmbedLayerNormalization": ["Gather", "Gather", "Gather", "LayerNormalization"],
    "com.microsoft.Attention": ["MatMul", "Attention"],
    "com.microsoft.Gelu": ["Gelu"],
    "com.microsoft.BiasGelu": ["Gelu"],
    "com.microsoft.FastGelu": ["Gelu"],
    "com.microsoft.DynamicQuantizeMatMul": ["DynamicQuantizeLinear", "MatMulInteger"],
    "com.microsoft.MatMulIntegerToFloat": ["MatMulInteger"],
    "EmbedLayerNormalization": ["Gather", "Gather", "Gather", "LayerNormalization"],
    "Attention": ["MatMul", "Attention"],
}

# Transformers of the catalogue. The others concern training, other devices, casts that are moved about, or sharing.
COVERED = {
    "AttentionFusion", "BiasGeluFusion", "CommonSubexpressionElimination", "ConcatSliceElimination", "ConstantFolding",
    "ConvActivationFusion", "ConvAddActivationFusion", "ConvAddFusion", "ConvBNFusion", "ConvMulFusion",
    "DynamicQuantizeMatMulFusion", "EliminateDropout", "EliminateIdentity", "EliminateSlice", "EmbedLayerNormFusion",
    "ExpandElimination", "FastGeluFusion", "FuseReluClip", "GeluFusion", "GemmActivationFusion", "GemmSumFusion",
    "GemmTransposeFusion", "LayerNormFusion", "MatMulAddFusion", "MatMulIntegerToFloatFusion", "MatMulScaleFusion",
    "MatmulBNFusion", "MatmulTransposeFusion", "NoopElimination", "NotWhereFusion", "PadFusion", "PreShapeNodeElimination",
    "ReshapeFusion", "SimplifiedLayerNormFusion", "SkipLayerNormFusion", "UnsqueezeElimination", "py-optimizer",
}  # fmt: skip

# Kernels that compute more than one element from one: they need no reason. All others do.
COMPUTES = re.compile(
    r"(\w+/)?(Conv\w*|DeformConv|MatMul\w*|Gemm|QLinear\w+|Attention|LinearAttention|Einsum|LSTM|GRU|RNN|\w*Pool\w*|Max\w*Pool|Reduce\w+"
    r"|ArgMax|ArgMin|TopK|CumSum|CumProd|Random\w+|Bernoulli|Multinomial|Range|NonZero|NonMaxSuppression|Unique|Resize|GridSample|STFT|DFT"
    r"|Dynamic\w+|RoiAlign|Hardmax|Det|Scan|Loop|If|Shape|Size|ConstantOfShape|EyeLike|TensorScatter|Col2Im|ImageDecoder|MelWeightMatrix"
    r"|\w+Window|SoftmaxCrossEntropyLoss|NegativeLogLikelihoodLoss|AffineGrid|RotaryEmbedding|CausalConv\w*|Inverse|Compress|OneHot)"
)


def read(name):
    with open(SHARED / name, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def explain(model):
    """The explanation, or None where opfuse rejects the model, or what went wrong."""
    done = opfuse("explain", FOLDER / model, "--json", timeout=SECONDS)
    if done.returncode == 3:
        return None
    if done.returncode != 0:
        return f"exit code {done.returncode}: {last_line(done.stderr)}"
    return json.loads(done.stdout)


def histogram(text):
    """Conv=2 com.microsoft::FusedConv=1 …"""
    return {name: int(count) for name, _, count in (word.rpartition("=") for word in text.split())}


def text_of(counts):
    return " ".join(f"{name}={count}" for name, count in counts.items())


# ---- kernels ----


def check_kernels(row, explanation):
    """What is wrong, or None."""
    theirs = histogram(row["ops_after_extended"])
    bound = sum(count * WEIGHTS.get(name, 1) for name, count in theirs.items())
    if explanation["nodes_after"] <= bound:
        return None
    return f"{explanation['nodes_after']} kernels, must be at most {bound}: {text_of(explanation['ops_after'])} | {text_of(theirs)}"


# ---- expectations ----


def transformers(row):
    return [re.sub(r"\(.*", "", name) for name in row["fusion_transformers"].split("+")]


def is_judged(row):
    return (
        row["after"] != ""
        and "MUTATED" not in row["guard_or_ep"]
        and not re.search(r"TRAINING|USE_|Cuda|Dml", row["guard_or_ep"])
        and all(name in COVERED for name in transformers(row))
    )


def wanted_counts(row, before):
    """Operator to (its count after, whether it has it before); #nodes is the sum."""
    if row["after"] == "ALL=unchanged":
        return dict(before)
    wanted = {}
    for word in row["after"].split():
        name, value = re.fullmatch(r"([\w.#-]+?)==?(.+)", word).groups()
        if value.isdigit():
            wanted[name] = int(value)
        elif value == "before-1":
            wanted[name] = before.get(name, 0) - 1
        elif value.startswith("before("):
            wanted[name] = before.get(value[7:-1], 0)
    return wanted


def check_row(row, explanation):
    before, after = explanation["ops_before"], explanation["ops_after"]
    wanted = wanted_counts(row, before)
    credit = collections.Counter()
    for name, count in wanted.items():
        for anchor in ANCHORS.get(name, []):
            credit[anchor] += count
    wrong = []
    changed = any(name in before and count < before[name] for name, count in wanted.items())
    for name, count in wanted.items():
        if "." in name or name in ("SimplifiedLayerNormalization", "EmbedLayerNormalization", "Attention"):
            continue
        found = explanation["nodes_after"] if name == "#nodes" else after.get(name, 0)
        if found > count + credit[name]:
            wrong.append(f"{name}={found}, must be {count + credit[name]}")
        elif not changed and found < count and name in before:
            wrong.append(f"{name}={found}, must stay {count}")
    return "; ".join(wrong) + f" ({text_of(after)})" if wrong else None


# ---- reasons ----


def check_kept(explanation):
    entries = collections.Counter(entry["op"] for entry in explanation["kept"])
    for name, count in explanation["ops_after"].items():
        if not COMPUTES.fullmatch(name) and entries[name] < count:
            return f"{count} kernels of {name}, but {entries[name]} reasons"
    weak = [e["node"] for e in explanation["kept"] if not e["reason"] or not e["code"] or e["code"] == "NO_GAIN"]
    return f"no condition that failed: {weak[:5]}" if weak else None


def main():
    tally = Tally(EXCEPTIONS)
    reason = corpus.unpack()
    if reason:
        tally.skip("oracle", reason)
        tally.finish()
    patterns = sys.argv[1:]
    every = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.onnx") if FOLDER / "golden" not in path.parents}
    oracle = {row["model"]: row for row in read("fusion_oracle.tsv") if row["status"] == "ok"}
    rows = collections.defaultdict(list)
    seen = collections.Counter()
    for row in filter(is_judged, read("expectations.tsv")):
        file = row["file"].removeprefix("onnxruntime/test/testdata/").removeprefix("transform/")
        row["name"] = f"row:{file}:{row['source'].rpartition(':')[2]}"
        seen[row["name"]] += 1
        row["name"] += f"#{seen[row['name']]}" if seen[row["name"]] > 1 else ""
        model = next(f"{base}/{row['file']}" for base in ("ort", "ort-1.6.0") if (FOLDER / base / row["file"]).exists())
        rows[model].append(row)
    models = [m for m in sorted(every | set(oracle) | set(rows)) if not patterns or any(p in m for p in patterns)]
    judged = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for model, explanation in zip(models, pool.map(explain, models)):
            if isinstance(explanation, str):
                tally.result(f"kept:{model}", explanation)
            if not isinstance(explanation, dict):
                continue
            tally.result(f"kept:{model}", check_kept(explanation))
            if model in oracle and oracle[model]["nodes_extended"] != "0":
                judged += 1
                tally.result(f"kernels:{model}", check_kernels(oracle[model], explanation))
            for row in rows[model]:
                tally.result(row["name"], check_row(row, explanation))
    exceptions = sum(pattern.startswith("kernels:") for pattern, _ in tally.gaps)
    print(f"{exceptions} of {judged} models judged are exceptions")
    if not patterns and exceptions >= MOST_EXCEPTIONS * judged:
        tally.result("exceptions", f"{exceptions} of {judged} models are exceptions")
    tally.finish()


if __name__ == "__main__":
    main()
