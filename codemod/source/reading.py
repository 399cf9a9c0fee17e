"""Opening files of a tree that may be hostile: no devices, no links, no surprises in size."""

from __future__ import annotations

import os
import stat

_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a FIFO put in place of a file must not block
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


class FileRefused(Exception):
    """A file is not read; the message is the reason."""


def read_regular_file(path: str, max_bytes: int) -> bytes:
    """The bytes of a regular file that is not a symbolic link; raises `FileRefused` or OSError."""
    if os.path.islink(path):
        raise FileRefused("is a symbolic link")
    descriptor = os.open(path, _FLAGS)
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise FileRefused("not a regular file")
        if state.st_size > max_bytes:
            raise FileRefused(f"too large ({state.st_size:,} bytes; the limit is {max_bytes:,})")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(state.st_size + 1)
    finally:
        os.close(descriptor)
    if len(data) != state.st_size:
        raise FileRefused("changed while it was read")
    return data
