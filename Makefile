# SPDX-License-Identifier: Apache-2.0
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc)
# What make bench measures: models (the zoo if none is named), further options of bench/compare.py, where the results go.
MODELS ?=
BENCH  ?= --dim S=128
OUT    ?= build/bench

MAKEFLAGS += --no-print-directory

.PHONY: help build demo test test-long bench tune install clean format

help:
	@echo 'make build      build build/release/opfuse, the tool, and the library'
	@echo 'make demo       two small models: digits recognised, what fused, what it gained (under 2 minutes)'
	@echo 'make test       every test suite; ends with N passed, N failed, N skipped (under 15 minutes)'
	@echo 'make test-long  the same and longer runs: every CPU level, thread sanitizer, clang'
	@echo 'make bench      side by side with other runtimes: make bench [MODELS="a.onnx b.onnx"] [BENCH="--threads 1,2"] [OUT=DIR]'
	@echo 'make tune       measures the constants of src/plan/cost_table.h: make tune [TUNE=--write]'
	@echo 'make install    into PREFIX (now $(PREFIX))'
	@echo 'make format     clang-format over the sources'
	@echo 'make clean      remove build/'

build:
	@scripts/setup.sh build
	@cmake --preset release >build/.configure.log 2>&1 || { cat build/.configure.log; exit 1; }
	@cmake --build --preset release -j $(JOBS) --target opfuse_tool digits fma_probe bench_kernels bench_fuse

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
	@[ -n "$(MODELS)" ] || scripts/export_zoo.sh || { echo 'bench: then name models: make bench MODELS="a.onnx b.onnx"' >&2; exit 1; }
	@build/venv-bench/bin/python bench/compare.py $(BENCH) --out $(OUT) \
	    $(or $(MODELS),$$(ls build/zoo/*.onnx | grep -v '\.raw\.onnx$$'))

tune:
	@scripts/setup.sh test
	@build/venv/bin/python bench/tune.py $(TUNE)

install: build
	@cmake --install build/release --prefix $(PREFIX)

format:
	@find src cli include bench examples tests -name '*.[ch]' -print0 | xargs -0 clang-format -i

clean:
	@rm -rf build
