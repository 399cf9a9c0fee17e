"""Which line of the user's code is being run."""

from __future__ import annotations

import sys
from pathlib import Path

from .storages import Site

FOREIGN = ("site-packages", "dist-packages", "lib/python", "<")
OWN = str(Path(__file__).resolve().parent.parent)


class Lines:
    """Finds the innermost frame below ``root`` that is neither a library nor precfix."""

    def __init__(self, root: Path) -> None:
        self._root = str(root.resolve())
        self._names: dict[str, str | None] = {}

    def here(self) -> Site | None:
        """File, relative to the root, line and instruction; None where no frame is the user's."""
        frame = sys._getframe(1)
        while frame is not None:
            name = self._name(frame.f_code.co_filename)
            if name is not None:
                return name, frame.f_lineno, frame.f_lasti
            if frame.f_back is None:
                return None
            frame = frame.f_back
        return None

    def _name(self, filename: str) -> str | None:
        if filename not in self._names:
            self._names[filename] = self._relative(filename)
        return self._names[filename]

    def _relative(self, filename: str) -> str | None:
        if filename.startswith("<"):
            return None
        path = str(Path(filename).resolve())
        if path.startswith(OWN) or not path.startswith(self._root):
            return None
        inner = path[len(self._root) :].lstrip("/\\")
        return None if any(mark in inner for mark in FOREIGN) else Path(inner).as_posix()
