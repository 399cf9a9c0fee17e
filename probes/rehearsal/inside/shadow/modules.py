"""Outputs and gradients of the program's modules, compared with their shadows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.utils._pytree import tree_flatten

from .measures import norms
from .places import LayerLoss, Loss, LossPlace
from .storages import Storages, is_followed, unseen


@dataclass
class ShadowedModules:
    """Hooks on every module of the process; ``chosen`` are patterns of the paths to measure."""

    storages: Storages
    chosen: tuple[str, ...] = ("*",)
    layers: dict[str, LayerLoss] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._names: dict[int, str] = {}
        self._parameters: dict[int, str] = {}
        self._depth = 0

    def entered(self) -> list[AbstractContextManager[Any]]:
        """Set the hooks; leave each when done."""
        return [
            hooks.register_module_forward_pre_hook(self._before),
            hooks.register_module_forward_hook(self._after, always_call=True),
        ]

    def name(self, module: nn.Module) -> str:
        """Its path, below the class of the module that was called first."""
        return self._names.get(id(module), type(module).__name__)

    def parameter_names(self) -> dict[int, str]:
        """The path of each parameter, by identity."""
        return dict(self._parameters)

    def places(self) -> Iterator[LossPlace]:
        """Modules whose output or gradient is further off than what goes into them."""
        for layer in self.layers.values():
            detail = f"output off by {layer.output:.2g}, its input by {layer.input:.2g}"
            yield LossPlace(Loss.OUTPUT, layer.output - layer.input, name=layer.name, dtype=layer.dtype, detail=detail)
            detail = f"gradient of the output off by {layer.gradient:.2g}"
            yield LossPlace(Loss.GRADIENT, layer.gradient, name=layer.name, dtype=layer.dtype, detail=detail)

    def _before(self, module: nn.Module, args: object) -> None:
        if not self._depth and id(module) not in self._names:
            self._names.update(_paths(module))
            top = type(module).__name__
            self._parameters.update({id(value): f"{top}.{path}" for path, value in module.named_parameters()})
        self._depth += 1

    def _after(self, module: nn.Module, args: object, result: object) -> None:
        self._depth = max(0, self._depth - 1)
        name = self.name(module)
        if not any(fnmatchcase(name, pattern) for pattern in self.chosen):
            return
        layer = self.layers.setdefault(name, LayerLoss(name, type(module).__name__))
        with unseen():
            layer.input = max([layer.input, *(self._error(tensor) for tensor in _tensors(args))])
            for tensor in _tensors(result):
                layer.output = max(layer.output, self._error(tensor))
                layer.dtype = str(tensor.dtype).removeprefix("torch.")
        for tensor in _tensors(result):
            if tensor.requires_grad:
                tensor.register_hook(self._gradient_of(layer))  # type: ignore[no-untyped-call]

    def _gradient_of(self, layer: LayerLoss) -> Callable[[Tensor | None], None]:
        def compare(gradient: Tensor | None) -> None:
            if gradient is None:  # of a result that nothing uses
                return
            with unseen():
                layer.gradient = max(layer.gradient, self._error(gradient))

        return compare

    def _error(self, tensor: Tensor) -> float:
        entry = self.storages.entry(tensor)
        if entry is None:
            return 0.0
        known = entry.origin
        return known.error if known.line is not None else norms(tensor, self.storages.shadow(tensor)).error()


def _tensors(tree: object) -> list[Tensor]:
    values = tree_flatten(tree)[0]
    if not any(is_followed(value) for value in values) and hasattr(tree, "__dict__"):
        values = list(vars(tree).values())
    return [value for value in values if is_followed(value)]


def _paths(root: nn.Module) -> dict[int, str]:
    top = type(root).__name__
    return {id(module): f"{top}.{path}" if path else top for path, module in root.named_modules()}
