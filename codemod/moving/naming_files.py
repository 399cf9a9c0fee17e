"""Texts that code makes of values: names of files and models, no texts that are only shown to people."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..model import Span
from ..python.names import FunctionNode, ModuleNames, last_name, modules_with
from ..source.documents import Document
from ..source.project import Project

SHOWING = re.compile(
    r"(?i)^(?:(?:add_)?(?:text|scalars?|hparams|figure|argument)|write|echo|desc\w*|help|panel)$"
    r"|print|(?:^|_)log(?:$|_|s|g)|[Ll]ogger|info|debug|warn|error|title|label|set_postfix|set_desc|summary$|exception|notif|message"
)
"""Names of calls whose arguments people read."""
SHOWN = frozenset(
    ("run_name", "desc", "title", "label", "help", "message", "msg", "notes", "tags", "group", "project", "comment")
)
"""Names of arguments that people read, whatever takes them."""
FLAG = re.compile(r"--[\w.-]*[ =]?$|(?:^|\s)[+\w.]+=$")
"""How a text ends before what a command line is given: another program's own setting."""
ASSIGNED = re.compile(r"\s*(?:export\s+|local\s+)?([A-Za-z_]\w*)\s*[:?]?=")
PRINTED = re.compile(r"\s*@?(?:echo|printf)\s[^>]*$")
REDIRECTED = re.compile(r"(?:\d?>>?|\btee(?:\s+-a)?)\s*\S+")
"""How a script or a Makefile sets a variable, what it only prints, and the file that takes what a program prints."""
TESTING = re.compile(r"(?:^|[\s;&|])(?:case|test|\[\[?)\s(?!-[zn]\s)|\s(?:==|!=)\s|\bif(?:n?eq)\b")
"""How a line of a shell, or of a Makefile, tests a value; that there is one is no question."""
ANCHOR = re.compile(r"[:\-]\s+&([\w-]+)\s+\S")
JOINING = ("join", "joinpath", "with_name", "with_suffix", "with_stem")
MAX_DEPTH = 4


def names_of_files(project: Project, module: ModuleNames) -> Iterator[tuple[ast.expr, list[ast.expr]]]:
    """The texts and paths made of values that are not only shown, each with these values."""
    for node in module.of_type(ast.JoinedStr):
        before = [None, *node.values]
        parts = [
            item.value
            for told, item in zip(before, node.values, strict=False)
            if isinstance(item, ast.FormattedValue)
            and not (isinstance(told, ast.Constant) and FLAG.search(str(told.value)))
        ]
        if parts and len(node.values) > 1 and not _is_shown_only(project, module, node, 0):
            yield node, parts
    for made in module.of_type(ast.BinOp):
        sides = [made.left, made.right]
        if isinstance(module.parents.get(made), ast.BinOp):
            continue
        is_text = isinstance(made.op, ast.Add) and any(map(_is_text, sides))
        is_text = (
            is_text
            or (isinstance(made.op, ast.Mod) and _is_text(made.left))
            or (isinstance(made.op, ast.Div) and _is_path(module, made))
        )
        if is_text and not _is_shown_only(project, module, made, 0):
            yield made, sides
    for name in ("format", *JOINING):
        for call in module.calls_by_name.get(name, ()):
            given_to = [*call.args, *(item.value for item in call.keywords)]
            is_made = isinstance(call.func, ast.Attribute) and (name != "format" or _is_text(call.func.value))
            is_made = is_made and not (name == "join" and _is_text(getattr(call.func, "value", call)))
            if is_made and not _is_shown_only(project, module, call, 0):
                yield call, given_to


def moved_in_scripts(before: Document, after: Document) -> Iterator[tuple[Span, str]]:
    """The paths and tests in a script that ask a variable which has another value now, each with what is told of it."""
    kept = {*after.text.splitlines()}
    changed = {found[1] for line in before.text.splitlines() if line not in kept and (found := ASSIGNED.match(line))}
    for row, line in enumerate(after.text.splitlines() if changed else (), 1):
        for name in sorted(changed) if not PRINTED.match(line) else ():
            used = rf"\$(?:{name}\b|\{{{name}\}}|\({name}\))"
            found = re.search(rf"[\w/.-]{used}|{used}[/._-]\w", REDIRECTED.sub("", line))
            if found is not None:
                yield Span(row, 1, row, 1), f"names a file by {name}, which moves: {line.strip()}"
                break
            if TESTING.search(line) and re.search(used, line):
                yield Span(row, 1, row, 1), f"tests {name} for the value of today: {line.strip()}"
                break


def moved_anchors(before: Document, after: Document) -> Iterator[tuple[Span, str]]:
    """The values of a YAML file that have changed and that other keys of it take over: ``amp: &amp true``."""
    kept = {*before.text.splitlines()}
    for row, line in enumerate(after.text.splitlines(), 1):
        anchor = ANCHOR.search(line) if line not in kept else None
        if anchor is not None and re.search(rf"\*{re.escape(anchor[1])}(?![\w-])", after.text):
            yield Span(row, 1, row, 1), f"gives its value to other keys, by &{anchor[1]}"


def _is_text(node: ast.expr) -> bool:
    """Whether an expression is text with something written out in it."""
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_path(module: ModuleNames, node: ast.BinOp) -> bool:
    """``out / args.precision``, where a text or a path stands in the chain."""
    parts = [item for item in ast.walk(node) if isinstance(item, ast.Call | ast.Constant | ast.JoinedStr)]
    called = any(isinstance(item, ast.Call) and last_name(item.func) in ("Path", "str", "resolve") for item in parts)
    return called or any(_is_text(item) for item in parts if isinstance(item, ast.Constant | ast.JoinedStr))


def is_shown(module: ModuleNames, node: ast.AST) -> bool:
    """Whether an expression stands in what only people read."""
    child = node
    for above in module.ancestors(node):
        if isinstance(above, ast.Call) and child is not above.func:
            is_getattr = last_name(above.func) == "getattr" and module.qualified(above.args[0]) == "torch"
            of_torch = is_getattr or last_name(above.func) == "device"
            if (
                of_torch
                or SHOWING.search(last_name(above.func))
                or (module.qualified(above.func) or "").startswith("wandb.")
            ):
                return True
        if isinstance(above, ast.keyword) and above.arg in SHOWN:
            return True
        if isinstance(above, ast.Raise | ast.Assert):
            return True
        if isinstance(above, ast.stmt):
            return isinstance(above, ast.Expr) and above.value is node
        child = above
    return False


def _is_shown_only(project: Project, module: ModuleNames, node: ast.expr, depth: int) -> bool:
    """Whether a text, and each variable or function that holds it, is only shown."""
    if is_shown(module, node):
        return True
    if depth > MAX_DEPTH:
        return False
    statement = module.statement_of(node)
    function = next((item for item in module.ancestors(node) if isinstance(item, FunctionNode)), None)
    if isinstance(statement, ast.Return) and function is not None:
        if function.name in ("__repr__", "__str__", "extra_repr"):
            return True
        calls = [
            (each, call)
            for each in modules_with(project, (function.name,))
            for call in each.calls_by_name.get(function.name, ())
        ]
        return bool(calls) and all(_is_shown_only(project, each, call, depth + 1) for each, call in calls)
    targets = statement.targets if isinstance(statement, ast.Assign) and not _is_argument(module, node) else ()
    if len(targets) != 1 or not isinstance(targets[0], ast.Name | ast.Attribute):
        return False
    name, target = last_name(targets[0]), targets[0]
    if isinstance(target, ast.Name):
        own = [
            item
            for item in module.name_loads.get(name, ())
            if module.scope_of(item).function is module.scope_of(node).function
        ]
        return bool(own) and all(_is_shown_only(project, module, item, depth + 1) for item in own)
    loads = [(each, item) for each in modules_with(project, (name,)) for item in each.attribute_loads.get(name, ())]
    return all(_is_shown_only(project, each, item, depth + 1) for each, item in loads)


def _is_argument(module: ModuleNames, node: ast.expr) -> bool:
    """Whether a text is passed to a call, whose value is what is then assigned."""
    child: ast.AST = node
    for above in module.ancestors(node):
        if isinstance(above, ast.stmt):
            return False
        if (
            isinstance(above, ast.Call)
            and child is not above.func
            and last_name(above.func) not in ("str", "Path", *JOINING)
        ):
            return True
        child = above
    return False
