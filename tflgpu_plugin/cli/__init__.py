"""The command `tflgpu`: commands.py has its arguments, the other modules its work."""
