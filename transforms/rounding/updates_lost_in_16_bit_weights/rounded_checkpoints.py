"""Checkpoints to resume from that keep the weights in 16 bits, beside the state of the optimizer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.purpose.files import is_test
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.arguments import owner_of, receiver_of
from ....codemod.python.bindings import only_value
from ....codemod.python.names import ModuleNames, checked_modules, modules_with, string_of
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import HALVES, Dtype
from ....codemod.torch.weights import cast_dtype
from ..half_optimizers import all_half_optimizers


def rounded_checkpoints(project: Project) -> Iterator[Draft]:
    """``{key: value.half() for ... in model.state_dict().items()}``, saved with the optimizer and loaded again."""
    for module in checked_modules(project, ("state_dict",), (".half(", "float16"), ("save(",)):
        for save in module.calls_by_name.get("save", ()) if not is_test(module.path) else ():
            if module.qualified(save.func) == "torch.save" and save.args and is_reached(project, module, save):
                yield from _of_save(project, module, save)


def _of_save(project: Project, module: ModuleNames, save: ast.Call) -> Iterator[Draft]:
    table = _value(module, save.args[0])
    if not isinstance(table, ast.Dict):
        return
    entries = {string_of(key): _value(module, item) for key, item in zip(table.keys, table.values, strict=True) if key}
    kept = [key for key, item in entries.items() if _is_optimizer(item)]
    for key, item in entries.items():
        dtype = _narrowed(project, module, item)
        loads = _loads(project, key) if dtype is not None and kept and key else ()
        if dtype is None or not any(_loads(project, each) for each in kept) or any(all_half_optimizers(project)):
            continue
        for other, load in loads[:1]:
            message = (
                f"a checkpoint that training resumes from keeps the weights in {dtype.name}: each resumed run starts"
                " with rounded weights, and small updates are lost; save them as they are"
            )
            yield Draft.at(module, item, message, (other.place(load, "the rounded weights are loaded here"),))


def _value(module: ModuleNames, node: ast.expr) -> ast.expr:
    return (only_value(module, node) or node) if isinstance(node, ast.Name) else node


def _is_optimizer(node: ast.expr) -> bool:
    state = receiver_of(node, "state_dict")
    return state is not None and "opt" in ast.unparse(state).rpartition(".")[2].lower()


def _narrowed(project: Project, module: ModuleNames, node: ast.expr) -> Dtype | None:
    """The 16-bit dtype in which a comprehension keeps the state of a model."""
    generator = node.generators[0] if isinstance(node, ast.DictComp) and len(node.generators) == 1 else None
    items = receiver_of(generator.iter, "items") if generator is not None else None
    if not isinstance(node, ast.DictComp) or items is None or receiver_of(items, "state_dict") is None:
        return None
    value = node.value.body if isinstance(node.value, ast.IfExp) else node.value
    dtypes = (cast_dtype(project, module, call) for call in ast.walk(value) if isinstance(call, ast.Call))
    return next((dtype for dtype in dtypes if dtype in HALVES), None)


def _loads(project: Project, key: str | None) -> list[tuple[ModuleNames, ast.Call]]:
    """Where the entry of a checkpoint is loaded: ``model.load_state_dict(state["model"])``."""
    found = []
    for other in modules_with(project, ("load_state_dict",), (key or "load_state_dict",)):
        for call in other.calls_by_name.get("load_state_dict", ()) if not is_test(other.path) else ():
            given = call.args[0] if call.args else None
            is_entry = isinstance(given, ast.Subscript) and string_of(given.slice) == key and bool(owner_of(call))
            if is_entry:  # behind ``args.resume``: the option is there to be given, on the day it is needed
                found.append((other, call))
    return found
