# SPDX-License-Identifier: Apache-2.0
"""Latency side by side with ONNX Runtime, as a Markdown table of ratios.

    compare.py [--threads N] [--rounds N] [--runs N] [--dim SYMBOL=N] [--unfused] MODEL…

Rounds alternate: a few runs of `opfuse bench`, a few runs of ONNX Runtime with the same shapes and threads, both in
this process tree. Before, between and after them a probe takes the speed of fused multiply-adds; a sample beside a
slow probe was disturbed by others and is dropped. The best probe is shown: on a quiet machine it is the same every
time, and a table whose best is below that comes from a machine that was never quiet. A ratio is ONNX Runtime's time over opfuse's: above 1, opfuse is
faster. Models with symbolic dimensions run with 1 unless --dim says more.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parent.parent
RELEASE = ROOT / "build" / "release"
NOTES = set()  # told once
DISTURBED = 0.92  # share of the best probe below which a sample does not count

TYPES = {"float": np.float32, "float16": np.float16, "double": np.float64, "int64": np.int64, "int32": np.int32,
         "int8": np.int8, "uint8": np.uint8, "bool": np.bool_}


def probe(threads):
    """GFLOP/s of the slowest of as many cores as the samples use."""
    running = [subprocess.Popen([RELEASE / "fma_probe", "20"], stdout=subprocess.PIPE, text=True) for _ in range(threads)]
    return min(float(process.communicate()[0]) for process in running)


def random_inputs(session, dims):
    """Floats N(0,1), integers and booleans 0 or 1, as `opfuse bench` draws them."""
    rng = np.random.default_rng(0)
    feed = {}
    for port in session.get_inputs():
        shape = [d if isinstance(d, int) else dims.get(d, 1) for d in port.shape]
        kind = TYPES[port.type[len("tensor("):-1]]
        values = rng.standard_normal(shape) if np.issubdtype(kind, np.floating) else rng.integers(0, 2, shape)
        feed[port.name] = np.asarray(values).astype(kind)
    return feed


class Samples:
    """Times of one runtime: (probe beside it, milliseconds of each run, open time)."""

    def __init__(self):
        self.rounds = []

    def add(self, speed, times, opening):
        self.rounds.append((speed, times, opening))

    def clean(self, best):
        return [r for r in self.rounds if r[0] >= DISTURBED * best]

    def has_clean(self, best):
        return bool(self.clean(best))

    def figures(self, best):
        kept = self.clean(best)
        dropped = len(self.rounds) - len(kept)
        kept = kept or self.rounds
        minimum = min(min(times) for _, times, _ in kept)
        median = statistics.median(statistics.median(times) for _, times, _ in kept)
        return minimum, median, min(opening for _, _, opening in kept), dropped


def run_ort(path, options, dims):
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.inter_op_num_threads = 1
    # Its idle threads would otherwise spin into our next sample.
    settings.add_session_config_entry("session.force_spinning_stop", "1")
    start = time.perf_counter()
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    opening = 1e3 * (time.perf_counter() - start)
    feed = random_inputs(session, dims)
    times = []
    for index in range(options.warmup + options.runs):
        start = time.perf_counter()
        session.run(None, feed)
        if index >= options.warmup:
            times.append(1e3 * (time.perf_counter() - start))
    return times, opening


def run_opfuse(path, options, *extra):
    command = [RELEASE / "opfuse", "bench", path, "--json", "--quiet", "--threads", str(options.threads),
               "--runs", str(options.runs), "--warmup", str(options.warmup), *extra]
    for dim in options.dim:
        command += ["--dim", dim]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"opfuse bench {path}: {done.stderr.strip()}")
    report = json.loads(done.stdout)
    slow = sum(step["kernel"] == "reference" for step in report["steps"])
    if slow:
        note = f"compare: note: {slow} steps of {pathlib.Path(path).stem} {' '.join(extra)} run on reference kernels"
        if note not in NOTES:
            NOTES.add(note)
            print(note + ("; its column does not tell what fusion alone gains" if extra else ""), file=sys.stderr)
    return [report["min_ms"], report["median_ms"], report["p90_ms"]], report["open_ms"]


def compare(path, options):
    """The table's row of one model."""
    dims = {name: int(value) for name, _, value in (dim.rpartition("=") for dim in options.dim)}
    runners = {"opfuse": lambda: run_opfuse(path, options), "ort": lambda: run_ort(path, options, dims)}
    if options.unfused:
        runners["unfused"] = lambda: run_opfuse(path, options, "--no-fuse")
    samples = {name: Samples() for name in runners}
    speed = best = probe(options.threads)
    for _ in range(options.rounds):
        for name, runner in runners.items():
            times, opening = runner()
            after = probe(options.threads)
            samples[name].add(min(speed, after), times, opening)
            best = max(best, after)
            speed = after
    minimum, median, opening, dropped = samples["opfuse"].figures(best)
    ort_minimum, ort_median, ort_opening, ort_dropped = samples["ort"].figures(best)
    row = [pathlib.Path(path).stem, f"{ort_minimum / minimum:.2f}", f"{ort_median / median:.2f}",
           f"{minimum:.3f}", f"{ort_minimum:.3f}", f"{ort_opening / opening:.2f}"]
    if options.unfused:
        unfused_minimum, unfused_median, _, unfused_dropped = samples["unfused"].figures(best)
        row += [f"{unfused_minimum / minimum:.2f}", f"{unfused_median / median:.2f}"]
        dropped += unfused_dropped
    # Without one clean sample of each the ratios say nothing about either.
    note = "" if all(s.has_clean(best) for s in samples.values()) else ": no clean sample, do not use"
    row.append(f"{best:.0f}")
    return row + [f"{dropped + ort_dropped} of {options.rounds * len(runners)}{note}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--runs", type=int, default=10, help="timed runs a round")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--dim", action="append", default=[], metavar="SYMBOL=N")
    parser.add_argument("--unfused", action="store_true", help="compare with --no-fuse too")
    options = parser.parse_args()
    heads = ["model", "ratio of minima", "ratio of medians", "opfuse min ms", "ORT min ms", "ratio of open times"]
    heads += ["unfused/fused minima", "unfused/fused medians"] if options.unfused else []
    heads += ["best probe GFLOP/s", "samples dropped"]
    print(f"ONNX Runtime {onnxruntime.__version__}, {options.threads} threads; a ratio above 1: opfuse is faster\n")
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    failed = False
    for path in options.models:
        try:
            print("| " + " | ".join(compare(path, options)) + " |", flush=True)
        except RuntimeError as error:
            failed = True
            print(f"compare: {error}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
