# SPDX-License-Identifier: Apache-2.0
"""What each of the four fusions of the course gains: ResNet-50 and BERT-base with it and without.

    ablate.py [--rounds N] [--sample-ms MS] [--threads N,...] [--build DIR] --zoo DIR

Every variant runs in a process of its own on the same cores; they are sampled in turn, the others stopped, and a sample
beside a slow probe does not count. Writes bench/ablation.json, from which scripts/make_fusions_md.py makes a section of
docs/fusions.md.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess

import report
from children import Child, Failed, Probe, sample_in_turn

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESIDUAL = "conv-add-relu,conv-add,epilogue"
# Model, sizes, and what each variant leaves out; "" is everything.
CASES = [
    ("resnet50.raw", [{"N": 1}, {"N": 8}], {
        "all fusions": "", "BatchNormalization not folded": "conv-bn", "Add and Relu as one region": RESIDUAL,
        "Add and Relu as two kernels": RESIDUAL + ",region", "no fusion": None}),
    ("bert_base", [{"S": 16}, {"S": 128}, {"S": 512}], {
        "all fusions": "", "LayerNorm in pieces": "layer-norm,skip-layer-norm", "Q, K, V as three products": "qkv",
        "attention in pieces": "attention", "no fusion": None}),
]


def options_of(sizes, skip):
    """Of every command that loads the model."""
    dims = [word for name, size in ({"N": 1} | sizes).items() for word in ("--dim", f"{name}={size}")]
    return [*dims, "--quiet", *(["--no-fuse"] if skip is None else ["--skip", skip] if skip else [])]


def describe(tool, model, sizes, skip):
    """Kernels, and bytes of activations that one run reads and writes."""
    command = [tool, "explain", model, *options_of(sizes, skip or ""), "--json"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    when = "before" if skip is None else "after"
    return {"kernels": found[f"nodes_{when}"], "bytes": found[f"bytes_{when}"]}


def measure(tool, model, sizes, variants, threads, cores, probe, options):
    """{variant: ms at best}."""
    children = {}

    def failed(name, error):
        raise Failed(f"{name}: {error}")

    try:
        for name, skip in variants.items():
            children[name] = Child([tool, "bench", model, *options_of(sizes, skip), "--serve", "--threads", str(threads)], cores)
        first = {name: child.opening["first_run_ms"] for name, child in children.items()}
        samples = sample_in_turn(children, first, options, probe, lambda _: None, failed)
    finally:
        for child in children.values():
            child.close()
    return {name: report.figures({"samples": found}, probe.best)["min"] for name, found in samples.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zoo", type=pathlib.Path, required=True, metavar="DIR", help="folder of resnet50.raw.onnx and bert_base.onnx")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", metavar="DIR")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="undisturbed samples of each variant (default: 7)")
    parser.add_argument("--sample-ms", type=float, default=150, metavar="MS", help="about how long a sample lasts (default: 150)")
    parser.add_argument("--threads", default="1,2", metavar="N,...")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "bench" / "ablation.json", metavar="FILE")
    options = parser.parse_args()
    tool, usable = options.build / "opfuse", sorted(os.sched_getaffinity(0))
    found = {"processor": report.processor(), "date": str(datetime.date.today()), "cases": []}
    for threads in map(int, options.threads.split(",")):
        cores = set(usable[-threads:])
        probe = Probe(options.build / "fma_probe", cores)
        for name, list_of_sizes, variants in CASES:
            model = options.zoo / f"{name}.onnx"
            for sizes in list_of_sizes:
                times = measure(tool, model, sizes, variants, threads, cores, probe, options)
                rows = {v: describe(tool, model, sizes, skip) | {"ms": times[v]} for v, skip in variants.items()}
                found["cases"].append({"model": name, "sizes": sizes, "threads": threads, "probe": probe.best, "variants": rows})
                options.out.write_text(json.dumps(found, indent=1) + "\n")
                print(name, sizes, f"{threads} threads:", ", ".join(f"{v} {row['ms']:.2f}" for v, row in rows.items()), flush=True)


if __name__ == "__main__":
    main()
