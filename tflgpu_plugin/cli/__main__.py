"""`python -m tflgpu_plugin.cli`: the command `tflgpu`."""

from tflgpu_plugin.cli.commands import main

main(prog_name="tflgpu")
