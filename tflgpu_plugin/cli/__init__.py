"""The command `tflgpu`: commands.py has what it takes, the other files what it does."""
