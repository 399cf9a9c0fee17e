"""One place that evaluates a model in mixed precision, on a device that may be another one than a CUDA GPU."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ....codemod.model import Edit, Place
from ....codemod.purpose.runs import starts_of
from ....codemod.python.names import ModuleNames
from ....codemod.python.reach import Reached, reached
from ....codemod.source.project import Project

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

    def reached_by_importers(self, project: Project) -> Reached:
        """The definitions that this file and the programs that import it use; costly."""
        return reached(project, [*((module, module.tree) for module in starts_of(project, self.module)), *self.starts])
