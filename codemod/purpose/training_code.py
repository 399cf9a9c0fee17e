"""Which Python code a training run uses: files that train, what these import, and what is left alone whatever it says.

Inference, export, tests, benchmarks and other people's code in the tree keep their precision when a project moves.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from ..python.names import ModuleNames, names_of, project_module
from ..source.documents import Document
from ..source.project import Project

TRAINS = re.compile(r"\.backward\s*\(|\bdef (training_step|train_step)\b|\bloss_scaler\s*\(|Trainer\s*\(")
"""What the text of a file holds that runs a training step."""
WORDS = ("backward", "training_step", "train_step", "loss_scaler", "trainer")
MAX_REACHED = 600
"""How many modules are followed from training files before the rest counts as not reached."""
MAX_IMPORTERS, MAX_CONNECTED, MAX_SEARCHED = 8, 80, 120
"""Bounds of the search for what has to do with a module."""

Named = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
STEPS = re.compile(r"\.step\s*\(")

FOREIGN_FOLDERS = frozenset(
    {
        *("third_party", "thirdparty", "3rdparty", "third-party", "vendor", "vendored", "_vendor", "external"),
        *("extern", "submodules", "site-packages", "node_modules", "deps"),
        *("test", "tests", "testing", "unittests", "docs", "doc", "benchmark", "benchmarks", "benchmarking"),
    }
)
"""Folders of code that the project did not write, or that no run of it uses."""
KNOWN_PACKAGES = frozenset(
    {"mmcv", "mmdet", "mmseg", "detectron2", "diffusers", "transformers", "taming", "fairseq", "timm", "lightning"}
)
"""Libraries whose copies are found deep inside other projects."""
IDLE_FOLDERS = frozenset(
    {
        *("inference", "infer", "export", "onnx", "deploy", "deployment", "serve", "serving", "demo", "demos"),
        *("webui", "gradio", "app", "api", "colab", "evaluation", "evaluate"),
    }
)
"""Folders of code that runs after training, unless a file in them trains after all."""
FOREIGN_WORDS = frozenset({"test", "tests", "conftest", "benchmark", "bench", "profiling"})
IDLE_WORDS = frozenset(
    {
        *("inference", "infer", "predict", "prediction", "sample", "sampling", "generate", "generation", "export"),
        *("onnx", "tensorrt", "demo", "webui", "gradio", "app", "serve", "server", "api", "chat", "convert"),
        *("quantize", "evaluate", "evaluation", "eval"),
    }
)
"""Words in a file's name that say the same."""


RETIRED_WORDS = frozenset({"old", "bak", "backup", "deprecated", "legacy", "archive", "archived", "unused", "outdated"})
"""Words in a path that say: kept, but not used any more."""


def is_retired(path: str) -> bool:
    """Whether a file's path says that it is an old one."""
    return any(not RETIRED_WORDS.isdisjoint(_words(f"{part}.")) for part in path.lower().split("/"))


def is_foreign(path: str) -> bool:
    """Whether a file is other people's code, a test or a benchmark, judged by its path."""
    *folders, name = path.lower().split("/")
    if any(folder in FOREIGN_FOLDERS for folder in folders) or not FOREIGN_WORDS.isdisjoint(_words(name)):
        return True
    return any(folder in KNOWN_PACKAGES and above != "src" for above, folder in pairwise(folders))


def is_left_alone(path: str) -> bool:
    """Whether a file is foreign, or inference or export, judged by its path; ``train`` in its name says otherwise."""
    *folders, name = path.lower().split("/")
    if is_foreign(path):
        return True
    words = _words(name)
    if any("train" in word or "tune" in word for word in words):
        return False
    return any(folder in IDLE_FOLDERS for folder in folders) or not IDLE_WORDS.isdisjoint(words)


def _words(name: str) -> set[str]:
    return set(re.split(r"[^a-z0-9]+", name.rpartition(".")[0]))


def training_modules(project: Project) -> tuple[ModuleNames, ...]:
    """The files that run a training step, foreign ones aside."""
    return project.fact(_training_modules)


def _training_modules(project: Project) -> tuple[ModuleNames, ...]:
    documents = project.python_documents(WORDS, where=lambda text: TRAINS.search(text) is not None)
    modules = (names_of(project, item) for item in documents if _may_train(item))
    return tuple(module for module in modules if _trains(module))


def _may_train(document: Document) -> bool:
    if is_foreign(document.path):
        return False
    return not is_left_alone(document.path) or STEPS.search(document.text) is not None


def _trains(module: ModuleNames) -> bool:
    """Whether the code itself, not a comment, runs or holds a training step."""
    if any(name in ("backward", "loss_scaler") or name.endswith("Trainer") for name in module.calls_by_name):
        return True
    names = {scope.node.name for scope in module.scopes.values() if isinstance(scope.node, Named)}
    return bool(names & {"training_step", "train_step"}) or any(name.endswith("Trainer") for name in names)


def reached_modules(project: Project) -> frozenset[ModuleNames]:
    """The files that train and what these import, directly or through others."""
    return project.fact(_reached_modules)


def _reached_modules(project: Project) -> frozenset[ModuleNames]:
    found: dict[ModuleNames, None] = dict.fromkeys(training_modules(project))
    waiting = list(found)
    while waiting and len(found) < MAX_REACHED:
        for module in imported_modules(project, waiting.pop(0)):
            if module not in found and not is_left_alone(module.document.path):
                found[module] = None
                waiting.append(module)
    return frozenset(found)


def imported_modules(project: Project, module: ModuleNames) -> tuple[ModuleNames, ...]:
    """The project's own modules that ``module`` imports, anywhere in it."""
    return project.fact(_Imports).of(module)


class _Imports:
    """What each module imports, found once."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._known: dict[ModuleNames, tuple[ModuleNames, ...]] = {}

    def of(self, module: ModuleNames) -> tuple[ModuleNames, ...]:
        if module not in self._known:
            path = module.document.path
            documents = [project_module(self._project, name, path) for name in dict.fromkeys(_imported_names(module))]
            modules = (names_of(self._project, item) for item in documents if item is not None)
            self._known[module] = tuple(dict.fromkeys(item for item in modules if item is not module))
        return self._known[module]


def _imported_names(module: ModuleNames) -> Iterator[str]:
    yield from module.star_imports
    for scope in module.scopes.values():
        for bindings in scope.bindings.values():
            for binding in bindings:
                if binding.kind == "import" and binding.qualified:
                    yield binding.qualified
                    if isinstance(binding.node, ast.ImportFrom):
                        yield binding.qualified.rpartition(".")[0]


def connected_modules(project: Project, module: ModuleNames) -> tuple[ModuleNames, ...]:
    """``module``, what it imports, and what imports it: where an object that it reads can come from."""
    return project.fact(_Connections).of(module)


class _Connections:
    """Which modules have to do with each other, found once per module."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._known: dict[ModuleNames, tuple[ModuleNames, ...]] = {}
        self._importers: dict[ModuleNames, list[ModuleNames]] = {}

    def of(self, module: ModuleNames) -> tuple[ModuleNames, ...]:
        if module not in self._known:
            found = [module, *imported_modules(self._project, module)]
            near = self._that_import(module)
            for importer in [*near, *(other for item in near[:MAX_IMPORTERS] for other in self._that_import(item))]:
                found += [importer, *self._named_by(importer)]
            self._known[module] = tuple(dict.fromkeys(found))[:MAX_CONNECTED]
        return self._known[module]

    def _named_by(self, module: ModuleNames) -> Iterator[ModuleNames]:
        """What ``module`` imports; a package stands for the modules that its ``__init__`` takes in."""
        for other in imported_modules(self._project, module):
            yield other
            if other.document.path.endswith("__init__.py"):
                yield from imported_modules(self._project, other)

    def _that_import(self, module: ModuleNames) -> list[ModuleNames]:
        if module not in self._importers:
            self._importers[module] = list(self._find_importers(module))
        return self._importers[module]

    def _find_importers(self, module: ModuleNames) -> Iterator[ModuleNames]:
        path = module.document.path
        stem = path.rpartition("/")[2].removesuffix(".py")
        name = path.split("/")[-2] if stem == "__init__" and "/" in path else stem
        if not path.endswith(".py") or len(name) < 2:
            return
        pattern = re.compile(rf"\b(import|from)\b[^\n]*\b{re.escape(name)}\b")
        documents = self._project.python_documents((name,), where=lambda text: pattern.search(text) is not None)
        for count, document in enumerate(documents):
            if count >= MAX_SEARCHED:
                return
            other = names_of(self._project, document)
            if module in imported_modules(self._project, other):
                yield other
