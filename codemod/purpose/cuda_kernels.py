"""Programs that run kernels which the project itself compiles for CUDA: without a GPU they get nowhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..python.names import ModuleNames, names_of
from ..source.project import Project
from .imports import importers_of, reached_from

MAX_REACHED = 60
_LOADERS = ("load", "load_inline")
_CUDA_ARGUMENTS = ("extra_cuda_cflags", "cuda_sources")


def runs_own_kernels(project: Project, module: ModuleNames) -> bool:
    """Whether what ``module`` imports, or what the scripts that import it import, loads CUDA code of the project."""
    return project.memo(_runs_own_kernels, module)


def _runs_own_kernels(project: Project, module: ModuleNames) -> bool:
    if not _compiles_kernels(project):
        return False
    together = reached_from(project, (module, *importers_of(project, module)), MAX_REACHED)
    return any(project.memo(_loads_kernels, other) for other in together)


def _compiles_kernels(project: Project) -> bool:
    return any(True for _ in project.python_documents(("CUDAExtension", "cpp_extension")))


def _loads_kernels(project: Project, module: ModuleNames) -> bool:
    calls = [call for name in _LOADERS for call in module.calls_by_name.get(name, [])]
    if any(_compiles_now(module, call) for call in calls):
        return True
    return not module.imported_packages.isdisjoint(project.fact(_built_packages))


def _compiles_now(module: ModuleNames, call: ast.Call) -> bool:
    if module.qualified(call.func) not in {f"torch.utils.cpp_extension.{name}" for name in _LOADERS}:
        return False
    if any(item.arg in _CUDA_ARGUMENTS for item in call.keywords):
        return True
    return any(isinstance(node, ast.Constant) and str(node.value).endswith(".cu") for node in ast.walk(call))


def _built_packages(project: Project) -> frozenset[str]:
    """The modules that a setup script of the project builds from CUDA sources."""
    return frozenset(name.partition(".")[0] for name in _built_names(project))


def _built_names(project: Project) -> Iterator[str]:
    for document in project.python_documents(("CUDAExtension",)):
        for call in names_of(project, document).calls_by_name.get("CUDAExtension", []):
            named = [item.value for item in call.keywords if item.arg == "name"]
            for node in [*call.args[:1], *named]:
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
