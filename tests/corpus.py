# SPDX-License-Identifier: Apache-2.0
"""Models that nobody here wrote: ../shared/corpus, unpacked once below build/corpus.

    python3 tests/corpus.py results [OPTION…]     every reference set, with these options of `opfuse test`
    python3 tests/corpus.py robust [--sample N]   every model (or N of them) through info and explain

`results`: known gaps stand in tests/corpus_skip.txt, operators among them as op:NAME; what is ill-conditioned may pass
or not, by CPU level. `robust`: many models are broken on purpose; the tool must take or reject each (exit code 0 or 3)
within 10 seconds. Run it with OPFUSE naming a build with sanitizers: a report of theirs is another exit code.
"""

import concurrent.futures
import csv
import fnmatch
import os
import re
import shutil
import subprocess
import sys

from harness import BUILD, ROOT, Tally, alone, last_line, opfuse, opfuse_json

SHARED = ROOT.parent / "shared" / "corpus"
ARCHIVE = SHARED / "corpus.tar.zst"
FOLDER = BUILD / "corpus"
GAPS = ROOT / "tests" / "corpus_skip.txt"
UNSUPPORTED = re.compile(
    r"(\w+)(?: of domain ([\w.]+))?(?:, opset \d+)?"
    r"(?: \((?:known from (\d+) on|[^)]*)\))?: (?:node|\d+ nodes)"
)
SECONDS = 10


def unpack():
    """The reason if there is no corpus."""
    stamp = FOLDER / ".unpacked"
    if not ARCHIVE.exists():
        return "there is no ../shared/corpus"
    size = str(ARCHIVE.stat().st_size)
    with alone("corpus"):
        if stamp.exists() and stamp.read_text() == size:
            return None
        if not shutil.which("zstd"):
            return "zstd is not installed"
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        subprocess.run(["tar", "--zstd", "-xf", ARCHIVE, "-C", FOLDER], check=True)
        stamp.write_text(size)
    return None


# ---- results ----


def external_files():
    """Models with data outside the file, as the manifests tell."""
    for manifest in SHARED.glob("manifest_*.tsv"):
        with open(manifest, newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                if row["external"] not in ("", "0"):
                    yield manifest.stem.removeprefix("manifest_") + "/" + row["path"]


def link(source, target):
    if not target.exists():
        os.link(source, target)


def prepare_sets():
    """Puts each model next to its sets, as `opfuse test` wants them; returns the names of the cases."""
    with alone("corpus"):
        return link_sets()


def link_sets():
    external = set(external_files())
    names = []
    with open(SHARED / "golden.tsv", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            case = (FOLDER / "golden" / row["data_dir"]).parent
            link(FOLDER / row["model"], case / "model.onnx")
            if row["model"] in external:
                for path in (FOLDER / row["model"]).parent.iterdir():
                    if path.is_file() and path.suffix not in (".onnx", ".ort"):
                        link(path, case / path.name)
            names.append(str(case.relative_to(FOLDER / "golden")))
    return names


def missing_operators(reason):
    """Operators that a rejection names; NAME<17 is one that is known from opset 17 on."""
    if "unsupported operator" not in reason:
        return []
    found = UNSUPPORTED.findall(reason.partition("unsupported operator")[2])
    return [(f"{domain}/" if domain else "") + name + (f"<{since}" if since else "") for name, domain, since in found]


def check_results(options):
    tally = Tally(GAPS)
    names = prepare_sets()
    report = opfuse_json("test", FOLDER / "golden", *options, codes=(0, 1), timeout=900)
    seen = {case["name"]: case for case in report["cases"]}
    unstable = [pattern for pattern, reason in tally.gaps if reason.startswith("ill-conditioned")]
    wanted = set()
    listed = {pattern.removeprefix("op:"): reason for pattern, reason in tally.gaps if pattern.startswith("op:")}
    for name in sorted(set(names) | set(seen)):
        case = seen.get(name, {"status": "not reported", "reason": ""})
        missing = missing_operators(case["reason"] or "") if case["status"] == "skipped" else []
        wanted.update(missing)
        if missing and all(operator in listed for operator in missing):
            tally.skip(name, ", ".join(f"{operator}: {listed[operator]}" for operator in missing))
        elif any(fnmatch.fnmatchcase(name, pattern) for pattern in unstable):
            tally.skip(name, "ill-conditioned")
        else:
            tally.result(name, None if case["status"] == "passed" else f"{case['status']}: {case['reason']}")
    for operator in sorted(set(listed) - wanted):
        tally.result("op:" + operator, None)
    tally.finish()


# ---- robustness ----


def attempt(path):
    """The first thing that is wrong with a model's two runs, or None."""
    for command in ("info", "explain"):
        done = opfuse(command, path, timeout=SECONDS)
        if done.returncode not in (0, 3):
            reports = [line for line in done.stderr.splitlines() if "ERROR:" in line or "runtime error" in line]
            return f"{command}: exit code {done.returncode}: {(reports or [last_line(done.stderr)])[0]}"
        if done.returncode == 3 and (done.stdout or not done.stderr.strip()):
            return f"{command}: a rejected model must give a message on stderr and nothing on stdout"
    return None


def check_robustness(sample):
    tally = Tally()
    models = sorted(path for path in FOLDER.rglob("*.onnx") if FOLDER / "golden" not in path.parents)
    if sample and sample < len(models):
        models = [models[i * len(models) // sample] for i in range(sample)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, wrong in zip(models, pool.map(attempt, models)):
            tally.result(str(path.relative_to(FOLDER)), wrong)
    tally.finish()


def main():
    part, options = (sys.argv[1] if len(sys.argv) > 1 else ""), sys.argv[2:]
    sample = int(options[1]) if options[:1] == ["--sample"] and len(options) > 1 else 0
    if part not in ("results", "robust"):
        sys.exit(__doc__)
    reason = unpack()
    if reason:
        tally = Tally()
        tally.skip("corpus", reason)
        tally.finish()
    if part == "results":
        check_results(options)
    else:
        check_robustness(sample)


if __name__ == "__main__":
    main()
