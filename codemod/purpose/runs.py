"""What runs a piece of code in 16 bits: which programs reach it, what states their precision, and whether they train.

A program begins at a file in which a precision takes effect (an autocast region, a trainer's arguments, the script of a
launch line), or at one that imports this file; it reaches what these import. A program that imports by computed names
can reach every file of its project.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..model import Place
from ..python.bindings import only_value
from ..python.conditions import conditions_in
from ..python.names import FunctionNode, ModuleNames, names_of
from ..python.reach import Reached, reached
from ..releases.manifests import directory_of, is_manifest
from ..source.facts import memo
from ..source.project import Project
from ..torch.autocast import Autocast, autocasts, dtype_scenarios, is_float32_island, runs_without_gradients
from ..torch.dtypes import BF16, FP16, FP32, MIXED, Dtype, Scenario, TextCondition
from ..trainers.framework import FAMILIES
from ..trainers.reading.precision import precision_of
from ..trainers.reading.run_members import Run, RunMember
from ..trainers.reading.runs import runs_of as launches_of
from .decided import decided, settings_asked
from .files import is_test, purpose_of
from .given import is_given, is_run
from .imports import imported_modules, importers_of
from .outcomes import can_come_out, can_hold
from .proved_reach import has_programs, is_installed, is_reached
from .switches import is_spelled
from .training import training_modules, trains

MAX_IMPORTERS = 12
"""How many importers of the file where a precision takes effect count as beginnings: one with more is a library."""
MAX_MODULES = 200
"""How many files of a program are followed, near ones first."""
BY_NAME = frozenset({"import_module", "__import__", "instantiate", "locate", "LightningCLI"})
"""Calls that import what a string names: importlib, Hydra (also ``pydoc.locate``), and Lightning's class paths."""
DEFINING = ("class", "function")
HALVES = {"bf16": BF16, "fp16": FP16}
INSTRUCTIONS = ("readme", "install", "dockerfile")
"""Beginnings of the names of files that name packages as a manifest does, but in any folder."""


@dataclass(frozen=True, slots=True, eq=False)
class HalfProgram:
    """A program, as far as it computes in 16 bits."""

    place: Place
    """What states the precision."""
    regimes: frozenset[str]
    """The 16-bit ones of those it can be in: ``bf16-mixed``, ``fp16-true``."""
    starts: tuple[ModuleNames, ...]
    """The files in which it can begin."""
    trains: bool
    """Whether what states the precision belongs to training."""
    on_cpu: bool = False
    """Whether it is a region of the CPU, whose autocast has lists of its own."""
    trainer: str = ""
    """The id of the framework that is told the precision; empty for a region in the project's own code."""
    region: Autocast | None = None
    """The autocast region that states the precision, if one does."""
    by_engine: bool = False
    """Whether DeepSpeed makes the weights 16-bit, and opens no autocast region."""

    @property
    def dtypes(self) -> frozenset[Dtype]:
        """What it can compute in."""
        return frozenset(HALVES[FAMILIES[regime]] for regime in self.regimes)

    @property
    def is_mixed(self) -> bool:
        """Whether autocast lowers the precision, not only the weights."""
        return any(regime.endswith("-mixed") for regime in self.regimes)


def runs_of(project: Project, module: ModuleNames, node: ast.AST) -> tuple[HalfProgram, ...]:
    """The runs on an accelerator that use the definition around ``node`` by its name, or may build it by a string;
    programs that train come first.

    To be imported is not enough: a package's ``__init__`` imports all of a library, of which a program uses a part.
    """
    runs = (run for run in project.fact(_all_runs) if not run.on_cpu)
    path = module.document.path
    found = (run for run in runs if uses(project, run, module, node) or _may_build(project, run, path))
    trained = training_modules(project)
    return tuple(sorted(found, key=lambda run: run.starts[0] not in trained))


def _may_build(project: Project, run: HalfProgram, path: str) -> bool:
    """Whether the program imports by computed names, and could import this file of its project."""
    folder = project_folder(project, run.starts[0].document.path)
    own = path.startswith(folder) and not purpose_of(path).is_left_alone
    return own and project.memo(_imports_by_name, run.starts)


def is_switched_on(project: Project, run: HalfProgram) -> bool:
    """Whether the project gives a run in which the region is open, as far as its switch and its place tell."""
    return run.region is None or can_be_open(project, run.region)


@memo
def can_be_open(project: Project, region: Autocast) -> bool:
    """Whether a region is switched on in some run, as far as its switch, its dtype and the tests around it tell."""
    return bool(open_scenarios(project, region))


@memo
def open_scenarios(project: Project, region: Autocast) -> tuple[Scenario, ...]:
    """What a region computes in, in the runs in which it is open; of these, float32 only where it is all."""
    switch, module = region.enabled_node, region.module
    body = getattr(module.statement_of(region.node), "body", ()) if region.form == "with" else ()
    if body and all(isinstance(item, FunctionNode) for item in body):
        return ()  # what is defined in a region runs later, where it is closed
    if not (switch is None or can_come_out(project, module, switch, True)):
        return ()
    if not is_reached(project, module, region.node):
        return ()
    conditions = conditions_in(project, module)
    asked = conditions.given(only_value(module, switch) or switch, True) if switch is not None else ()
    asked = (*asked, *conditions.path_given(region.node))
    scenarios = tuple(dtype_scenarios(project, region))
    lowering = tuple(item for item in scenarios if item.value != FP32) or scenarios
    return tuple(
        item
        for item in lowering
        if is_given(project, module, (*asked, *item.given))
        and go_together(project, module, (*item.given, *asked))
        and all(can_hold(project, module, given) for given in item.given)
    )


def go_together(project: Project, module: ModuleNames, asked: Sequence[TextCondition]) -> bool:
    """Whether one run gives all that is asked for; what is not known of one of the settings rules out nothing."""
    settings = list(dict.fromkeys(each for item in asked for each in settings_asked(project, module, item)))
    alone = [decided(project, module, [each]) for each in settings]
    if any(known is None or known.open for known in alone):
        return True
    together = decided(project, module, settings)
    return together is None or not together.open


def uses(project: Project, run: HalfProgram, module: ModuleNames, node: ast.AST) -> bool:
    """Whether the program of ``run`` uses the class or function that holds ``node`` by its name."""
    return project.memo(_definitions_reached, run.starts).holds(module, node)


def is_trained(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether a program that trains uses the definition around ``node`` by its name and comes to it."""
    reaches = any(
        project.memo(_definitions_reached, starts_of(project, item)).holds(module, node)
        for item in training_modules(project)
    )
    return reaches and is_run(project, module, node)


def runs_around(project: Project, module: ModuleNames, node: ast.AST) -> tuple[HalfProgram, ...]:
    """The runs on any device that use the definition around ``node``; where no program does, those that train there.

    A library's own kernels are used by programs that are not part of the tree. What a program of the tree uses in
    float32 does not run in 16 bits because another script does.
    """
    path = module.document.path
    runs = tuple(
        run for run in project.fact(_all_runs) if uses(project, run, module, node) or _may_build(project, run, path)
    )
    if runs or len(starts_of(project, module)) > 1 or trains(module) or not _may_be_taken_in(project, module):
        return runs
    root = project_folder(project, path)
    return tuple(run for run in project.fact(_all_runs) if run.trains and run.place.path.startswith(root))


def _may_be_taken_in(project: Project, module: ModuleNames) -> bool:
    """Whether a file that no program here uses can be imported at all: somewhere, by its name, or by what is installed.

    A copy beside the programs of a tree that nothing imports is run by nobody.
    """
    if not has_programs(project) or is_installed(project, module.path) or importers_of(project, module):
        return True
    file = module.path.rpartition("/")[2]
    defined = (name for name, bindings in module.module_scope.bindings.items() if bindings[0].kind in DEFINING)
    return any(
        is_spelled(project, name) for name in (file, *(f"{file.removesuffix('.py')}.{name}" for name in defined))
    )


def _imports_by_name(project: Project, starts: tuple[ModuleNames, ...]) -> bool:
    """Whether a file in which a program begins, or what it takes from another, imports by computed names."""
    found = project.memo(_definitions_reached, starts)
    near = {*starts, *(other for module in starts for other in imported_modules(project, module))}
    named = ((module, module.calls_by_name.get(name, [])) for module in near for name in BY_NAME)
    return any(found.holds(module, call) for module, calls in named for call in calls)


def _definitions_reached(project: Project, starts: tuple[ModuleNames, ...]) -> Reached:
    return reached(project, [(module, module.tree) for module in starts])


def _all_runs(project: Project) -> tuple[HalfProgram, ...]:
    return (*_of_regions(project), *_of_launches(project))


def _of_regions(project: Project) -> Iterator[HalfProgram]:
    trained = training_modules(project)
    for item in autocasts(project):
        document = item.module.document
        regimes = frozenset() if is_test(document.path) else _regimes_of(project, item)
        if regimes:
            place = Place(document.path, document.span(item.node), f"autocast can compute in {_named(regimes)} here")
            starts = starts_of(project, item.module)
            trains = not runs_without_gradients(item) and any(module in trained for module in starts)
            yield HalfProgram(place, regimes, starts, trains, item.device == "cpu", region=item)


def _regimes_of(project: Project, item: Autocast) -> frozenset[str]:
    """The 16-bit regimes of a region; empty for an island."""
    if item.form in ("statement", "reference") or is_float32_island(project, item):
        return frozenset()
    values = [scenario.value for scenario in dtype_scenarios(project, item)]
    return frozenset(MIXED[value] for value in values if isinstance(value, Dtype) and value in HALVES.values())


def _of_launches(project: Project) -> Iterator[HalfProgram]:
    """What a trainer is configured to in code, in its files, or by a launch line."""
    for launch in launches_of(project):
        member, regimes = _precision_of(project, launch)
        document = next(project.python_documents_at(launch.modules[:1]), None)
        if member is not None and document is not None and not is_test(document.path):
            scope = member.scope
            place = Place(scope.path, scope.span, f"{scope.title} can compute in {_named(regimes)}")
            starts = starts_of(project, names_of(project, document))
            accelerator = scope.last("accelerator")
            on_cpu = accelerator is not None and accelerator.value == "cpu"
            by_engine = any(item.scope.framework.id == "deepspeed" for item in launch.members)
            yield HalfProgram(place, regimes, starts, True, on_cpu, scope.framework.id, by_engine=by_engine)


def _precision_of(project: Project, launch: Run) -> tuple[RunMember | None, frozenset[str]]:
    """The strongest member that states a precision, and the 16-bit regimes among those it can be.

    A trainer that is asked for nothing leaves it to its launcher.
    """
    winner = launch.winner
    for member in launch.members if winner is None else (winner,):
        regime = member.regime
        regimes = {regime} if regime is not None else precision_of(project, member.scope).regimes
        if regimes:
            halves = frozenset(regime for regime in regimes if FAMILIES.get(regime) in HALVES)
            return (member, halves) if halves else (None, halves)
    return None, frozenset()


@memo
def starts_of(project: Project, module: ModuleNames) -> tuple[ModuleNames, ...]:
    """Where a program that uses ``module`` can begin: there, or in what imports it and uses its names; no tests."""
    found, seen, waiting = [module], {module}, [module]
    while waiting and len(found) <= MAX_IMPORTERS and len(seen) <= MAX_MODULES:
        for importer in importers_of(project, waiting.pop(0)):
            path = importer.document.path
            if importer in seen or is_test(path):
                continue
            seen.add(importer)
            if path.endswith("__init__.py"):
                waiting.append(importer)  # names are passed on there; nothing runs
            elif project.memo(_definitions_reached, (importer,)).enters(module):
                waiting.append(importer)
                found.append(importer)
    return tuple(found)


def _named(regimes: Iterable[str]) -> str:
    return " or ".join(sorted({HALVES[FAMILIES[regime]].name for regime in regimes}))


def project_folder(project: Project, path: str) -> str:
    """The closest folder around ``path`` that has a manifest, with its slash; "" when none has."""
    folders = project.fact(_manifest_folders)
    folder = path.rpartition("/")[0]
    while folder and folder not in folders:
        folder = folder.rpartition("/")[0]
    return f"{folder}/" if folder else ""


def _manifest_folders(project: Project) -> frozenset[str]:
    manifests = (path for path in project.paths if is_manifest(path))
    named = (path for path in manifests if not path.rpartition("/")[2].lower().startswith(INSTRUCTIONS))
    return frozenset(directory_of(path) for path in named)
