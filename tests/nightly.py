"""How much is tried: by default what fits a coffee break, with ``PRECFIX_NIGHTLY=1`` everything."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")

NIGHTLY = os.environ.get("PRECFIX_NIGHTLY", "") not in ("", "0")


def examples(nightly: int) -> int:
    """How many inputs a generated test tries: a fifth of what it tries at night, and 20 at least.

    The kinds of input are drawn evenly, so a fifth still meets each of them; rare combinations wait for the night.
    """
    return nightly if NIGHTLY else max(20, nightly // 5)


def first_by_day(*cases: T) -> tuple[T, ...]:
    """Cases of one mechanism that start a program each: the first by day, all at night."""
    return cases if NIGHTLY else cases[:1]
