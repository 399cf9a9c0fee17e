"""The names under which the code of a run reads settings: their own, and those of variables that hold them."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from ..python.conditions import SWITCHES
from ..python.functions import called_function
from ..python.names import ModuleNames, last_name, string_of
from ..source.project import Project
from ..torch.dtypes import Constant
from ..trainers.reading.links import joined_sources

SAME = ("lower", "upper", "strip", "str", "bool", "int", "get", "getattr", "getenv")
"""Calls whose value is that of what they are given."""
AS_TEXT = ("dumps", "join", "str", "hash", "md5", "sha1", "sha256", "hexdigest")
"""Calls that make one text, or number, of many settings."""
DECLARING = ("add_argument", "option", "Option")
"""Calls that declare an option, whose words are its names."""
MAX_ROUNDS = 4
"""How often a setting may be given another name."""
WORD = re.compile(r"[\w-]+")


def plain_name(key: str) -> str:
    """``use_amp`` of ``--use-amp``, ``cfg.use_amp``, ``load(use_amp=)``; ``amp.enabled`` of ``train.amp.enabled``."""
    words = [word.lstrip("-").replace("-", "_") for word in WORD.findall(key)]
    return ".".join(words[-2:] if words and words[-1] in SWITCHES else words[-1:])


class SettingNames:
    """The names under which the code of a run reads settings."""

    def __init__(
        self,
        project: Project,
        modules: Collection[ModuleNames],
        moved: Mapping[str, Constant],
        *,
        are_options: bool = False,
    ) -> None:
        self.project = project
        self.moved = moved
        self.names = {*moved}
        self.are_options = are_options
        """Whether an object with all options holds them: ``vars(args)``."""
        self.local: set[tuple[str, str]] = set()
        """Variables and parameters, each with its file."""
        for call in (call for module in modules for name in DECLARING for call in module.calls_by_name.get(name, ())):
            words = [string_of(item) or "" for item in call.args]
            words += [string_of(item.value) or "" for item in call.keywords if item.arg == "dest"]
            flags = {plain_name(part) for word in words for part in word.split("/")} - {""}
            self.names |= flags if not flags.isdisjoint(moved) else set()
        for _ in range(MAX_ROUNDS):
            before = len(self.names), len(self.local)
            for module in modules:
                self._follow(module)
            if before == (len(self.names), len(self.local)):
                break

    def _follow(self, module: ModuleNames) -> None:
        for target, value in assigned((*module.of_type(ast.Assign), *module.of_type(ast.AnnAssign))):
            if self.read(module, value, passing=True):
                if isinstance(target, ast.Name):
                    self.local.add((module.path, target.id))
                elif isinstance(target, ast.Attribute):
                    self.names.add(target.attr)
        for call in module.calls:
            given = [*call.args, *(item.value for item in call.keywords)]
            if any(self.read(module, value, passing=True) for value in given):
                called = called_function(self.project, module, call)
                for name, value in called.arguments(call).items() if called is not None else ():
                    if called is not None and self.read(module, value, passing=True):
                        self.local.add((called.module.path, name))

    def read(self, module: ModuleNames, node: ast.AST, passing: bool = False) -> bool:
        """Whether an expression reads one of them; when ``passing``, whether it is one, or is picked by one."""
        return any(self.is_read(module, item) for item in (_parts(node) if passing else ast.walk(node)))

    def is_read(self, module: ModuleNames, node: ast.AST) -> bool:
        """Whether a node reads one of them by itself."""
        if isinstance(node, ast.Name):
            is_known = node.id in self.names or (module.path, node.id) in self.local
            return is_known and isinstance(node.ctx, ast.Load)
        if isinstance(node, ast.Attribute | ast.Subscript | ast.Call) and (name := _of_switch(node)):
            return name in self.names
        if isinstance(node, ast.Attribute):
            is_of_tensor = node.attr == "dtype" and not joined_sources(self.project, module, node)
            return node.attr in self.names and not is_of_tensor
        if isinstance(node, ast.Call) and last_name(node.func) in AS_TEXT and self.are_options:
            return any(_is_whole(part) for part in ast.walk(node))
        return (key_read(node) or "") in self.names

    def value_of(self, node: ast.AST) -> Constant:
        """What a setting is that is read under its own name."""
        name = getattr(node, "id", None) or getattr(node, "attr", None) or key_read(node)
        return self.moved.get(name or "")


def _is_whole(node: ast.AST) -> bool:
    """``vars(args)``, ``asdict(config)``, ``args.__dict__``: all settings at once."""
    is_called = isinstance(node, ast.Call) and last_name(node.func) in ("vars", "asdict")
    return is_called or (isinstance(node, ast.Attribute) and node.attr == "__dict__")


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression that give it its value: no argument of another call, no text."""
    if isinstance(node, ast.JoinedStr | ast.Dict | ast.List | ast.Tuple | ast.Set):
        return
    if isinstance(node, ast.Call) and last_name(node.func) not in (*SAME, *AS_TEXT):
        return
    if isinstance(node, ast.IfExp) and not all(map(_is_plain, (node.body, node.orelse))):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _parts(child)


def _is_plain(node: ast.expr) -> bool:
    """A value that a setting picks, and no object that was there before: ``torch.float16``, ``"half"``."""
    if isinstance(node, ast.IfExp):
        return _is_plain(node.body) and _is_plain(node.orelse)
    return isinstance(node, ast.Constant | ast.Attribute)


def _of_switch(node: ast.Attribute | ast.Subscript | ast.Call) -> str:
    """``amp.enabled`` of ``cfg.amp.enabled`` and ``cfg["amp"]["enabled"]``; empty where the name tells more."""
    owner = node.func if isinstance(node, ast.Call) else node
    name = node.attr if isinstance(node, ast.Attribute) else key_read(node)
    above = owner.value if isinstance(owner, ast.Attribute | ast.Subscript) else None
    if name not in SWITCHES or above is None:
        return ""
    return f"{key_read(above) or last_name(above)}.{name}"


def assigned(statements: Iterable[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets of assignments, each with its value."""
    for statement in statements:
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            yield statement.target, statement.value
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
                    yield from zip(target.elts, statement.value.elts, strict=False)
                else:
                    yield target, statement.value


def key_read(node: ast.AST) -> str | None:
    """``amp`` of ``cfg["amp"]`` and of ``cfg.get("amp")``, ``getattr(cfg, "amp")``."""
    if isinstance(node, ast.Call) and node.args:
        at = {"getattr": 1}.get(last_name(node.func), 0)
        is_read = last_name(node.func) in SAME and len(node.args) > at
        return string_of(node.args[at]) if is_read else None
    return string_of(node.slice) if isinstance(node, ast.Subscript) else None
