"""The command `tflgpu`: commands.py has its arguments, the other modules its work."""

from __future__ import annotations

import sys

INTERRUPTED = 130  # the exit status after Ctrl-C


def main() -> None:
    """Runs the command. Ctrl-C ends it with a word also while its modules are imported."""
    try:
        from tflgpu_plugin.cli import commands
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    commands.main(prog_name="tflgpu")
