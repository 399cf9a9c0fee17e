"""What this process starts with an environment of its own making is watched as well."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

from .imports import after_import

_SETTINGS, _MODULES = "PRECFIX_REHEARSAL", "PYTHONPATH"


def follow(settings: str, inject: str) -> None:
    """Called once, before the program's first line."""

    def completed(environment: Mapping[Any, Any]) -> Mapping[Any, Any]:
        paths = [each for each in (environment.get(_MODULES) or "").split(os.pathsep) if each and each != inject]
        return {**environment, _SETTINGS: settings, _MODULES: os.pathsep.join([inject, *paths])}

    def popen(module: Any) -> None:
        real = module.Popen.__init__

        @functools.wraps(real)
        def started(own: Any, *args: Any, env: Any = None, **kwargs: Any) -> None:
            real(own, *args, env=None if env is None else completed(env), **kwargs)

        if os.name == "posix":
            module.Popen.__init__ = started

    after_import("subprocess", popen)
    for name in ("execve", "posix_spawn", "posix_spawnp"):
        if hasattr(os, name):
            setattr(os, name, _with(completed, getattr(os, name)))


def _with(completed: Any, real: Any) -> Any:
    @functools.wraps(real)
    def started(path: Any, argv: Any, env: Any, **options: Any) -> Any:
        return real(path, argv, completed(env), **options)

    return started
