# Needs only make and python3. Set-up runs when a stamp is older than what it was made from.
#
#   make demo        run MobileNet v1 on the CPU kernels and on the GPU, compare (MODEL= IMAGE= LABELS= for your own)
#   make test        everything that must be green, with a counted list at the end
#   make lint        formatting, lint, types
#   make conformance the whole suite on every driver that can be had, a report for each (DRIVERS= chooses some,
#                    ARGS= goes to pytest)
#   make conformance-settings  dense operators with every kernel setting forced in turn
#   make conformance-cpus  the integer part and a sample of the rest as CPUs without VNNI and without AVX, emulated
#   make passes      every graph there is evaluated in numpy around every pass (ARGS= names kinds or model files)
#   make conformance-worst  the quick part and the models on a driver made as inexact as WGSL permits, in seven modes
#                    (ARGS="--modes low,high --sample 100" chooses less)
#   make mutants     small defects put into copies of our code: which of 300 no test sees (ARGS= goes to tests.mutation)
#   make bench       us, the hosts' CPU kernels and ncnn, interleaved in one run
#   make bench-today  nine networks of today, tiny and as published, beside onnxruntime's WebGPU provider; downloads an
#                    exporter (ARGS="--only bert" chooses)
#   make gpu-estimates  what our kernels, ncnn's and WebGPU's would take on five AMD GPUs, by their real compiler and a model; no
#                    GPU is needed (ARGS="--top 5" shows the slowest dispatches, "--against ahead=1" another setting)
#   make encoder-estimates  what three encoders would take on two of them, beside onnxruntime's WebGPU provider
#   make soak        threads that make models and run new shapes at once, for a minute: errors, answers, memory
#                    (ARGS="--seconds 300 --flat")
#   make sanitize    the same and tests of lifetimes, the native library under the thread, address and undefined-behaviour
#                    sanitizers (ARGS= goes to tools/sanitize.py)
#   make wheel       one py3-none-manylinux wheel in dist/
#   make wheels      one for each of Linux, Windows and macOS in dist/wheels, all built here (ARGS= names some)
#   make smoke-aarch64  the wheel for Linux on ARM, run in all hosts under QEMU, and 480 tests of conformance
#   make smoke-windows  the wheel for Windows, run in both hosts under Wine, with what is Windows' own
#   make docs        write the generated pages anew

BIN := .venv/bin
SOURCES := pyproject.toml startup/tflgpu_startup.py startup/tflgpu_startup.pth $(wildcard tflgpu_plugin/native/*/*.[ch] tflgpu_plugin/native/CMakeLists.txt)
DEMO := $(if $(MODEL),--model "$(MODEL)") $(if $(IMAGE),--image "$(IMAGE)") $(if $(LABELS),--labels "$(LABELS)") $(ARGS)

.PHONY: demo test lint conformance conformance-settings conformance-cpus conformance-worst exported passes mutants soak sanitize bench bench-today gpu-estimates encoder-estimates wheel wheels smoke-aarch64 smoke-windows docs clean

demo: .venv/ready
	@$(BIN)/tflgpu demo $(DEMO)

test: .venv/ready-dev
	@$(BIN)/python tools/check.py $(ARGS)

lint: .venv/ready-dev
	@$(BIN)/python tools/check.py format lint types

conformance: .venv/ready-dev
	@$(BIN)/python tools/conformance.py $(if $(DRIVERS),--drivers $(DRIVERS)) $(ARGS)

conformance-settings: .venv/ready-dev
	@$(BIN)/python -m conformance.settings $(ARGS)

conformance-cpus: .venv/ready-dev
	@$(BIN)/python tools/cpus.py $(ARGS)

conformance-worst: .venv/ready-dev
	@$(BIN)/python tools/worst.py $(ARGS)

exported: .venv/ready-dev
	@sh tools/exported.sh $(ARGS)

passes: .venv/ready-dev
	@LP_NUM_THREADS=0 $(BIN)/python -m conformance.evaluation $(ARGS)

mutants: .venv/ready-dev
	@LP_NUM_THREADS=0 $(BIN)/python -m tests.mutation $(ARGS)

soak: .venv/ready-dev
	@LP_NUM_THREADS=0 $(BIN)/python -m tests.support.soak $(ARGS)

sanitize: .venv/ready-dev
	@LP_NUM_THREADS=0 $(BIN)/python tools/sanitize.py $(ARGS)

bench: .venv/ready-dev
	@$(BIN)/python -m benchmarks $(ARGS)

bench-today: .venv/ready-dev
	@sh tools/exported.sh measured $(ARGS)

encoder-estimates: .venv/ready-dev
	@sh tools/exported.sh estimated $(ARGS)

gpu-estimates: .venv/ready-dev
	@$(BIN)/python -m benchmarks.compiled estimates $(ARGS)

wheel: .venv/ready-dev
	@sh tools/wheel.sh

wheels: .venv/ready-dev
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c tools/constraints.txt -r tools/wheels.txt
	@$(BIN)/python tools/wheels.py $(ARGS)
	@$(BIN)/python -m pytest -q tests/wheels

smoke-aarch64: .venv/ready-dev
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c tools/constraints.txt -r tools/wheels.txt
	@$(BIN)/python tools/wheels.py manylinux_2_28_aarch64
	@$(BIN)/python tools/smoke/aarch64.py $(ARGS)

smoke-windows: .venv/ready-dev
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c tools/constraints.txt -r tools/wheels.txt
	@$(BIN)/python tools/wheels.py win_amd64
	@$(BIN)/python tools/smoke/windows.py $(ARGS)

docs: .venv/ready
	@$(BIN)/tflgpu ops --markdown > docs/ops.md
	@$(BIN)/tflgpu options --markdown > docs/options.md

.venv/ready: tools/setup.sh tools/constraints.txt $(SOURCES)
	@sh tools/setup.sh run

.venv/ready-dev: tools/setup.sh tools/constraints.txt $(SOURCES)
	@sh tools/setup.sh dev

clean:
	rm -rf .venv build dist
