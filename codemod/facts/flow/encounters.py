"""What rules ask of the dtype flow: every meeting and every watched operation of the project, found once.

Only functions that can hold one are interpreted: those that make float32 (a factory, ``.float()``, ``float32``), write
through an index, or apply a watched operation.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...project import Project
from ..names import FunctionNode, ModuleNames, names_of
from .analysis import FlowAnalysis, flow_of
from .frame import Application, Meeting

MAKERS = (
    "float", "double", "zeros", "ones", "full", "empty", "rand", "randn", "linspace", "logspace", "eye", "tensor",
    "FloatTensor", "as_tensor", "hann_window", "hamming_window", "encode", "half", "bfloat16", "normal", "Tensor",
)  # fmt: skip
"""Names whose calls (or reads) make it worth to follow a function."""
ASKED = (
    "numpy", "asarray", "array", "masked_fill", "masked_fill_", "interpolate", "quantile", "cdist", "stft", "istft",
    "rfft", "irfft", "fft", "ifft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "svd", "inv", "pinv", "qr",
    "eigh", "cholesky", "solve", "det", "slogdet", "lstsq", "lstm", "gru", "rnn", "histc",
    "scaled_dot_product_attention",
)  # fmt: skip
SKIPPED_PARTS = ("test", "tests", "testing", "docs", "examples_tests")


@dataclass(frozen=True, slots=True)
class Encounters:
    """All meetings and applications of a project, by path and line."""

    meetings: tuple[Meeting, ...]
    applications: tuple[Application, ...]


def encounters(project: Project) -> Encounters:
    """Every meeting and watched operation outside of tests."""
    return project.fact(_all)


def _all(project: Project) -> Encounters:
    analysis = flow_of(project)
    meetings: list[Meeting] = []
    applications: list[Application] = []
    for document in project.python_documents(("torch",), where=_is_worth_reading):
        if _is_test(document.path):
            continue
        module = names_of(project, document)
        for record in _records(analysis, module):
            meetings += record[0]
            applications += record[1]
    return Encounters(tuple(meetings), tuple(applications))


def _is_worth_reading(text: str) -> bool:
    return "import torch" in text or "from torch" in text


def _is_test(path: str) -> bool:
    *folders, name = path.split("/")
    return any(part in SKIPPED_PARTS for part in folders) or name.startswith("test_") or name == "conftest.py"


def _records(analysis: FlowAnalysis, module: ModuleNames) -> Iterator[tuple[list[Meeting], list[Application]]]:
    holders = worth_following(module)
    if None in holders:
        done = analysis.module_body(module)
        yield done.record.meetings, list(done.record.applications.values())
    for function in sorted((item for item in holders if item is not None), key=lambda item: item.lineno):
        done = analysis.function(module, function)
        yield done.record.meetings, list(done.record.applications.values())


def _is_definition(module: ModuleNames, node: ast.AST) -> bool:
    """Whether a node of module level stands in a class body or a signature, not in the statements of a script."""
    return isinstance(module.scope_of(node).node, ast.ClassDef)


def worth_following(module: ModuleNames) -> set[FunctionNode | None]:
    """The functions (None: the module's own statements) that hold something that makes or asks for a dtype."""
    nodes: list[ast.AST] = []
    for name in (*MAKERS, *ASKED):
        nodes += module.calls_by_name.get(name, [])
    for name in ("float32", "float64", "alphas_cumprod", "float16", "bfloat16"):
        nodes += module.attribute_loads.get(name, [])
    holders: set[FunctionNode | None] = set()
    for node in nodes:
        scope = module.scope_of(node).function.node
        if isinstance(scope, ast.Module) and _is_definition(module, node):
            continue
        holders.add(scope if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) else None)
    return holders
