"""Runs code in a fresh Python and checks that it ends well: for imports, exits and forks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HANGS = 300  # seconds; only what never ends takes as long, also on a machine that is busy


def run_python(
    code: str, status: int = 0, limit: float = HANGS, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs `code` from the repository root for at most `limit` seconds, asserts that its exit
    status is `status`, and returns its output."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=limit,
    )
    assert done.returncode == status, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done
