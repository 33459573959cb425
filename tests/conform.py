# SPDX-License-Identifier: Apache-2.0
"""The ONNX backend suite, at the tolerance that it gives each case (tests/suite.py).

    python3 tests/conform.py [--quick] [OPTION…]      with these options of `opfuse test`; without any, in three ways:
                                                      fused, --no-fuse and --reference; a case must pass in each
    python3 tests/conform.py --runtime onnxruntime    counts what ONNX Runtime passes, for comparison

--quick leaves out the light models. tests/conform_skip.txt lists what may fail, each with its reason: operators as
op:NAME, cases by name. A listed operator that is supported is a failure, and so is a listed case that passes. Cases
with random outputs are checked for type, shape and distribution (tests/draws.py).
"""

import argparse
import fnmatch
import pathlib
import re
import sys
import tempfile

import draws
import runtimes
import suite
from harness import ROOT, Tally, opfuse_json, supported_operators

WAYS = ([], ["--no-fuse"], ["--reference"])


def ask_opfuse(cases, options):
    """Error text, or None, for each case by name, after one run of the tool for each tolerance."""
    seen = {}
    groups = {}
    for case in cases:
        groups.setdefault((case.rtol, case.atol), []).append(case)
    for (rtol, atol), group in groups.items():
        with tempfile.TemporaryDirectory(dir=suite.FOLDER) as folder:
            names = {}
            for number, case in enumerate(group):
                name = f"{number:05}"
                names[name] = case.name
                (pathlib.Path(folder) / name).symlink_to(case.folder)
            report = opfuse_json("test", folder, "--rtol", rtol, "--atol", atol, *options, codes=(0, 1), timeout=900)
        for entry in report["cases"]:
            reason = re.sub(r"^\S*/(?=model\.onnx|output_)", "", entry["reason"] or "")
            seen[names[entry["name"]]] = None if entry["status"] == "passed" else f"{entry['status']}: {reason}"
    return seen


def errors_of_opfuse(cases, options):
    """Each case in each way; random ones by their distribution."""
    ways = [options] if options else WAYS
    errors = {case.name: [] for case in cases}
    for way in ways:
        seen = ask_opfuse([case for case in cases if not draws.is_random(case)], way)
        for case in cases:
            if draws.is_random(case):
                error = draws.check(case, lambda model, inputs: runtimes.run_opfuse(model, inputs, way))
            else:
                error = seen.get(case.name, "not reported")
            if error:
                errors[case.name].append(" ".join([*way, error]))
    return {name: "; ".join(texts) or None for name, texts in errors.items()}


def errors_of_onnxruntime(cases):
    return {case.name: draws.check(case, runtimes.run_onnxruntime) if draws.is_random(case) else runtimes.check_onnxruntime(case)
            for case in cases}


def tally_opfuse(cases, errors, readme):
    tally = Tally(ROOT / "tests" / "conform_skip.txt")
    refused = {pattern.removeprefix("op:"): reason for pattern, reason in tally.gaps if pattern.startswith("op:")}
    for case in cases:
        wanted = sorted(refused.keys() & set(case.operators))
        if wanted and errors[case.name] and "failed:" not in errors[case.name]:
            tally.skip(case.name, ", ".join(f"{name}: {refused[name]}" for name in wanted))
        else:
            tally.result(case.name, errors[case.name])
    for operator in sorted(supported_operators() & refused.keys()):
        tally.result("op:" + operator, None)
    for pattern, _ in tally.gaps:
        if not pattern.startswith("op:") and not any(fnmatch.fnmatchcase(case.name, pattern) for case in cases):
            tally.result(pattern, "is listed, but there is no such case")
    tally.result("number in README.md", readme)
    tally.finish()


def check_readme(passed, of):
    """README.md states this number."""
    text = (ROOT / "README.md").read_text()
    if suite.onnx.__version__ not in text:
        return None  # it speaks of another version
    found = re.search(r"^\| opfuse \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    stated = tuple(map(int, found.groups())) if found else None
    return None if stated == (passed, of) else f"README.md says {stated}, it is {(passed, of)}"


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--runtime", choices=("opfuse", "onnxruntime"), default="opfuse")
    parser.add_argument("--quick", action="store_true")
    arguments, options = parser.parse_known_args()
    cases = [case for case in suite.generate() if not (arguments.quick and case.name.startswith("real/"))]
    if arguments.runtime == "onnxruntime":
        cases = [case for case in cases if not case.name.startswith("older-")]
    if arguments.runtime == "opfuse":
        errors = errors_of_opfuse(cases, options)
    else:
        errors = errors_of_onnxruntime(cases)
    own = [case for case in cases if not case.name.startswith("older-")]
    passed = sum(1 for case in own if errors[case.name] is None)
    total = f"{arguments.runtime}: {passed} of the {len(own)} cases of onnx {suite.onnx.__version__} pass"
    if arguments.runtime == "opfuse":
        print(total)
        tally_opfuse(cases, errors, None if options or arguments.quick else check_readme(passed, len(own)))
    for case in own:
        if errors[case.name]:
            print(f"{case.name}: {errors[case.name]}")
    print(total)


if __name__ == "__main__":
    sys.exit(main())
