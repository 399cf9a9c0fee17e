"""From a module's dotted name to its file, by the layout of the project alone."""

from __future__ import annotations

import sys
from collections.abc import Iterable


class ModulePaths:
    """Answers which Python file a dotted name means. Paths have forward slashes."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._by_tail: dict[str, list[str]] = {}
        for path in sorted(self._paths):
            self._by_tail.setdefault(_tail(path), []).append(path)

    def find(self, module: str) -> str | None:
        """The file of ``module``, or None when there is none or no telling which."""
        if not module or not all(part.isidentifier() for part in module.split(".")):
            return None
        stem = module.replace(".", "/")
        candidates = (f"{stem}/__init__.py", f"{stem}.py")  # Python prefers the package
        for prefix in ("", "src/"):
            for candidate in candidates:
                if prefix + candidate in self._paths:
                    return prefix + candidate
        if module.partition(".")[0] in sys.stdlib_module_names:
            return None
        return self._below_one_directory(candidates)

    def _below_one_directory(self, candidates: tuple[str, str]) -> str | None:
        """The only match below some directory that could be on ``sys.path``; a package's inside is not."""
        found: dict[str, str] = {}
        for candidate in candidates:
            for path in self._by_tail.get(_tail(candidate), ()):
                parent = path.removesuffix(candidate)
                if parent.endswith("/") and parent != path and f"{parent}__init__.py" not in self._paths:
                    found.setdefault(parent, path)
        return next(iter(found.values())) if len(found) == 1 else None


def _tail(path: str) -> str:
    return "/".join(path.rsplit("/", 2)[-2:]) if path.endswith("/__init__.py") else path.rpartition("/")[2]
