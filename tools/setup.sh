#!/bin/sh
# Makes .venv and what it needs from the system. `setup.sh run` is enough to use the package, `setup.sh dev` adds the
# tools of `make test`. On Debian and Ubuntu, as root or with sudo, missing system packages are installed; elsewhere
# the exact command is printed and nothing is changed.
set -eu
cd "$(dirname "$0")/.."
stage=${1:-run}
VULKAN="mesa-vulkan-drivers libvulkan1"

say() { printf '%s\n' "$*" >&2; }

# install_system REASON PACKAGE...: through apt, or say what to type.
install_system() {
    reason=$1
    shift
    if ! command -v apt-get >/dev/null 2>&1; then
        say "$reason Install the counterparts of these Debian packages, then run make again: $*"
        exit 1
    fi
    if [ "$(id -u)" = 0 ]; then
        as_root="env"
    elif command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        as_root="sudo env"
    else
        say "$reason Run this as root, then run make again:"
        say "    apt-get update && apt-get install -y --no-install-recommends $*"
        exit 1
    fi
    say "$reason Installing: $*"
    $as_root apt-get update -qq >/dev/null
    $as_root DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# The interpreter: PYTHON if given, and no other then; 3.11 first, since tflite-runtime has no wheel for a newer one.
find_python() {
    for candidate in ${PYTHON:-python3.11 python3 python3.14 python3.13 python3.12}; do
        if command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    found="No Python from 3.11 to 3.14 was found"
    say "${PYTHON:+$PYTHON is not one: }$found; install one and run: make PYTHON=/path/to/python3"
    exit 1
}

# What the system lacks, all asked for at once. The adapter itself is looked for later, with the package.
make_system() {
    reason=
    missing=
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        reason="Python $version cannot make virtual environments."
        missing="python$version-venv"
    fi
    if ! command -v cc >/dev/null 2>&1 && ! command -v gcc >/dev/null 2>&1; then
        reason="$reason There is no C compiler."
        missing="$missing gcc libc6-dev"
    fi
    if [ "$(uname -s)" = Linux ] &&
        ! "$python" -c 'import ctypes; ctypes.CDLL("libvulkan.so.1")' 2>/dev/null; then
        reason="$reason There is no Vulkan loader."
        missing="$missing $VULKAN"
    fi
    # shellcheck disable=SC2086  # a list of words
    if [ -n "$missing" ]; then install_system "${reason# }" $missing; fi
}

make_environment() {
    .venv/bin/python -m pip --version >/dev/null 2>&1 || "$python" -m venv --clear .venv
    case $version in
    3.11) ;;
    *) say "tflite-runtime has no wheel for Python $version: using ai-edge-litert alone." ;;
    esac
    extras=tflite,tflite-runtime,onnxruntime
    if [ "$stage" = dev ]; then extras=$extras,dev; fi
    say "Building and installing tflgpu-plugin into .venv (Python $version) ..."
    .venv/bin/python -m pip install -q --disable-pip-version-check -c tools/constraints.txt -e ".[$extras]" pillow onnx
}

# `tflgpu info` ends with status 0 when some adapter can be used.
adapter_found() { .venv/bin/tflgpu info >/dev/null 2>&1; }

make_adapter() {
    adapter_found && return
    if [ "$(uname -s)" = Linux ]; then
        # shellcheck disable=SC2086
        install_system "No GPU adapter was found." $VULKAN
    fi
    adapter_found && return
    .venv/bin/tflgpu info >&2
    say "Still no adapter: see what is missing above."
    exit 1
}

python=$(find_python)
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
make_system
make_environment
make_adapter
touch .venv/ready
if [ "$stage" = dev ]; then touch .venv/ready-dev; fi
