#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh face|ocr|voice [PICTURE.ppm | SOUND.wav]: builds the example, fetches its model and makes its data once, and runs it.
set -eu
cd "$(dirname "$0")/.."
name="${1:-}"
data="build/models/$name"
case "$name" in
face) set -- $data/centerface.onnx "${2:-$data/picture.ppm}" $data/result.ppm ;;
ocr) set -- $data/detector.onnx $data/recogniser.onnx $data/keys.txt "${2:-$data/picture.ppm}" ;;
voice) set -- $data/silero_vad.onnx "${2:-$data/sound.wav}" ;;
*)
    echo 'usage: run.sh face|ocr|voice [PICTURE.ppm | SOUND.wav]' >&2
    exit 2
    ;;
esac
scripts/setup.sh bench
cmake --preset release >build/.configure.log 2>&1 || { cat build/.configure.log >&2; exit 1; }
cmake --build --preset release --target "$name" >build/.example.log 2>&1 || { cat build/.example.log >&2; exit 1; }
build/venv/bin/python "examples/$name/get.py"
exec "build/release/$name" "$@"
