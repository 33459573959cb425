# SPDX-License-Identifier: Apache-2.0
"""Writes docs/operators.md from `opfuse ops --markdown`, or says whether it is up to date.

    python3 scripts/make_operators_md.py [--check]

The tool is build/release/opfuse, or what the variable OPFUSE names.
"""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "operators.md"
HEAD = """# Operators

What `opfuse ops` lists; `python3 scripts/make_operators_md.py` writes this page, and a test keeps it true. A model of an
older opset is lifted to the newest form when it is loaded. Types are those of the main variable of the signature. Every
form that an opset gave an operator, and every type, is run against other runtimes (`tests/signatures.py`); what differs
stands with its reason in `tests/signatures_skip.txt`. Operators of ONNX Runtime are run against it
(`tests/contrib.py`).

"""


def main():
    tool = os.environ.get("OPFUSE", ROOT / "build" / "release" / "opfuse")
    wanted = HEAD + subprocess.run([tool, "ops", "--markdown"], capture_output=True, text=True, check=True).stdout
    if sys.argv[1:] != ["--check"]:
        PAGE.write_text(wanted)
        return None
    present = PAGE.read_text() if PAGE.exists() else ""
    if present == wanted:
        return None
    here = next((b for a, b in zip(present.splitlines() + [""], wanted.splitlines()) if a != b), "its end")
    return f"{PAGE.relative_to(ROOT)} differs at {here!r}: python3 scripts/make_operators_md.py writes it again"


if __name__ == "__main__":
    sys.exit(main())
