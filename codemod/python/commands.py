"""Functions whose parameters are options of a command line: of fire, typer, tyro, jsonargparse, fastcore and others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from .names import FunctionNode, ModuleNames, attribute_chain, defaults_in, parameters_of

RUNNERS = frozenset(
    (
        *("fire.Fire", "typer.run", "tyro.cli", "tyro.extras.subcommand_cli_from_dict", "defopt.run", "plac.call"),
        *("jsonargparse.CLI", "jsonargparse.auto_cli", "clize.run", "cyclopts.run", "Fire"),
    )
)
"""Calls that make a command line of the parameters of a function (or of the fields of a class) passed first."""
COMMANDS = frozenset(("command", "callback", "default"))
"""Decorators of an application object that do: ``@app.command()`` of typer and cyclopts."""
APPLICATIONS = frozenset(("typer.Typer", "cyclopts.App"))
DECORATORS = frozenset(("fastcore.script.call_parse", "fastcore.all.call_parse"))
"""Decorators of other libraries that do, called or not."""
DECLARED = frozenset(("typer.Option", "typer.Argument", "fastapi.Query", "cyclopts.Parameter"))
"""Calls that stand as a parameter's default (or in its ``Annotated``) and hold the default and the flags."""


@dataclass(frozen=True, slots=True, eq=False)
class Parameter:
    function: FunctionNode
    name: str
    flags: tuple[str, ...]
    default: ast.expr | None
    negated: tuple[str, ...] = ()
    """Flags that switch it off: ``--no-amp``."""
    annotation: ast.expr | None = None


def command_parameters(module: ModuleNames) -> Iterator[Parameter]:
    """Every parameter of the module's functions that a command line fills."""
    seen: set[ast.AST] = set()
    for function in _functions(module):
        if function not in seen:
            seen.add(function)
            yield from _parameters(module, function)


def _functions(module: ModuleNames) -> Iterator[FunctionNode]:
    for call in module.calls:
        if module.qualified(call.func) in RUNNERS:
            for passed in [*call.args[:1], *(item.value for item in call.keywords if item.arg in ("component", "f"))]:
                yield from _named(module, passed)
    for function in module.of_type(ast.FunctionDef):
        if any(_is_command(module, item) for item in function.decorator_list):
            yield function


def _named(module: ModuleNames, node: ast.expr) -> Iterator[FunctionNode]:
    """The functions of this module that are passed: one, or a dictionary or list of them."""
    if isinstance(node, ast.Dict | ast.List | ast.Tuple):
        for value in node.values if isinstance(node, ast.Dict) else node.elts:
            yield from _named(module, value)
    elif isinstance(node, ast.Name):
        for binding in module.scope_of(node).lookup(node.id):
            if isinstance(binding.node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield binding.node


def _is_command(module: ModuleNames, decorator: ast.expr) -> bool:
    if module.qualified(decorator.func if isinstance(decorator, ast.Call) else decorator) in DECORATORS:
        return True
    chain = attribute_chain(decorator.func if isinstance(decorator, ast.Call) else decorator)
    if chain is None or len(chain) != 2 or chain[1] not in COMMANDS:
        return False
    made = (binding.value for binding in module.module_scope.lookup(chain[0]))
    return any(isinstance(item, ast.Call) and module.qualified(item.func) in APPLICATIONS for item in made)


def _parameters(module: ModuleNames, function: FunctionNode) -> Iterator[Parameter]:
    defaults = defaults_in(function.args)
    for parameter in parameters_of(function):
        if parameter.arg in ("self", "cls") or parameter in (function.args.vararg, function.args.kwarg):
            continue
        default = defaults.get(parameter.arg)
        declared = _declaration(module, parameter, default)
        flags: tuple[str, ...] = (f"--{parameter.arg}", f"--{parameter.arg.replace('_', '-')}")
        if declared is not None:
            default = default_of_declaration(declared) if declared is default else default
            named = tuple(
                part
                for item in declared.args
                if isinstance(item, ast.Constant) and isinstance(item.value, str) and item.value.startswith("-")
                for part in item.value.split("/")
            )
            flags = named or flags
        negated = tuple(flag for flag in flags if flag.startswith(("--no-", "--no_")))
        if not negated:
            negated = tuple(f"--no-{flag[2:]}" for flag in flags if flag.startswith("--"))
        plain = tuple(dict.fromkeys(flag for flag in flags if flag not in negated))
        yield Parameter(function, parameter.arg, plain, default, negated, parameter.annotation)


def _declaration(module: ModuleNames, parameter: ast.arg, default: ast.expr | None) -> ast.Call | None:
    """``typer.Option(...)`` as the default, or in ``Annotated[str, typer.Option(...)]``."""
    if isinstance(default, ast.Call) and module.qualified(default.func) in DECLARED:
        return default
    annotation = parameter.annotation
    parts = (
        annotation.slice.elts
        if isinstance(annotation, ast.Subscript) and isinstance(annotation.slice, ast.Tuple)
        else []
    )
    return next(
        (item for item in parts if isinstance(item, ast.Call) and module.qualified(item.func) in DECLARED), None
    )


def default_of_declaration(call: ast.Call) -> ast.expr | None:
    """The default inside ``typer.Option("float16", "--dtype")``, ``Field("float16")``, ``field(default="float16")``."""
    named = next((item.value for item in call.keywords if item.arg == "default"), None)
    if named is not None:
        return named
    first = call.args[0] if call.args else None
    return None if isinstance(first, ast.Constant) and first.value is Ellipsis else first
