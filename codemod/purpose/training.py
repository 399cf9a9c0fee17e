"""Which Python code a training run uses: files that train, and what these import.

Inference, export, tests, benchmarks and other people's code in the tree keep their precision when a project moves.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..python.names import FunctionNode, ModuleNames, last_name, modules_at, modules_with, names_of
from ..python.paths import function_of
from ..source.facts import fact
from ..source.project import Project
from .files import purpose_of, says_training
from .imports import imported_modules, reached_from
from .words import Purpose

WORDS = ("backward(", "def training_step", "def train_step", "loss_scaler(", "trainer(", "trainer)")
"""A file without any of these runs no training step."""
STEPS = frozenset({"training_step", "train_step"})
"""Methods that hold a training step: Lightning's and Keras's names, which other trainers took over."""
RUNS_STEP = frozenset({"backward", "loss_scaler"})
"""What a training step calls: ``loss_scaler(loss, optimizer)`` is timm's NativeScaler, which runs ``backward``."""
FITS = frozenset({"step", "fit", "train_model"})
"""Methods with which another library trains."""
MAX_REACHED = 600
"""How many modules are followed from training files before the rest counts as not reached."""
NO_GRADIENTS = frozenset({"no_grad", "inference_mode"})
PREDICTOR = "Predictor"
"""How the names of classes end that only compute answers: ``DefaultPredictor(cfg)``."""


@fact
def training_modules(project: Project) -> tuple[ModuleNames, ...]:
    """The files that run a training step, foreign ones aside."""
    paths = (path for path in project.python_paths(WORDS) if not purpose_of(path).is_foreign)
    return tuple(modules_at(project, (path for path in paths if project.memo(_trains_at, path))))


def is_aside(module: ModuleNames) -> bool:
    """Whether a file is left alone by its path, and is no program that says otherwise by a training loop of its own.

    Tests, benchmarks and copies of other projects train as well.
    """
    purpose, loops = purpose_of(module.path), module.calls_by_name.get("backward", ())
    may_train = purpose is Purpose.DOCUMENTATION or not purpose.is_foreign
    if not purpose.is_left_alone or not (may_train and loops and "step" in module.calls_by_name):
        return purpose.is_left_alone
    in_functions = all(isinstance(function_of(module, call), FunctionNode) for call in loops)
    return in_functions and "__main__" not in module.document.text


@fact
def stepping_modules(project: Project) -> tuple[ModuleNames, ...]:
    """The files that step an optimizer themselves, and leave ``backward`` to a file that trains."""
    trained = training_modules(project)
    documents = project.python_documents(("zero_grad(",)) if trained else ()
    modules = (names_of(project, item) for item in documents if not purpose_of(item.path).is_left_alone)
    stepping = (item for item in modules if item not in trained and "step" in item.calls_by_name)
    return tuple(item for item in stepping if any(other in trained for other in imported_modules(project, item)))


def _trains_at(project: Project, path: str) -> bool:
    return any(
        trains(module) and (not purpose_of(path).is_left_alone or "step" in module.calls_by_name)
        for module in modules_at(project, (path,))
    )


def trains(module: ModuleNames) -> bool:
    """Whether the code of a file runs or holds a training step."""
    return any(True for _ in steps_in(module))


def steps_in(module: ModuleNames) -> Iterator[ast.AST]:
    """The calls that run a training step, and the functions and classes that hold one."""
    for name, calls in module.calls_by_name.items():
        if name in RUNS_STEP or name.endswith("Trainer"):
            yield from calls
    for node in module.scopes:
        name = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else ""
        if name in STEPS or name.endswith("Trainer") or (isinstance(node, ast.ClassDef) and _is_trainer(node)):
            yield node


def _is_trainer(node: ast.ClassDef) -> bool:
    """``class Loop(Trainer)``."""
    return any(last_name(base).endswith("Trainer") for base in node.bases)


@fact
def trainer_classes(project: Project) -> frozenset[str]:
    """The names of the project's classes that stand on a trainer, whatever they are called."""
    modules = modules_with(project, ("Trainer",))
    return frozenset(node.name for item in modules for node in item.of_type(ast.ClassDef) if _is_trainer(node))


@fact
def reached_modules(project: Project) -> frozenset[ModuleNames]:
    """The files that train and what these import, directly or through others; code left alone is not entered."""
    trained = training_modules(project)
    return frozenset(reached_from(project, trained, MAX_REACHED, lambda purpose: not purpose.is_left_alone))


def only_infers(project: Project, path: str) -> bool:
    """Whether nothing in a file trains, and its name says what it does instead, or that it holds no gradients."""
    document = next(project.python_documents_at([path]), None)
    module = names_of(project, document) if document is not None else None
    if module is None or trains(module) or any(True for _ in fits_in(module)):
        return False
    return purpose_of(path).is_left_alone or (_has_no_gradients(module) and not _belongs_to_training(project, module))


def only_launches_inference(path: str, script: str) -> bool:
    """Whether neither a launch line's file nor its script is for training, and one is for something else."""
    if any(says_training(each.rpartition("/")[2].lower()) for each in (path, script)):
        return False
    return purpose_of(path).is_left_alone or (script.endswith(".py") and purpose_of(script).is_left_alone)


def fits_in(module: ModuleNames) -> Iterator[ast.Call]:
    """The calls by which another library trains; ``model.train()`` and ``model.train(False)`` only switch a mode."""
    for name in sorted(FITS & module.calls_by_name.keys()):
        yield from module.calls_by_name[name]
    for call in module.calls_by_name.get("train", []):
        if any(not isinstance(item, ast.Constant) for item in (*call.args, *call.keywords)):
            yield call


def _has_no_gradients(module: ModuleNames) -> bool:
    read = (module.name_loads, module.attribute_loads)
    predicts = any(name == "generate" or name.endswith(PREDICTOR) for name in module.calls_by_name)
    return predicts or any(not NO_GRADIENTS.isdisjoint(names) for names in read)


def _belongs_to_training(project: Project, module: ModuleNames) -> bool:
    trained = training_modules(project)
    return module in reached_modules(project) or any(item in trained for item in imported_modules(project, module))
