# SPDX-License-Identifier: Apache-2.0
"""Arrays in a folder, a .npy file each, and whether two results are the same."""

import pathlib

import numpy as np

# A result is taken for the same when it differs by less than this share of |b| plus that share of the largest |b|, and by
# what some runtimes' sigmoid is off at small results: a unit in the last place of 1, whatever the result.
# Runtimes sum in their own order, and Winograd's errors of a deep network with random weights add up.
SAME, ABSOLUTE = 2e-3, 5e-7


def write_arrays(folder, arrays):
    """A dict of arrays; their order stays. arrays.tsv names the files."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for index, array in enumerate(arrays.values()):
        np.save(folder / f"{index}.npy", array)
    lines = [f"{name}\t{index}.npy\n" for index, name in enumerate(arrays)]
    (folder / "arrays.tsv").write_text("".join(lines))


def read_arrays(folder, listed="arrays.tsv"):
    folder = pathlib.Path(folder)
    rows = (line.split("\t") for line in (folder / listed).read_text().splitlines())
    return {row[0]: np.load(folder / row[1]) for row in rows}


def difference(have, want):
    """(largest difference as a share of the largest value, what is wrong or None) of two lists of arrays.

    Shapes need not agree, since a runtime may lack the batch axis; sizes must.
    """
    if len(have) != len(want):
        return None, f"{len(have)} outputs, not {len(want)}"
    worst = 0.0
    for index, (a, b) in enumerate(zip(have, want)):
        if a.size != b.size:
            return None, f"output {index} has shape {list(a.shape)}, not {list(b.shape)}"
        if a.size == 0:
            continue
        a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
        finite = np.isfinite(b)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
            return None, f"output {index} is not finite where it should be, or the other way round"
        error, size = np.abs(a[finite] - b[finite]), np.abs(b[finite])
        largest = size.max(initial=0.0)
        if largest > 0:
            worst = max(worst, float(error.max() / largest))
        wrong = np.count_nonzero(error > SAME * (size + largest) + ABSOLUTE)
        if wrong:
            return worst, f"{wrong} of {b.size} elements of output {index} differ, by up to {worst:.2g} of the largest"
    return worst, None
