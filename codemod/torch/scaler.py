"""The data of one scaler: where it is made, the names it has, and every use of it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from ..python.names import ModuleNames, Scope

Method: TypeAlias = Literal[
    "scale", "step", "unscale_", "update", "get_scale", "is_enabled", "state_dict", "load_state_dict"
]
UseKind: TypeAlias = Literal[
    Method,
    "method",
    "bound-method",
    "private",
    "none-test",
    "called",
    "assigned",
    "argument",
    "returned",
    "stored",
    "item",
    "kept",
    "escaped",
]
IDLE = ("assigned", "argument", "none-test", "kept", "state_dict", "load_state_dict", "get_scale", "is_enabled")
"""Kinds of uses with which no gradient is scaled; what a parameter is used for is followed."""
METHODS: tuple[Method, ...] = get_args(Method)


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """One reference to a scaler and what is done with it."""

    kind: UseKind
    """A method of METHODS; ``method`` (another one), ``bound-method`` (taken, not called), ``private``, ``none-test``,
    ``called`` (a wrapper object), ``assigned``, ``argument``, ``returned``, ``stored``, ``item`` (of an
    object: ``made["scaler"] = ...``), ``kept`` (handed to what saves, logs or prepares it, which scales nothing) or
    ``escaped``."""
    module: ModuleNames
    node: ast.expr
    call: ast.Call | None = None


@dataclass(frozen=True, slots=True)
class NameAlias:
    """A variable or parameter of one scope."""

    module: ModuleNames
    scope: Scope
    name: str


@dataclass(frozen=True, slots=True)
class AttributeAlias:
    """An attribute: of ``self`` in ``owner``, or (owner None) of some object in ``module``."""

    module: ModuleNames
    owner: Scope | None
    name: str


@dataclass(frozen=True, slots=True)
class KeyAlias:
    """The value of a dictionary under a key."""

    name: str


Alias: TypeAlias = NameAlias | AttributeAlias | KeyAlias


@dataclass(slots=True, eq=False)
class Scaler:
    """One place that makes a scaler, with everything that is done to it."""

    module: ModuleNames
    call: ast.Call
    api: str
    kind: Literal["direct", "subclass", "wrapper"]
    """``direct``, ``subclass`` (of GradScaler, in the project) or ``wrapper`` (an object that holds one)."""
    arguments: dict[str, ast.expr] | None
    """Bound arguments of a direct scaler; None when ``*``/``**`` hide them."""
    inner: tuple[tuple[ModuleNames, ast.Call], ...] = ()
    """For a wrapper class of the project: the calls that make the scaler it holds."""
    switch: str = "enabled"
    """The argument of the call that switches the scaler on; empty for a wrapper that has none."""
    aliases: list[Alias] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    routes: set[str] = field(default_factory=set)
    """How it travels: ``attribute``, ``parameter``, ``returned``, ``stored``, ``escaped``, ``none-test``,
    ``conditional``, ``shared-name`` (the name is bound elsewhere too), ``module-name``, ``other-file``."""

    @property
    def enabled_node(self) -> ast.expr | None:
        return (self.arguments or {}).get(self.switch)

    @property
    def switched_off(self) -> bool:
        node = self.enabled_node
        return isinstance(node, ast.Constant) and not node.value

    @property
    def modules(self) -> list[ModuleNames]:
        """The modules in which the scaler is made or used."""
        found = [self.module]
        for use in self.uses:
            if use.module not in found:
                found.append(use.module)
        return found

    def uses_of(self, *kinds: str) -> list[Use]:
        return [use for use in self.uses if use.kind in kinds]

    @property
    def is_used(self) -> bool:
        """Whether some line may scale, unscale, step or update with it."""
        return any(use.kind not in IDLE for use in self.uses)
