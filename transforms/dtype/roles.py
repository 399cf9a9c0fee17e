"""What is known of a tensor's dtype inside one function: its role, not its type.

Under autocast a tensor is what a product gave (``low``), what a float32 operation or a plain factory gave (``full``),
or as the caller passed it (``input``: float32 weights, or a 16-bit activation). Two different roles can be two dtypes.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

LOW, FULL, INPUT, UNKNOWN, NUMBER, NONE = "low", "full", "input", "unknown", "number", "none"
"""``number``: a Python number or anything that is no floating tensor; ``none``: the constant None."""
HALF, BFLOAT16 = "float16", "bfloat16"
"""The role of a tensor that is cast to this very type."""
WIDE = (INPUT, FULL)
"""Roles that can be float32 while a product is 16-bit."""


@dataclass(frozen=True, slots=True)
class Role:
    """The role of one tensor."""

    kind: str
    of: str = ""
    """For ``input``: the name of the parameter whose dtype it has."""
    graded: bool = False
    """Whether it comes from the gradients that a backward pass is given."""
    dequantized: ast.Call | None = None
    """The call that made it from a quantized weight, whose dtype the quantization remembers."""


@dataclass(frozen=True, slots=True)
class DtypeOf:
    """A dtype as a value: that of a tensor with this role."""

    role: Role


@dataclass(frozen=True, slots=True)
class Saved:
    """``ctx.saved_tensors``: what each ``save_for_backward`` of the forward pass may have saved."""

    options: tuple[tuple[Value, ...], ...]
    starts: tuple[tuple[Value, ...], ...] = ()
    """The known first tensors where ``*`` hides how many follow."""

    def unpacked(self, count: int) -> tuple[Value, ...] | None:
        """What ``count`` names get from it, where its length fits."""
        rows = [option for option in self.options if len(option) == count]
        rows += [(*start, *[UNKNOWN_ROLE] * (count - len(start))) for start in self.starts if len(start) <= count]
        return joined_columns(rows)

    @property
    def rows(self) -> tuple[tuple[Value, ...], ...]:
        """All of it, as far as it is known."""
        return (*self.options, *self.starts)


Value: TypeAlias = "Role | DtypeOf | Saved | tuple[Value, ...]"

UNKNOWN_ROLE, A_NUMBER, A_NONE = Role(UNKNOWN), Role(NUMBER), Role(NONE)


def joined_columns(rows: Sequence[tuple[Value, ...]]) -> tuple[Value, ...] | None:
    """Rows of values, joined place by place up to the shortest one; None without rows."""
    if not rows:
        return None
    found = list(rows[0][: min(map(len, rows))])
    for row in rows[1:]:
        found = [join(mine, theirs) for mine, theirs in zip(found, row, strict=False)]
    return tuple(found)


def role_of(value: Value) -> Role:
    """The role of a value that is used as a tensor; of several tensors: what they share."""
    if isinstance(value, Role):
        return value
    if isinstance(value, DtypeOf):
        return A_NUMBER
    if isinstance(value, Saved):
        return UNKNOWN_ROLE
    return joined_roles([role_of(item) for item in value]) if value else A_NUMBER


def joined_roles(roles: Sequence[Role]) -> Role:
    """The role of a tensor that is one of several."""
    found = [role for role in roles if role.kind != NONE]
    if not found:
        return A_NONE
    kinds = {(role.kind, role.of) for role in found}
    graded = any(role.graded for role in found)
    first = found[0]
    return replace(first, graded=graded) if len(kinds) == 1 else Role(UNKNOWN, graded=graded)


def join(first: Value, second: Value) -> Value:
    """What a name holds after either of two branches."""
    if first == second:
        return first
    if isinstance(first, tuple) and isinstance(second, tuple) and len(first) == len(second):
        return tuple(join(mine, theirs) for mine, theirs in zip(first, second, strict=True))
    if isinstance(first, DtypeOf) and isinstance(second, DtypeOf):
        return DtypeOf(joined_roles([first.role, second.role]))
    return joined_roles([role_of(first), role_of(second)])


def promoted(roles: Sequence[Role]) -> Role:
    """The result of arithmetic: the wider operand wins."""
    graded = any(role.graded for role in roles)
    tensors = [role for role in roles if role.kind not in (NUMBER, NONE)]
    if not tensors:
        return Role(NUMBER, graded=graded)
    kinds = {(role.kind, role.of) for role in tensors}
    if len(kinds) == 1:
        return replace(tensors[0], graded=graded, dequantized=None)
    names = {role.kind for role in tensors}
    if UNKNOWN in names:
        return Role(UNKNOWN, graded=graded)
    if FULL in names:
        return Role(FULL, graded=graded)
    wide = [role for role in tensors if role.kind == INPUT]
    if len({role.of for role in wide}) == 1 and names <= {INPUT, LOW}:
        return replace(wide[0], graded=graded, dequantized=None)
    return Role(UNKNOWN, graded=graded)


def differ(first: Role, second: Role) -> bool:
    """Whether two tensors of a product can have two dtypes, judged by their roles."""
    kinds = {first.kind, second.kind}
    if kinds & {UNKNOWN, NUMBER, NONE} or first.kind == second.kind:
        return False
    return LOW in kinds and not kinds.isdisjoint(WIDE)
