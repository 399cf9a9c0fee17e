"""However the process ends, what was seen is written; what it died of is part of it."""

from __future__ import annotations

import atexit
import functools
import os
import re
import sys
import threading
import traceback
import types
from typing import Any

from .imports import after_import
from .recorder import place_of

_OF_DTYPES = ("dtype", "scalar type", "BFloat16", "Half", "without overflow", "c10::", "same type", "FP16", "autocast")
_KERNEL_WORDS = (
    "must be a CUDA tensor",
    "must be CUDA tensor",
    "from the 'CPU' backend",
    "CUDA_HOME environment variable",
    "No module named 'triton",
)
_LISTED = re.compile(r"received an invalid combination|but expected one of:|is only available for these backends")
_OF_KERNELS = ("/triton/", "torch/utils/cpp_extension.py")
"""What kernels that were written for a GPU say where they are built or called without one, and where it is said."""
_RETELLING = "ProcessRaisedException"
"""A parent tells what a child has died of, which the child has recorded."""
_OF_AMP = ("torch/amp/", "torch/cuda/amp/", "torch/cpu/amp/")


_OWN = os.path.dirname(os.path.abspath(__file__))


class Ending:
    """Hooks into the ways out of a Python process."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def install(self) -> None:
        atexit.register(self.session.flush)
        self._hook, sys.excepthook = sys.excepthook, self._died
        self._exit = os._exit
        os._exit = self._left
        os.register_at_fork(after_in_child=self._forked)
        thread: Any = threading.Thread
        start, session = thread._bootstrap_inner, self.session  # ``run`` is what programs replace

        def begin(own: threading.Thread) -> None:
            session.enter_thread()
            start(own)

        thread._bootstrap_inner = begin
        after_import("multiprocessing.process", self._watch_processes)
        after_import("torch.multiprocessing.spawn", self._watch_spawned)

    def _watch_processes(self, module: Any) -> None:
        """What ends a child goes to its parent, or to standard error, and never to the hook."""
        real = module.BaseProcess.run
        module.BaseProcess.run = lambda own: self._watched(real)(own)

    def _watch_spawned(self, module: Any) -> None:
        real = module._wrap

        @functools.wraps(real)
        def wrap(function: Any, *args: Any) -> Any:
            return real(self._watched(function), *args)

        module._wrap = wrap

    def _watched(self, function: Any) -> Any:
        def run(*args: Any) -> Any:
            try:
                return function(*args)
            except Exception as error:
                self._seen(type(error), error, error.__traceback__)
                raise

        return run

    def _left(self, status: int) -> Any:
        self.session.flush()
        self._exit(status)

    def _forked(self) -> None:
        """A child starts with nothing seen, and writes a file of its own."""
        recorder = self.session.recorder
        recorder.process = os.getpid()
        for seen in (recorder.values, recorder.failures, recorder.modules, recorder.notes):
            seen.clear()

    def _died(self, kind: type[BaseException], error: BaseException, trace: Any) -> None:
        self._seen(kind, error, trace)
        shown = _without_ours(trace)
        self._hook(kind, error.with_traceback(shown), shown)  # of the two Python shows the one that the error holds

    def _seen(self, kind: type[BaseException], error: BaseException, trace: Any) -> None:
        self.session.recorder.state["ended"] = "interrupted" if issubclass(kind, KeyboardInterrupt) else "error"
        self.session.recorder.state["error"] = f"{kind.__name__}: {error}"[:2000]
        if isinstance(error, Exception):
            self._record(kind, error, trace)
        self.session.flush()

    def _record(self, kind: type[BaseException], error: Exception, trace: Any) -> None:
        session = self.session
        said = _gist(str(error))
        place, inner, of_kernel = None, "", any(words in said for words in _KERNEL_WORDS)
        for frame, _ in traceback.walk_tb(trace):
            inner = frame.f_code.co_filename.replace(os.sep, "/")
            if session.places.file_of(frame.f_code.co_filename):
                place = session.places.of(frame)
            else:
                of_kernel = of_kernel or any(part in inner for part in _OF_KERNELS)
        session.recorder.state["died"] = {
            "error_type": kind.__name__,
            "error": str(error)[:2000],
            "place": place_of(place),
        }
        if of_kernel and place is not None and session.settings.on.simulated:
            session.recorder.state["error"] = (
                f"{place.filename}:{place.row} wants a kernel that is written for the GPU (Triton, CUDA), which a "
                f"rehearsal cannot run: {kind.__name__}: {error}"[:2000]
            )
        of_precision = any(word in said for word in _OF_DTYPES) or any(part in inner for part in _OF_AMP)
        if place is not None and of_precision and kind.__name__ != _RETELLING:
            session.failures.record("other", error, kind.__name__, [], place)


def _gist(text: str) -> str:
    """What is said after a traceback that the text may hold, without the lists of what would have been right."""
    said = text.strip().rpartition("\n")[2] if "Traceback (most recent call last)" in text else text
    return _LISTED.split(said)[0]


def _without_ours(trace: Any) -> Any:
    """The traceback as it would be without a rehearsal."""
    steps = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_OWN):
            steps.append(trace)
        trace = trace.tb_next
    result = None
    for step in reversed(steps):
        result = types.TracebackType(result, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return result
