"""For PyInstaller, which finds its hook through an entry point: frozen programs have all that this
package finds at run time.
"""

from __future__ import annotations

from pathlib import Path


def get_hook_dirs() -> list[str]:
    """Where PyInstaller looks for hooks."""
    return [str(Path(__file__).parent)]
