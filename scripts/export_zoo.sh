#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# export_zoo.sh [FOLDER]: fills FOLDER (default: build/zoo) with real architectures as ONNX files, if it holds none yet. The
# exporter is ZOO_TOOL (default: ../shared/tools/zoo.py) and needs a Python with torch and torchvision.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build/zoo}
tool=${ZOO_TOOL:-../shared/tools/zoo.py}

for model in "$folder"/*.onnx; do
    [ ! -e "$model" ] || exit 0
done
if [ ! -f "$tool" ]; then
    echo "export_zoo: there is no $tool; ZOO_TOOL=FILE names another" >&2
    exit 1
fi
for python in /usr/bin/python3 python3; do
    if "$python" -c 'import torch, torchvision, onnx' 2>/dev/null; then
        # A folder that is half full would count as full.
        rm -rf "$folder.partial"
        mkdir -p "$folder" "$folder.partial"
        echo "export_zoo: exporting into $folder" >&2
        "$python" "$tool" "$folder.partial" >&2
        mv "$folder.partial"/*.onnx "$folder"/
        rmdir "$folder.partial"
        exit 0
    fi
done
echo 'export_zoo: no Python with torch, torchvision and onnx (on Debian: apt-get install python3-torch python3-torchvision python3-onnx)' >&2
exit 1
