"""Doing something right after a module was imported, whoever imports it and whenever."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any

_WAITING: dict[str, list[Callable[[Any], None]]] = {}


def after_import(name: str, action: Callable[[Any], None]) -> None:
    """Call ``action(module)`` once the module has been executed; at once when it is there already."""
    if name in sys.modules:
        action(sys.modules[name])
        return
    _WAITING.setdefault(name, []).append(action)
    if not any(isinstance(finder, _Watch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watch())


class _Watch(importlib.abc.MetaPathFinder):
    """Finds nothing itself: wraps the loader that another finder has for a module that is waited for."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in _WAITING:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None and finder is not self else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """The loader of a module, and then what waits for it. All else is as the loader has it."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def create_module(self, spec: ModuleSpec) -> Any:
        return self.inner.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self.inner
        self.inner.exec_module(module)
        for action in _WAITING.pop(module.__name__, []):
            action(module)
