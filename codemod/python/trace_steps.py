"""The steps on the way from an expression to what it can be, as `trace` takes them, and why a way can end.

A domain reads them on the way back: a branch adds a condition, a parameter says that a literal is an argument.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from .callers import CallSite
from .functions import FunctionTarget
from .names import Binding, ModuleNames
from .options import Option


class TraceGap(Enum):
    """Why the source does not say what an expression is."""

    EXPRESSION = "an expression that is not followed"
    CALLERS = "a parameter that nobody is known to fill"
    MORE_CALLERS = "a parameter that others than the known callers may fill"
    OPTION = "an option that accepts more than is written down"
    LIMIT = "more to look at than a limit allows"


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """A branch of a conditional expression: its test came out as ``holds``."""

    module: ModuleNames
    node: ast.IfExp
    holds: bool


@dataclass(frozen=True, slots=True, eq=False)
class FromBinding:
    """A variable or attribute has its value from ``binding``, one of ``rivals`` that may be seen there."""

    module: ModuleNames
    binding: Binding
    rivals: Sequence[Binding]


@dataclass(frozen=True, slots=True, eq=False)
class Returned:
    """A function of the project gives the value back; ``call`` is None for a property."""

    target: FunctionTarget
    statement: ast.Return
    caller: ModuleNames
    call: ast.Call | None


@dataclass(frozen=True, slots=True, eq=False)
class Passed:
    """A caller passes the value for a parameter."""

    site: CallSite
    parameter: Binding


@dataclass(frozen=True, slots=True, eq=False)
class Defaulted:
    """A parameter has its default value."""

    module: ModuleNames
    parameter: Binding


@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """A caller passes a mapping that may hold a value for a parameter: ``main(**options)``."""

    site: CallSite
    parameter: Binding


@dataclass(frozen=True, slots=True, eq=False)
class LookedUp:
    """A table has the value under ``entry``; it is read with ``key``."""

    module: ModuleNames
    key: ast.expr
    entry: ast.Constant


@dataclass(frozen=True, slots=True, eq=False)
class FromDeclaration:
    """A setting that ``node`` reads has the value as its default, or as one of its choices."""

    module: ModuleNames
    node: ast.Attribute
    option: Option


TraceStep: TypeAlias = Chosen | FromBinding | Returned | Passed | Filled | Defaulted | LookedUp | FromDeclaration
