"""Runs the command `tflgpu` as `python -m tflgpu_plugin`."""

from tflgpu_plugin.cli.start import main

main()
