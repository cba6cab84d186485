"""Runs the command `tflgpu` as `python -m tflgpu_plugin.cli`."""

from tflgpu_plugin.cli.commands import main

main(prog_name="tflgpu")
