"""Devices as the program names them: what the machine does not have is the CPU, and remembered for each tensor."""

from __future__ import annotations

import os
from typing import Any


class Devices:
    """Answers what a device argument asks for on a machine that has only a CPU."""

    def __init__(self, torch: Any, kind: str, simulated: bool) -> None:
        self.torch, self.kind, self.simulated = torch, kind, simulated
        self.count = max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1") or 1))
        self.index = int(os.environ.get("LOCAL_RANK", "0") or 0) if simulated else 0
        self.cpu = torch.device("cpu")

    @property
    def device(self) -> Any:
        """The current device of the program."""
        return self.torch.device(self.kind, self.index) if self.simulated else self.cpu

    def use(self, value: Any) -> None:
        """``torch.cuda.set_device``."""
        index = value if isinstance(value, int) else self.torch.device(value).index
        if index is not None and index >= 0:
            self.index = int(index)

    def asked(self, value: Any) -> bool | None:
        """Whether an argument names the simulated device; None when it names no device at all."""
        if isinstance(value, self.torch.device):
            return bool(value.type == self.kind)
        if isinstance(value, bool):
            return None
        if isinstance(value, int):
            return self.kind != "cpu"
        if isinstance(value, str):
            name = value.partition(":")[0]
            return name == self.kind if name in (self.kind, "cpu", "meta") else None
        return None

    def real(self, value: Any) -> Any:
        """The argument for torch: ``cuda:0`` is the CPU here, ``meta`` stays."""
        return self.cpu if self.asked(value) else value
