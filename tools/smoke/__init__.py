"""Installs and runs the wheels of other platforms on this machine: Linux on ARM under QEMU
(`aarch64.py`), Windows under Wine (`windows.py`). `models.py` writes the models, `scenarios.py`
runs them in any Python, here and there, and `judge.py` compares the two."""
