"""From a module's dotted name to its file, by the layout of the project alone."""

from __future__ import annotations

import ast
import posixpath
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .child_fields import within
from .slim_nodes import nodes_of

if TYPE_CHECKING:
    from .project import Project

ADDING = ("append", "insert", "extend")
"""Methods of ``sys.path`` that add a folder to it."""


class ModulePaths:
    """Answers which Python file a dotted name means. Paths have forward slashes."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._by_tail: dict[str, list[str]] = {}
        for path in sorted(self._paths):
            self._by_tail.setdefault(_tail(path), []).append(path)
        self._found: dict[tuple[str, str], str | None] = {}

    def find(self, module: str, importer: str = "") -> str | None:
        """The file of ``module``, or None when there is none or no telling which.

        ``importer`` is the file that imports it: a script's own folder comes first on ``sys.path``, and of several
        folders that hold such a module the nearest one around the importer is meant.
        """
        question = (module, importer)
        if question not in self._found:
            self._found[question] = self._find(module, importer)
        return self._found[question]

    def _find(self, module: str, importer: str) -> str | None:
        is_beside, module = module.startswith("."), module.removeprefix(".")
        if not module or not all(_is_name(part) for part in module.split(".")):
            return None
        stem = module.replace(".", "/")
        candidates = (f"{stem}/__init__.py", f"{stem}.py")  # Python prefers the package
        if is_beside:
            return next((path for path in candidates if path in self._paths and path != importer), None)
        around = _folders_around(importer)
        own = [folder for folder in around[:1] if f"{folder}__init__.py" not in self._paths]
        for prefix in (*own, "", "src/"):
            for candidate in candidates:
                if prefix + candidate in self._paths and prefix + candidate != importer:
                    return prefix + candidate
        if module.partition(".")[0] in sys.stdlib_module_names or not module.replace(".", "").isidentifier():
            return None
        near = (prefix + candidate for prefix in around for candidate in candidates)
        found = next((path for path in near if path in self._paths and path != importer), None)
        return found or self._below_one_directory(candidates)

    def find_in(self, folders: Iterable[str], module: str) -> str | None:
        """The file of ``module`` in one of some folders."""
        stem = module.replace(".", "/")
        found = (f"{folder}/{stem}{end}" for folder in folders for end in ("/__init__.py", ".py"))
        return next((path for path in found if path in self._paths), None)

    def _below_one_directory(self, candidates: tuple[str, str]) -> str | None:
        """The only match below some directory that could be on ``sys.path``; a package's inside is not."""
        found: dict[str, str] = {}
        for candidate in candidates:
            for path in self._by_tail.get(_tail(candidate), ()):
                parent = path.removesuffix(candidate)
                if parent.endswith("/") and parent != path and f"{parent}__init__.py" not in self._paths:
                    found.setdefault(parent, path)
        return next(iter(found.values())) if len(found) == 1 else None


def added_folders(project: Project, importer: str) -> tuple[str, ...]:
    """The folders that a file adds to ``sys.path`` by their name, seen from itself and from the root."""
    document = project.document(importer)
    if document is None or "sys.path" not in document.text:
        return ()  # nothing is parsed for that
    trees = [item.tree for item in project.python_documents_at([importer])]
    adding = (tree for tree in trees if any(map(_adds, nodes_of(tree))))
    added = (node for tree in adding for node in within(tree) if _adds(node))
    strings = (inner.value for node in added for inner in within(node) if isinstance(inner, ast.Constant))
    near = posixpath.dirname(importer)
    names = [name for name in strings if isinstance(name, str) and name and not name.startswith("/")]
    folders = (posixpath.normpath(posixpath.join(base, name)) for name in names for base in (near, ""))
    return tuple(dict.fromkeys(folder for folder in folders if not folder.startswith(".")))


def _adds(node: ast.AST) -> bool:
    func = node.func if isinstance(node, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr in ADDING and ast.unparse(func.value) == "sys.path"


def _is_name(part: str) -> bool:
    """Whether a part of a dotted name can be a folder or file; folders need not be identifiers (relative imports)."""
    return bool(part) and not {"/", "\\"} & set(part)


def _folders_around(path: str) -> list[str]:
    """The folders that hold a file, innermost first, the root left out: ``a/b/``, ``a/``."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) + "/" for count in range(len(parts), 0, -1)]


def _tail(path: str) -> str:
    return "/".join(path.rsplit("/", 2)[-2:]) if path.endswith("/__init__.py") else path.rpartition("/")[2]


def absolute_module(path: str, module: str | None, level: int) -> str:
    """Dotted module of ``from <level dots><module> import``, seen from the file ``path``; root-relative.

    With a dot before it where it can stand in the root alone: no other folder is searched for a relative import.
    """
    if not level:
        return module or ""
    folders = path.removesuffix(".py").split("/")[:-1]
    package = folders[: len(folders) - (level - 1)] if level > 1 else folders
    at_root = module is not None and level == len(folders) + 1
    return ".".join([*package, *([""] if at_root else []), *([module] if module else [])])
