"""The state of following the roles of tensors through one function."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from ...codemod.python.functions import FunctionTarget
from ...codemod.python.names import ModuleNames
from ...codemod.source.project import Project
from .roles import Role, Value

MAX_MEETINGS = 400
"""How many operations of one function are noted."""


@dataclass(frozen=True, slots=True, eq=False)
class Meeting:
    """Tensors that must have one dtype, in one operation."""

    call: ast.Call | ast.BinOp
    operands: tuple[tuple[ast.expr, Role], ...]
    target: tuple[ast.expr, Role] | None
    """What is written into: the receiver of ``addmm_``, or the ``out=`` buffer."""
    in_place: bool
    autocast: bool


Inline = Callable[[FunctionTarget, dict[str, Value], bool], "Value"]


@dataclass(eq=False, slots=True)
class Frame:
    """The state of following one function."""

    project: Project
    module: ModuleNames
    autocast: bool
    names: dict[str, Value]
    inline: Inline
    context: str = ""
    """The name of an autograd Function's ``ctx``."""
    meetings: dict[ast.AST, Meeting] = field(default_factory=dict)
    saves: dict[ast.AST, tuple[Value, ...]] = field(default_factory=dict)
    """What each ``save_for_backward`` saves."""
    open_saves: dict[ast.AST, tuple[Value, ...]] = field(default_factory=dict)
    """The same for those that end in ``*``: what stands before it."""
    applied: dict[ast.AST, tuple[Role, ...]] = field(default_factory=dict)
    """The roles of what each ``Function.apply`` is given."""
    returned: list[Value] = field(default_factory=list)
    loops: int = 0
    """How many loops are open."""
