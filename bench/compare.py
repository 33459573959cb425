# SPDX-License-Identifier: Apache-2.0
"""Measures opfuse beside other runtimes: a table of ratios, plots, raw figures.

Each runtime runs in a process of its own, all on the same cores, and is sampled in turn while the others are stopped.
Before and after each sample a probe takes the speed of fused multiply-adds on those cores; a sample beside a slow probe
was disturbed and does not count. Results are compared with opfuse's before anything is timed. A ratio is the other's time
over opfuse's: above 1, opfuse is faster. DIR gets results.md, results.json and a plot of each setting as .png and .svg.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import numpy as np

import report
import runtimes
from arrays import difference, read_arrays, write_arrays
from children import Child, Failed, Probe, sample_in_turn

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKER = ROOT / "bench" / "worker.py"
CONVERT_TIMEOUT = 900  # seconds
TYPES = {"float": np.float32, "float16": np.float16, "double": np.float64, "int64": np.int64, "int32": np.int32,
         "int16": np.int16, "int8": np.int8, "uint8": np.uint8, "bool": np.bool_}
EXAMPLES = """examples:
  compare.py build/zoo/resnet50.onnx
  compare.py --peers onnxruntime,openvino --threads 1,2 --batch 1,8 build/zoo/mobilenet_v2.onnx
  compare.py --dim S=128 build/zoo/bert_base.onnx build/zoo/bert_base.onnx@S=512
  compare.py --open 5 --out bench build/zoo/*.onnx
"""


class Setting:
    """What is the same for all runtimes that are compared on a model."""

    def __init__(self, options, spec, threads, batch):
        self.options, self.threads, self.batch = options, threads, batch
        path, _, own = spec.partition("@")
        self.model = pathlib.Path(path).resolve()  # converters run in other folders
        self.name = self.model.stem
        self.dims = {name: int(n) for name, _, n in (d.rpartition("=") for d in options.dim + own.split(",") if d)}
        self.cores = set(options.cores[:threads])
        self.inputs, self.used = self._draw_inputs()

    def _draw_inputs(self):
        """Floats N(0,1), integers and booleans 0 or 1, as `opfuse bench` draws them; and the sizes of symbols."""
        done = subprocess.run([self.options.tool, "info", "--json", self.model], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(done.stderr.strip())
        random, inputs, used = np.random.default_rng(0), {}, {}
        for port in json.loads(done.stdout)["inputs"]:
            if port["has_default"]:
                continue
            if port["type"] not in TYPES:
                raise Failed(f"no random inputs of type {port['type']}")
            shape = []
            for axis, dim in enumerate(port["dims"]):
                if not isinstance(dim, int):
                    symbol = str(dim)
                    dim = used[symbol] = used.get(symbol) or self.dims.get(symbol, self.batch if axis == 0 else 1)
                shape.append(dim)
            kind = np.dtype(TYPES[port["type"]])
            values = random.standard_normal(shape) if kind.kind == "f" else random.integers(0, 2, shape)
            inputs[port["name"]] = np.asarray(values).astype(kind)
        return inputs, used

    def key(self, version):
        """Names what a converter makes of the model."""
        stat = self.model.stat()
        shapes = [list(array.shape) for array in self.inputs.values()]
        parts = [str(self.model), stat.st_size, stat.st_mtime_ns, shapes, version]
        return f"{self.name}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]}"


# ---- runtimes ----

def opfuse_command(setting, folder, *extra):
    command = [setting.options.tool, "bench", setting.model, "--serve", "--quiet", "--threads", setting.threads, *extra]
    for index, name in enumerate(setting.inputs):
        command += ["-i", f"{name}={folder / 'inputs' / f'{index}.npy'}"]
    return command


def opfuse_outputs(setting, folder):
    command = [setting.options.tool, "run", setting.model, "--quiet", "-o", folder / "opfuse"]
    for index, name in enumerate(setting.inputs):
        command += ["-i", f"{name}={folder / 'inputs' / f'{index}.npy'}"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(done.stderr.strip())
    return list(read_arrays(folder / "opfuse", "outputs.tsv").values())


def convert(module, setting, target):
    try:
        command = [str(word) for word in module.conversion(setting.model, target, setting.inputs)]
        done = subprocess.run(command, cwd=target.parent, capture_output=True, text=True, timeout=CONVERT_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"the converter needs more than {CONVERT_TIMEOUT} s") from None
    if done.returncode != 0 or not target.exists():
        lines = (done.stderr + done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise Failed(f"the converter fails: {lines[-1].strip()[:200]}")


def converted(name, setting):
    """The file that the runtime opens; a converter's work is kept for the next time."""
    module = runtimes.load(name)
    if module.CONVERTED is None:
        return setting.model
    kept = ROOT / "build" / "bench" / "converted" / name / setting.key(runtimes.version(name))
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            target = pathlib.Path(folder) / module.CONVERTED
            convert(module, setting, target)
            wanted = {target.name, target.name.replace(".param", ".bin")}
            for path in target.parent.iterdir():
                if path.name not in wanted:
                    path.unlink()  # a converter leaves models of other formats beside it
            shutil.copytree(folder, kept)
    return kept / module.CONVERTED


def peer_command(name, setting, folder):
    path = converted(name, setting)
    return [sys.executable, WORKER, name, path, folder / "inputs", folder / name, setting.threads]


def commands(setting, folder):
    """{runtime: a function that gives its command}, opfuse first."""
    table = {"opfuse": lambda: opfuse_command(setting, folder)}
    if setting.options.unfused:
        table["unfused"] = lambda: opfuse_command(setting, folder, "--no-fuse")
    for name in setting.options.peers:
        table[name] = lambda name=name: peer_command(name, setting, folder)
    return table


# ---- one model ----

def opening_figures(child, speed):
    opening = child.opening
    return {"probe": speed, "open_ms": opening["open_ms"], "first_run_ms": opening["first_run_ms"], "peak_bytes": child.peak_bytes}


def start(table, setting, folder, probe, found, say):
    """Opens each runtime and compares its first result; the children that may be timed."""
    children = {}
    say("opfuse: result")
    want = opfuse_outputs(setting, folder)
    for name, command in table.items():
        record = found[name] = {}
        try:
            say(f"{name}: opens")
            line, before = command(), probe()
            child = children[name] = Child(line, setting.cores)
            record["opens"] = [opening_figures(child, min(before, probe()))]
            if name in setting.options.peers:
                have = list(read_arrays(folder / name).values())
                record["error"], wrong = difference(have, want)
                if wrong is not None:
                    record["wrong"] = wrong
                    children.pop(name).close()
        except (Failed, runtimes.NotTaken) as error:
            record["refused"] = str(error)
            if name == "opfuse":
                raise
    return children


def sample(children, setting, probe, found, say):
    def failed(name, error):
        found[name]["refused"] = str(error)

    first = {name: found[name]["opens"][0]["first_run_ms"] for name in children}
    taken = sample_in_turn(children, first, setting.options, probe, say, failed)
    for name, samples in taken.items():
        found[name]["samples"] = samples


def reopen(table, children, setting, probe, found, say):
    """New processes from load to the first result."""
    for attempt in range(setting.options.open):
        for name in children:
            say(f"opening {attempt + 1} of {setting.options.open}: {name}")
            before = probe()
            child = Child(table[name](), setting.cores)
            child.close()
            found[name]["opens"].append(opening_figures(child, min(before, probe())))


def measure(setting, probe, say):
    """The record of one model: {"name", "sizes", "threads", "batch", "runtimes": {name: …}}."""
    found, children = {}, {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_arrays(folder / "inputs", setting.inputs)
        table = commands(setting, folder)
        try:
            children = start(table, setting, folder, probe, found, say)
            sample(children, setting, probe, found, say)
            reopen(table, children, setting, probe, found, say)
        finally:
            for child in children.values():
                child.close()
    return {"name": setting.name, "sizes": setting.used, "threads": setting.threads, "batch": setting.batch,
            "runtimes": found}


# ---- the run ----

def numbers(text):
    values = [int(word) for word in text.split(",")]
    if min(values) < 1:
        raise argparse.ArgumentTypeError("numbers from 1")
    return values


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL[@SYMBOL=N,...]", help="ONNX file, with sizes of its own if wanted")
    parser.add_argument("--peers", default=",".join(runtimes.NAMES), metavar="NAME,...", help="default: %(default)s")
    parser.add_argument("--threads", type=numbers, default=[1], metavar="N,...", help="default: 1")
    parser.add_argument("--batch", type=numbers, default=[1], metavar="N,...", help="size of a symbolic first axis (default: 1)")
    parser.add_argument("--dim", action="append", default=[], metavar="SYMBOL=N", help="size of a symbol, else 1")
    parser.add_argument("--rounds", type=int, default=9, metavar="N", help="undisturbed samples of each runtime (default: 9)")
    parser.add_argument("--sample-ms", type=float, default=60, metavar="MS", help="about how long a sample lasts (default: 60)")
    parser.add_argument("--open", type=int, default=0, metavar="N",
                        help="N more new processes of each, from load to the first result")
    parser.add_argument("--unfused", action="store_true", help="also opfuse --no-fuse")
    parser.add_argument("--cores", type=lambda t: [int(c) for c in t.split(",")], default=sorted(os.sched_getaffinity(0)),
                        metavar="N,...", help="cores to run on, the first ones first")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", metavar="DIR",
                        help="where opfuse and fma_probe lie (default: build/release)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "bench", metavar="DIR", help="default: build/bench")
    options = parser.parse_args()
    options.tool = options.build / "opfuse"
    options.peers = [name for name in options.peers.split(",") if name]
    unknown = set(options.peers) - set(runtimes.NAMES)
    if unknown:
        parser.error(f"no such runtime: {', '.join(sorted(unknown))}")
    if max(options.threads) > len(options.cores):
        parser.error(f"--threads {max(options.threads)} needs as many cores, there are {len(options.cores)}")
    return options


def without_missing(peers):
    """The runtimes that are installed; of the others it says what is missing."""
    there = []
    for name in peers:
        lacks = runtimes.missing(name)
        if lacks:
            print(f"compare: {runtimes.load(name).TITLE} is left out: no Python package {', '.join(lacks)}", file=sys.stderr)
        else:
            there.append(name)
    return there


def progress(done, total, setting):
    """A function that shows what is going on, on a terminal only."""
    def say(text):
        if sys.stderr.isatty():
            sizes = "".join(f" {name}={size}" for name, size in setting.used.items())
            line = f"[{done + 1}/{total}] {setting.name}{sizes}, {setting.threads} threads: {text}"
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
    return say


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an end that cleans up
    options = read_options()
    options.peers = without_missing(options.peers)
    titles = {"opfuse": "opfuse", **({"unfused": "opfuse unfused"} if options.unfused else {}),
              **{name: runtimes.load(name).TITLE for name in options.peers}}
    results = {"processor": report.processor(), "date": str(datetime.date.today()), "titles": titles,
               "versions": {name: runtimes.version(name) for name in options.peers}, "models": [], "failed": []}
    plan = [(spec, threads, batch) for threads in options.threads for batch in options.batch for spec in options.models]
    probes = {threads: Probe(options.build / "fma_probe", options.cores[:threads]) for threads in options.threads}
    for done, (spec, threads, batch) in enumerate(plan):
        try:
            setting = Setting(options, spec, threads, batch)
            record = measure(setting, probes[threads], progress(done, len(plan), setting))
            results["models"].append(record)
            # A later probe may be better: what is clean is judged when a report is made.
            results["best_probe"] = {str(t): probe.best for t, probe in probes.items()}
            report.write_json(results, options.out)
            print(("\r\033[K" if sys.stderr.isatty() else "") + report.one_line(record, results), flush=True)
        except Failed as error:
            results["failed"].append(f"{spec}: {error}")
            print(f"compare: {spec}: {error}", file=sys.stderr)
    report.write(results, options.out)
    print(f"\n{report.markdown(results)}")
    sys.exit(1 if results["failed"] else 0)


if __name__ == "__main__":
    main()
