# Needs only make and python3. Each target sets up what it needs, again when that has changed.
#
#   make demo                 compare MobileNet v1 on the CPU kernels and on the GPU (MODEL= IMAGE= LABELS= for your own model)
#   make test                 run the tests of every day, about eight minutes on two cores (ARGS= names steps)
#   make test-rest            run what that leaves out, about forty minutes
#   make test-all             run both
#   make lint                 check format, lint and types
#   make docs                 write the generated pages
#   make site                 build the documentation in build/site, with its links checked; downloads mkdocs
#   make clean                remove the environment and all builds
#   make help                 print this list
#
# Conformance and other checks:
#   make conformance          the suite on every driver that can be had, with a report for each (DRIVERS= chooses some, ARGS= goes
#                             to pytest)
#   make conformance-settings dense operators and attention with every kernel setting and result of calibration
#   make conformance-cpus     integer operators and a sample of others on emulated CPUs without VNNI and without AVX
#   make conformance-worst    the quick part and the models on a driver as inexact as WGSL permits
#                             (ARGS="--modes low,high --sample 100" chooses less)
#   make passes               evaluate every graph in numpy before and after each pass (ARGS= names kinds or model files)
#   make exported             run models that today's exporters write; downloads the exporters
#   make mutants              put small defects into copies of the code and list those that no test sees
#   make soak                 threads that make models and run new shapes for a minute (ARGS="--seconds 300 --flat")
#   make faults               lose the device, or let a call of wgpu fail, at each call in turn (ARGS="--cases session --step 9";
#                             ARGS="--random 300": in random graphs)
#   make sanitize             threads as in soak and tests of lifetimes under the thread, address and undefined-behaviour sanitizers
#
# Benchmarks:
#   make bench                the plugin, the hosts' CPU kernels, ncnn and others in turns
#   make bench-today          nine networks of today beside onnxruntime's WebGPU provider; downloads an exporter
#                             (ARGS="--only bert" chooses)
#   make gpu-estimates        estimated times on fifteen GPUs of AMD, Intel, NVIDIA and Qualcomm, from Mesa's compilers; no GPU is
#                             needed (ARGS="--gpus lnl --top 5" selects one and shows its slowest dispatches, "--against
#                             ahead=1" another setting)
#   make encoder-estimates    the same for three encoders on two of AMD's
#
# Wheels:
#   make wheel                one py3-none-manylinux wheel in dist/
#   make wheels               one for each of Linux, Windows and macOS in dist/wheels (ARGS= names some)
#   make smoke-aarch64        run the wheel for Linux on ARM in all hosts under QEMU
#   make smoke-windows        run the wheel for Windows in both hosts under Wine

BIN := .venv/bin
SOURCES := pyproject.toml startup/tflgpu_startup.py startup/tflgpu_startup.pth $(wildcard tflgpu_plugin/native/*/*.[ch] tflgpu_plugin/native/CMakeLists.txt)
DEMO := $(if $(MODEL),"$(MODEL)") $(if $(IMAGE),--image "$(IMAGE)") $(if $(LABELS),--labels "$(LABELS)") $(ARGS)

.PHONY: demo test test-rest test-all lint conformance conformance-settings conformance-cpus conformance-worst exported passes mutants soak faults sanitize bench bench-today gpu-estimates encoder-estimates wheel wheels smoke-aarch64 smoke-windows docs site clean help

demo: .venv/ready
	@$(BIN)/tflgpu demo $(DEMO)

test: .venv/ready-dev
	@$(BIN)/python tools/check.py $(or $(ARGS),daily)

test-rest: .venv/ready-dev
	@$(BIN)/python tools/check.py rest

test-all: .venv/ready-dev
	@$(BIN)/python tools/check.py

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

faults: .venv/ready-dev
	@LP_NUM_THREADS=0 $(BIN)/python -m tests.support.fault_runs $(ARGS)

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

site: .venv/ready build/site-env/ready
	@$(BIN)/python tools/website.py build/site-pages
	@NO_MKDOCS_2_WARNING=1 build/site-env/bin/mkdocs build --strict

build/site-env/ready: tools/site.txt
	@$(BIN)/python -m venv build/site-env
	@build/site-env/bin/python -m pip install -q --disable-pip-version-check -r tools/site.txt
	@touch $@

.venv/ready: tools/setup.sh tools/constraints.txt $(SOURCES)
	@sh tools/setup.sh run

.venv/ready-dev: tools/setup.sh tools/constraints.txt $(SOURCES)
	@sh tools/setup.sh dev

clean:
	rm -rf .venv build dist

help:
	@sed -n '1d; /^\#/!q; s/^. \{0,1\}//p' Makefile
