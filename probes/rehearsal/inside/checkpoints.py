"""What the program writes: checkpoints, and files that were there before, go to a folder that is gone afterwards.

The folder mirrors the paths, so that every process of the command reads back what another has written.
"""

from __future__ import annotations

import builtins
import inspect
import io
import os
import pathlib
import shutil
import stat
from typing import Any

from .imports import after_import

_OF_THE_SYSTEM = ("/proc/", "/sys/", "/dev/")
_CHECKPOINTS = "checkpoints went to a folder that is gone now: the project's own are as they were"
_DROPPED = "checkpoints were not written: --no-write"
_OVERWRITTEN = "files that were there before were not overwritten: the program read its own version of them"


class Checkpoints:
    """Takes the place of the functions that write, and of those that look at what was written."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.folder = os.path.join(session.settings.answers, "written")
        self._stat, self._remove, self._rename = os.stat, os.remove, os.rename

    def install(self) -> None:
        torch = self.session.torch
        torch.save = torch.serialization.save = self._saving(torch.save)
        torch.load = torch.serialization.load = self._reading(torch.load)
        after_import("safetensors", self._safe_open)
        after_import("safetensors.torch", self._save_file)
        opened = builtins.open
        builtins.open = io.open = self._opening(opened)
        _put_in_pathlib("open", opened, io.open)
        for name in ("stat", "remove", "unlink", "rename", "replace"):
            self._put(name, getattr(self, f"_{name}_for")(getattr(os, name)))

    def _put(self, name: str, function: Any) -> None:
        """In the place of a function of ``os``; what it can do is asked of these sets."""
        for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            if getattr(os, name) in known:
                known.add(function)
        real = getattr(os, name)
        setattr(os, name, function)
        _put_in_pathlib(name, real, function)

    def _safe_open(self, module: Any) -> None:
        module.safe_open = self._reading(module.safe_open)

    def _save_file(self, module: Any) -> None:
        module.save_file = self._saving(module.save_file)

    # --- what stands in place of a function --------------------------------------------------------------------------

    def _saving(self, save: Any) -> Any:
        named = inspect.signature(save)
        key = [*named.parameters][1]  # the file: ``f`` of torch, ``filename`` of safetensors

        def saving(*args: Any, **kwargs: Any) -> Any:
            given = named.bind(*args, **kwargs)
            file = given.arguments[key]
            if _is_path(file) and os.path.isdir(os.path.dirname(os.path.abspath(os.fspath(file)))):
                self.session.recorder.note(_DROPPED if self.session.settings.no_write else _CHECKPOINTS)
                if self.session.settings.no_write:
                    return None
                given.arguments[key] = self.elsewhere(file)
            return save(*given.args, **given.kwargs)

        return saving

    def _reading(self, load: Any) -> Any:
        def reading(*args: Any, **kwargs: Any) -> Any:
            kwargs = {name: self.found(value) if name in ("f", "filename") else value for name, value in kwargs.items()}
            return load(*map(self.found, args[:1]), *args[1:], **kwargs)

        return reading

    def _opening(self, real: Any) -> Any:
        def opening(file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
            if isinstance(mode, str) and "w" in mode and self._was_there(file):
                self.session.recorder.note(_OVERWRITTEN)
                return real(self.elsewhere(file), mode, *args, **kwargs)
            return real(self.found(file), mode, *args, **kwargs)

        return opening

    def _stat_for(self, real: Any) -> Any:
        def looked(path: Any, *, dir_fd: Any = None, follow_symlinks: bool = True) -> Any:
            return real(
                path if dir_fd is not None else self.found(path), dir_fd=dir_fd, follow_symlinks=follow_symlinks
            )

        return looked

    def _remove_for(self, real: Any) -> Any:
        def removed(path: Any, *, dir_fd: Any = None) -> None:
            real(path if dir_fd is not None else self.found(path), dir_fd=dir_fd)

        return removed

    _unlink_for = _remove_for

    def _rename_for(self, real: Any) -> Any:
        def renamed(src: Any, dst: Any, **folders: Any) -> None:
            source = src if folders else self.found(src)
            if source is src and (folders or not self._was_there(dst)):
                real(src, dst, **folders)
                self._rename_mirror(src, dst)
            elif source is not src or os.path.isfile(source):
                shutil.copyfile(source, self.elsewhere(dst))
                real_remove(source)
            else:
                real(src, dst)

        real_remove = self._remove
        return renamed

    _replace_for = _rename_for

    def _rename_mirror(self, src: Any, dst: Any) -> None:
        """A folder takes along what was written into its mirror."""
        if _is_path(src) and _is_path(dst) and self._exists(self._mirror(src)):
            target = self._mirror(dst)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            self._rename(self._mirror(src), target)

    def _mirror(self, file: Any) -> str:
        drive, path = os.path.splitdrive(os.path.abspath(os.fspath(file)))
        return os.path.join(self.folder, drive.replace(":", ""), path.lstrip("/\\"))

    def _exists(self, path: str) -> bool:
        try:
            self._stat(path)
        except (OSError, ValueError):
            return False
        return True

    def elsewhere(self, file: Any) -> str:
        """Where a file is written in place of the one that the program names."""
        path = self._mirror(file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def found(self, file: Any) -> Any:
        """Where what the program names can be read: the very same object where nothing was redirected."""
        if not _is_path(file) or not self._exists(self.folder):
            return file
        path = self._mirror(file)
        try:
            is_file = stat.S_ISREG(self._stat(path).st_mode)
        except (OSError, ValueError):
            return file
        return path if is_file else file

    def _was_there(self, file: Any) -> bool:
        """Whether a file is older than the rehearsal."""
        if not _is_path(file) or os.fspath(file).startswith(_OF_THE_SYSTEM):
            return False
        try:
            known = self._stat(file)
        except (OSError, ValueError):
            return False
        return stat.S_ISREG(known.st_mode) and known.st_mtime < self.session.settings.began


def _put_in_pathlib(name: str, real: Any, function: Any) -> None:
    """Until Python 3.10 ``pathlib`` keeps the functions of ``os`` and ``io`` that it found when it was imported."""
    kept = getattr(pathlib, "_normal_accessor", None)
    if getattr(kept, name, None) is real:
        setattr(kept, name, function)


def _is_path(file: Any) -> bool:
    return isinstance(file, str) or (isinstance(file, os.PathLike) and isinstance(os.fspath(file), str))
