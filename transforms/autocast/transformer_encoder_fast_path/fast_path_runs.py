"""One place that evaluates a model in mixed precision, on a device that may be another one than a CUDA GPU."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from ....codemod.model import Edit, Place
from ....codemod.python.callers import callers_of
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import function_of
from ....codemod.python.reach import Reached, reached
from ....codemod.source.project import Project

MAX_CALLERS = 2
"""Over how many calls the code that builds the model is searched for."""
OFF_CUDA = ("cpu", "xpu")
"""Devices whose fast path does not notice autocast. ``mps`` never takes it (PyTorch 1.13 to 2.15)."""


@dataclass(frozen=True, slots=True, eq=False)
class Respelling:
    """One literal that asks for mixed precision, and the edit that asks for true 16-bit precision instead."""

    old: str
    new: str
    edit: Edit


@dataclass(frozen=True, eq=False)
class Run:
    """An entry point (a Lightning trainer, an autocast region) as far as this rule needs it."""

    module: ModuleNames
    anchor: ast.stmt
    """The statement that must find the fast path switched off."""
    node: ast.expr
    """What asks for the mixed precision."""
    what: str
    """What runs, in words: ``Lightning's precision="bf16-mixed"``."""
    find_devices: Callable[[], frozenset[str]]
    """What `devices` is: looked for at the end, as it is costly."""
    places: tuple[Place, ...]
    """Where else the precision is stated."""
    starts: tuple[tuple[ModuleNames, ast.AST], ...] = ()
    """Code that is used although nothing here names it (classes that a config file names)."""
    respellings: tuple[Respelling, ...] = ()
    """For Lightning: how to ask for 16-bit weights instead; empty where it cannot be told."""
    by_hand: bool = False
    """Whether the project itself calls ``eval()`` and switches gradients off (Lightning's Trainer does both)."""

    @cached_property
    def devices(self) -> frozenset[str]:
        """``cpu``, ``xpu``, or ``any`` (chosen when the program runs); empty where it is CUDA, or cannot be told."""
        return self.find_devices()

    def reached(self, project: Project) -> Reached:
        """The definitions that the file of this run uses."""
        return reached(project, [(self.module, self.module.tree), *self.starts])

    def reached_by_callers(self, project: Project) -> Reached:
        """The definitions that this file and those that call into it use; costly."""
        modules = dict.fromkeys([self.module, *_callers(project, self.module, self.anchor, MAX_CALLERS)])
        return reached(project, [*((module, module.tree) for module in modules), *self.starts])


def _callers(project: Project, module: ModuleNames, node: ast.AST, hops: int) -> Iterator[ModuleNames]:
    function = function_of(module, node)
    if hops and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        for site in callers_of(project, module, function).sites:
            yield site.module
            yield from _callers(project, site.module, site.call, hops - 1)
