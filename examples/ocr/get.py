# SPDX-License-Identifier: Apache-2.0
"""Fills build/models/ocr.

The models are PP-OCRv4 (Apache-2.0) as the package rapidocr-onnxruntime (Apache-2.0) carries them; the recogniser's
characters stand in its metadata. The picture is drawn here.
"""

import pathlib
import sys

import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import fetch

LINES = ("Hello opfuse", "fuse, explain, verify", "ONNX on 2 cores: 100 %")


def draw(path):
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", (640, 288), "white")
    pen = ImageDraw.Draw(picture)
    font = ImageFont.load_default(36)
    for number, line in enumerate(LINES):
        pen.text((40, 30 + 80 * number), line, fill="black", font=font)
    picture.save(path)


def main():
    folder = fetch.folder("ocr")
    package = "rapidocr-onnxruntime", "1.4.4"
    fetch.take(*package, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", folder / "detector.onnx")
    recogniser = fetch.take(*package, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", folder / "recogniser.onnx")
    metadata = {entry.key: entry.value for entry in onnx.load(recogniser).metadata_props}
    (folder / "keys.txt").write_text("\n".join(metadata["character"].splitlines()) + "\n", encoding="utf-8")
    fetch.pillow()
    draw(folder / "picture.ppm")


if __name__ == "__main__":
    main()
