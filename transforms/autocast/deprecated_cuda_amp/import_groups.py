"""Uses that must be rewritten together: all that hang on one import of a file, whose meaning would change for each."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ....codemod.model import Edit
from ....codemod.python.bindings import only_value
from ....codemod.python.names import Binding, ModuleNames, attribute_chain, modules_with, string_of
from ....codemod.releases.gates import guarding_try, is_gated
from ....codemod.source.project import Project
from .deprecated_uses import DEPRECATED, OLD_AUTOCAST, WORDS, DeprecatedUse
from .exports import exported_names, is_star_imported

_REWRITABLE = ("call", "decorator", "partial")


@dataclass(slots=True, eq=False)
class Group:
    """Uses of one file that are rewritten all or not at all."""

    module: ModuleNames
    uses: list[DeprecatedUse]
    origin: str
    """What the first name of the chains is bound to: ``torch``, ``torch.cuda``, ``torch.cuda.amp`` or an API."""
    bindings: Sequence[Binding] = ()
    edits: list[Edit] = field(default_factory=list)
    respelled_imports: list[tuple[ast.ImportFrom | ast.Import, str, str]] = field(default_factory=list)
    """(statement, the name it binds, the import of that name alone in the new spelling)."""
    refusal: str = ""

    @property
    def warning(self) -> list[DeprecatedUse]:
        """The uses that lead to the warning."""
        return [use for use in self.uses if use.warns]


def groups_of(project: Project, module: ModuleNames, uses: Sequence[DeprecatedUse]) -> Iterator[Group]:
    """The groups of one file that hold a deprecated use, with the edits that rewrite them (or why none can)."""
    joined: dict[tuple[object, str], Group] = {}
    for use in uses:
        bindings = module.bindings_of(use.root)
        origin = bindings[0].qualified or "" if bindings else "*"
        if _stands_alone(origin):
            yield from _planned(project, Group(module, [use], origin, bindings))
        else:
            key = (bindings[0], use.root.id) if bindings else (module, "*")
            joined.setdefault(key, Group(module, [], origin, bindings)).uses.append(use)
    for group in joined.values():
        yield from _planned(project, group)


def _stands_alone(origin: str) -> bool:
    return origin in ("torch", "torch.cuda", "torch.cpu") or not (origin == "*" or origin.startswith("torch."))


def _planned(project: Project, group: Group) -> Iterator[Group]:
    bound = [item for item in group.bindings if item.kind == "import" or group.origin != "torch"]
    if not group.warning or any(is_gated(group.module, binding.node) for binding in bound):
        return
    try:
        _plan(project, group)
    except NotExact as reason:
        group.refusal = str(reason)
        group.edits, group.respelled_imports = [], []
    yield group


def _plan(project: Project, group: Group) -> None:
    origin = group.origin
    if origin == "torch":
        for use in group.warning:
            below = "torch" if use.entry.kind == "function" else "torch.amp"
            name = ".".join([use.root.id, *below.split(".")[1:], use.entry.name])
            group.edits += _respelled(project, use, name)
    elif origin in ("torch.cuda", "torch.cpu"):
        _plan_through_torch(project, group)
    elif origin == "*":
        _plan_star(project, group)
    elif origin.startswith("torch."):
        _plan_import(project, group)
    else:
        raise NotExact(f"the name comes from another file ({origin})")


def _respelled(project: Project, use: DeprecatedUse, name: str) -> list[Edit]:
    if use.form == "partial":
        _check_passed(project, use)
    return [*respelled(use, name)]


def _plan_through_torch(project: Project, group: Group) -> None:
    """``from torch import cuda`` stays for its other uses; ``torch`` itself names the new API."""
    for use in group.warning:
        names = use.module.scope_of(use.root).lookup("torch")
        if any(binding.qualified != "torch" for binding in names):
            raise NotExact("torch means something else here")
        group.edits += _respelled(project, use, f"torch.amp.{use.entry.name}")
        if not names:
            group.edits.append(group.module.add_import("import torch"))
    for binding in group.bindings:
        group.edits.append(group.module.drop_import(binding.node, binding.name))


def _plan_import(project: Project, group: Group) -> None:
    """Change what the import brings in, and every call to match."""
    _check_import(project, group)
    _check_all_names_known(group)
    for use in group.uses:
        if use.form in _REWRITABLE:
            chain = attribute_chain(use.node) or []
            is_api = group.origin in DEPRECATED
            group.edits += _respelled(project, use, chain[0] if is_api else f"{chain[0]}.{use.entry.name}")
    for binding in group.bindings:
        node = binding.node
        assert isinstance(node, ast.Import | ast.ImportFrom)
        group.respelled_imports.append((node, binding.name, _new_import(group.origin, binding.name, node)))


def _new_import(origin: str, name: str, node: ast.Import | ast.ImportFrom) -> str:
    entry = DEPRECATED.get(origin)
    if entry is not None:
        return f"from torch.amp import {entry.name}" + (f" as {name}" if name != entry.name else "")
    if isinstance(node, ast.Import):
        return f"import torch.amp as {name}"
    return "from torch import amp" + (f" as {name}" if name != "amp" else "")


def _check_import(project: Project, group: Group) -> None:
    if group.origin not in DEPRECATED and group.origin not in ("torch.cuda.amp", "torch.cpu.amp"):
        raise NotExact(f"{group.origin} has no counterpart of the same shape")
    document = group.module.document
    for binding in group.bindings:
        if not isinstance(binding.node, ast.Import | ast.ImportFrom):
            raise NotExact("the name is bound by more than imports")
        if guarding_try(group.module, binding.node) is not None:
            raise NotExact("its import is guarded by try: with an older release the fallback would be taken")
        if "#" in document.source(document.span(binding.node)):
            raise NotExact("its import statement contains comments")
        if isinstance(binding.scope.node, ast.ClassDef):
            raise NotExact("it is imported into a class")
        if isinstance(binding.scope.node, ast.Module) and (document.path, binding.name) in exported_names(project):
            raise NotExact("other files import the name from this one")
        if isinstance(binding.scope.node, ast.Module) and _is_public(group.module, binding.name):
            raise NotExact("the file exports the name")


def _check_all_names_known(group: Group) -> None:
    """Every read of the imported name must be a use that is understood."""
    known = {use.root for use in group.uses if use.form in (*_REWRITABLE, "annotation") and not use.gated}
    for use in group.uses:
        if use.root not in known:
            raise NotExact(f"it is also used in another way (line {use.node.lineno})")
    names = {binding.name for binding in group.bindings}
    for name in names:
        for load in group.module.name_loads.get(name, ()):
            if load not in known and group.module.scope_of(load).lookup(name) is group.bindings:
                raise NotExact(f"it is also used in another way (line {load.lineno})")


def _plan_star(project: Project, group: Group) -> None:
    module = group.module
    statements = [
        node
        for node in module.nodes
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
    ]
    if len(statements) != 1 or statements[0].module not in ("torch.cuda.amp", "torch.cpu.amp"):
        raise NotExact("several star imports may provide the name")
    if guarding_try(module, statements[0]) is not None or "amp_definitely_not_available" in module.name_loads:
        raise NotExact("its star import cannot be replaced")
    if module.document.path.endswith("__init__.py") or is_star_imported(project, module):
        raise NotExact("the file exports the name")
    for use in group.uses:
        if use.form == "annotation":
            continue
        if use.form not in _REWRITABLE or use.gated:
            raise NotExact(f"it is also used in another way (line {use.node.lineno})")
        group.edits += _respelled(project, use, use.root.id)
    group.respelled_imports.append((statements[0], "*", "from torch.amp import *"))


def _is_public(module: ModuleNames, name: str) -> bool:
    if module.document.path.rpartition("/")[2] == "__init__.py":
        return True
    offered = [binding.value for binding in module.module_scope.bindings.get("__all__", [])]
    return any(
        isinstance(node, ast.Constant) and node.value == name for value in offered if value for node in ast.walk(value)
    )


def _check_passed(project: Project, use: DeprecatedUse) -> None:
    """``f = partial(autocast, ...)`` may only be called with keywords: the old positional order is not the new one."""
    name = _assigned_name(use)
    if name is None:
        raise NotExact("it is passed on here and called elsewhere")
    for module in modules_with(project, WORDS):
        for call in module.calls:
            if (attribute_chain(call.func) or [""])[-1] == name and call.args:
                raise NotExact(f"{name} is called with positional arguments")


def _assigned_name(use: DeprecatedUse) -> str | None:
    node: ast.AST = use.whole
    parent = use.module.parents[node]
    while isinstance(parent, ast.IfExp | ast.BoolOp):
        node, parent = parent, use.module.parents[parent]
    if not isinstance(parent, ast.Assign | ast.AnnAssign) or parent.value is not node:
        return None
    targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
    chain = attribute_chain(targets[0]) if len(targets) == 1 else None
    return chain[-1] if chain else None


def import_edits(groups: Sequence[Group]) -> Iterator[Edit]:
    """The new import statements of several groups of one file: what is not rewritten stays as it was."""
    by_statement: dict[ast.ImportFrom | ast.Import, dict[str, str]] = {}
    for group in groups:
        for node, name, text in group.respelled_imports:
            by_statement.setdefault(node, {})[name] = text
    for node, texts in by_statement.items():
        module, document = groups[0].module, groups[0].module.document
        span = document.span(node)
        yield module.insert(node, _comment_kept(document.line(span.end_row), span.end_column, _merged(node, texts)))
        yield module.remove(node)


def _merged(node: ast.ImportFrom | ast.Import, texts: dict[str, str]) -> list[str]:
    new: list[str] = []
    old: list[str] = []
    for alias in node.names:
        text = texts.get(alias.asname or alias.name)
        spelled = alias.name + (f" as {alias.asname}" if alias.asname else "")
        if text is None:
            old.append(spelled)
        else:
            new.append(text)
    return [*_joined(new), *([_head(node) + ", ".join(old)] if old else [])]


def _head(node: ast.ImportFrom | ast.Import) -> str:
    return f"from {'.' * node.level}{node.module or ''} import " if isinstance(node, ast.ImportFrom) else "import "


def _joined(statements: list[str]) -> list[str]:
    """``from m import a`` and ``from m import b`` as one statement."""
    by_head: dict[str, list[str]] = {}
    for statement in dict.fromkeys(statements):
        head, mark, name = statement.partition(" import ")
        by_head.setdefault(head + mark, []).append(name)
    return [head + ", ".join(name for name in names if name) for head, names in by_head.items()]


def _comment_kept(line: str, end_column: int, statements: list[str]) -> str:
    comment = line[end_column - 1 :].strip()
    first, *rest = statements
    return "\n".join([f"{first}  {comment}" if comment.startswith("#") else first, *rest])


class NotExact(Exception):
    """A use has no new spelling that is certainly the same; the message says why."""


def respelled(use: DeprecatedUse, name: str) -> Iterator[Edit]:
    """The edits of one use; ``name`` is what the new API is called there. Raises NotExact."""
    module, call = use.module, use.call
    quote = "'" if module.document.text.count("'") > module.document.text.count('"') else '"'
    device = f"{quote}{use.entry.device}{quote}"
    if use.form == "reference":
        raise NotExact("it is passed on here and called elsewhere")
    if any(isinstance(parent, ast.JoinedStr) for parent in module.ancestors(use.node)):
        raise NotExact("it is inside an f-string")
    if use.form == "decorator":
        if use.entry.kind != "custom":
            raise NotExact("as a bare decorator it works in no release")
        yield module.replace(use.whole, f"{name}(device_type={device})")
        return
    assert call is not None
    yield module.replace(use.node, name)
    if use.form == "partial":
        _check_partial(use, call)
        yield module.insert_argument(call, 1, device)
    elif use.entry.kind == "custom":
        yield module.set_argument(call, "device_type", device)
    else:
        first = call.args[0] if call.args and use.entry.kind == "GradScaler" else None
        if first is None or string_of(only_value(module, first) or first) is None:  # else it is passed, by mistake
            yield module.insert_argument(call, 0, device)
        if use.entry.kind == "autocast":
            yield from _named(use, call)


def _check_partial(use: DeprecatedUse, call: ast.Call) -> None:
    if use.entry.kind not in ("autocast", "GradScaler"):
        raise NotExact("its arguments are passed in two steps")
    if use.entry.kind == "autocast" and len(call.args) > 1:
        raise NotExact("its positional arguments are passed in two steps")


def _named(use: DeprecatedUse, call: ast.Call) -> Iterator[Edit]:
    """The old arguments by keyword: the new interface has them in another order."""
    if any(keyword.arg == "device_type" for keyword in call.keywords):
        raise NotExact("it is passed a device_type, which it does not take")
    for index, argument in enumerate(call.args):
        if isinstance(argument, ast.Starred) or index >= len(OLD_AUTOCAST.names):
            raise NotExact("*args hide which argument is which")
        yield use.module.name_argument(call, index, OLD_AUTOCAST.names[index])
