# SPDX-License-Identifier: Apache-2.0
"""The runtimes that opfuse is measured beside, one file each.

A file has
    TITLE, PACKAGES   how tables call it; the Python packages that it needs, its own first
    CONVERTED         the name of the file that its converter writes; None: it opens the ONNX file
    conversion(model, target, inputs)   with CONVERTED: the command that writes target; NotTaken where it cannot
    Runtime(path, inputs, threads)      opens: 32-bit floats, that many threads, the shapes of the inputs, lowest latency
        run()         once, from the inputs in memory to outputs in memory
        outputs()     arrays of the last run, in the order of the model's outputs
inputs are {name: array} in the order of the model's inputs. What goes wrong is raised. Only bench/worker.py opens one,
in a process of its own: a thread pool must not disturb the others.
"""

import importlib
import importlib.metadata
import importlib.util

NAMES = ("onnxruntime", "openvino", "ncnn", "mnn")


class NotTaken(Exception):
    """The runtime cannot run this model at these sizes; the text says why."""


def load(name):
    return importlib.import_module(f"runtimes.{name}_runtime")


def version(name):
    return importlib.metadata.version(load(name).PACKAGES[0])


def missing(name):
    """The packages of a runtime that are not installed."""
    return [package for package in load(name).PACKAGES if importlib.util.find_spec(package) is None]
