"""The names under which the code of a run reads settings: their own, and those of variables that hold them."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping

from ..python.functions import called_function
from ..python.names import ModuleNames, last_name, string_of
from ..source.project import Project
from ..torch.dtypes import Constant

SAME = ("lower", "upper", "strip", "str", "bool", "int", "get", "getattr", "getenv")
"""Calls whose value is that of what they are given."""
MAX_ROUNDS = 4
"""How often a setting may be given another name."""
WORD = re.compile(r"[\w-]+")


def plain_name(key: str) -> str:
    """``use_amp`` of ``--use-amp``, ``cfg.train.use_amp``, ``load(use_amp=)``."""
    return next(reversed(WORD.findall(key)), "").lstrip("-").replace("-", "_")


class SettingNames:
    """The names under which the code of a run reads settings."""

    def __init__(self, project: Project, modules: Collection[ModuleNames], moved: Mapping[str, Constant]) -> None:
        self.project = project
        self.moved = moved
        self.names = {*moved}
        self.local: set[tuple[str, str]] = set()
        """Variables and parameters, each with its file."""
        for call in (call for module in modules for call in module.calls_by_name.get("add_argument", ())):
            flags = {plain_name(word) for item in call.args if (word := string_of(item)) is not None}
            if not flags.isdisjoint(moved):
                self.names |= {string_of(item.value) or "" for item in call.keywords if item.arg == "dest"}
        for _ in range(MAX_ROUNDS):
            before = len(self.names), len(self.local)
            for module in modules:
                self._follow(module)
            if before == (len(self.names), len(self.local)):
                break

    def _follow(self, module: ModuleNames) -> None:
        for target, value in _assigned(module):
            if self.read(module, value, passing=True):
                if isinstance(target, ast.Name):
                    self.local.add((module.path, target.id))
                elif isinstance(target, ast.Attribute):
                    self.names.add(target.attr)
        for call in module.calls:
            given = [*call.args, *(item.value for item in call.keywords)]
            if any(self.read(module, value, passing=True) for value in given):
                target = called_function(self.project, module, call)
                for name, value in target.arguments(call).items() if target is not None else ():
                    if target is not None and self.read(module, value, passing=True):
                        self.local.add((target.module.path, name))

    def read(self, module: ModuleNames, node: ast.AST, passing: bool = False) -> bool:
        """Whether an expression reads one of them; when ``passing``, whether it is one, or is picked by one."""
        return any(self._is_read(module, item) for item in (_parts(node) if passing else ast.walk(node)))

    def _is_read(self, module: ModuleNames, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            is_known = node.id in self.names or (module.path, node.id) in self.local
            return is_known and isinstance(node.ctx, ast.Load)
        if isinstance(node, ast.Attribute):
            return node.attr in self.names and node.attr != "dtype"
        return (key_read(node) or "") in self.names

    def value_of(self, node: ast.AST) -> Constant:
        """What a setting is that is read under its own name."""
        name = getattr(node, "id", None) or getattr(node, "attr", None) or key_read(node)
        return self.moved.get(name or "")


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression that give it its value: no argument of another call, no text."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Call) and last_name(node.func) not in SAME):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _parts(child)


def _assigned(module: ModuleNames) -> Iterator[tuple[ast.expr, ast.expr]]:
    for statement in module.of_type(ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
                yield from zip(target.elts, statement.value.elts, strict=False)
            else:
                yield target, statement.value
    for annotated in module.of_type(ast.AnnAssign):
        if annotated.value is not None:
            yield annotated.target, annotated.value


def key_read(node: ast.AST) -> str | None:
    """``amp`` of ``cfg["amp"]`` and of ``cfg.get("amp")``, ``getattr(cfg, "amp")``."""
    if isinstance(node, ast.Call) and node.args:
        at = {"getattr": 1}.get(last_name(node.func), 0)
        is_read = last_name(node.func) in SAME and len(node.args) > at
        return string_of(node.args[at]) if is_read else None
    return string_of(node.slice) if isinstance(node, ast.Subscript) else None
