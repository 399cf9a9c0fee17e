"""Products in ordinary functions that write into a tensor of another dtype than their operands certainly have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from ...codemod.model import Operation, Place, SetArgument
from ...codemod.purpose.files import is_test
from ...codemod.python.bindings import reaching
from ...codemod.python.names import FunctionNode, ModuleNames, names_of, parameters_of, resolve
from ...codemod.source.project import Project
from ...codemod.torch.autocast import autocasts_in, is_float32_island
from .half_runs import runs_of
from .role_flow import follow
from .role_frame import Frame, Meeting
from .role_tables import FACTORIES, IN_PLACE_PRODUCTS, WITH_OUT
from .roles import BFLOAT16, FULL, HALF, LOW, UNKNOWN_ROLE, Role, Value
from .saved_buffers import Mismatch, asks_for_dtype, cast_to_target, compares_dtype

WORDS = ("addmm_", "addmv_", "addbmm_", "baddbmm_", "out=", "out =")
_IN_PLACE = re.compile(r"\.(?:addmm_|addmv_|addbmm_|baddbmm_)\(")
_PRODUCT = re.compile(r"\b(?:matmul|mm|bmm|mv|addmm|addmv|addbmm|baddbmm)\(")
_OUT = re.compile(r"[,(]\s*out\s*=[^=]")
_DEFAULT_SETTERS = ("set_default_dtype", "set_default_tensor_type")
_KNOWN = {LOW, FULL, HALF, BFLOAT16}


def in_functions(project: Project) -> Iterator[tuple[Mismatch, tuple[Place, ...]]]:
    """Every such product, with what makes its function run under autocast."""
    for document in project.python_documents(WORDS, where=_may_write):
        if is_test(document.path) or any(word in document.text for word in _DEFAULT_SETTERS):
            continue
        module = names_of(project, document)
        for function in _writing_functions(module):
            yield from _in_function(project, module, function)


def _may_write(text: str) -> bool:
    return _IN_PLACE.search(text) is not None or (_OUT.search(text) is not None and _PRODUCT.search(text) is not None)


def _writing_functions(module: ModuleNames) -> list[FunctionNode]:
    calls = [call for name in IN_PLACE_PRODUCTS for call in module.calls_by_name.get(name, [])]
    named = [call for name in WITH_OUT for call in module.calls_by_name.get(name, [])]
    calls += [call for call in named if any(item.arg == "out" for item in call.keywords)]
    nodes = [module.scope_of(call).function.node for call in calls]
    return [node for node in dict.fromkeys(nodes) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def _in_function(
    project: Project, module: ModuleNames, function: FunctionNode
) -> Iterator[tuple[Mismatch, tuple[Place, ...]]]:
    on, places = _starts_under_autocast(project, module, function)
    names: dict[str, Value] = {item.arg: UNKNOWN_ROLE for item in parameters_of(function)}
    frame = follow(project, module, function, names, autocast=on)
    for meeting in frame.meetings.values():
        if meeting.target is not None and not asks_for_dtype(module, meeting.call):
            found = _mismatch(project, frame, meeting)
            if found is not None:
                yield found, places


def _starts_under_autocast(
    project: Project, module: ModuleNames, function: FunctionNode
) -> tuple[bool, tuple[Place, ...]]:
    """Whether the function is decorated with autocast, or is the forward pass of a module that training runs."""
    for item in autocasts_in(project, module):
        if item.node in function.decorator_list:
            on = not is_float32_island(project, item)
            return on, (
                Place(module.document.path, module.document.span(item.node), "runs under autocast"),
            ) if on else ()
    owner = module.scope_of(function)
    if function.name != "forward" or not isinstance(owner.node, ast.ClassDef):
        return False, ()
    is_module = any(resolve(project, module, base) == "torch.nn.Module" for base in owner.node.bases)
    runs = runs_of(project, module.document.path) if is_module else ()
    return bool(runs), tuple(run.place for run in runs[:1])


def _mismatch(project: Project, frame: Frame, meeting: Meeting) -> Mismatch | None:
    target = meeting.target
    if target is None or not isinstance(meeting.call, ast.Call):
        return None
    node, role = target
    operands = [(item, other) for item, other in meeting.operands if other.kind in _KNOWN]
    odd = [(item, other) for item, other in operands if _clash(role, other)]
    pairs = [(first, second) for first in operands for second in operands if _clash(first[1], second[1])]
    if not odd and not pairs:
        return None
    if isinstance(node, ast.IfExp) and compares_dtype(node.test):
        return None
    module = frame.module
    fix, operations = _fix(project, module, meeting, node, role, operands)
    shown = list({other.kind: (item, other) for item, other in reversed(odd or pairs[0])}.values())
    evidence = [(item, f"{_kind(other)} here") for item, other in shown]
    form = f"{ast.unparse(node)}.{meeting.call.func.attr}" if meeting.in_place else "out="  # type: ignore[attr-defined]
    return Mismatch(
        module,
        meeting.call,
        f"{form} needs tensors of one dtype, and autocast does not cast for it: "
        + (f"{ast.unparse(node)} is {_kind(role)}, " if odd else "")
        + " and ".join(f"{ast.unparse(item)[:40]} is {_kind(other)}" for item, other in shown[:2]),
        tuple(evidence),
        fix if operations else "",
        operations,
    )


def _clash(first: Role, second: Role) -> bool:
    """Whether two known roles certainly are two dtypes (autocast's own may be either 16-bit type)."""
    kinds = {first.kind, second.kind}
    return kinds <= _KNOWN and len(kinds) == 2 and (LOW not in kinds or FULL in kinds)


def _kind(role: Role) -> str:
    return {LOW: "16-bit (computed under autocast)", FULL: "float32", HALF: "float16", BFLOAT16: "bfloat16"}[role.kind]


def _fix(
    project: Project,
    module: ModuleNames,
    meeting: Meeting,
    target: ast.expr,
    role: Role,
    operands: Sequence[tuple[ast.expr, Role]],
) -> tuple[str, tuple[Operation, ...]]:
    if meeting.in_place:  # a sum keeps the precision of what is summed into
        return "cast", cast_to_target(module, target, role, operands)
    made = _made_here(project, module, target)
    if made is None or len({other.kind for _, other in operands}) != 1 or role.kind != FULL:
        return "", ()
    name = next((item for item, _ in operands if isinstance(item, ast.Name) and _is_older(module, item, made)), None)
    return ("dtype", (SetArgument(module.document.span(made), "dtype", f"{name.id}.dtype"),)) if name else ("", ())


def _made_here(project: Project, module: ModuleNames, node: ast.expr) -> ast.Call | None:
    """The factory call without a dtype that makes the buffer in this function."""
    if not isinstance(node, ast.Name):
        return None
    bindings = reaching(module, module.scope_of(node).lookup(node.id), node)
    made = bindings[0].value if len(bindings) == 1 else None
    name = resolve(project, module, made.func) if isinstance(made, ast.Call) else None
    if not isinstance(made, ast.Call) or name is None or not name.startswith("torch."):
        return None
    clear = all(item.arg not in ("dtype", None) for item in made.keywords)
    return made if clear and name.rpartition(".")[2] in FACTORIES else None


def _is_older(module: ModuleNames, name: ast.Name, made: ast.Call) -> bool:
    """Whether the operand has its value before the buffer is made, and keeps it."""
    lines = [getattr(item.node, "lineno", 0) for item in module.scope_of(name).lookup(name.id)]
    return bool(lines) and max(lines) < made.lineno
