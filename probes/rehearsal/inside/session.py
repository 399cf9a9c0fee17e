"""All that is installed in one process, and what its parts ask each other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any

from . import dispatch, functions
from .backward import Backward
from .births import Births
from .called import AutocastReach
from .checkpoints import Checkpoints
from .devices import Devices
from .ending import Ending
from .failures import Failures
from .finite import Finite
from .modules import ObservedModules
from .places import UserFrames
from .recorder import Recorder
from .settings import ProcessSettings
from .tensor_devices import TensorDevices
from .training import Training

MOST_EVALUATED = 8
"""Forward passes without gradients that are let through after the last step, so that validation is seen."""


class StopRehearsal(SystemExit):
    """Enough was seen: ends the program as ``sys.exit(0)`` does, with all its handlers."""


class Session:
    """The rehearsal of one process."""

    def __init__(self, torch: Any, settings: ProcessSettings) -> None:
        self.torch, self.settings = torch, settings
        on = settings.on
        self.places = UserFrames(settings.root)
        self.births = Births()
        self.recorder = Recorder(settings.answers)
        self.recorder.state.update({"torch": str(torch.__version__).partition("+")[0], "simulated": on.simulated})
        self.devices = Devices(torch, on.type, on.simulated)
        self.in_backward = self.step = self.evaluated = 0
        self.called = AutocastReach(self)
        self.enough = self.stopping = self.ignoring_gaps = self.ffts_are_half = False
        self.backward: Backward = Backward(self)
        self.training = Training(self)
        self.failures = Failures(self)
        self.functions = functions.ObservedFunctions(self)
        self.tensor_devices = TensorDevices(self.functions)
        self.modules = ObservedModules(self)
        self.ending = Ending(self)
        self.finite = Finite(self)
        self.checkpoints = Checkpoints(self)
        self._shadow: Any = None
        self.in_each_thread: list[Callable[[], None]] = []
        self._dispatch = dispatch.Dispatch(self)

    def start(self) -> None:
        """From here on everything that the program asks of torch is seen."""
        from .simulation import compile_nothing, keep_fast_path, simulate

        if self.settings.on.simulated:
            simulate(self)
        keep_fast_path(self.torch)
        compile_nothing(self, self.torch)
        for part in (self.tensor_devices, self.backward, self.training, self.modules, self.ending, self.checkpoints):
            part.install()
        if self.settings.shadow:
            from .shadow.shadow import Shadow

            self._shadow = Shadow(self.places, tuple(self.settings.shadow))
            self._shadow.__enter__()
        self.enter_thread()

    def function_mode(self) -> Any:
        return functions.mode_of(self.torch, self.functions)

    @contextmanager
    def programs_own_code(self) -> Iterator[None]:
        """What torch calls in the middle of one of its functions, where the mode is off, is seen like all else."""
        local, before = self.functions.local, self.functions.running
        local.running = 0
        try:
            with self.function_mode() if before else nullcontext():
                yield
        finally:
            local.running = before

    def enter_thread(self) -> None:
        """Modes belong to a thread; each thread enters its own and keeps them."""
        for action in self.in_each_thread:
            action()
        dispatch.mode_of(self.torch, self._dispatch).__enter__()
        self.function_mode().__enter__()

    def default_device(self) -> Any:
        return getattr(self.torch.utils._device, "CURRENT_DEVICE", None)

    def autocast(self) -> dict[str, Any]:
        device = self.settings.on.type
        enabled = bool(self.torch.is_autocast_enabled(device))
        dtype = str(self.torch.get_autocast_dtype(device)).removeprefix("torch.")
        return {"enabled": enabled, "dtype": dtype if enabled else None, "device": device}

    def is_captured(self, tensor: Any) -> bool:
        """Whether a CUDA graph is being made of what runs: a value that is read would end that."""
        return bool(tensor.is_cuda and self.torch.cuda.is_current_stream_capturing())

    def module_path(self, frame: FrameType | None) -> str:
        return self.modules.path(frame)

    def module_path_here(self) -> str:
        return self.modules.path(sys._getframe(1))

    def module_called(self, frame: FrameType | None, user: FrameType | None) -> Any:
        """The module that the user's frame has called and that runs; None where it called a function."""
        return next(reversed(self.modules.running(frame, user)), None) if user is not None else None

    def on_device_text(self, text: str) -> str:
        """The error as the device words it."""
        if not self.settings.on.simulated or self.settings.on.type != "cuda":
            return text
        from .wording import on_cuda

        return on_cuda(text)

    def gap(self, operation: str, dtype: str) -> Exception:
        from .wording import no_kernel

        return no_kernel(operation, dtype, self.settings.on.type)

    @contextmanager
    def device_gaps_ignored(self) -> Iterator[None]:
        self.ignoring_gaps = True
        try:
            yield
        finally:
            self.ignoring_gaps = False

    def check_enough(self, evaluating: bool = False) -> None:
        """Called where a next step would begin."""
        if not self.enough:
            return
        if evaluating and not self.stopping and self.evaluated < MOST_EVALUATED:
            self.evaluated += 1
            return
        self.stopping = True
        self.recorder.state["ended"] = "steps"
        self.flush()
        raise StopRehearsal(0)

    def flush(self) -> None:
        self.modules.collect()
        if self._shadow is not None:
            self.recorder.state["shadow"] = self._shadow.findings().as_json()
        try:
            self.recorder.write()
        except OSError as error:
            sys.stderr.write(f"precfix: what was seen cannot be kept: {error}\n")
