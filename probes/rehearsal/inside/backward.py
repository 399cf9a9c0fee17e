"""The backward pass: which line of the forward pass the running node belongs to, and the mode kept on during it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from .tensors import tensors_in

MOST_KEPT = 200_000


class Backward:
    """Nodes of autograd are numbered as they are made; the user's line is remembered with the numbers so far."""

    def __init__(self, session: Any) -> None:
        self.session, self.torch = session, session.torch
        self._numbers: list[int] = []
        self._places: list[Any] = []
        self._number: Callable[[], int] = getattr(session.torch.autograd, "_get_sequence_nr", lambda: 0)
        self.on_device = False
        """Whether the gradients that are being computed are on the device."""
        self._node = getattr(session.torch._C, "_current_autograd_node", lambda: None)

    def install(self) -> None:
        torch, real = self.torch, self.torch.autograd.graph._engine_run_backward

        def run(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            is_graph = len(args) > 2 and bool(args[2]) and not kwargs.get("accumulate_grad")
            self.session.training.backward(() if is_graph else tensors)  # a gradient to go on with is of no loss
            return self._with_modes(real, tensors, args, kwargs)

        torch.autograd.graph._engine_run_backward = run
        torch.autograd._engine_run_backward = run

    def _with_modes(self, real: Any, tensors: Any, args: Any, kwargs: Any) -> Any:
        """The mode is off while ``Tensor.backward`` runs; a ``Function.backward`` of the program must be seen."""
        session = self.session
        outer = self.on_device
        self.on_device = any(map(session.tensor_devices.on_device, tensors_in(self.torch.Tensor, tensors)))
        session.in_backward += 1
        try:
            with session.programs_own_code():
                return real(tensors, *args, **kwargs)
        finally:
            session.in_backward -= 1
            self.on_device = outer

    def forward_place(self, place: Any) -> None:
        """Nodes made since the last call were made at this place."""
        number = self._number()
        if not self._numbers or number > self._numbers[-1]:
            if len(self._numbers) >= MOST_KEPT:
                del self._numbers[: MOST_KEPT // 2], self._places[: MOST_KEPT // 2]
            self._numbers.append(number)
            self._places.append(place)

    def place_of_running_node(self) -> Any:
        node = self._node()
        if node is None:
            return None
        at = bisect_left(self._numbers, node._sequence_nr() + 1)
        return self._places[at] if at < len(self._places) else None
