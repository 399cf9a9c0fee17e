"""The version of precfix that is installed, told by the name of its metadata folder.

`importlib.metadata` takes twice as long to import as Python takes to start.
"""

from __future__ import annotations

import os
import sys


def version_text() -> str:
    """The version of precfix, such as ``0.1.0``."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except (OSError, ValueError):  # an archive, a hook
            continue
        for name in names:
            if name.startswith("precfix-") and name.endswith(".dist-info"):
                return name[len("precfix-") : -len(".dist-info")]
    from importlib.metadata import version

    return version("precfix")
