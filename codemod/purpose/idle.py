"""Places that a trainer's library reads although nothing is trained there: inference, evaluation, generated data."""

from __future__ import annotations

import re

from ..python.names import names_of
from ..source.documents import Document
from ..source.project import Project
from ..trainers.reading.scopes import Scope
from .training_code import TRAINS, imported_modules, is_left_alone, reached_modules, training_modules

FITS = re.compile(r"\.(step|fit|train_model)\s*\(|\.train\s*\(\s*[^)\s]")
"""Training that another library runs."""
NO_GRADIENTS = re.compile(r"\b(no_grad|inference_mode)\b|\.generate\s*\(")
NEVER_TRAIN = ("merge", "fuse", "convert", "export")
"""Words in the name of a script that rewrites finished weights."""


def is_idle(project: Project, scope: Scope) -> bool:
    """Whether a call or a command line serves no training: judged by the file's or the script's name and its code."""
    if scope.kind == "call":
        return _is_idle_code(project, scope.path)
    if scope.command is None:
        return False
    script = scope.command.script
    if _says_train(scope.path) or _says_train(script):
        return False
    return is_left_alone(scope.path) or (script.endswith(".py") and is_left_alone(script))


def _is_idle_code(project: Project, path: str) -> bool:
    """Whether nothing in a file trains, and its name says what it does instead, or that it holds no gradients."""
    document = project.document(path)
    if document is None or TRAINS.search(document.text) or FITS.search(document.text):
        return False
    name = path.rpartition("/")[2].lower()
    return is_left_alone(path) or name.startswith(NEVER_TRAIN) or _only_infers(project, document)


def _only_infers(project: Project, document: Document) -> bool:
    """Whether a file computes without gradients and has nothing to do with one that trains."""
    if not NO_GRADIENTS.search(document.text) or document.path in {
        item.document.path for item in reached_modules(project)
    }:
        return False
    trained = training_modules(project)
    return not any(module in trained for module in imported_modules(project, names_of(project, document)))


def _says_train(path: str) -> bool:
    name = path.rpartition("/")[2].lower()
    return "train" in name or "tune" in name
