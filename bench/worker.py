# SPDX-License-Identifier: Apache-2.0
"""One runtime in a process of its own; bench/compare.py starts it and asks for samples.

    worker.py RUNTIME MODEL INPUTS OUTPUTS THREADS

It speaks as `opfuse bench --serve` does: a line {"open_ms", "first_run_ms", "resident_before"}, then each line `run N` on stdin is answered
by a list of N pairs, the wall time and the CPU time of a run in ms. INPUTS is a folder of write_arrays, the first result
becomes the folder OUTPUTS. What fails is told as {"error": reason}.
"""

import importlib
import json
import os
import sys
import time

import numpy as np

import runtimes
from arrays import read_arrays, write_arrays


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def timed(work):
    """Wall time and CPU time of all threads, in ms."""
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    work()
    return (time.perf_counter_ns() - wall) * 1e-6, (time.process_time_ns() - cpu) * 1e-6


def open_runtime(name, path, inputs, threads, outputs):
    """The runtime, and the opening line. Importing it counts neither as time nor as memory."""
    module = runtimes.load(name)
    importlib.import_module(module.PACKAGES[0])
    before = resident_bytes()
    start = time.perf_counter_ns()
    runtime = module.Runtime(path, inputs, threads)
    opened = (time.perf_counter_ns() - start) * 1e-6
    first, _ = timed(runtime.run)
    write_arrays(outputs, {str(index): np.asarray(result) for index, result in enumerate(runtime.outputs())})
    return runtime, {"open_ms": opened, "first_run_ms": first, "resident_before": before}


def main():
    name, path, inputs, outputs, threads = sys.argv[1:]
    # Some runtimes print on standard output: that goes to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value):
        print(json.dumps(value), file=answers, flush=True)

    try:
        runtime, opening = open_runtime(name, path, read_arrays(inputs), int(threads), outputs)
    except Exception as error:  # whatever a runtime raises about a model
        text = " ".join(str(error).split()) or type(error).__name__
        answer({"error": text[:300]})
        sys.exit(1)
    answer(opening)
    for line in sys.stdin:
        answer([timed(runtime.run) for _ in range(int(line.split()[1]))])


if __name__ == "__main__":
    main()
