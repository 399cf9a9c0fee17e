"""What ``**x`` brings along where ``x`` is filled later, merged, filtered, or made by a function of the file.

For reading alone: the entries may serve other calls too, so that nobody may change them for the sake of one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..source.project import Project
from .functions import called_function
from .keywords import stores_in
from .names import Binding, ModuleNames
from .paths import position

MAX_HOPS = 10


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
            source = _filtered(node)
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


def _filtered(node: ast.DictComp) -> ast.expr | None:
    """``x`` of ``{k: v for k, v in x.items() if k in known}``: whoever knows the names knows all that are right."""
    loop, call = node.generators[0], node.generators[0].iter
    alike = isinstance(loop.target, ast.Tuple) and list(map(ast.unparse, loop.target.elts)) == [
        ast.unparse(node.key),
        ast.unparse(node.value),
    ]
    named = any(
        isinstance(item, ast.Constant) and item.value is not None for test in loop.ifs for item in ast.walk(test)
    )
    method = call.func if isinstance(call, ast.Call) else None
    if len(node.generators) > 1 or not alike or named or not isinstance(method, ast.Attribute):
        return None
    return method.value if method.attr == "items" else None


def _is_before(module: ModuleNames, made: Binding, statement: ast.stmt, use: ast.Name) -> bool:
    """Whether a statement runs whenever the variable is made, right after it in the same block, and before a use."""
    block = module.parents.get(statement)
    here = module.scope_of(statement) is module.scope_of(use)
    beside = block is module.parents.get(made.node) and not isinstance(block, ast.If)
    return beside and (not here or position(statement) < position(use))
