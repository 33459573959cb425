# SPDX-License-Identifier: Apache-2.0
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc)
MODELS ?= examples/digits/residual.onnx examples/digits/transformer.onnx

MAKEFLAGS += --no-print-directory

.PHONY: help build demo test test-long bench install clean format

help:
	@echo 'make build      build build/release/opfuse, the tool, and the library'
	@echo 'make demo       two small models: digits recognised, what fused, what it gained (under 2 minutes)'
	@echo 'make test       every test suite; ends with N passed, N failed, N skipped (under 15 minutes)'
	@echo 'make test-long  the same and longer runs: every CPU level, thread sanitizer, clang'
	@echo 'make bench      side by side with ONNX Runtime: make bench MODELS="a.onnx b.onnx"'
	@echo 'make install    into PREFIX (now $(PREFIX))'
	@echo 'make format     clang-format over the sources'
	@echo 'make clean      remove build/'

build:
	@scripts/setup.sh build
	@cmake --preset release >build/.configure.log 2>&1 || { cat build/.configure.log; exit 1; }
	@cmake --build --preset release -j $(JOBS) --target opfuse_tool digits fma_probe bench_kernels

demo: build
	@scripts/demo.sh

test:
	@scripts/setup.sh test
	@python3 tests/run.py

test-long:
	@scripts/setup.sh test
	@python3 tests/run.py --long

bench: build
	@scripts/setup.sh bench
	@build/venv/bin/python bench/compare.py $(MODELS)

install: build
	@cmake --install build/release --prefix $(PREFIX)

format:
	@find src cli include bench examples tests -name '*.[ch]' -print0 | xargs -0 clang-format -i

clean:
	@rm -rf build
