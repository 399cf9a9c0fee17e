"""Whether a run may come to a place in code, by names or by a registry; and whether that makes a recurrent layer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...model import Place
from ...purpose.files import is_test
from ...purpose.proved_reach import is_reached
from ...python.names import FunctionNode, ModuleNames, modules_with
from ...python.scopes import last_name
from ...source.facts import memo
from ...source.project import Project
from ...torch.tables.layers import IN_FLOAT16
from .run_code import is_of_script_only, is_used
from .runs import all_runs_of


def may_use(project: Project, script: str, module: ModuleNames, node: ast.expr) -> bool:
    """Whether a run uses a place of a module that it imports: by names, or by a registry or ``globals()[name]``, where
    no run does so by names and it is not proved that none comes there.
    """
    if is_used(project, script, module.path, node.lineno):
        return True
    if is_of_script_only(project, script, module.path, node.lineno):
        return False
    starts = {run.modules[0] for run in all_runs_of(project) if module.path in run.modules}
    named = any(is_used(project, start, module.path, node.lineno) for start in sorted(starts))
    return not named and is_reached(project, module, node)


@memo
def recurrent_layer(project: Project, module: ModuleNames) -> Place | None:
    """Where a run of ``module`` has a layer of cuDNN's, which computes in float16 whatever autocast is asked for."""
    starts = {run.modules[0] for run in all_runs_of(project) if module.path in run.modules} or {module.path}
    for item in modules_with(project, IN_FLOAT16, ("torch",)):
        for node in _recurrent(item) if not is_test(item.path) else ():
            if any(may_use(project, start, item, node) for start in sorted(starts)):
                return item.place(node, f"cuDNN computes nn.{last_name(node)} in float16 under any autocast")
    return None


def _recurrent(module: ModuleNames) -> Iterator[ast.expr]:
    """What names such a layer: a call, a base class, an entry of a table; no test of a type, no annotation."""
    for name in IN_FLOAT16:
        for node in (*module.attribute_loads.get(name, ()), *module.name_loads.get(name, ())):
            if (module.qualified(node) or "").startswith("torch.nn.") and not _only_names(module, node):
                yield node


def _only_names(module: ModuleNames, node: ast.expr) -> bool:
    above = [*module.ancestors(node)]
    tests = (item for item in above if isinstance(item, ast.Call) and last_name(item.func) == "isinstance")
    stated = (item for item in above if isinstance(item, ast.arg | ast.AnnAssign | FunctionNode))
    of_class = next(stated, None)
    is_annotation = isinstance(of_class, ast.arg) or (
        isinstance(of_class, ast.AnnAssign) and node in ast.walk(of_class.annotation)
    )
    returned = of_class.returns if isinstance(of_class, FunctionNode) else None
    return any(tests) or is_annotation or (returned is not None and node in ast.walk(returned))
