"""The edits that take a local scaler out of a training loop completely."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from textwrap import dedent

from ...model import Edit, Fix
from ...proof.proving import proved
from ...python.bindings import self_stores
from ...python.editing import EditPlace
from ...python.names import ModuleNames, modules_with, root_name, string_of
from ...source.documents import Document
from ...source.project import Project
from ..scalers import AttributeAlias, NameAlias, Scaler, ScalerUse
from .needs_of_disabling import needs_of_disabling, no_longer_skipped

FORBIDDEN_ROUTES = {"parameter", "returned", "stored", "escaped", "none-test", "other-file", "conditional"}
UNDERSTOOD_USES = {"scale", "step", "unscale_", "update", "assigned"}
REFLECTION = ("getattr", "hasattr", "setattr", "delattr")
PURE_CALLS = {"len", "hasattr", "isinstance", "getattr", "bool", "int"}


def fix(project: Project, scaler: Scaler) -> Fix | None:
    """The fix that removes ``scaler``, or None when it is not local enough to be removed."""
    if not _is_local(scaler) or not all(_is_simple(use) for use in scaler.uses):
        return None
    if not scaler.uses_of("scale") or not scaler.uses_of("step"):
        return None  # somebody else takes the scaled gradients, or steps
    if any(_named_otherwise(document, scaler) for document in project.python_documents(containing=REFLECTION)):
        return None
    removal = _Removal(project, scaler)
    message = f"remove the scaler: bf16 gradients need none; {no_longer_skipped(project, scaler)}"
    return proved(project, "drop", message, removal.edits(), *needs_of_disabling(project, scaler))


def _is_local(scaler: Scaler) -> bool:
    if scaler.kind != "direct" or scaler.routes & FORBIDDEN_ROUTES or len(scaler.aliases) != 1:
        return False
    alias = scaler.aliases[0]
    statement = scaler.module.statement_of(scaler.call)
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is not scaler.call:
        return False
    if isinstance(statement, ast.Assign) and len(statement.targets) != 1:
        return False
    if isinstance(scaler.module.parents[statement], ast.Try | ast.ExceptHandler):
        return False
    if isinstance(alias, NameAlias):
        once = len(alias.scope.bindings.get(alias.name, [])) == 1
        return once and alias.name not in _exported(scaler.module) | _declared(scaler.module)
    return isinstance(alias, AttributeAlias) and _is_only_assignment(alias)


def _is_only_assignment(alias: AttributeAlias) -> bool:
    if alias.owner is None or alias.name in _declared(alias.module):
        return False
    return len(self_stores(alias.module, alias.owner, alias.name)) == 1


def _declared(module: ModuleNames) -> set[str]:
    """The names in ``global``, ``nonlocal`` and ``del`` statements, which would be left without a variable."""
    found: set[str] = set()
    for node in module.nodes:
        if isinstance(node, ast.Global | ast.Nonlocal):
            found.update(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Del):
            found.add(node.attr)
    return found


def _named_otherwise(document: Document, scaler: Scaler) -> bool:
    """Whether ``getattr(trainer, "scaler")`` or its like asks for the scaler's attribute by its name."""
    names = {alias.name for alias in scaler.aliases if isinstance(alias, AttributeAlias)}
    return bool(names) and any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in REFLECTION
        and any(isinstance(item, ast.Constant) and item.value in names for item in node.args[1:2])
        for node in ast.walk(document.tree)
    )


def _exported(module: ModuleNames) -> set[str]:
    bindings = module.module_scope.bindings.get("__all__", [])
    groups = (item.value.elts for item in bindings if isinstance(item.value, ast.List | ast.Tuple))
    return {text for group in groups for item in group if (text := string_of(item)) is not None}


def _is_simple(use: ScalerUse) -> bool:
    """Whether the use has a plain equivalent without a scaler."""
    if use.kind not in UNDERSTOOD_USES:
        return False
    if use.kind == "assigned":
        return True
    call = use.call
    if call is None or any(isinstance(item, ast.Starred) for item in call.args[:1]):
        return False
    if use.kind == "scale":
        return len(call.args) == 1 and not call.keywords
    if use.kind == "step":
        return len(call.args) >= 1
    arguments = [*call.args, *(item.value for item in call.keywords)]
    return isinstance(use.module.parents[call], ast.Expr) and all(is_pure(item) for item in arguments)


def _is_taken_elsewhere(project: Project, module: ModuleNames, name: str) -> bool:
    """Whether another file may take the imported ``name`` from this module: then the import stays."""
    stem = module.document.path.rpartition("/")[2].removesuffix(".py")
    if stem == "__init__":
        return True
    for other in modules_with(project, (stem,), (name,)):
        imports = [item.qualified or "" for item in other.imports]
        if other is not module and any(stem in item.split(".") for item in (*imports, *other.star_imports)):
            return True
    return False


class _Removal:
    """Collects the operations for one scaler."""

    def __init__(self, project: Project, scaler: Scaler) -> None:
        self.project = project
        self.scaler = scaler
        self.module = scaler.module
        self.removed: set[ast.stmt] = {scaler.module.statement_of(scaler.call)}
        self.plain: dict[ast.stmt, str] = {}
        """What stays of an ``if`` whose branches become the same."""

    def edits(self) -> Iterator[Edit]:
        self.removed |= {self.module.statement_of(use.node) for use in self.scaler.uses_of("unscale_", "update")}
        self._grow()
        self._find_equal_branches()
        for statement in sorted(self.removed, key=lambda node: node.lineno):
            if not self._inside_removed(statement):
                if statement in self.plain:
                    yield self.module.insert(statement, self.plain[statement])
                yield self.module.remove(statement)
        for use in self.scaler.uses_of("scale", "step"):
            if use.call is not None and not self._inside_removed(use.call):
                yield self._plain(use, use.call)
        yield from self._import()

    def _plain(self, use: ScalerUse, call: ast.Call) -> Edit:
        if use.kind == "scale":
            return self.module.replace(call, call.args[0])
        parts: list[str | EditPlace] = [call.args[0], ".step("]
        arguments: list[tuple[str, ast.expr]] = [("", item) for item in call.args[1:]]
        arguments += [(f"{item.arg}=" if item.arg else "**", item.value) for item in call.keywords]
        for position, (prefix, value) in enumerate(arguments):
            parts += [(", " if position else "") + prefix, value]
        return self.module.replace(call, *parts, ")")

    def _import(self) -> Iterator[Edit]:
        root = root_name(self.scaler.call.func)
        if not root or _is_taken_elsewhere(self.project, self.module, root):
            return
        for binding in self.module.scope_of(self.scaler.call.func).lookup(root):
            if isinstance(binding.node, ast.ImportFrom):
                yield self.module.drop_import(binding.node, root)

    # --- blocks that are left without a purpose ---------------------------------------------------------------------

    def _grow(self) -> None:
        """Take whole ``if`` statements whose every statement goes, when their test has no effect of its own."""
        grown = True
        while grown:
            grown = False
            for statement in list(self.removed):
                parent = self.module.parents.get(statement)
                if not isinstance(parent, ast.If) or parent in self.removed or not is_pure(parent.test):
                    continue
                if all(item in self.removed for item in (*parent.body, *parent.orelse)):
                    self.removed.add(parent)
                    grown = True

    def _inside_removed(self, node: ast.AST) -> bool:
        return any(parent in self.removed for parent in self.module.ancestors(node))

    def _find_equal_branches(self) -> None:
        """Of ``if amp: <with scaler> else: <plain>`` the plain branch stays, where the other becomes the same."""
        for use in self.scaler.uses_of("scale", "step"):
            for parent in self.module.ancestors(use.node):
                if isinstance(parent, ast.If) and self._becomes_pointless(parent):
                    self.plain[parent] = self._text(parent.orelse)
        self.removed |= self.plain.keys()

    def _becomes_pointless(self, node: ast.If) -> bool:
        if not node.orelse or not is_pure(node.test) or self._is_elif(node) or not self._text(node.orelse):
            return False
        return self._shape(node.body) == self._shape(node.orelse)

    def _text(self, block: list[ast.stmt]) -> str:
        """A block that has nothing to do with the scaler, at the left margin; empty for any other."""
        inside = [node for statement in block for node in ast.walk(statement)]
        ours = {*self.removed, *(use.node for use in self.scaler.uses)}
        strings = (node for node in inside if isinstance(node, ast.Constant | ast.JoinedStr))
        line = self.module.document.line
        apart = not line(block[0].lineno)[: block[0].col_offset].strip() and not hasattr(block[0], "decorator_list")
        if not apart or not ours.isdisjoint(inside) or any(node.lineno != node.end_lineno for node in strings):
            return ""
        rows = range(block[0].lineno, (block[-1].end_lineno or block[-1].lineno) + 1)
        return dedent("\n".join(map(line, rows)))

    def _is_elif(self, node: ast.If) -> bool:
        parent = self.module.parents.get(node)
        return isinstance(parent, ast.If) and node in parent.orelse

    def _shape(self, block: list[ast.stmt]) -> list[str]:
        return [_Plain(self).dump(statement) for statement in block if statement not in self.removed]


class _Plain:
    """Dumps a statement as it will be once the scaler is gone, to compare branches."""

    def __init__(self, removal: _Removal) -> None:
        self.removed = removal.removed
        self.calls = {use.call: use.kind for use in removal.scaler.uses_of("scale", "step")}

    def dump(self, node: object) -> str:
        if isinstance(node, ast.Call) and node in self.calls:
            first, *rest = node.args
            if self.calls[node] == "scale":
                return self.dump(first)
            step = ast.Attribute(first, "step", ast.Load())
            return self.dump(ast.Call(step, rest, node.keywords))
        if isinstance(node, ast.AST):
            fields = ",".join(f"{name}={self.dump(value)}" for name, value in ast.iter_fields(node) if name != "ctx")
            return f"{type(node).__name__}({fields})"
        if isinstance(node, list):
            kept = [item for item in node if not (isinstance(item, ast.stmt) and item in self.removed)]
            return "[" + ",".join(self.dump(item) for item in kept) + "]"
        return repr(node)


def is_pure(test: ast.expr) -> bool:
    """Whether evaluating ``test`` can have no effect that somebody relies on."""
    for node in ast.walk(test):
        if isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom):
            return False
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in PURE_CALLS):
            return False
    return True
