"""`python -m tflgpu_plugin`: the command `tflgpu`."""

from tflgpu_plugin.cli.commands import main

main(prog_name="tflgpu")
