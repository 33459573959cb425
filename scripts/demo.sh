#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What opfuse does, on two small models that examples/digits/train.py trained.
set -eu
cd "$(dirname "$0")/.."
opfuse=build/release/opfuse
digits=examples/digits

title() {
    printf '\n== %s\n\n' "$*"
}

title 'A convolutional network reads handwritten digits it has never seen'
build/release/digits $digits/residual.onnx $digits/test_images.npy $digits/test_labels.npy 5
title 'A vision transformer reads the same digits'
build/release/digits $digits/transformer.onnx $digits/test_images.npy $digits/test_labels.npy 0

title 'What was fused in the convolutional network, and what was not and why'
$opfuse explain $digits/residual.onnx
title 'The same for the transformer'
$opfuse explain $digits/transformer.onnx

title 'Proof: fused against the unoptimised reference, random and adversarial inputs'
$opfuse verify $digits/residual.onnx
$opfuse verify $digits/transformer.onnx

cat <<'END'

== What to try next

    build/release/opfuse info MODEL.onnx              what is in a model of yours
    build/release/opfuse explain MODEL.onnx           what fuses in it, what does not, and why
    build/release/opfuse verify MODEL.onnx --each     every rewrite proved alone
    build/release/opfuse bench MODEL.onnx --ablate    what each fusion gains
    build/release/opfuse help                         all commands
    make test                                         every test suite

examples/digits/digits.c shows opfuse inside a C program.
END
