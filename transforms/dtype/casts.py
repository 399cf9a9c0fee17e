"""The fixes of a clash: give the producer a dtype, or cast the operand where it meets the other one."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from ...codemod.flow.analysis import flow_of
from ...codemod.flow.frame import Autocasting, AutocastState, Meeting
from ...codemod.flow.lattice import BOOL, FLOATING, Role
from ...codemod.flow.operation_calls import has_size
from ...codemod.half.atom_places import chain_of
from ...codemod.model import Edit, Fix
from ...codemod.proof.needs import Known, Need, Release, SameResult
from ...codemod.proof.proving import proved
from ...codemod.python.arguments import argument, receiver_of
from ...codemod.python.names import ModuleNames, last_name
from ...codemod.python.paths import function_of
from ...codemod.source.project import Project
from ...codemod.torch.tables.kernels import WITHOUT_KERNELS
from ...codemod.torch.weights import is_device
from .clashes import followers
from .proved_casts import is_tensor, needs_of_cast
from .surroundings import MOVING

BUILTINS = ("next", "getattr")
"""Functions that need no import, in the spellings of a dtype."""
COMPUTED = ("eye", "rand", "randn", "normal", "linspace", "logspace", "arange", "hann_window", "hamming_window")
DRAWN, SUMS = ("rand", "randn", "normal"), ("sum", "nansum", "cumsum")
CPU_KERNELS_SINCE = "2.3"
"""From this release of PyTorch on CPUs have all of them for float16 and bfloat16."""
FACTORY_NAMES = (
    "zeros", "ones", "full", "empty", "rand", "randn", "linspace", "logspace", "eye", "tensor", "as_tensor", "normal",
    "hann_window", "hamming_window", "arange", "new_zeros", "new_ones", "new_full",
)  # fmt: skip


def producer_fix(project: Project, meeting: Meeting, *needs: Need) -> Fix | None:
    """Make the operand in the right dtype from the start; None where its maker stands elsewhere or cannot say it."""
    maker = maker_of(meeting)
    if maker is None or _is_written_through_index(meeting.module, maker) or _meets_gap(meeting, maker):
        return None
    for text in _spellings(meeting):
        if _is_known_at(meeting.module, text, maker):
            operation = _made_in(meeting.module, maker, text)
            if operation is not None:
                exact = Known(not casts_integers(project, meeting), "16 bits would round larger integers at once")
                counts = Known(not is_summed(meeting), "16 bits would round what is summed or counted with it")
                needs = (*needs, exact, counts, *_needs_of_kernel(meeting.module, maker))
                return _fix(project, "producer", f"make it in {text}", [operation], [meeting], text, needs)
    return None


def operand_fix(project: Project, meeting: Meeting, *needs: Need) -> Fix | None:
    """Cast the operand where it meets the others; None where it may be something that has no ``to``."""
    first = _operand_cast(project, meeting)
    if first is None:
        return None
    edits, cast = {meeting.odd.node: first}, [meeting]
    for other in followers(project, meeting):
        edit = _operand_cast(project, other)
        if edit is not None and other.odd.node not in edits:
            edits[other.odd.node] = edit
            cast.append(other)
    done = f"cast it to {meeting.meant_dtype}" + (f", and {len(cast) - 1} more where it goes" if len(cast) > 1 else "")
    return _fix(project, "cast", done, list(edits.values()), cast, meeting.meant_dtype, needs)


def _operand_cast(project: Project, meeting: Meeting) -> Edit | None:
    text, node = meeting.meant_dtype, meeting.odd.node
    if not text or meeting.odd.node is meeting.meant.node or not hasattr(node, "lineno"):
        return None
    if isinstance(node, ast.Starred | ast.List | ast.Tuple) or not _is_known_at(meeting.module, text, node):
        return None
    parent = meeting.module.parents.get(node)
    if isinstance(parent, ast.keyword) and parent.arg is None:
        return None  # ``model(**batch)``: the tensor is an item of the dictionary that stands there
    if not is_tensor(project, meeting):
        return None
    return cast_operation(meeting.module, node, text)


def cast_operation(module: ModuleNames, node: ast.expr, text: str) -> Edit:
    """``node.to(text)``; a call of ``.to(device)`` gets a ``dtype=`` instead of a second call."""
    span = module.document.span(node)
    if _only_moves(node):
        return module.set_argument(span, "dtype", text)
    return module.replace(span, span, f".to({text})")


def _only_moves(node: ast.expr) -> bool:
    """``x.to(device)``: a call of ``to`` that has room for a dtype."""
    if not isinstance(node, ast.Call) or receiver_of(node, "to") is None:
        return False
    free = len(node.args) <= 1 and all(item.arg in MOVING for item in node.keywords)
    return free and all(map(is_device, node.args))


def maker_of(meeting: Meeting) -> ast.expr | None:
    """The call or dtype argument that made the operand float32, where it stands in the same function."""
    steps = chain_of(meeting.odd.atom)
    if not steps or steps[0].path != meeting.module.document.path or not isinstance(steps[0].node, ast.expr):
        return None
    node = steps[0].node
    same = meeting.module.scope_of(node).function is meeting.module.scope_of(meeting.node).function
    return node if same else None


def casts_integers(project: Project, meeting: Meeting) -> bool:
    """Whether what made the operand float32 is a cast of a tensor that may hold integers: not of a mask."""
    maker = maker_of(meeting)
    inner = receiver_of(maker, "float", "double") if isinstance(maker, ast.Call) else None
    if inner is None or isinstance(inner, ast.Compare | ast.BoolOp):
        return False
    value = flow_of(project).value_at(meeting.module, inner, AutocastState(Autocasting.MAYBE))
    return not value.atoms or any(atom.dtype not in (BOOL, *FLOATING) for atom in value.atoms)


WRITING = ("index_copy_", "index_add_", "index_put_", "scatter_", "masked_scatter_")
"""Methods that write another tensor into their own and refuse one of another dtype."""


def _is_written_through_index(module: ModuleNames, maker: ast.expr) -> bool:
    """``mask = torch.zeros(...)``, then ``mask[:, chosen == 1] = torch.ones(...)``: both need one dtype there."""
    targets = getattr(module.statement_of(maker), "targets", ())
    for name in [item.id for item in targets if isinstance(item, ast.Name)]:
        for load in module.name_loads.get(name, []):
            parent = module.parents[load]
            if isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store) and parent.value is load:
                index = parent.slice.elts if isinstance(parent.slice, ast.Tuple) else [parent.slice]
                if not all(isinstance(item, ast.Slice | ast.Constant) for item in index):
                    return True
            if isinstance(parent, ast.Attribute) and parent.attr.startswith(WRITING):
                return True
    return False


def _meets_gap(meeting: Meeting, maker: ast.expr) -> bool:
    """Whether the function calls what has no 16-bit kernel: ``torch.linalg.inv(torch.eye(4))`` needs the float32."""
    module = meeting.module
    names = {name.rpartition(".")[2] for name in WITHOUT_KERNELS}
    calls = (call for name in names for call in module.calls_by_name.get(name, ()))
    return any(function_of(module, call) is function_of(module, maker) for call in calls)


def is_summed(meeting: Meeting) -> bool:
    """``keep = (ids != 0).float()``, then ``keep.sum(1)``: bfloat16 holds each number up to 256, and few above."""
    module, maker = meeting.module, maker_of(meeting)
    if maker is None or (isinstance(maker, ast.Call) and last_name(maker.func) in DRAWN):
        return False
    function = function_of(module, maker)
    summed = {
        node for name in SUMS for call in module.calls_inside.get((function, name), ()) for node in ast.walk(call)
    }
    held = _names_of(module.statement_of(maker))
    for name in held:
        loads = [load for load in module.name_loads.get(name, ()) if function_of(module, load) is function]
        if not summed.isdisjoint(loads):
            return True
        renamed = (module.statement_of(load) for load in loads)
        held += (item for each in renamed if _is_view(each, name) for item in _names_of(each) if item not in held)
    return maker in summed


def _names_of(statement: ast.stmt) -> list[str]:
    return [item.id for item in getattr(statement, "targets", ()) if isinstance(item, ast.Name)]


def _is_view(statement: ast.stmt, name: str) -> bool:
    """``wide = keep.unsqueeze(-1)[:, 1:]``: the same numbers under another name."""
    node = getattr(statement, "value", None)
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and node.id == name


def _needs_of_kernel(module: ModuleNames, maker: ast.expr) -> tuple[Need, ...]:
    """What fills a tensor with other values than one constant had no 16-bit kernels on CPUs for long."""
    if not isinstance(maker, ast.Call) or receiver_of(maker, *COMPUTED) is None:
        return ()
    device = argument(maker, "device")
    elsewhere = device is not None and "cpu" not in ast.unparse(device)
    what = f"16-bit {last_name(maker.func)} on CPUs"
    return () if elsewhere else (Release("torch", CPU_KERNELS_SINCE, module.path, what),)


def best_first(fixes: Iterable[Fix | None]) -> list[Fix]:
    """The fixes that could be made, those that are proved before the others."""
    return sorted((fix for fix in fixes if fix is not None), key=lambda fix: fix.applicability.value != "safe")


def _spellings(meeting: Meeting) -> list[str]:
    """Ways to say the dtype that was meant, best first: the project's own expression, then that of the operand."""
    meant = meeting.meant.atom
    mixture = meeting.odd.atom.mixture
    found = []
    for atom in (meant, mixture.meant if mixture is not None else meant):
        if atom.role is Role.EXPRESSION and atom.expression is not None:
            found.append(ast.unparse(atom.expression))
        if atom.role is Role.PARAMETER:
            found.append(f"{atom.symbol.split()[1]}.dtype")
    if meeting.meant_dtype:
        found.append(meeting.meant_dtype)
    return found


def _is_known_at(module: ModuleNames, text: str, maker: ast.expr) -> bool:
    """Whether every name in ``text`` has its value before ``maker`` runs."""
    scope = module.scope_of(maker)
    for node in ast.walk(ast.parse(text, mode="eval")):
        if isinstance(node, ast.Name):
            bindings = scope.lookup(node.id)
            if not bindings and node.id in BUILTINS:
                continue
            if not bindings:
                return False
            here = [item for item in bindings if item.scope is scope.function and item.kind != "parameter"]
            given = any(item.kind == "parameter" for item in bindings) or len(here) < len(bindings)
            before = [item for item in here if getattr(item.node, "lineno", 0) < maker.lineno]
            if not given and not before:
                return False
    return True


def _made_in(module: ModuleNames, maker: ast.expr, text: str) -> Edit | None:
    """The edit that makes ``maker`` give ``text``: a factory, ``.float()``, or the dtype that was written."""
    span = module.document.span(maker)
    if isinstance(maker, ast.Call):
        name = last_name(maker.func)
        if name in ("float", "double") and isinstance(maker.func, ast.Attribute) and not maker.args:
            return module.replace(span, maker.func.value, f".to(dtype={text})")
        takes_dtype = name in FACTORY_NAMES and all(item.arg not in (None, "out") for item in maker.keywords)
        return (
            module.set_argument(span, "dtype", text) if takes_dtype and (name != "normal" or has_size(maker)) else None
        )
    if isinstance(maker, ast.Attribute) and maker.attr in ("float32", "float"):
        return module.replace(span, text)
    return _moved(module, maker, text)


def _moved(module: ModuleNames, maker: ast.expr, text: str) -> Edit | None:
    """``scheduler.alphas_cumprod.to(device)``: the cast joins the move."""
    method = module.parents.get(maker)
    call = module.parents.get(method) if isinstance(method, ast.Attribute) and method.attr == "to" else None
    if isinstance(call, ast.Call) and call.func is method:
        return cast_operation(module, call, text)
    return None


def module_fix(project: Project, meeting: Meeting) -> Fix | None:
    """Cast a module that was made in float32, where this function made it."""
    document = meeting.module.document
    text = next(iter(_spellings(meeting)), "")
    for step in chain_of(meeting.odd.atom)[::-1]:
        node = step.node
        if step.path != document.path or not isinstance(node, ast.Call):
            continue
        same = meeting.module.scope_of(node).function is meeting.module.scope_of(meeting.node).function
        if same and node is not meeting.node and text and _is_known_at(meeting.module, text, node):
            span = document.span(node)
            operation = meeting.module.replace(span, span, f".to(dtype={text})")
            return _fix(project, "module", f"cast the module to {text}", [operation], [meeting], text)
    return None


def norm_weights_fix(project: Project, meeting: Meeting) -> Fix | None:
    """``F.layer_norm(x.float(), shape, self.weight, self.bias)``: the weights follow the input into float32."""
    call = meeting.node
    if not isinstance(call, ast.Call):
        return None
    first = next((index for index, item in enumerate(call.args) if item is meeting.meant.node), None)
    chosen = call.args[first : first + 2] if first is not None else []
    chosen += [item.value for item in call.keywords if item.arg in ("weight", "bias")]
    edits = []
    for item in chosen:
        if isinstance(item, ast.Name | ast.Attribute):
            text = ast.unparse(item)
            replacement = f"{text}.float() if {text} is not None else None"
            edits.append(meeting.module.replace(item, replacement))
    message = "cast the weights to float32 for this operation; nothing changes where they are float32"
    why = SameResult("the norm is computed in float32 already, and refuses weights of another dtype")
    return proved(project, "weights", message, edits, why) if edits else None


def _fix(
    project: Project,
    name: str,
    done: str,
    edits: Sequence[Edit],
    cast: Sequence[Meeting],
    text: str,
    needs: Sequence[Need] = (),
) -> Fix:
    """``text``: the dtype that the first of the meetings is cast to; the others are cast to their own."""
    message = f"{done}; nothing changes where everything is float32"
    first, *others = cast
    known = [*needs_of_cast(project, first, text), *(each for item in others for each in _needs(project, item))]
    return proved(project, name, message, edits, *needs, *known)


def _needs(project: Project, meeting: Meeting) -> Sequence[Need]:
    return tuple(needs_of_cast(project, meeting, meeting.meant_dtype))
