"""The state of a look at a function before it is interpreted: what each name can hold, and what was seen."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

WIDE, DTYPE, BATCH, MODULE = 1, 2, 4, 8
"""What a name can hold: something of a dtype of its own, such a dtype, the items of a data loader, a module."""
Names = dict[str, int]


@dataclass(frozen=True, slots=True)
class Sources:
    """What gives something wide beside what is written in the function itself."""

    givers: frozenset[str] = frozenset()
    """The last names of calls that return it."""
    attributes: frozenset[str] = frozenset()
    """The attributes in which constructors keep it."""


@dataclass(slots=True)
class Outlook:
    """What can become of something wide in one function."""

    sources: Sources
    own: frozenset[str]
    """The parameters and local names of the function."""
    parameters: frozenset[str]
    """The parameters that are no models."""
    applies: Callable[[Outlook, ast.Call], bool]
    """Whether a call of something that is no operation can apply weights to its arguments."""
    builds: Callable[[ast.Call], bool]
    """Whether a call of a class makes a module."""
    is_of_torch: Callable[[ast.Call], bool]
    """Whether a call names a function of torch: none of the project's, whatever it is called."""
    regions: bool = False
    """Whether the file opens autocast regions."""
    names: Names = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    """The names that were given another value."""
    meets: bool = False
    """Whether it can reach something that does not promote."""
    enters: bool = False
    """Whether it can reach weights."""
    gives: bool = False
    """Whether it can be returned."""
    keeps: bool = False
    """Whether it can be kept in an attribute of ``self``."""
