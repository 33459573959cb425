# SPDX-License-Identifier: Apache-2.0
"""Measures the constants of src/plan/cost_table.h: where Winograd convolutions are faster than direct ones.

    tune.py [--write] [--rounds N]

Two tools are built that take Winograd wherever they can, with tiles of 4 and with tiles of 2. Convolutions of many sizes and taps run
in both and directly (--exact) at each vector level of this machine, in turn, in processes of their own; what counts is the
least CPU time. Filters are measured out of cache, as a model with other layers finds them. Then the bounds are searched
under which the choice loses least against always knowing better. The committed table stays where another gains less than the
noise. --write puts the bounds that were found into the source, which is for a quiet machine; without it they are only shown.
"""

import argparse
import functools
import itertools
import json
import math
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from children import Child

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "src" / "plan" / "cost_table.h"
BUILD = ROOT / "build" / "tune"
ENTRY = re.compile(r"(OPF_COST_(?:WINOGRAD_)?(\w+)\s*=\s*)(\d+)")
NOISE = 0.005  # of the time lost, on average
TILES = (4, 2)  # pixels of a side, as src/plan/winograd.c tries them; 0 stands for the direct form
TILES_OF_TAPS = {3: TILES, 5: (2,), 7: (2,)}
MOST_FLOPS = 1.5e9
SWEEP = 1 << 25  # floats to read that leave nothing else in a cache

CHANNELS = [(c, c) for c in (4, 8, 16, 32, 64, 128, 192, 256, 320)] + [(4, 64), (8, 64), (64, 4), (64, 8), (16, 256)]
TAPS = [(5, 5), (1, 7), (7, 1), (1, 5), (1, 3), (3, 1)]
TAPS_CHANNELS = [(c, c) for c in (8, 16, 32, 48, 64, 128, 192)] + [(48, 64), (384, 384)]
TAPS_SIZES = [(size, 1) for size in (3, 4, 6, 8, 12, 17, 35)] + [(7, 4)]
SIZES = [(size, 1) for size in (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 28, 56)] + [(7, 4), (4, 8)]
# Strictest first: of bounds that are equally good it keeps the direct form.
CANDIDATES = {"LARGEST_TILE": (4,), "CHANNELS": (64, 32, 16, 8, 4, 1), "TILES": (16, 9, 6, 4, 2, 1), "LARGE": (4 << 20,),
              "PIXELS_OF_TILE": (12, 10, 9, 8, 6, 4, 1)}
LEVELS = ("avx2", "avx512")
CANDIDATES_OF_TAPS = {"TAPS_CHANNELS": (64, 48, 32, 16, 8), "TAPS_TILES": (16, 12, 8, 6, 4, 2), "TAPS_PRODUCTS": (9, 10, 11, 12, 13, 14, 16)}
OF_LEVEL = {"TILES_OF_LARGE": (25, 17, 16, 12, 9, 8, 6, 4, 2, 1), "TILES_OF_FOUR": (25, 17, 16, 9, 4, 1)}  # with _AVX512 for the wider one


def name_at(bound, level):
    return f"{bound}_AVX512" if level == "avx512" else bound


class Shape:
    """A convolution of stride 1 with padding: pixels in, as many out."""

    def __init__(self, channels, size, taps=(3, 3)):
        (self.channels, self.filters), (self.size, self.images), self.taps = channels, size, taps
        self.flops = 2.0 * self.images * self.size**2 * self.channels * self.filters * taps[0] * taps[1]
        self.sides = TILES_OF_TAPS[max(taps)]

    def tile(self, side):
        """Down and across: an axis of one tap has one pixel."""
        return tuple(side if taps > 1 else 1 for taps in self.taps)

    def tiles(self, side):
        down, across = self.tile(side)
        return self.images * -(-self.size // down) * -(-self.size // across)

    def points(self, side):
        return math.prod(tile + taps - 1 for tile, taps in zip(self.tile(side), self.taps))

    def bytes(self, side):
        """Of transformed filters."""
        return 4 * self.points(side) * self.channels * self.filters

    def kernel(self, side):
        return "winograd_f32_{}x{}".format(*self.tile(side))

    def __str__(self):
        return f"{self.images}x{self.channels}x{self.size}x{self.size} to {self.filters}, {self.taps[0]}x{self.taps[1]}"

    def takes(self, bounds, level):
        """The decision that src/plan/winograd.c makes."""
        of_large = bounds[name_at("TILES_OF_LARGE", level)]
        of_four = bounds[name_at("TILES_OF_FOUR", level if self.filters < self.channels else "avx2")]
        pixels, channels = self.images * self.size**2, min(self.channels, self.filters)

        def is_faster(side):
            tiles, area = self.tiles(side), math.prod(self.tile(side))
            if self.taps != (3, 3):
                return (channels >= bounds["TAPS_CHANNELS"] and tiles >= bounds["TAPS_TILES"]
                        and 16 * self.points(side) * tiles <= bounds["TAPS_PRODUCTS"] * math.prod(self.taps) * pixels)
            return (channels >= bounds["CHANNELS"] and tiles * area >= 16 * bounds["TILES"]
                    and (side != 4 or tiles >= of_four)
                    and (self.bytes(side) <= bounds["LARGE"] or pixels >= of_large * area)
                    and 16 * pixels >= bounds["PIXELS_OF_TILE"] * area * tiles)

        return next((side for side in self.sides if side <= bounds["LARGEST_TILE"] and is_faster(side)), 0)

    def write(self, path):
        random = np.random.default_rng(0)
        weights = random.standard_normal((self.filters, self.channels, *self.taps)).astype(np.float32)
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [self.images, channels, self.size, self.size])
                 for name, channels in (("x", self.channels), ("y", self.filters))]
        node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[taps // 2 for taps in self.taps] * 2)
        graph = helper.make_graph([node], "tune", ports[:1], ports[1:], [numpy_helper.from_array(weights, "w")])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def committed():
    return {name: int(value) for _, name, value in ENTRY.findall(TABLE.read_text())}


def with_bounds(bounds):
    return ENTRY.sub(lambda m: m.group(1) + str(bounds[m.group(2)]), TABLE.read_text())


def build_tool(side):
    """The tool with every bound at its least. Included before all else, that table takes the place of the committed one."""
    folder = BUILD / f"tiles{side}"
    folder.mkdir(parents=True, exist_ok=True)
    least = dict.fromkeys(committed(), 1) | {"LARGE": 1 << 30, "LARGEST_TILE": side, "TAPS_PRODUCTS": 1 << 10}
    (folder / "cost_table.h").write_text(with_bounds(least))
    flags = f"-DCMAKE_C_FLAGS=-include {folder / 'cost_table.h'}"
    for command in (["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", flags],
                    ["cmake", "--build", folder, "-j", os.cpu_count(), "--target", "opfuse_tool"]):
        subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, check=True)
    return folder / "opfuse"


def form_of(tool, shape, model, level):
    """Which form the tool takes: large filters may exceed the budget of extra weights."""
    command = [tool, "bench", model, "--json", "--quiet", "--runs", "1", "--threads", "1", "--cpu", level]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    kernels = {step["kernel"] for step in json.loads(done.stdout)["steps"]}
    return next((side for side in shape.sides if shape.kernel(side) in kernels), 0)


@functools.cache
def sweep_buffer():
    return np.ones(SWEEP, np.float32)


def sample(child):
    """CPU ms of a run that finds its filters beyond L2, as it does in a model."""
    sweep_buffer().sum()
    return child.run(1)[0][1]


def measure(tools, model, level, rounds):
    """{form: CPU ms at best}."""
    options = ["bench", model, "--serve", "--quiet", "--threads", "1", "--cpu", level]
    commands = {side: [tool, *options] for side, tool in tools.items()} | {0: [next(iter(tools.values())), *options, "--exact"]}
    children, best = {}, dict.fromkeys(commands, float("inf"))
    try:
        for form, command in commands.items():
            children[form] = Child(command, os.sched_getaffinity(0))
        for _, (form, child) in itertools.product(range(rounds), children.items()):
            best[form] = min(best[form], sample(child))
    finally:
        for child in children.values():
            child.close()
    return best


def loss(choose, found):
    """Time lost on average against always taking the fastest form; choose gives the form of a shape at a level."""
    return float(np.mean([times[choose(shape, level)] / min(times.values()) - 1 for shape, level, times in found]))


def tables(candidates, more):
    return (more | dict(zip(candidates, values)) for values in itertools.product(*candidates.values()))


def search(found):
    """The bounds that all levels share, and beside them the best of each level; AVX-512 with many filters goes by those of AVX2.
    Bounds of a level that this machine lacks stay as they are. Other taps than 3x3 have bounds of their own."""
    best = (float("inf"), None)
    threes, others = ([entry for entry in found if (entry[0].taps == (3, 3)) == is_three] for is_three in (True, False))
    for shared in tables(CANDIDATES, committed()):
        for level in LEVELS:
            of_level = [entry for entry in threes if entry[1] == level]
            names = {name_at(name, level): values for name, values in OF_LEVEL.items()}
            if of_level:
                shared = min(tables(names, shared), key=lambda bounds: loss(lambda shape, at: shape.takes(bounds, at), of_level))
        lost = loss(lambda shape, level: shape.takes(shared, level), threes)
        if lost < best[0]:
            best = (lost, shared)
    return min(tables(CANDIDATES_OF_TAPS, best[1]), key=lambda bounds: loss(lambda shape, level: shape.takes(bounds, level), others))


def vector_levels(tool, model):
    done = subprocess.run([tool, "info", model, "--json"], capture_output=True, text=True, check=True)
    level = json.loads(done.stdout)["cpu"]
    return ["avx2", "avx512"] if level == "avx512" else [level]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put what was found into src/plan/cost_table.h")
    parser.add_argument("--rounds", type=int, default=12, metavar="N", help="samples of each form (default: 12)")
    options = parser.parse_args()
    tools, model, found = {side: build_tool(side) for side in TILES}, BUILD / "model.onnx", []
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core for all: sweeping must reach the caches of the others
    products = itertools.chain(itertools.product(CHANNELS, SIZES), itertools.product(TAPS_CHANNELS, TAPS_SIZES, TAPS))
    shapes = [s for s in itertools.starmap(Shape, products) if s.flops <= MOST_FLOPS]
    for done, shape in enumerate(shapes):
        shape.write(model)
        for level in vector_levels(tools[4], model):
            of_shape = {side: tools[side] for side in shape.sides}
            if any(form_of(tool, shape, model, level) != side for side, tool in of_shape.items()):
                continue
            times = measure(of_shape, model, level, options.rounds)
            found.append((shape, level, times))
            told = ", ".join(f"{f'tiles of {form}' if form else 'direct'} {times[form]:9.4f} ms" for form in times)
            print(f"{level:7} {str(shape):32} {told}", flush=True)
        if sys.stderr.isatty():
            print(f"\r\033[K[{done + 1}/{len(shapes)}]", end="", file=sys.stderr, flush=True)
    now, best = committed(), search(found)
    was, lost = (loss(lambda shape, level: shape.takes(bounds, level), found) for bounds in (now, best))
    print(f"without Winograd {100 * loss(lambda shape, level: 0, found):6.2f} % are lost")
    print(f"committed bounds {100 * was:6.2f} %  {now}")
    print(f"found bounds     {100 * lost:6.2f} %  {best}")
    if options.write and lost < was - NOISE:
        TABLE.write_text(with_bounds(best))
        print(f"wrote {TABLE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
