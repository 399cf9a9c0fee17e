"""Reading and replacing single files inside a folder: no links out of it, and never a half-written file."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

from ..model import UsageError

_BINARY = getattr(os, "O_BINARY", 0)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # opening a FIFO must not hang
_PROTECTED = (".git", ".precfix")


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a replaced file keeps: permission bits and owner."""

    mode: int
    user: int
    group: int


def real_root(root: Path) -> Path:
    """``root`` without links; raises UsageError when it is no folder."""
    try:
        real = root.resolve(strict=True)
        is_folder = real.is_dir()
    except (OSError, RuntimeError) as error:
        raise UsageError(f"{str(root)!r} cannot be used: {_reason(error)}") from None
    if not is_folder:
        raise UsageError(f"{str(root)!r} is not a folder")
    return real


def real_file(root: Path, path: str) -> Path:
    """The file that ``path`` (relative, forward slashes) stands for, its links followed; ``root`` is a real folder.

    Raises UsageError when it leaves ``root``, does not exist, or lies in ``.git`` or ``.precfix``.
    """
    _check_relative(path)
    try:
        real = (root / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a circle, before Python 3.13
        raise UsageError(f"{path!r} cannot be found: {_reason(error)}") from None
    return _allowed(root, real, path)


def unlinked_place(root: Path, path: str) -> Path:
    """Where ``path`` would be, whether or not it exists; raises UsageError when a link stands anywhere on the way.

    Also raises UsageError for every path that `real_file` refuses, and when its folder does not exist.
    """
    _check_relative(path)
    place = root / path
    if (real_file(root, path) if os.path.lexists(place) else _real_folder(place.parent, path) / place.name) != place:
        raise UsageError(f"{path!r} has become a link; nothing was restored")
    return _allowed(root, place, path)


def _real_folder(folder: Path, path: str) -> Path:
    try:
        return folder.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"the folder of {path!r} cannot be found: {_reason(error)}") from None


def _allowed(root: Path, real: Path, path: str) -> Path:
    if not real.is_relative_to(root):
        raise UsageError(f"{path!r} is a link out of the project; nothing was written")
    if any(part.casefold() in _PROTECTED for part in real.relative_to(root).parts):
        raise UsageError(f"{path!r} is not a file that precfix may write")
    return real


def _check_relative(path: str) -> None:
    parts = PurePosixPath(path).parts
    windows = PureWindowsPath(path) if os.name == "nt" else None
    outside = path.startswith("/") or ".." in parts or bool(windows and (windows.anchor or ".." in windows.parts))
    if not parts or outside or "\0" in path:
        raise UsageError(f"{path!r} is not a path inside the project; nothing was written")


def read_regular(path: Path, limit: int | None = None) -> tuple[bytes, Attributes]:
    """The bytes and attributes of a regular file that is no link; raises OSError (also when larger than ``limit``)."""
    with os.fdopen(os.open(path, os.O_RDONLY | _NO_FOLLOW | _NO_WAIT | _BINARY), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        if limit is not None and found.st_size > limit:
            raise OSError(errno.EFBIG, "is too large", str(path))
        return file.read(), Attributes(stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)


def write_new(path: Path, data: bytes, attributes: Attributes | None = None) -> None:
    """Create ``path`` (it must not exist) with ``data``, on the disk when this returns.

    Raises OSError, and then leaves no file, unless there was one.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | _BINARY
    descriptor = os.open(path, flags, 0o600 if attributes else 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if attributes is not None:
                _set_attributes(file.fileno(), path, attributes)
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def _set_attributes(descriptor: int, path: Path, wanted: Attributes) -> None:
    mode = wanted.mode
    present = os.fstat(descriptor)
    if hasattr(os, "fchown") and (present.st_uid, present.st_gid) != (wanted.user, wanted.group):
        try:
            os.fchown(descriptor, wanted.user, wanted.group)
        except OSError:  # only root may give files away; never run as another user what was set-uid before
            mode &= 0o777
    os.chmod(path, mode)


def refuse_changed(root: Path, path: str, data: bytes, attributes: Attributes) -> None:
    """Raise UsageError unless the file at ``path`` still has these bytes and attributes, and no link leads to it.

    ``root`` and ``path`` have their links resolved. Raises OSError when the file cannot be read.
    """
    file = root / path
    if read_regular(file) != (data, attributes) or real_file(root, path) != file:
        raise UsageError(f"{path!r} has changed since it was read; run again")


def replace_file(
    path: Path,
    data: bytes,
    attributes: Attributes | None,
    temporary: Path,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Give ``path`` the new ``data`` in one step, by way of ``temporary`` in the same folder; raises OSError.

    ``check`` is called last before the step, and may raise.
    """
    try:
        write_new(temporary, data, attributes)
        check()
        os.replace(temporary, path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync_folder(path: Path) -> None:
    """Make renames in a folder last through a power cut, where the system can do that."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):  # some network disks cannot
            raise
    finally:
        os.close(descriptor)


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def failure(error: OSError) -> str:
    """One line about an OSError: the reason, and the file when known."""
    name = f" ({os.fsdecode(error.filename)!r})" if isinstance(error.filename, (str, bytes)) else ""
    return f"{_reason(error)}{name}"
