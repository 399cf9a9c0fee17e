"""Casts that code writes down: of models to any dtype, of anything to a 16-bit one that is spelled out.

A tensor that is created in a 16-bit dtype is told as one that is cast to it: it meets the same others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from ...model import Span
from ...outcome import Declaration
from ...purpose.files import words_of
from ...python.arguments import receiver_of
from ...python.exits import blocks_of
from ...python.names import FunctionNode, ModuleNames, attribute_chain, last_name, root_name
from ...python.paths import function_of, guards, name_parts
from ...python.scopes import is_off
from ...source.project import Project
from ...torch.api import LOAD_KEYS, LOADERS, SAME_MODULE, WALKS, WEIGHT_CASTS
from ...torch.cast_models import later_statements
from ...torch.dtypes import BF16, FP16, FP32, Dtype
from ...torch.weights import cast_dtype, given_for_dtype
from .stated_words import says_half, shortened, speaks, stated_by, text_of, writes_dtype

_MODELS = """
model net network module unet vae encoder decoder transformer generator discriminator backbone controlnet ema policy
critic actor llm layer attention attn crossattention tower projector adapter dit stdit pipe pipeline
"""
CASTS = (*WEIGHT_CASTS, "to", "type")
"""Methods that give back what they are called on in another dtype."""
OTHER_STAGES = ("predict_step", "test_step", "on_predict_", "on_test_")
"""Beginnings of the names of Lightning's methods that ``Trainer.fit`` does not call."""
MODELS = frozenset(_MODELS.split())
"""Last words of names that stand for models and their parts rather than tensors."""


SAVING = ("save", "save_pretrained", "save_model", "save_file", "push_to_hub", "export")
"""Calls that write a model to a file."""
READ_OUT = (*SAME_MODULE, "state_dict", "items", "config", "module", "merge_and_unload")
"""What is asked of a model on its way to a file."""
TRAINING = ("train", "fit")
"""Methods of a trainer that run the whole training."""
NOT_TRAINED = "not trained"
"""The condition of the dtype of a model beside the trained one."""
WIDENED = "cast to float32 there"
"""The condition of the dtype of a load whose weights are float32 before anything uses them."""
PARTS = "some parts of a model"
"""The condition of a cast in a loop over a model's parts that takes some of them: of the others it says nothing."""
AFTERWARDS = "after the training"
"""The condition of the dtype of a load behind the call that trains."""
ASIDE = (NOT_TRAINED, WIDENED, AFTERWARDS)
"""Conditions of dtypes that decide nothing of what a run computes in."""
REFERENCE = frozenset({"ref", "reference", "teacher", "frozen"})
"""Words of names of such models."""


def stated_casts(project: Project, module: ModuleNames) -> Iterator[Declaration]:
    """Every such cast of one module."""
    for name in CASTS:
        for call in module.calls_by_name.get(name, ()):
            value = _cast_to(project, module, call)
            if value is not None and isinstance(call.func, ast.Attribute):
                key = f"{text_of(call.func.value)}.{name}()"
                over = _walk_over_parts(module, call)
                role = "weights" if over is not None or is_model(call.func.value) else "cast"
                told = Declaration(module.document.path, _span(module, call), "torch", key, role, value)
                some = PARTS if over is not None and _is_of_some(module, call, over) else ""
                yield replace(told, condition=condition_of(module, call) or frozen(module, call.func.value) or some)


def _walk_over_parts(module: ModuleNames, call: ast.Call) -> ast.AST | None:
    """The loop over the parts of a model, or the function that ``apply`` runs on each, that casts what it goes through.

    ``for m in model.modules(): m.half()``, ``model.apply(lambda m: m.half())``.
    """
    cast = root_name(call.func)
    for item in module.ancestors(call):
        if isinstance(item, ast.For) and cast in {getattr(node, "id", "") for node in ast.walk(item.target)}:
            return item if receiver_of(item.iter, *WALKS) is not None else None
        if isinstance(item, ast.Lambda | FunctionNode):
            applied = [node for each in module.calls_by_name.get("apply", ()) for node in each.args[:1]]
            is_own = any(node is item or getattr(node, "id", "") == getattr(item, "name", None) for node in applied)
            return item if is_own and cast in {each.arg for each in item.args.args} else None
    return None


def _is_of_some(module: ModuleNames, call: ast.Call, walk: ast.AST) -> bool:
    """Whether something decides which parts are cast: ``if isinstance(m, nn.Embedding): m.half()``."""
    return any(
        walk in module.ancestors(item) for item in module.ancestors(call) if isinstance(item, ast.If | ast.IfExp)
    )


def stated_tensors(module: ModuleNames, call: ast.Call) -> Iterator[Declaration]:
    """The 16-bit dtype that a call of torch is asked for: ``torch.zeros(2, dtype=torch.half)``, ``x.new_ones(...)``."""
    called = last_name(call.func)
    given = [(f"{called}({item.arg}=)", item.value) for item in call.keywords if item.arg]
    given += [(f"{called}()", node) for node in (*call.args, call.func)]
    for key, node in given if called not in CASTS else ():
        value = _written(module, node) if says_half(module, node) else None
        if value is not None:
            place = (module.document.path, module.document.span(node), "torch", key)
            yield Declaration(*place, "cast", value, condition=condition_of(module, call))


def frozen(module: ModuleNames, model: ast.expr) -> str:
    """The condition of a model that is not trained, by its name or as its gradients are switched off; else empty."""
    text = ast.unparse(model)
    calls = module.calls_by_name.get("requires_grad_", ())
    switched = [call for call in calls if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == text]
    off = [call for call in switched if any(map(is_off, call.args))]
    is_frozen = bool(off) and len(off) == len(switched)
    return NOT_TRAINED if is_frozen or not REFERENCE.isdisjoint(words_of(text)) else ""


def set_aside(project: Project, module: ModuleNames, call: ast.Call) -> str:
    """The condition of the dtype of a load that decides nothing of what is trained; else empty."""
    if is_widened(project, module, call):
        return WIDENED
    trained = [item for name in TRAINING for item in module.calls_by_name.get(name, ()) if _is_of_trainer(item)]
    function, around = function_of(module, call), module.ancestors(call)
    is_behind = all(function_of(module, item) is function and item.lineno < call.lineno for item in trained)
    if trained and is_behind and not any(isinstance(above, ast.For | ast.While) for above in around):
        return AFTERWARDS
    statement = module.statement_of(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return frozen(module, targets[0]) if len(targets) == 1 else ""


def _is_of_trainer(call: ast.Call) -> bool:
    """``trainer.train()``, ``Trainer(...).fit(model)``; not ``model.train()``."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    return receiver is not None and "trainer" in ast.unparse(receiver).lower()


def is_widened(project: Project, module: ModuleNames, load: ast.Call) -> bool:
    """Whether loaded weights are made float32 first of all: ``from_pretrained(...).float()``, or right below."""
    found = [*_cast_around(project, module, load)]
    statement = module.statement_of(load)
    name = ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
    block = next((item for item in blocks_of(module.parents[statement]) if statement in item), [])
    below = block[block.index(statement) + 1 :] if name and not found else []
    using = next((item for item in below if any(ast.unparse(node) == name for node in ast.walk(item))), None)
    if isinstance(using, ast.Assign) and ast.unparse(using.targets[0]) != name:
        return False
    for node in ast.walk(using) if isinstance(using, ast.Assign | ast.Expr) else ():
        if ast.unparse(node) == name and isinstance(module.parents[node], ast.Attribute):
            found = [*_cast_around(project, module, node)]
    return found[-1:] == [FP32]


def _cast_around(project: Project, module: ModuleNames, node: ast.AST) -> Iterator[Dtype | None]:
    """What the methods that give back the same model cast it to, one after the other: ``node.cuda().float()``."""
    while isinstance(name := module.parents.get(node), ast.Attribute) and name.attr in SAME_MODULE:
        call = module.parents[name]
        if not isinstance(call, ast.Call) or call.func is not name:
            return
        node = call
        if name.attr in WEIGHT_CASTS and not call.args:
            yield WEIGHT_CASTS[name.attr]
        elif name.attr == "type" or not all(isinstance(item, ast.Constant) for item in given_for_dtype(call)):
            yield cast_dtype(project, module, call)


def condition_of(module: ModuleNames, call: ast.Call) -> str:
    """The test of a precision under which a call is made: ``if args.bf16``; or the stage that it is made in."""
    name = getattr(module.scope_of(call).node, "name", "")
    if name.startswith(OTHER_STAGES):
        return f"in {name}()"
    if _is_saved(module, call):
        return "for what is saved"
    places = [call, *module.calls_by_name.get(name, ())]
    if any(_is_optimizer(item) for place in places for item in module.ancestors(place)):
        return "inside an optimizer"
    tests = (guard for guard in reversed(guards(module, call)) if any(map(speaks, name_parts(guard.test))))
    guard = next(tests, None)
    text = f"{'if' if guard.holds else 'if not'} {ast.unparse(guard.test)}" if guard is not None else ""
    return shortened(text)


def _is_saved(module: ModuleNames, call: ast.Call) -> bool:
    """Whether a cast is for a file: ``model.half().save_pretrained(path)``, or all that follows leads to one.

    A script that trains what it casts, and saves that in the end, trains in this dtype.
    """
    above = module.parents.get(call)
    if isinstance(above, ast.Attribute) and above.attr in SAVING:
        return True
    function = module.scope_of(call).node
    own = {name: [*_statements(module, name, function)] for name in (*SAVING, "backward")}
    saving = [item for name in SAVING for item in own[name]]
    if not isinstance(function, FunctionNode) or not saving or own["backward"]:
        return False
    used = ((name, item) for name, items in later_statements(module, call).items() for item in items)
    return all(item in saving or _is_read_out(module, item, name) for name, item in used)


def _statements(module: ModuleNames, name: str, function: ast.AST) -> Iterator[ast.stmt]:
    calls = module.calls_by_name.get(name, ())
    return (module.statement_of(item) for item in calls if module.scope_of(item).node is function)


def _is_read_out(module: ModuleNames, statement: ast.stmt, name: str) -> bool:
    """Whether a statement takes from an object only what files hold: ``state = model.state_dict()``."""
    named = [node for node in ast.walk(statement) if isinstance(node, ast.expr) and ast.unparse(node) == name]
    above = [module.parents.get(node) for node in named]
    return all(isinstance(item, ast.Attribute) and item.attr in READ_OUT for item in above)


def _is_optimizer(node: ast.AST) -> bool:
    chains = [attribute_chain(base) or [""] for base in node.bases] if isinstance(node, ast.ClassDef) else []
    return any(chain[-1].endswith("Optimizer") for chain in chains)


def _span(module: ModuleNames, call: ast.Call) -> Span:
    """The whole cast, or of one at the end of a chain over several lines only what casts."""
    whole = module.document.span(call)
    if whole.row == whole.end_row or not isinstance(call.func, ast.Attribute):
        return whole
    before = module.document.span(call.func.value)
    return Span(before.end_row, before.end_column, whole.end_row, whole.end_column)


def _cast_to(project: Project, module: ModuleNames, call: ast.Call) -> str | None:
    if not isinstance(call.func, ast.Attribute):
        return None
    casts_model = is_model(call.func.value)
    if call.func.attr in WEIGHT_CASTS:
        dtype = WEIGHT_CASTS[call.func.attr]
        plain = not call.args and not call.keywords
        return dtype.name if plain and (casts_model or dtype in (BF16, FP16)) else None
    if casts_model:
        certain = cast_dtype(project, module, call)
        if certain is not None:
            return certain.name
    given = [*call.args, *(item.value for item in call.keywords if item.arg in LOAD_KEYS)]
    found = [value for node in given if (value := _written(module, node)) is not None]
    return found[0] if found and (casts_model or any(says_half(module, node) for node in given)) else None


def _written(module: ModuleNames, node: ast.expr) -> str | None:
    """The dtype, or the choice of dtypes, that an argument spells out."""
    return stated_by(module, node) if writes_dtype(module, node) else None


def is_model(node: ast.expr) -> bool:
    """Whether a name says so, or a loader makes it there: ``AutoModel.from_pretrained(...).half()``."""
    while isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Attribute) and called.attr in LOADERS:
            return True
        if not isinstance(called, ast.Attribute) or called.attr not in SAME_MODULE:
            return False
        node = called.value
    chain = attribute_chain(node)
    return names_model(chain[-1]) if chain else False


def names_model(text: str) -> bool:
    """Whether the last word of a name is one for a model or a part of it, or the name is a call."""
    words = words_of(text)
    return text.endswith(")") or (bool(words) and words[-1].rstrip("0123456789") in MODELS)
