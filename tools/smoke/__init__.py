"""The wheels of other platforms, installed and run on this machine: Linux on ARM under QEMU
(`aarch64.py`), Windows under Wine (`windows.py`). `models.py` writes what is run, `scenarios.py`
runs it in any Python, here and there, and `judge.py` compares the two."""
