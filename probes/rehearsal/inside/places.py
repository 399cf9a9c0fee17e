"""Where in the user's code something happens, found from the frames that are running."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import CodeType, FrameType
from typing import Any, NamedTuple

_FOREIGN = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_NOWHERE = (None, None, None, None)


class FramePlace(NamedTuple):
    """The span of the running expression. Columns count bytes from 0, as Python does; None where it does not say."""

    filename: str
    row: int
    end_row: int
    column: int | None
    end_column: int | None


class UserFrames:
    """Tells the user's frames from those of libraries."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        own = os.path.dirname(os.path.abspath(__file__))
        library = sysconfig.get_paths()
        self._foreign = tuple({own, library["stdlib"], library["platstdlib"], library["purelib"], library["platlib"]})
        self._users: dict[str, str] = {}
        self._places: dict[tuple[str, str, int, int], FramePlace] = {}

    def file_of(self, filename: str) -> str:
        """The file's path below the root, "" when it is not the user's."""
        known = self._users.get(filename)
        if known is None:
            known = self._users[filename] = self._below_root(filename)
        return known

    def _below_root(self, filename: str) -> str:
        if filename.startswith("<"):
            return ""
        path = os.path.realpath(filename)
        foreign = any(part in path for part in _FOREIGN) or path.startswith(self._foreign)
        if foreign or not path.startswith(self.root + os.sep):
            return ""
        return os.path.relpath(path, self.root).replace(os.sep, "/")

    def frame(self, start: FrameType | None) -> FrameType | None:
        """The innermost frame of the user's code, from ``start`` outwards."""
        users, frame = self._users, start
        while frame is not None:
            filename = frame.f_code.co_filename
            known = users.get(filename)
            if known or (known is None and self.file_of(filename)):
                return frame
            frame = frame.f_back
        return None

    def here(self, depth: int = 1) -> FramePlace | None:
        """The user's line that is running, and what it evaluates."""
        frame = self.frame(sys._getframe(depth))
        return None if frame is None else self.of(frame)

    def of(self, frame: FrameType) -> FramePlace:
        code = frame.f_code
        key = (code.co_filename, code.co_name, code.co_firstlineno, frame.f_lasti)
        known = self._places.get(key)
        if known is None:
            known = self._places[key] = self._place(code, frame.f_lasti, frame.f_lineno)
        return known

    def _place(self, code: CodeType, instruction: int, line: int) -> FramePlace:
        row, end_row, column, end_column = _span(code, instruction)
        if row is None:
            row, end_row, column, end_column = line, line, None, None
        return FramePlace(self.file_of(code.co_filename), row, end_row or row, column, end_column)

    def stack(self, depth: int = 1, most: int = 8) -> list[FramePlace]:
        """The user's lines that are running, innermost first."""
        found: list[FramePlace] = []
        frame = self.frame(sys._getframe(depth))
        while frame is not None and len(found) < most:
            found.append(self.of(frame))
            frame = self.frame(frame.f_back)
        return found


def _span(code: CodeType, instruction: int) -> tuple[Any, Any, Any, Any]:
    positions = getattr(code, "co_positions", None)  # from Python 3.11 on
    if positions is None or instruction < 0:
        return _NOWHERE
    for index, span in enumerate(positions()):
        if index == instruction // 2:
            return span[0], span[1], span[2], span[3]
    return _NOWHERE
