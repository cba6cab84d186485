#!/bin/sh
# Models as today's exporters write them, and what of them runs on the GPU: see conformance/exported.py.
# Each exporter has an environment of its own, as they ask for different versions of what they share.
set -e
folder=build/exported
for exporter in torch litert keras; do
  python=build/exporters/$exporter/bin/python
  test -x $python || ${PYTHON:-python3} -m venv build/exporters/$exporter
  $python -m pip install -q --disable-pip-version-check -r conformance/models/exported/$exporter.txt
  CUDA_VISIBLE_DEVICES='' PYTHONPATH=. $python -m conformance.models.exported $folder || true
done
.venv/bin/python -m conformance.exported $folder --reasons "$@"
