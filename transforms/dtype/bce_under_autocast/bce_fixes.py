"""Two ways out of binary cross entropy under autocast: an island in float32, or the loss of logits."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Edit, Fix
from ....codemod.proof.needs import Need, RunsWith, SameResult
from ....codemod.proof.proving import proved
from ....codemod.proof.verdicts import Trusted
from ....codemod.purpose.entered import Inside
from ....codemod.python.arguments import argument, hides_arguments, receiver_of
from ....codemod.python.bindings import only_target, only_value
from ....codemod.python.names import ModuleNames, resolve
from ....codemod.source.project import Project
from ....codemod.torch.tables.operations import operation
from .bce_calls import CLASSES, FUNCTION, BceCall

_OF_LOSS = ("sum", "append")
"""What may be done to the loss beside that: autocast would give float32, which it has already."""
_FLOAT = ("float", "double")
_LIGHT_BUILTINS = frozenset({"len", "float", "int", "min", "max"})
_SIGMOIDS = {"torch.sigmoid", "torch.nn.functional.sigmoid", "torch.special.expit"}
_CONDITIONAL = (
    ast.IfExp,
    ast.BoolOp,
    ast.Lambda,
    ast.comprehension,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
_LOSS_NAMES = ("bce", "bce_loss", "bce_in_float32")
_ARGUMENT_NAMES = ("probabilities", "targets")


def fixes_of(project: Project, found: BceCall, inside: Inside) -> list[Fix]:
    """The fixes of one call, best first."""
    return [*_island(project, found, inside), *_logits(project, found)]


def _island(project: Project, found: BceCall, inside: Inside) -> Iterator[Fix]:
    module, call = found.module, found.call
    statement = module.statement_of(call)
    arguments = _arguments(call)
    simple = isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return | ast.Expr)
    if arguments is None or not simple or not _is_own_line(module, statement):
        return
    if _is_all_light(project, module, statement, call):
        casts = [item for each in _same_calls(statement, call) for item in _casts(module, each)]
        header = _header(arguments[0], inside)
        edits: list[Edit] | None = [*casts, module.wrap(statement, statement, header)]
    else:
        edits = _apart(project, found, statement, inside)
    if edits is not None:
        message = "compute the loss in float32 with autocast switched off"
        why = SameResult("binary cross entropy raises under autocast")
        beside = [RunsWith(inside.region.module)] if inside.region is not None else []  # it opens the region
        needs: list[Need] = [why, Trusted("PF212"), *beside]
        yield proved(project, "float32", message, [*edits, module.add_import("import torch")], *needs)


def _arguments(call: ast.Call) -> tuple[ast.expr, ast.expr] | None:
    """Prediction and target; None where ``*`` or ``**`` hide them."""
    if hides_arguments(call):
        return None
    prediction, target = argument(call, "input", position=0), argument(call, "target", position=1)
    return (prediction, target) if prediction is not None and target is not None else None


def _is_own_line(module: ModuleNames, statement: ast.stmt) -> bool:
    """Whether nothing else stands before the statement on its line (``if x: loss = ...``, ``a; b``)."""
    line = module.document.line(statement.lineno)
    return not line[: module.document.span(statement).column - 1].strip()


def _same_calls(statement: ast.stmt, call: ast.Call) -> list[ast.Call]:
    """The calls of the statement that are of the same criterion."""
    wanted = ast.dump(call.func)
    return [node for node in ast.walk(statement) if isinstance(node, ast.Call) and ast.dump(node.func) == wanted]


def _casts(module: ModuleNames, call: ast.Call) -> list[Edit]:
    return [module.append(node, ".float()") for node in _arguments(call) or () if receiver_of(node, *_FLOAT) is None]


def _is_all_light(project: Project, module: ModuleNames, statement: ast.stmt, call: ast.Call) -> bool:
    """Whether the whole statement may leave autocast: it holds no forward pass, and no sums of 16-bit tensors."""
    same = _same_calls(statement, call)
    around = {*module.ancestors(call)}
    for node in ast.walk(statement):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.MatMult):
            return False
        if not isinstance(node, ast.Call) or node in same or node in ast.walk(call.func):
            continue
        of_loss = node in around and receiver_of(node, *_OF_LOSS) is not None
        if not of_loss and not _is_light(project, module, node):
            return False
    return True


def _is_light(project: Project, module: ModuleNames, node: ast.Call) -> bool:
    """Whether a call is computed in the same dtype with and without autocast."""
    name = resolve(project, module, node.func)
    if name is None or not name.startswith("torch."):
        if isinstance(node.func, ast.Name):
            return node.func.id in _LIGHT_BUILTINS
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    known = operation(name)
    policies = {known.autocast(device) for device in ("cuda", "cpu")} if known is not None else {"unknown"}
    return policies <= {"", "promote"} or name == FUNCTION


def _apart(project: Project, found: BceCall, statement: ast.stmt, inside: Inside) -> list[Edit] | None:
    """The loss in a statement of its own before the one that uses it; forward passes inside it stay under autocast."""
    module, call = found.module, found.call
    scope = module.scope_of(statement)
    name = next((item for item in _LOSS_NAMES if not scope.lookup(item)), None)
    arguments = _arguments(call)
    if name is None or arguments is None or not _runs_once_and_first(module, call, statement):
        return None
    moved, texts = _moved_arguments(project, module, arguments)
    if texts is None:
        return None
    is_moved = bool(moved) and moved[0].startswith(f"{_ARGUMENT_NAMES[0]} =")
    header = _header(ast.Name(_ARGUMENT_NAMES[0]) if is_moved else arguments[0], inside)
    before = [module.insert(statement, "\n".join(moved))] if moved else []
    if getattr(statement, "value", None) is call:
        casts = [module.replace(node, text) for node, text in texts.items()]
        return [*before, *casts, module.wrap(statement, statement, header)]
    given: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    rest = [_argument_text(module, item, texts) for item in given]
    called = module.document.source(module.document.span(call.func))
    lines = [*moved, header, f"    {name} = {called}({', '.join(rest)})"]
    return [module.insert(statement, "\n".join(lines)), module.replace(call, name)]


def _moved_arguments(
    project: Project, module: ModuleNames, arguments: tuple[ast.expr, ast.expr]
) -> tuple[list[str], dict[ast.expr, str] | None]:
    """Statements that hold the forward passes among the arguments, and the arguments in float32 after them."""
    moved: list[str] = []
    texts: dict[ast.expr, str] = {}
    for node, new in zip(arguments, _ARGUMENT_NAMES, strict=True):
        text = module.document.source(module.document.span(node))
        calls = [item for item in ast.walk(node) if isinstance(item, ast.Call)]
        if not all(_is_light(project, module, item) for item in calls):
            if module.scope_of(node).lookup(new) or "\n" in text:
                return [], None
            moved.append(f"{new} = {text}")
            text = new
        plain = isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call) or text == new
        is_float = receiver_of(node, *_FLOAT) is not None
        texts[node] = text if is_float and text != new else f"{text if plain else f'({text})'}.float()"
    return moved, texts


def _argument_text(module: ModuleNames, item: ast.expr | ast.keyword, texts: dict[ast.expr, str]) -> str:
    value = item.value if isinstance(item, ast.keyword) else item
    text = texts.get(value) or module.document.source(module.document.span(value))
    return f"{item.arg}={text}" if isinstance(item, ast.keyword) else text


def _runs_once_and_first(module: ModuleNames, call: ast.Call, statement: ast.stmt) -> bool:
    """Whether the call can move before its statement: it always runs, once, and nothing before it changes a thing."""
    for parent in module.ancestors(call):
        if parent is statement:
            return len(_same_calls(statement, call)) == 1
        if isinstance(parent, _CONDITIONAL):
            return False
    return False


def _header(prediction: ast.expr, inside: Inside) -> str:
    """The island's first line; the device is that of the region, or of the tensor where the region does not name it."""
    region = inside.region
    device = region.device if region is not None else None
    if isinstance(prediction, ast.Name) and not (inside.direct and device is not None):
        return f"with torch.autocast({prediction.id}.device.type, enabled=False):"
    return f'with torch.autocast("{device or "cuda"}", enabled=False):'


def _logits(project: Project, found: BceCall) -> Iterator[Fix]:
    module, call = found.module, found.call
    arguments = _arguments(call)
    sigmoid = _sigmoid(project, module, arguments[0]) if arguments is not None else None
    swapped = _swapped_loss(project, found)
    if sigmoid is None or swapped is None:
        return
    node, logits = sigmoid
    message = "drop the sigmoid and take the loss of logits, which is computed in float32 under autocast"
    yield Fix.unsafe("logits", message, module.replace(node, logits), *swapped)


def _sigmoid(project: Project, module: ModuleNames, node: ast.expr) -> tuple[ast.Call, ast.expr] | None:
    """The sigmoid that makes the prediction and feeds nothing else, with what goes into it."""
    if isinstance(node, ast.Name):
        value = only_value(module, node)
        own = [item for item in module.name_loads.get(node.id, []) if module.scope_of(item) is module.scope_of(node)]
        alone = len(own) == 1 and len(module.bindings_of(node)) == 1
        return _sigmoid(project, module, value) if isinstance(value, ast.Call) and alone else None
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    if resolve(project, module, node.func) in _SIGMOIDS and len(node.args) == 1:
        return node, node.args[0]
    logits = receiver_of(node, "sigmoid") if not node.args else None
    return (node, logits) if logits is not None else None


def _swapped_loss(project: Project, found: BceCall) -> list[Edit] | None:
    """The loss by its other name: the function called here, or a criterion that is called here alone."""
    if found.birth is None:
        return _renamed(project, found.module, found.call.func, FUNCTION, "binary_cross_entropy_with_logits")
    module, birth = found.birth
    if module is not found.module or not isinstance(birth, ast.Call) or not _is_used_once(module, birth):
        return None
    if any(item.arg == "weight" for item in birth.keywords) or birth.args:
        return None
    return _renamed(project, module, birth.func, "torch.nn.BCELoss", "BCEWithLogitsLoss")


def _renamed(project: Project, module: ModuleNames, func: ast.expr, old: str, new: str) -> list[Edit] | None:
    if resolve(project, module, func) not in (old, *(CLASSES if "BCELoss" in old else ())):
        return None
    if isinstance(func, ast.Attribute):
        return [module.replace(func, func.value, f".{new}")]
    package = old.rpartition(".")[0]
    return [module.replace(func, new), module.add_import(f"from {package} import {new}")]


def _is_used_once(module: ModuleNames, birth: ast.Call) -> bool:
    """``criterion = nn.BCELoss()``, read in one place."""
    parent = module.parents.get(birth)
    target = only_target(parent)
    if isinstance(target, ast.Name):
        return len(module.name_loads.get(target.id, [])) == 1
    return isinstance(target, ast.Attribute) and len(module.attribute_loads.get(target.attr, [])) == 1
