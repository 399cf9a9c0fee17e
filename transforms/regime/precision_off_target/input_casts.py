"""Tensors in the 16-bit dtype that a run is to leave: beside an autocast region, and in code that only it reaches.

`images.half()` in the function of a region; `torch.zeros(2, dtype=torch.float16)` in the model of a launch line.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator

from ....codemod.model import Place
from ....codemod.purpose.files import purpose_of
from ....codemod.purpose.runs import HalfProgram, runs_of, starts_of
from ....codemod.purpose.targets import compute_dtype
from ....codemod.purpose.training import only_infers, reached_modules
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import calls_of, function_of
from ....codemod.source.documents import FileKind
from ....codemod.source.project import Project
from ....codemod.torch.api import LOAD_KEYS, WEIGHT_CASTS
from ....codemod.torch.dtypes import BF16, HALVES, TORCH_DTYPES, Dtype
from ....codemod.trainers.framework import FAMILIES
from ....codemod.trainers.reading.auditing import WORDS_OF_FAMILY
from ....codemod.trainers.reading.run_code import is_used
from ....codemod.trainers.reading.stated_casts import NOT_TRAINED, condition_of, frozen, is_model
from ....codemod.trainers.reading.stated_values import gives_tensor
from ....codemod.trainers.writing.moves import Move
from .half_kernels import half_only_kernel
from .spelling import replaced, respelled_cast
from .training_autocasts import training_regions

OTHERS = "what else reads the tensor is not known"


def moves(project: Project) -> Iterator[Move]:
    """The casts in the functions of the regions that leave a 16-bit dtype, each once."""
    wanted = compute_dtype(project.target)
    seen: set[ast.AST] = set()
    for region in training_regions(project) if wanted in HALVES else ():
        function, old = function_of(region.module, region.autocast.node), region.dtype
        if wanted is not None and old is not None and old in HALVES and old != wanted and function not in seen:
            seen.add(function)
            for call in calls_of(region.module, function):
                place = region.module.place(region.autocast.node, "")
                yield from _move(project, region.module, call, old, wanted, place)
    if wanted is not None and wanted in HALVES:
        yield from _of_runs(project, wanted, seen)


def _of_runs(project: Project, wanted: Dtype, seen: Container[ast.AST]) -> Iterator[Move]:
    """What is cast to, or created in, the other dtype in code that only programs in that dtype use."""
    old = next(dtype for dtype in HALVES if dtype != wanted)
    for module in sorted(reached_modules(project), key=lambda item: item.path):
        is_bound = wanted == BF16 and half_only_kernel(project, module) is not None
        for call in module.calls if module.document.kind is FileKind.PYTHON and not is_bound else ():
            dtype = _spelled(project, module, call, old) if function_of(module, call) not in seen else None
            because = leaving(project, module, call, old) if dtype is not None else None
            if because is not None:
                yield from _move(project, module, call, old, wanted, because)


def leaving(project: Project, module: ModuleNames, call: ast.Call, old: Dtype) -> Place | None:
    """What says that a run which trains, and uses a call, leaves ``old``, where no program that only infers uses it."""
    runs = runs_of(project, module, call)
    own = [run for run in runs if run.trains and _leaves(run, old)]
    begun = {start for run in runs if run.trains for start in run.starts}
    row, users = module.document.span(call).row, {*starts_of(project, module), *begun} - {module}
    using = [item.path for item in users if is_used(project, item.path, module.path, row)]
    infers = any(only_infers(project, path) or purpose_of(path).is_left_alone for path in using)
    return own[0].place if own and (using or module in begun) and not infers else None


def _leaves(run: HalfProgram, old: Dtype) -> bool:
    return {WORDS_OF_FAMILY[FAMILIES[regime]] for regime in run.regimes} == {old.name}


def _move(
    project: Project, module: ModuleNames, call: ast.Call, old: Dtype, wanted: Dtype, because: Place
) -> Iterator[Move]:
    dtype = _spelled(project, module, call, old)
    if dtype is None or condition_of(module, call) or not (_is_tensor(module, call) or _is_frozen_model(module, call)):
        return
    edits = (respelled_cast(module, call, wanted),) if dtype is call else replaced(module, dtype, wanted)
    message = f"{ast.unparse(call)} is {old.name}, like the run so far; the target is {project.target}"
    effect = f"make it {wanted.name}, like the run"
    place = because.saying("this moves with it")
    yield Move(module.path, module.document.span(dtype), message, effect, edits, (place,), OTHERS)


def _spelled(project: Project, module: ModuleNames, call: ast.Call, dtype: Dtype) -> ast.expr | None:
    """The expression that says ``dtype``: ``torch.float16`` of ``x.to(torch.float16)``, all of ``x.half()``."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in WEIGHT_CASTS:
        plain = not call.args and not call.keywords
        return call if plain and WEIGHT_CASTS[call.func.attr] == dtype else None
    given = [*call.args, *(item.value for item in call.keywords if item.arg in LOAD_KEYS)]
    found = next((node for node in given if TORCH_DTYPES.get(module.qualified(node) or "") == dtype), None)
    return found if found is not None and gives_tensor(project, module, call) else None


def _is_frozen_model(module: ModuleNames, call: ast.Call) -> bool:
    """Whether a model is cast whose gradients are switched off under this name."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    return receiver is not None and is_model(receiver) and frozen(module, receiver) == NOT_TRAINED


def _is_tensor(module: ModuleNames, call: ast.Call) -> bool:
    """Whether what is cast is no model: methods of a value, or what torch makes; a copy of a model is neither."""
    node: ast.expr = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    if is_model(node):
        return False
    while isinstance(node, ast.Call):
        if (module.qualified(node.func) or "").startswith("torch."):
            return True
        if not isinstance(node.func, ast.Attribute):
            return False
        node = node.func.value
    return isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and not is_model(node)
