"""Backward passes past the engine of DeepSpeed, which scales a float16 loss in ``engine.backward(loss)`` alone.

Before 0.18.3 a plain pass leaves the scaling out, and the engine's optimizer still divides by the scale; since then
it raises ``RuntimeError`` (``deepspeed/runtime/engine.py``, ``_backward_post_hook``), tried on a GPU with 0.19.8.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.names import ModuleNames, checked_modules
from ....codemod.python.paths import function_of, position
from ....codemod.source.project import Project
from ....codemod.torch.autocast import is_without_gradients
from ....codemod.torch.made_with_gradients import differentiated
from ....codemod.torch.unscaled_steps import stored_in
from ..engines import engine_of, float16_runs

SCALING = ("backward", "scale")
"""Methods of the engine that scale a loss."""


def passes_of_engines(project: Project) -> Iterator[Draft]:
    """``loss.backward()`` where ``loss`` comes from an engine whose runs are all in float16."""
    for module in checked_modules(project, ("deepspeed",), ("initialize",), ("backward",)):
        for made in module.calls_by_name.get("initialize", ()):
            engine = engine_of(module, made)
            plain = _plain_backward(project, module, made, engine) if engine else None
            runs = float16_runs(project, module, made) if plain is not None else []
            if plain is not None and runs:
                message = (
                    f"the loss is not scaled, as in {engine}.backward(loss): DeepSpeed's optimizer divides its "
                    "gradients by the loss scale, and from 0.18.3 on the pass raises RuntimeError"
                )
                places = (module.place(made, "DeepSpeed makes the engine here"), runs[0].place)
                yield Draft.at(module, plain, message, places)


def _plain_backward(project: Project, module: ModuleNames, made: ast.Call, engine: str) -> ast.Call | None:
    """The first backward pass of a loss that the engine gave, in a file that has none by the engine."""
    if any(ast.unparse(item.value) == engine for name in SCALING for item in module.attribute_loads.get(name, ())):
        return None
    for call in module.calls_by_name.get("backward", ()):
        function, loss = function_of(module, call), call.func.value if isinstance(call.func, ast.Attribute) else None
        same = "." in engine or function is function_of(module, made)
        if not isinstance(loss, ast.Name) or call.args or not same:
            continue
        if loss.id in _made_by(module, function, engine, call) and is_reached(project, module, call):
            return call
    return None


def _made_by(module: ModuleNames, function: ast.AST, engine: str, before: ast.Call) -> set[str]:
    """The variables of a function that gradients flow back from to what the engine gives, before a call."""
    found: set[str] = set()
    assigned = (node for node in module.of_type(ast.Assign) if function_of(module, node) is function)
    for node in sorted(assigned, key=position):
        inside = [] if is_without_gradients(module, node) else list(differentiated(node.value))
        called = any(isinstance(item, ast.Call) and ast.unparse(item.func) == engine for item in inside)
        if position(node) < position(before):
            read = {item.id for item in inside if isinstance(item, ast.Name)}
            changed = stored_in(node)
            found = found | changed if called or read & found else found - changed
    return found
