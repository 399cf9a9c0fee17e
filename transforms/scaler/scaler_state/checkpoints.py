"""Where an optimizer's state is written to a checkpoint and read back."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ....codemod.purpose.runs import starts_of
from ....codemod.python.arguments import receiver_of
from ....codemod.python.functions import FunctionTarget, called_function
from ....codemod.python.names import ModuleNames, attribute_chain, parameters_of
from ....codemod.python.paths import calls_of, function_of
from ....codemod.python.reach import Reached, reached
from ....codemod.source.project import Project
from ....codemod.torch.scaler_steps import steps_of
from ....codemod.torch.scalers import Scaler, scalers

TransferKind: TypeAlias = Literal["save", "load"]


@dataclass(frozen=True, slots=True, eq=False)
class Transfer:
    """One place that saves or loads an optimizer's state, seen from a function that also holds the scaler."""

    kind: TransferKind
    """``save`` or ``load``."""
    module: ModuleNames
    optimizer: str
    """The optimizer's expression, in the function that holds the scaler."""
    call: ast.Call
    """``optimizer.state_dict()`` or ``optimizer.load_state_dict(...)``, or else the helper's call."""
    direct: bool
    table: ast.Dict | None = None
    """For a direct save: the dictionary that is written."""


def transfers_of(project: Project, scaler: Scaler) -> Iterator[Transfer]:
    """Saves and loads in the functions that use ``scaler``, in the other methods of its class, and one call below."""
    for module, function in _functions(scaler):
        yield from _direct(module, function)
        for call in calls_of(module, function):
            target = called_function(project, module, call)
            if target is not None and target.node is not function:
                yield from _through(module, call, target)


def stepped_transfers(project: Project, scaler: Scaler) -> list[Transfer]:
    """Where the state of the scaler's optimizers is saved and loaded, each place once."""
    own = stepped(scaler)
    found = {(item.kind, item.call): item for item in transfers_of(project, scaler) if item.optimizer in own}
    return list(found.values())


def stepped(scaler: Scaler) -> set[str]:
    """The optimizers that the scaler steps, as they are named there."""
    steps = (step.optimizer(call) for step in steps_of(scaler) for call in step.of("step"))
    return {ast.unparse(node) for node in steps if node is not None}


def _functions(scaler: Scaler) -> list[tuple[ModuleNames, ast.AST]]:
    found = [(scaler.module, function_of(scaler.module, scaler.call))]
    for use in scaler.uses:
        found.append((use.module, function_of(use.module, use.node)))
        owner = use.module.scope_of(use.node).enclosing_class
        if owner is not None:
            methods = [item for item in ast.walk(owner.node) if isinstance(item, ast.FunctionDef)]
            found.extend((use.module, item) for item in methods)
    return list(dict.fromkeys(found))


def _direct(module: ModuleNames, function: ast.AST) -> Iterator[Transfer]:
    for call in calls_of(module, function):
        if module.qualified(call.func) == "torch.save" and call.args:
            for table in _tables(module, call.args[0]):
                for value in table.values:
                    if receiver_of(value, "state_dict") is not None:
                        yield Transfer("save", module, _owner(value), value, True, table)  # type: ignore[arg-type]
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "load_state_dict" and call.args:
            yield Transfer("load", module, _owner(call), call, True)


def _tables(module: ModuleNames, node: ast.expr) -> list[ast.Dict]:
    if isinstance(node, ast.Dict):
        return [node]
    if isinstance(node, ast.Name):
        bindings = module.bindings_of(node)
        return [item.value for item in bindings if isinstance(item.value, ast.Dict)]
    return []


def _owner(node: ast.expr) -> str:
    func = node.func if isinstance(node, ast.Call) else node
    return ast.unparse(func.value) if isinstance(func, ast.Attribute) else ""


def _through(module: ModuleNames, call: ast.Call, target: FunctionTarget) -> Iterator[Transfer]:
    """What a helper does with the arguments of one call."""
    names = {parameter.arg for parameter in parameters_of(target.node)}
    inside = [item for item in _direct(target.module, target.node) if item.optimizer in names]
    if not inside:
        return
    arguments = target.arguments(call)
    for item in inside:
        argument = arguments.get(item.optimizer)
        if argument is not None and attribute_chain(argument) is not None:
            yield Transfer(item.kind, module, ast.unparse(argument), call, False)


# --- elsewhere in the program -----------------------------------------------------------------------------------------


def transfers_of_program(project: Project, scaler: Scaler, optimizers: Collection[str]) -> Sequence[Transfer]:
    """Saves and loads that one program does in other functions and files, of an optimizer of the same name.

    Empty where something else in the program may keep the scaler's state, or scales as well.
    """
    names = {text.rpartition(".")[2] for text in optimizers}
    for start in starts_of(project, scaler.module):
        program = reached(project, [(start, start.tree)])
        found = [item for module in program.modules for item in _of_optimizer(program, module, names)]
        if {item.kind for item in found} != {"save", "load"} or not program.holds(scaler.module, scaler.call):
            continue
        others = [item for item in scalers(project) if item.module in program.modules and not _is_beside(item, scaler)]
        kept = any(project.memo(speaks_of_scaler_state, module) for module in program.modules)
        if not others and not kept and any("save" in module.calls_by_name for module in program.modules):
            return found
    return ()


def _is_beside(item: Scaler, scaler: Scaler) -> bool:
    """Whether it is the same, or one for another optimizer that is made in the same function and not kept either."""
    module = scaler.module
    together = item.module is module and function_of(module, item.call) is function_of(module, scaler.call)
    return item is scaler or (together and not item.uses_of("state_dict") and "escaped" not in item.routes)


def _of_optimizer(program: Reached, module: ModuleNames, names: Collection[str]) -> Iterator[Transfer]:
    kinds: tuple[tuple[TransferKind, str], ...] = (("save", "state_dict"), ("load", "load_state_dict"))
    for kind, method in kinds:
        for call in module.calls_by_name.get(method, []):
            owner = _owner(call)
            is_meant = owner.rpartition(".")[2] in names and bool(call.args) == (kind == "load")
            if is_meant and not _is_in_wrapper(module, call) and program.holds(module, call):
                yield Transfer(kind, module, owner, call, False)


def _is_in_wrapper(module: ModuleNames, call: ast.Call) -> bool:
    """``def state_dict(self): return {"fast": self.optimizer.state_dict()}``: an optimizer around another one."""
    return getattr(function_of(module, call), "name", "") in ("state_dict", "load_state_dict")


def speaks_of_scaler_state(_: Project, module: ModuleNames) -> bool:
    """Whether a string, a keyword or a call of the file tells that a scaler's state is kept in some way."""
    for node in module.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value.lower()
            if "scaler" in text and len(text) < 40 and " " not in text:
                return True
        elif isinstance(node, ast.keyword) and node.arg is not None and "scaler_state" in node.arg.lower():
            return True
    return any("scaler" in _owner(call).lower() for call in module.calls_by_name.get("state_dict", []))
