"""Notes what a program of :mod:`tests.gpu.moves` computes in, and leaves it alone otherwise."""

from __future__ import annotations

import atexit
import gc
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

SEEN: dict[str, Any] = {"steps": 0, "weights": [], "gradients": [], "computed": [], "scaled": False, "autocast": []}


def _note(key: str, value: Any) -> None:
    if str(value) not in SEEN[key]:
        SEEN[key].append(str(value))


def _watch(torch: Any) -> None:
    def before_step(optimizer: Any, *_: Any) -> None:
        SEEN["steps"] += 1
        for group in optimizer.param_groups:
            for weight in group["params"]:
                _note("weights", weight.dtype)
                if weight.grad is not None:
                    _note("gradients", weight.grad.dtype)

    def after_layer(module: Any, _: Any, output: Any) -> None:
        if isinstance(module, torch.nn.Linear) and torch.is_grad_enabled():
            _note("computed", output.dtype)
            _note("autocast", torch.is_autocast_enabled(output.device.type))

    sys.modules["torch.optim.optimizer"].register_optimizer_step_pre_hook(before_step)
    torch.nn.modules.module.register_module_forward_hook(after_layer)
    step = torch.amp.GradScaler.step

    def scaler_step(self: Any, *args: Any, **options: Any) -> Any:
        SEEN["scaled"] = SEEN["scaled"] or self.is_enabled()
        return step(self, *args, **options)

    torch.amp.GradScaler.step = scaler_step


def _write() -> None:
    if "deepspeed" in sys.modules:
        scalers = [each for each in gc.get_objects() if type(each).__name__ in ("DynamicLossScaler", "LossScaler")]
        SEEN["scaled"] = SEEN["scaled"] or any(each.cur_scale > 1 for each in scalers)
    Path(os.environ["SEEN"], f"seen-{os.getpid()}.json").write_text(json.dumps(SEEN), "utf-8")


class _Finder:
    """Watches torch as soon as the program has imported it."""

    def find_spec(self, name: str, *_: Any) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module  # type: ignore[union-attr]

        def exec_module(module: Any) -> None:
            execute(module)
            _watch(module)

        spec.loader.exec_module = exec_module  # type: ignore[union-attr,method-assign]
        return spec


if os.environ.get("SEEN"):
    sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]
    atexit.register(_write)
