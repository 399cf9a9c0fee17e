"""Which line of the user's code is being run, and which instruction of it."""

from __future__ import annotations

import sys

from ..places import UserFrames
from .storages import Site


class Lines:
    """The innermost frame of the user's code."""

    def __init__(self, places: UserFrames) -> None:
        self._places = places
        self.backward: Site | None = None
        """Where the running backward pass was started: on a GPU it runs in a thread without frames of the user's."""

    def here(self) -> Site | None:
        """File, relative to the root, line and instruction; without frames, of the backward pass."""
        frame = self._places.frame(sys._getframe(1))
        if frame is None:
            return self.backward
        return self._places.file_of(frame.f_code.co_filename), frame.f_lineno, frame.f_lasti
