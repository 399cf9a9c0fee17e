"""Follows the roles of tensors through the statements of a function: branches join, loops run twice."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from ...codemod.python.arguments import bind
from ...codemod.python.exits import leaves
from ...codemod.python.functions import FunctionTarget
from ...codemod.python.names import FunctionNode, ModuleNames, attribute_chain, parameters_of, resolve
from ...codemod.source.project import Project
from ...codemod.torch.autocast import APIS, GENERIC
from .role_expressions import evaluate
from .role_frame import Frame
from .roles import A_NUMBER, UNKNOWN_ROLE, Role, Saved, Value, join, joined_columns, joined_roles, role_of

MAX_INLINED = 2
MAX_INLINED_CALLS = 40
"""How many calls of one function are followed into."""
MAX_NESTED_LOOPS = 3
MAX_ROWS = 250
"""Longer functions of the project are not followed into."""


def follow(
    project: Project,
    module: ModuleNames,
    function: FunctionNode,
    names: Mapping[str, Value],
    *,
    autocast: bool,
    context: str = "",
    saved: Saved | None = None,
    depth: int = 0,
) -> Frame:
    """Follow a function whose names hold ``names`` at the start; gives the state at its end."""

    left = iter(range(MAX_INLINED_CALLS))

    def inline(target: FunctionTarget, values: dict[str, Value], on: bool) -> Value:
        return _inlined(project, target, values, on, depth + 1 if next(left, None) is not None else MAX_INLINED + 1)

    frame = Frame(project, module, autocast, dict(names), inline, context)
    if saved is not None and context:
        frame.names["ctx.saved_tensors"] = saved
    _block(frame, function.body)
    return frame


def _inlined(project: Project, target: FunctionTarget, values: dict[str, Value], on: bool, depth: int) -> Value:
    """What a function of the project returns for these arguments; its own products are not noted."""
    if depth > MAX_INLINED or _rows(target.node) > MAX_ROWS:
        return Role("unknown", graded=any(role_of(value).graded for value in values.values()))
    names: dict[str, Value] = {parameter.arg: UNKNOWN_ROLE for parameter in parameters_of(target.node)}
    names.update(_defaults(target.node))
    names.update(values)
    frame = follow(project, target.module, target.node, names, autocast=on, depth=depth)
    return joined_roles([role_of(value) for value in frame.returned]) if frame.returned else UNKNOWN_ROLE


def _rows(node: FunctionNode) -> int:
    return (node.end_lineno or node.lineno) - node.lineno


def _defaults(function: FunctionNode) -> dict[str, Value]:
    """What parameters hold that are not passed, where their default is None or a number."""
    positional = [*function.args.posonlyargs, *function.args.args]
    pairs = list(zip(reversed(positional), reversed(function.args.defaults), strict=False))
    pairs += [
        (name, value) for name, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if value
    ]
    return {
        parameter.arg: (Role("none") if value.value is None else A_NUMBER)
        for parameter, value in pairs
        if isinstance(value, ast.Constant)
    }


# --- statements -------------------------------------------------------------------------------------------------------


def _block(frame: Frame, statements: Sequence[ast.stmt]) -> None:
    for statement in statements:
        _statement(frame, statement)


def _statement(frame: Frame, node: ast.stmt) -> None:
    if isinstance(node, ast.Assign):
        value = evaluate(frame, node.value)
        for target in node.targets:
            _bind(frame, target, value, node.value)
    elif isinstance(node, ast.AnnAssign):
        if node.value is not None:
            _bind(frame, node.target, evaluate(frame, node.value), node.value)
    elif isinstance(node, ast.AugAssign | ast.Expr):
        evaluate(frame, node.value)
    elif isinstance(node, ast.Return):
        frame.returned.append(evaluate(frame, node.value) if node.value is not None else Role("none"))
    elif isinstance(node, ast.If):
        _branches(frame, node.body, node.orelse)
    elif isinstance(node, ast.For | ast.AsyncFor | ast.While):
        _loop(frame, node)
    elif isinstance(node, ast.With | ast.AsyncWith):
        _with(frame, node)
    elif isinstance(node, ast.Try):
        _branches(frame, [*node.body, *node.orelse], [])
        for handler in node.handlers:
            _branches(frame, handler.body, [])
        _block(frame, node.finalbody)
    elif isinstance(node, ast.Delete):
        for target in node.targets:
            if isinstance(target, ast.Name):
                frame.names.pop(target.id, None)


def _bind(frame: Frame, target: ast.expr, value: Value, source: ast.expr) -> None:
    if isinstance(target, ast.Name):
        frame.names[target.id] = value
    elif isinstance(target, ast.Attribute):
        chain = attribute_chain(target)
        if chain is not None:
            owner = "ctx" if chain[0] == frame.context else chain[0]
            frame.names[".".join([owner, *chain[1:]])] = value
    elif isinstance(target, ast.Tuple | ast.List):
        for element, part in zip(target.elts, _parts(value, target, source), strict=True):
            inner = element.value if isinstance(element, ast.Starred) else element
            _bind(frame, inner, part, source)


def _parts(value: Value, target: ast.Tuple | ast.List, source: ast.expr) -> Sequence[Value]:
    """What each element of an unpacking gets."""
    starred = [index for index, item in enumerate(target.elts) if isinstance(item, ast.Starred)]
    if isinstance(value, Saved):
        value = (joined_columns(value.rows) if starred else value.unpacked(len(target.elts))) or UNKNOWN_ROLE
    if isinstance(value, tuple):
        if not starred and len(value) == len(target.elts):
            return value
        if len(starred) == 1 and len(value) >= len(target.elts) - 1:
            at, after = starred[0], len(target.elts) - 1 - starred[0]
            end = len(value) - after
            return [*value[:at], value[at:end], *value[end:]]
        return [UNKNOWN_ROLE] * len(target.elts)
    role = role_of(value)
    in_parts = isinstance(source, ast.Call) and (attribute_chain(source.func) or [""])[-1] in (
        "chunk",
        "split",
        "unbind",
    )
    part = role if in_parts or role == A_NUMBER else Role("unknown", graded=role.graded)
    return [part] * len(target.elts)


def _branches(frame: Frame, first: Sequence[ast.stmt], second: Sequence[ast.stmt]) -> None:
    """Either of two blocks; one that leaves the function has no say in what follows."""
    before = dict(frame.names)
    _block(frame, first)
    after_first = frame.names
    frame.names = dict(before)
    _block(frame, second)
    if leaves(first):
        return
    if leaves(second):
        frame.names = after_first
        return
    frame.names = _joined(after_first, frame.names)


def _joined(first: dict[str, Value], second: dict[str, Value]) -> dict[str, Value]:
    """A name that only one branch binds holds what it was given there, wherever it is used."""
    both = {name: join(first[name], second[name]) for name in first.keys() & second.keys()}
    return {**first, **second, **both}


def _loop(frame: Frame, node: ast.For | ast.AsyncFor | ast.While) -> None:
    frame.loops += 1
    for _ in range(2 if frame.loops <= MAX_NESTED_LOOPS else 1):
        before = dict(frame.names)
        if not isinstance(node, ast.While):
            items = evaluate(frame, node.iter)
            graded = role_of(items).graded
            for child in ast.walk(node.target):
                if isinstance(child, ast.Name):
                    frame.names[child.id] = Role("unknown", graded=graded)
        _block(frame, node.body)
        frame.names = {
            name: join(before[name], value) if name in before else value for name, value in frame.names.items()
        }
    frame.loops -= 1
    _block(frame, node.orelse)


def _with(frame: Frame, node: ast.With | ast.AsyncWith) -> None:
    before = frame.autocast
    for item in node.items:
        switched = _switches(frame, item.context_expr)
        frame.autocast = frame.autocast if switched is None else switched
        evaluate(frame, item.context_expr)
    _block(frame, node.body)
    frame.autocast = before


def _switches(frame: Frame, node: ast.expr) -> bool | None:
    """Whether a context manager switches autocast on or off; None when it is no autocast."""
    if not isinstance(node, ast.Call):
        return None
    name = resolve(frame.project, frame.module, node.func) or ""
    if name not in APIS:
        return None
    arguments = bind(APIS.get(name, GENERIC), node)
    enabled = arguments.get("enabled") if arguments is not None else None
    return not (isinstance(enabled, ast.Constant) and not enabled.value)
