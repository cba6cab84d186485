#!/bin/sh
# Models as today's exporters write them, and what of them runs on the GPU: see conformance/exported.py.
# With "measured" first, those of nine networks, and how fast they are: see benchmarks/today.py.
# With "estimated", three larger ones, and what they would take: see benchmarks/compiled/models.py.
# Each exporter has an environment of its own, as they ask for different versions of what they share.
set -e

write() { # EXPORTER FOLDER [OPTION]
  python=build/exporters/$1/bin/python
  test -x $python || ${PYTHON:-python3} -m venv build/exporters/$1
  $python -m pip install -q --disable-pip-version-check -r conformance/models/exported/$1.txt
  CUDA_VISIBLE_DEVICES='' PYTHONPATH=. $python -m conformance.models.exported "$2" $3 || true
}

if [ "$1" = measured ]; then
  shift
  write torch build/today --measured
  exec .venv/bin/python -m benchmarks.today build/today "$@"
fi
if [ "$1" = estimated ]; then
  shift
  write torch build/encoders --estimated
  exec .venv/bin/python -m benchmarks.compiled estimates --models build/encoders/*.onnx "$@"
fi
folder=build/exported
for exporter in torch ultralytics litert keras classical; do
  write $exporter $folder
done
.venv/bin/python -m conformance.exported $folder --reasons "$@"
