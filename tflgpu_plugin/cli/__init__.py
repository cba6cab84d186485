"""The command `tflgpu`: start.py begins it, commands.py has its arguments, the other modules its
work."""

INTERRUPTED = 130  # the exit status after Ctrl-C
