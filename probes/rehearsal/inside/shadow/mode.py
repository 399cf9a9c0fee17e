"""Runs each operation of the program a second time, on its shadows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from .following import FRESH, is_random, repeated, tensors_in, widened
from .storages import Storages, is_followed
from .watching import operation

UNSET = ("empty", "new_empty")
"""Operations whose results have no values yet."""


class Watcher(Protocol):
    """What looks at the operations as they pass."""

    def before(self, func: OpOverload[..., Any], written: list[Tensor], given: list[Tensor]) -> None:
        """Just before the program writes to ``written``."""

    def made(self, func: OpOverload[..., Any], given: list[Tensor], results: list[Tensor]) -> None:
        """``results`` have storages of their own and shadows."""


class ShadowMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is entered, every storage that the program computes has a shadow in ``storages``."""

    def __init__(self, storages: Storages, watchers: Iterable[Watcher]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.restarted: dict[str, int] = {}
        """Operations that could not be done in float64, and how often: shadows start anew behind them."""
        self._storages = storages
        self._watchers = tuple(watchers)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run ``func``, then the same on shadows."""
        named = kwargs or {}
        if func.is_view or not isinstance(func, OpOverload):
            return func(*args, **named)
        given = tensors_in((args, named))
        wide = widened(self._storages, args, named)
        written = _written(func, args, named)
        for watcher in self._watchers:
            watcher.before(func, written, given)
        if operation(func).startswith(UNSET):
            return func(*args, **named)
        random = is_random(func, named, args)
        result = func(*args, **named)
        again = repeated(func, wide, random, result)
        if again is None and result is not None and given and not random:
            self.restarted[func._schema.name] = self.restarted.get(func._schema.name, 0) + 1
        self._follow(func, given, written, result, again)
        return result

    def _follow(
        self, func: OpOverload[..., Any], given: list[Tensor], written: list[Tensor], result: object, wide: object
    ) -> None:
        if func._schema.name in FRESH:
            for tensor in written:
                self._storages.forget(tensor)
            return
        if wide is None:
            for tensor in written:
                self._storages.restart(tensor)
        fresh = self._keep(given, written, result, wide)
        if fresh:
            for watcher in self._watchers:
                watcher.made(func, given, fresh)

    def _keep(self, given: list[Tensor], written: list[Tensor], result: object, wide: object) -> list[Tensor]:
        shared = {self._storages.key(tensor) for tensor in (*given, *written)}
        results = _leaves(result)
        values = _leaves(wide) if wide is not None else results
        fresh: list[Tensor] = []
        for tensor, value in zip(results, values, strict=False):
            if not (is_followed(tensor) and is_followed(value)) or self._storages.key(tensor) in shared:
                continue
            self._storages.put(tensor, value)
            fresh.append(tensor)
        return fresh


def _leaves(tree: object) -> list[Any]:
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [tree]


def _written(func: OpOverload[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors that the operation changes, by its schema; running statistics are not in every schema."""
    found: list[Tensor] = []
    forward = not operation(func).endswith("backward")
    for position, argument in enumerate(func._schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        writes = argument.alias_info is not None and argument.alias_info.is_write
        if writes or (forward and argument.name in ("running_mean", "running_var")):
            found += tensors_in(value)
    return found
