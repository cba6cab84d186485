"""The start of the command `tflgpu`, before its modules are imported."""

from __future__ import annotations

import sys

from tflgpu_plugin.cli import INTERRUPTED


def main() -> None:
    """Runs the command. Ctrl-C ends it with a word also while its modules are imported."""
    try:
        from tflgpu_plugin.cli import commands
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    commands.main(prog_name="tflgpu")
