"""Where a project declares an option: ``add_argument``, click decorators, dataclass fields, configuration nodes.

Looked for by name in the module that reads the option, then in the modules it has to do with; the first of these
places that declares it counts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...purpose.files import purpose_of
from ...purpose.imports import connected_modules
from ...python.names import FunctionNode, ModuleNames
from ...source.project import Project
from .launch_flags import flags_given
from .source import Source

NODE_ROOTS = ("_C", "__C", "C", "cfg", "config", "_CN")
SWITCHES = {"store_true": False, "store_false": True}


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredOption:
    """One declaration of an option."""

    module: ModuleNames
    node: ast.AST
    kind: str
    """``option`` or ``field``: what its default is as a source."""
    name: str
    flags: tuple[str, ...] = ()
    """Its spellings on a command line."""
    default: ast.expr | None = None
    switch: bool | None = None
    """The value of an option without a word of its own, where the flag is absent."""

    def sources(self, project: Project) -> Iterator[Source]:
        """The value of an absent switch, and every use of its flags in launch scripts; not the written default."""
        if self.switch is not None:
            document = self.module.document
            absent = self.default.value if isinstance(self.default, ast.Constant) else self.switch
            value = absent if isinstance(absent, bool) else self.switch
            yield Source("option", document.path, document.span(self.node), self.name, value, "", is_switch=True)
        if self.flags:
            yield from flags_given(project, self.module, self.flags)


def declared_options(
    project: Project, module: ModuleNames, name: str, function: FunctionNode | None = None
) -> tuple[DeclaredOption, ...]:
    """The declarations of ``name``, seen from ``module``; with ``function`` only click options of that command."""
    if function is not None:
        return tuple(item for item in _of(project, module).get(name, ()) if item.node in function.decorator_list)
    for other in connected_modules(project, module):
        if other is module or not purpose_of(other.document.path).is_left_alone:
            found = _of(project, other).get(name, ())
            if found:
                return found
    return ()


def _of(project: Project, module: ModuleNames) -> dict[str, tuple[DeclaredOption, ...]]:
    return project.memo(_declared, module)


def _declared(project: Project, module: ModuleNames) -> dict[str, tuple[DeclaredOption, ...]]:
    found: dict[str, tuple[DeclaredOption, ...]] = {}
    for option in (*_arguments(module), *_fields(module), *_nodes(module)):
        found[option.name] = (*found.get(option.name, ()), option)
    return found


def _arguments(module: ModuleNames) -> Iterator[DeclaredOption]:
    """``parser.add_argument("--amp-dtype", default=...)`` and ``@click.option("--amp-dtype", default=...)``."""
    calls = [*module.calls_by_name.get("add_argument", []), *module.calls_by_name.get("option", [])]
    for call in calls:
        words = [item.value for item in call.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        given = {item.arg: item.value for item in call.keywords if item.arg is not None}
        flags = tuple(word for word in words if word.startswith("-"))
        destination = _text(given.get("dest")) or next((word for word in words if not word.startswith("-")), "")
        long = next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else "")
        name = destination or long.lstrip("-").replace("-", "_").partition("/")[0]
        if name:
            switch = SWITCHES.get(_text(given.get("action")))
            yield DeclaredOption(module, call, "option", name, flags, given.get("default"), switch)


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _fields(module: ModuleNames) -> Iterator[DeclaredOption]:
    """``amp_dtype: str = "bf16"`` in a class body, also as ``field(default="bf16")``; such a class may be a parser."""
    for name, stores in module.attribute_stores.items():
        for receiver, value, statement in stores:
            if receiver is not None or value is None or isinstance(module.scope_of(statement).node, ast.Module):
                continue
            default = value
            if isinstance(value, ast.Call):
                default = next((item.value for item in value.keywords if item.arg == "default"), value)
            flags = (f"--{name}", f"--{name.replace('_', '-')}") if isinstance(statement, ast.AnnAssign) else ()
            yield DeclaredOption(module, statement, "field", name, flags, default)


def _nodes(module: ModuleNames) -> Iterator[DeclaredOption]:
    """``_C.TRAIN.AMP_DTYPE = "bf16"``: the defaults of a configuration tree."""
    for name, stores in module.attribute_stores.items():
        for receiver, value, statement in stores:
            if receiver and receiver[0] in NODE_ROOTS and value is not None:
                yield DeclaredOption(module, statement, "field", name, (), value)
