"""Which code a place that computes in 16 bits really runs: what its program uses by name.

The program is the file of that place and the files that import it (a training script that imports the trainer, where
the models are made). What is built from a string or by a registry is not seen.
"""

from __future__ import annotations

import ast

from ...codemod.python.names import ModuleNames, names_of
from ...codemod.python.reach import Reached, reached
from ...codemod.source.project import Project
from .half_runs import Run

_MAX_IMPORTERS = 12
_MAX_DOCUMENTS = 60


class Programs:
    """What each run reaches, computed once per run; one per project, through `runs_code`."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._known: dict[str, Reached] = {}

    def of(self, path: str) -> Reached:
        """What the program of the file ``path`` uses."""
        if path not in self._known:
            self._known[path] = reached(self._project, [(module, module.tree) for module in self._files(path)])
        return self._known[path]

    def _files(self, path: str) -> list[ModuleNames]:
        document = self._project.document(path)
        if document is None:
            return []
        files = [names_of(self._project, document)]
        stem = path.removesuffix("/__init__.py").rpartition("/")[2].removesuffix(".py")
        mentions = self._project.python_documents(containing=(stem,), where=lambda text: _imports_word(text, stem))
        for count, other in enumerate(mentions):
            if count >= _MAX_DOCUMENTS or len(files) > _MAX_IMPORTERS:
                break
            module = names_of(self._project, other)
            if other.path != path and self._imports(module, path):
                files.append(module)
        return files

    def _imports(self, module: ModuleNames, path: str) -> bool:
        bindings = [item for scope in module.scopes.values() for group in scope.bindings.values() for item in group]
        named = {item.qualified for item in bindings if item.kind == "import" and item.qualified}
        named |= {name.rpartition(".")[0] for name in named}
        return any(self._project.python_path(name, module.document.path) == path for name in named if name)


def _imports_word(text: str, stem: str) -> bool:
    return any("import" in line and stem in line for line in text.splitlines())


def runs_code(project: Project, run: Run, module: ModuleNames, node: ast.AST) -> bool:
    """Whether the program of ``run`` uses the class or function that holds ``node``."""
    return run.path == module.document.path or project.fact(Programs).of(run.path).holds(module, node)
