"""Modules as they are called: the values of their calls, the path to the one that runs, dtypes of what they own."""

from __future__ import annotations

import inspect
import sys
from types import FrameType
from typing import Any

from .tensors import dtype_name

MOST_INSTANCES = 4000


class ObservedModules:
    """Wraps ``Module.__call__``."""

    def __init__(self, session: Any) -> None:
        self.session, self.torch = session, session.torch
        self.depth = 0
        self._seen: dict[int, Any] = {}

    def install(self) -> None:
        module = self.torch.nn.Module
        real = module.__call__

        def called(own: Any, *args: Any, **kwargs: Any) -> Any:
            return self._call(real, own, args, kwargs)

        module.__call__ = called

    def _call(self, real: Any, own: Any, args: Any, kwargs: Any) -> Any:
        if self.depth == 0:
            evaluating = not self.torch.is_grad_enabled() or not own.training
            self.session.check_enough(evaluating)
        self._note(own)
        self.depth += 1
        try:
            result = real(own, *args, **kwargs)
        finally:
            self.depth -= 1
        self._value(result)
        return result

    def _note(self, own: Any) -> None:
        if id(own) not in self._seen and len(self._seen) < MOST_INSTANCES:
            self._seen[id(own)] = own

    def _value(self, result: Any) -> None:
        """The value of ``self.layer(x)`` where the user's code calls it itself."""
        frame = sys._getframe(3)
        if isinstance(result, self.torch.Tensor) and self.session.places.file_of(frame.f_code.co_filename):
            place = self.session.places.of(frame)
            on_device = self.session.tensor_devices.on_device(result)
            device = self.session.devices.kind if on_device else "cpu"
            self.session.recorder.value(place, "call", dtype_name(result.dtype), result.dim(), device)

    def path(self, frame: FrameType | None) -> str:
        """``model.layers.0.fc``: the innermost running module, named as the outermost one knows it."""
        running = self.running(frame)
        if not running:
            return ""
        inner, outer = running[0], running[-1]
        name = next((name for name, each in outer.named_modules() if each is inner), "")
        return f"{type(outer).__name__}.{name}" if name else type(inner).__name__

    def running(self, frame: FrameType | None, until: FrameType | None = None) -> list[Any]:
        """The modules whose ``forward`` runs, innermost first; those that ``until`` called, where it is given."""
        running: list[Any] = []
        while frame is not None and frame is not until:
            own = frame.f_locals.get("self") if frame.f_code.co_name == "forward" else None
            if isinstance(own, self.torch.nn.Module) and (not running or running[-1] is not own):
                running.append(own)
            frame = frame.f_back
        return running

    def collect(self) -> None:
        """The dtypes that instances of the user's classes own by now."""
        found: dict[str, dict[str, Any]] = {}
        for own in self._seen.values():
            kind = type(own)
            place = self._class_place(kind)
            if place is None:
                continue
            entry = found.setdefault(
                f"{kind.__module__}.{kind.__qualname__}",
                {"class": f"{kind.__module__}.{kind.__qualname__}", "place": place, "instances": 0},
            )
            entry["instances"] += 1
            _merge(entry, "parameters", own.parameters(recurse=False))
            _merge(entry, "buffers", own.buffers(recurse=False))
            _merge(entry, "all_parameters", own.parameters())
        self.session.recorder.modules = found

    def _class_place(self, kind: type) -> Any:
        module = sys.modules.get(kind.__module__)
        filename = getattr(module, "__file__", None)
        file = self.session.places.file_of(filename) if filename else ""
        if not file:
            return None
        try:
            row = inspect.getsourcelines(kind)[1]
        except (OSError, TypeError):
            return None
        return [file, row, row, None, None]


def _merge(entry: dict[str, Any], key: str, tensors: Any) -> None:
    names = {dtype_name(each.dtype) for each in tensors}
    entry[key] = sorted({*entry.get(key, []), *names})
