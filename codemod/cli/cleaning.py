"""``precfix clean``: the kept files go."""

from __future__ import annotations

import os

from ..cache.folder import is_own, wanted_folder
from ..cache.kept import delete_all
from ..model import UsageError


def clean_cache() -> None:
    """Delete what is kept and say what that was; raises UsageError for a folder that is not the user's alone."""
    from ..report.printable import printable

    folder = wanted_folder()
    if folder is None or not os.path.lexists(folder):
        print("nothing is kept")
        return
    if not is_own(folder):
        raise UsageError(f"{folder!r} is not used: it is a link, or other users can write to it")
    number, size = delete_all(folder)
    print(f"removed {number} file{'s' if number != 1 else ''} ({size:,} bytes) from {printable(folder)}")
