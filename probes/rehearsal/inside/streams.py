"""Streams and events of a device that does everything at once."""

from __future__ import annotations

import time
from typing import Any


class Done:
    """Whatever it is asked to do or to wait for has been done."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.at = time.perf_counter()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: Any) -> None:
        return None

    def query(self) -> bool:
        return True

    synchronize = wait = wait_event = wait_stream = lambda self, *args: None


class Stream(Done):
    """There is only one order in which things happen."""

    stream_id = device_index = cuda_stream = priority = 0
    device: Any = None

    def is_capturing(self) -> bool:
        return False

    def record_event(self, event: Any = None) -> Any:
        event = event or Event()
        event.record()
        return event


class Event(Done):
    """Knows when it was recorded."""

    def record(self, *args: Any) -> None:
        self.at = time.perf_counter()

    def elapsed_time(self, other: Any) -> float:
        return float(other.at - self.at) * 1000.0


class Context(Done):
    """``torch.cuda.stream(s)``, ``torch.cuda.device(0)``."""

    idx = 0


class Graph:
    """A CUDA graph: what is captured runs while it is captured, and is not repeated."""

    _session: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def replay(self) -> None:
        self._session.recorder.note("CUDA graphs: what was captured ran once; replays did nothing")

    capture_begin = capture_end = reset = enable_debug_mode = debug_dump = lambda self, *args, **kwargs: None
    pool = lambda self: (0, 0)  # noqa: E731


def _graphs(cuda: Any, session: Any) -> None:
    cuda.CUDAGraph = cuda.graphs.CUDAGraph = type("CUDAGraph", (Graph,), {"_session": session})
    cuda.graph = cuda.graphs.graph = Context
    cuda.graph_pool_handle = cuda.graphs.graph_pool_handle = lambda: (0, 0)
    cuda.make_graphed_callables = cuda.graphs.make_graphed_callables = lambda callables, *args, **kwargs: callables


def install(torch: Any, cuda: Any, session: Any) -> None:
    one = Stream()
    one.device = session.devices.device
    cuda.Stream = cuda.streams.Stream = cuda.ExternalStream = Stream
    cuda.Event = cuda.streams.Event = Event
    cuda.stream = cuda.StreamContext = Context
    cuda.device = cuda.device_of = cuda._DeviceGuard = Context
    cuda.current_stream = cuda.default_stream = lambda device=None: one
    _graphs(cuda, session)
    if hasattr(torch, "Stream"):
        torch.Stream, torch.Event = Stream, Event
