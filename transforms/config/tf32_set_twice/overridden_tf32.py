"""``NVIDIA_TF32_OVERRIDE=0`` around code that allows TF32: the variable outweighs what a program sets.

Set to 0, cuBLAS and cuDNN compute no product of float32 in TF32, whatever the program asks for (NVIDIA's documentation
of TF32).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Place
from ....codemod.purpose.checked import checked_code
from ....codemod.purpose.given import is_run
from ....codemod.python.arguments import argument
from ....codemod.python.names import ModuleNames, string_of
from ....codemod.source.documents import FileKind
from ....codemod.source.project import Project
from ....codemod.trainers.reading.configs import config_files
from ....codemod.trainers.reading.run_members import Run
from ....codemod.trainers.reading.runs import all_runs_of

VARIABLE = "NVIDIA_TF32_OVERRIDE"
SETTER, SWITCH = "set_float32_matmul_precision", "allow_tf32"
BACKENDS = ("torch.backends.cuda.matmul", "torch.backends.cudnn")
MESSAGE = f"this has no effect: {VARIABLE}=0 keeps the libraries of NVIDIA from TF32, whatever a program sets"


def overridden(project: Project) -> Iterator[Draft]:
    for module in checked_code(project, (SETTER, SWITCH)):
        allowed = next((node for node in _allowing(module) if is_run(project, module, node)), None)
        place = _off(project, module) if allowed is not None else None
        if allowed is not None and place is not None:
            yield Draft.at(module, allowed, MESSAGE, (place,))


def _allowing(module: ModuleNames) -> Iterator[ast.expr | ast.stmt]:
    """What allows TF32 by a value that stands there."""
    for call in module.calls_by_name.get(SETTER, ()):
        word = string_of(argument(call, "precision", position=0))
        if word in ("high", "medium") and module.qualified(call.func) == f"torch.{SETTER}":
            yield call
    for _, value, statement in module.attribute_stores.get(SWITCH, ()):
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        owners = [module.qualified(item.value) for item in targets if isinstance(item, ast.Attribute)]
        if isinstance(value, ast.Constant) and value.value is True and any(item in BACKENDS for item in owners):
            yield statement


def _off(project: Project, module: ModuleNames) -> Place | None:
    """Where each launch of the project that runs a file sets the variable to 0; None where one does not."""
    found = project.fact(_settings)
    launches = [run for run in all_runs_of(project) if module.path in run.modules] if found else []
    places = [_set_before(run, found) for run in launches if run.command is not None]
    alone = places and len(places) == len(launches) and all(place is not None for place in places)
    return places[0] if alone else None


def _set_before(run: Run, found: tuple[tuple[Place, bool], ...]) -> Place | None:
    for place, is_exported in found:
        above = place.span.row <= run.place.span.row if is_exported else place.span.row == run.place.span.row
        if place.path == run.place.path and above:
            return place
    return None


def _settings(project: Project) -> tuple[tuple[Place, bool], ...]:
    """Where shell texts that set the variable to nothing else set it to 0, and whether for all that follows."""
    found = dict[str, list[tuple[Place, bool, bool]]]()
    for config in config_files(project, (VARIABLE,), (FileKind.SHELL,)):
        for entry in config.text.entries:
            if entry.key == (VARIABLE,):
                place = Place(config.document.path, config.span(entry), "the variable is set here")
                exported = config.document.line(place.span.row).split()[:1] == ["export"]
                found.setdefault(place.path, []).append((place, exported, str(entry.value) == "0"))
    known = (items for items in found.values() if all(is_off for _, _, is_off in items))
    return tuple((place, exported) for items in known for place, exported, _ in items)
