"""Runs the command `tflgpu` as `python -m tflgpu_plugin.cli`."""

from tflgpu_plugin.cli.start import main

main()
