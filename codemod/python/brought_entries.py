"""What ``**x`` brings along where ``x`` is filled later, merged, filtered, or made by a function of the file.

For reading alone: the entries may serve other calls too, so that nobody may change them for the sake of one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..source.project import Project
from .bindings import only_value
from .functions import called_function
from .keywords import stores_in
from .names import Binding, ModuleNames, last_name
from .paths import position

MAX_HOPS = 10
REFLECTING = ("signature", "getfullargspec", "fields", "vars", "dir")
"""Functions of Python that tell all names that a function takes, or that an object has."""
REFLECTED = ("__dataclass_fields__", "__annotations__", "__dict__")


@dataclass(frozen=True, slots=True, eq=False)
class Brought:
    """Entries by name, and the names whose values are not known, or that may be left out."""

    values: dict[str, ast.expr] = field(default_factory=dict)
    uncertain: frozenset[str] = frozenset()

    def then(self, later: Brought) -> Brought:
        """Both, where the later one overrules."""
        kept = {name: value for name, value in self.values.items() if name not in later.uncertain}
        return Brought(kept | later.values, (self.uncertain - set(later.values)) | later.uncertain)


def brought_keywords(project: Project, module: ModuleNames, call: ast.Call) -> Brought | None:
    """All that a call is given by name; None where some of it is not known."""
    return _Reading(project, module, {}, MAX_HOPS).merged((item.arg, item.value) for item in call.keywords)


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    project: Project
    module: ModuleNames
    given: Mapping[str, ast.expr]
    """What the call that is followed passes for the parameters of its function."""
    hops: int

    def of(self, node: ast.expr) -> Brought | None:
        if not self.hops:
            return None
        inner = replace(self, hops=self.hops - 1)
        if isinstance(node, ast.Name):
            return inner.of_name(node)
        if isinstance(node, ast.Dict):
            named = [key.value if isinstance(key, ast.Constant) else key for key in node.keys]
            known = all(key is None or isinstance(key, str) for key in named)
            return inner.merged(zip(named, node.values, strict=True)) if known else None  # type: ignore[arg-type]
        if isinstance(node, ast.DictComp):
            source = _filtered(self.module, node)
            return inner.of(source) if source is not None else None
        return inner.of_call(node) if isinstance(node, ast.Call) else None

    def merged(self, parts: Iterable[tuple[str | None, ast.expr]]) -> Brought | None:
        """Names with their values, and dictionaries without one."""
        found = Brought()
        for name, value in parts:
            part = Brought({name: value}) if name is not None else self.of(value)
            if part is None:
                return None
            found = found.then(part)
        return found

    def of_name(self, node: ast.Name) -> Brought | None:
        bindings = self.module.scope_of(node).lookup(node.id)
        only = bindings[0] if len(bindings) == 1 else None
        passed = self.given.get(node.id) if only is not None and only.kind == "parameter" else None
        reading = replace(self, given={}) if passed is not None else self
        value = passed or (only.value if only is not None else None)
        first = reading.of(value) if value is not None else None
        if only is None or first is None:
            return None
        for name, stored, statement in stores_in(self.module, node):
            if name is None:
                return None
            certain = stored is not None and _is_before(self.module, only, statement, node)
            first = first.then(Brought({name: stored}) if certain and stored else Brought({}, frozenset((name,))))
        return first

    def of_call(self, node: ast.Call) -> Brought | None:
        if isinstance(node.func, ast.Name) and node.func.id == "dict":
            given = [(None, item) for item in node.args] + [(item.arg, item.value) for item in node.keywords]
            return self.merged(given)
        target = called_function(self.project, self.module, node)
        returned = self.module.returns_of(target.node) if target is not None and target.module is self.module else []
        value = returned[0].value if len(returned) == 1 else None
        if target is None or value is None or target.node.name == "__init__":
            return None
        return replace(self, given=target.arguments(node)).of(value)


def _filtered(module: ModuleNames, node: ast.DictComp) -> ast.expr | None:
    """``x`` of ``{k: v for k, v in x.items() if k in known}``: whoever asks for the names knows all that are right."""
    loop, call = node.generators[0], node.generators[0].iter
    pair = [ast.unparse(node.key), ast.unparse(node.value)]
    alike = isinstance(loop.target, ast.Tuple) and list(map(ast.unparse, loop.target.elts)) == pair
    method = call.func if isinstance(call, ast.Call) else None
    if len(node.generators) > 1 or not alike or not isinstance(method, ast.Attribute):
        return None
    return method.value if method.attr == "items" and all(_keeps(module, test, *pair) for test in loop.ifs) else None


def _keeps(module: ModuleNames, test: ast.expr, key: str, value: str) -> bool:
    """``k in known``, ``hasattr(x, k)``, ``v is not None``: no right name with a value is left out."""
    if isinstance(test, ast.Call) and ast.unparse(test.func) == "hasattr":
        return ast.unparse(test.args[-1]) == key
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.In) and len(test.ops) == 1:
        return ast.unparse(test.left) == key and _is_asked(module, test.comparators[0], MAX_HOPS)
    return ast.unparse(test) == f"{value} is not None"


def _is_asked(module: ModuleNames, node: ast.expr | None, hops: int) -> bool:
    """Whether names are those of a function or a class, and no list of the file: ``signature(f).parameters``."""
    if node is None or not hops:
        return False
    if isinstance(node, ast.Name):
        return _is_asked(module, only_value(module, node), hops - 1)
    if isinstance(node, ast.Attribute):
        return node.attr in REFLECTED or _is_asked(module, node.value, hops - 1)
    if isinstance(node, ast.SetComp | ast.ListComp):
        return _is_asked(module, node.generators[0].iter, hops - 1)
    if not isinstance(node, ast.Call):
        return False
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    asked = last_name(node.func) in REFLECTING
    return asked or any(_is_asked(module, item, hops - 1) for item in (*node.args, owner) if item is not None)


def _is_before(module: ModuleNames, made: Binding, statement: ast.stmt, use: ast.Name) -> bool:
    """Whether a statement runs whenever the variable is made, right after it in the same block, and before a use."""
    block = module.parents.get(statement)
    here = module.scope_of(statement) is module.scope_of(use)
    beside = block is module.parents.get(made.node) and not isinstance(block, ast.If)
    return beside and (not here or position(statement) < position(use))
