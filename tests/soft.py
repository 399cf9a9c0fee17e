"""Several checks of one thing as one test: every one is made, and the failure lists all that do not hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Soft:
    """``with Soft() as soft:`` and inside ``with soft("the diff"): assert ...``; fails at the end, with every label."""

    def __init__(self) -> None:
        self._failures: list[str] = []

    def __enter__(self) -> Soft:
        return self

    @contextmanager
    def __call__(self, label: object) -> Iterator[None]:
        try:
            yield
        except AssertionError as failure:
            self._failures.append(f"{label}: {failure}")

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None and self._failures:
            raise AssertionError("\n".join(self._failures))
