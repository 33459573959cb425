#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# setup.sh build|bench|test: installs what the build, the benchmark or the tests need and is not there yet. It says what it does, and
# does nothing when nothing is missing. What it cannot install it names, and then it fails before anything is half done.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build

packages='gcc libc6-dev make cmake nanopb libnanopb-dev libjansson-dev zlib1g-dev'
case "${1:-}" in
build) ;;
bench) packages="$packages python3 python3-venv" ;;
test) packages="$packages python3 python3-venv libcmocka-dev graphviz zstd" ;;
*)
    echo 'usage: setup.sh build|bench|test' >&2
    exit 2
    ;;
esac

say() {
    echo "setup: $*" >&2
}

missing_packages() {
    for package in $packages; do
        case "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" in
        installed) ;;
        *) printf '%s ' "$package" ;;
        esac
    done
}

install_packages() {
    missing=$(missing_packages)
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" = 0 ]; then
        root=''
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        root='sudo -n'
    else
        say "these packages are missing: $missing"
        say "install them as root and try again: apt-get install $missing"
        exit 1
    fi
    say "installing $missing"
    # A stale package list is refreshed only when the installation needs it.
    # shellcheck disable=SC2086
    if ! $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >build/.apt.log 2>&1; then
        $root apt-get update -q >>build/.apt.log 2>&1 || true
        if ! $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >>build/.apt.log 2>&1; then
            tail -5 build/.apt.log >&2
            say "could not install: $missing(no network? the whole output is in build/.apt.log)"
            exit 1
        fi
    fi
}

# Elsewhere the packages have other names: look for the things themselves.
check_tools() {
    missing=''
    for tool in cc cmake; do
        command -v $tool >/dev/null || missing="$missing $tool"
    done
    command -v nanopb_generator >/dev/null || command -v nanopb_generator.py >/dev/null || missing="$missing nanopb_generator"
    for header in pb_decode.h jansson.h zlib.h; do
        command -v cc >/dev/null && echo "#include <$header>" | cc -E - >/dev/null 2>&1 || missing="$missing $header"
    done
    [ -n "$missing" ] || return 0
    say "this system is not Debian 12 or a relative of it, so nothing was installed; missing:$missing"
    say 'needed are a C17 compiler, CMake 3.25, nanopb 0.4 (with its generator), jansson, zlib; for the tests Python 3, cmocka, Graphviz'
    exit 1
}

# make_venv FOLDER REQUIREMENTS [PACKAGE…]: Python packages from PyPI; each PACKAGE goes in without what it asks for.
make_venv() {
    folder=$1
    wanted=$2
    shift 2
    if [ -f "$folder/.ready" ] && cmp -s "$wanted" "$folder/.ready"; then
        return 0
    fi
    say "installing the Python packages of $wanted into $folder"
    rm -rf "$folder"
    if python3 -m venv "$folder" >build/.pip.log 2>&1 &&
        "$folder/bin/pip" install -q --disable-pip-version-check -r "$wanted" >>build/.pip.log 2>&1 &&
        { [ $# = 0 ] || "$folder/bin/pip" install -q --disable-pip-version-check --no-deps "$@" >>build/.pip.log 2>&1; }; then
        cp "$wanted" "$folder/.ready"
    else
        tail -3 build/.pip.log >&2
        return 1
    fi
}

if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
    install_packages
else
    check_tools
fi
case "$1" in
test)
    # Without a network the suites that need them are skipped by name.
    make_venv build/venv tests/requirements.txt ||
        say 'could not install them (no network?): the suites conform, cases and cli are skipped'
    ;;
bench)
    # pnnx converts for ncnn; the module asks for torch, the program in it does not.
    make_venv build/venv-bench bench/requirements.txt pnnx || {
        say 'could not install them (no network?), so there is nothing to compare with'
        exit 1
    }
    ;;
esac
