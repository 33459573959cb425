# SPDX-License-Identifier: Apache-2.0
"""bench/compare.py measures, without a word on speed: with the runtimes that are installed, few samples, small models."""

import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

from harness import BUILD, OPFUSE, ROOT, Tally

sys.path.insert(0, str(ROOT / "bench"))
import children
import report
import runtimes
import tune
from arrays import difference, read_arrays, write_arrays

MODEL = ROOT / "examples" / "digits" / "transformer.onnx"
BENCH_PYTHON = BUILD / "venv-bench" / "bin" / "python"
PYTHON = BENCH_PYTHON if (BUILD / "venv-bench" / ".ready").exists() else sys.executable
# Opens a runtime, tells its process, and waits to be killed.
ORPHAN = """
import sys, time
sys.path.insert(0, sys.argv[1])
from children import Child
print(Child([sys.argv[2], "bench", sys.argv[3], "--serve", "--threads", "1"], {int(sys.argv[4])}).process.pid, flush=True)
time.sleep(60)
"""


def compare(folder, *arguments):
    command = [PYTHON, ROOT / "bench" / "compare.py", "--build", OPFUSE.parent, "--rounds", "1", "--sample-ms", "5"]
    command += ["--out", folder, *arguments]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr.strip()}"
    return json.loads((folder / "results.json").read_text()), (folder / "results.md").read_text()


def is_installed(name):
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'bench')!r}); import runtimes; sys.exit(bool(runtimes.missing({name!r})))"
    return subprocess.run([PYTHON, "-c", code], check=False).returncode == 0


def runtime(name, folder):
    """The runtime takes the model, and its result is ours."""
    results, text = compare(folder, MODEL, "--peers", name, "--dim", "N=1")
    (model,) = results["models"]
    assert model["sizes"] == {"N": 1}, model["sizes"]
    record = model["runtimes"][name]
    assert "refused" not in record and "wrong" not in record, record
    for measured in (record, model["runtimes"]["opfuse"]):
        assert len(measured["samples"]) >= 1 and min(measured["samples"][0]["wall"] + measured["samples"][0]["cpu"]) > 0
        assert measured["opens"][0]["first_run_ms"] > 0 and measured["opens"][0]["peak_bytes"] > 0
    assert runtimes.load(name).TITLE in text and "transformer N=1" in text


def settings(folder):
    """Batches and threads are sections; a model that is not there fails alone."""
    threads = [1, 2] if len(os.sched_getaffinity(0)) > 1 else [1]
    results, text = compare(folder, MODEL, f"{MODEL}@N=2", "--peers", "", "--unfused", "--open", "1", "--batch", "1,3",
                            "--threads", ",".join(map(str, threads)))
    sizes = [(model["threads"], model["batch"], model["sizes"]["N"]) for model in results["models"]]
    assert sizes == [(t, b, n) for t in threads for b in (1, 3) for n in (b, 2)], sizes
    assert all(len(model["runtimes"]["opfuse"]["opens"]) == 2 for model in results["models"])
    assert text.count("## ") == 2 * len(threads)


def model_that_fails(folder):
    try:
        compare(folder, MODEL, folder / "none.onnx", "--peers", "")
    except AssertionError as error:
        assert "exit code 1" in str(error) and "none.onnx" in str(error), error
    else:
        raise AssertionError("a model that is not there is no failure")
    assert len(json.loads((folder / "results.json").read_text())["models"]) == 1


def wrong_results_are_told(folder):
    want = [np.float32([[1, -2, np.nan, np.inf]]), np.zeros((0, 3))]
    assert difference([want[0][0], want[1]], want) == (0.0, None)
    nan, inf = np.nan, np.inf
    for wrong in ([1.1, -2, nan, inf], [1, 2, nan, inf], [1, -2, 0, inf], [1, -2, nan, -inf], [1, -2, nan]):
        assert difference([np.float32(wrong), want[1]], want)[1] is not None, wrong
    assert difference(want[:1], want)[1] is not None
    write_arrays(folder, {"b/x": want[0], "a": want[1]})
    back = read_arrays(folder)
    assert list(back) == ["b/x", "a"] and np.array_equal(back["b/x"], want[0], equal_nan=True)


def disturbed_samples_do_not_count(_):
    samples = [{"probe": 100, "wall": [2.0, 3.0], "cpu": [2.0]}, {"probe": 91, "wall": [4.0], "cpu": [1.0]},
               {"probe": 90, "wall": [0.1], "cpu": [0.1]}]
    assert report.figures({"samples": samples}, 100) == {"min": 2.0, "median": 3.25, "cpu": 1.0, "clean": 2, "of": 3}
    assert report.figures({"samples": samples}, 1000)["clean"] == 0
    assert report.figures({"samples": samples, "refused": "died"}, 100) is None
    probe = children.Probe("fma_probe", {0})
    assert probe.best == 0
    probe.speeds = [80, 90, 100]
    assert probe.best == 100
    probe.speeds = [80] * 10 + [100] * 9 + [1000]
    assert probe.best == 100


def tuning_knows_the_choice(folder):
    """bench/tune.py searches bounds of the decision that the planner makes."""
    bounds = tune.committed()
    of_level = [tune.name_at(name, level) for name in tune.OF_LEVEL for level in tune.LEVELS]
    assert sorted(bounds) == sorted([*tune.CANDIDATES, *tune.CANDIDATES_OF_TAPS, *of_level]), bounds
    level = tune.vector_levels(OPFUSE, MODEL)[-1]
    # Images of up to 8 channels are gathered from the layout that they come in.
    sizes = ((4, 1), (5, 1), (6, 1), (8, 1), (9, 1), (12, 1), (14, 1), (4, 12), (5, 3))
    cases = [*itertools.product(((64, 7), (64, 8), (16, 64), (168, 170), (192, 192)), sizes, [(3, 3)]),
             *itertools.product(((31, 64), (32, 33)), ((1, 2), (2, 1), (3, 1), (4, 1), (7, 1), (8, 2)), tune.TAPS)]
    for channels, size, taps in cases:
        shape = tune.Shape(channels, size, taps)
        shape.write(folder / "model.onnx")
        form = tune.form_of(OPFUSE, shape, folder / "model.onnx", level)
        assert form == shape.takes(bounds, level), f"{shape}: the planner takes form {form}"


def gone(pid, seconds):
    """The process has ended, or waits for the init process to notice."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


def stopped_processes_end_with_their_driver(_):
    core = min(os.sched_getaffinity(0))
    command = [sys.executable, "-c", ORPHAN, ROOT / "bench", OPFUSE, MODEL, str(core)]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    pid = int(driver.stdout.readline())
    assert not gone(pid, 0.2)
    driver.kill()
    driver.communicate()
    assert gone(pid, 20), "a runtime outlives the program that measures"


def stages_are_timed(_):
    command = [OPFUSE.parent / "bench_fuse", "-n", "2", MODEL, "missing.onnx"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    head, row = (line.split() for line in done.stdout.splitlines())
    assert done.returncode == 1 and "missing.onnx" in done.stderr, done.stderr
    assert head[-7:-4] == ["load", "simplify", "fuse"] and row[0] == MODEL.name, done.stdout
    assert all(float(ms) > 0 for ms in row[1:4]) and int(row[4]) > int(row[6]) > 0 and int(row[7]) > 0, done.stdout


def main():
    tally = Tally()

    def check(name, test, *arguments):
        error = None
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(*arguments, pathlib.Path(folder))
            except (AssertionError, OSError, KeyError, subprocess.TimeoutExpired) as caught:
                error = str(caught) or type(caught).__name__
        tally.result(name, error)

    for name in runtimes.NAMES:
        if is_installed(name):
            check(name, runtime, name)
        else:
            tally.skip(name, "not installed")
    for test in (settings, model_that_fails, wrong_results_are_told, disturbed_samples_do_not_count, tuning_knows_the_choice,
                 stopped_processes_end_with_their_driver, stages_are_timed):
        check(test.__name__, test)
    tally.finish()


if __name__ == "__main__":
    main()
