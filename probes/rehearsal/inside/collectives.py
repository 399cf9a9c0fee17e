"""Several ranks on CPUs: gloo in place of NCCL."""

from __future__ import annotations

from typing import Any

from .imports import after_import


def install(session: Any) -> None:
    """Where torch was built with distributed; the module is imported along with torch."""
    after_import("torch.distributed.distributed_c10d", lambda module: _install(session, module))


def _install(session: Any, c10d: Any) -> None:
    distributed = session.torch.distributed
    real_init, real_barrier, real_group = c10d.init_process_group, c10d.barrier, c10d.new_group

    def on_gloo(backend: Any) -> Any:
        wanted = backend is None or "nccl" in str(backend).lower() or ":" in str(backend)
        if wanted:
            session.recorder.note("collectives ran over gloo in place of NCCL")
        return "gloo" if wanted else backend

    def init(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device_id", None)
        kwargs.pop("pg_options", None)
        return real_init(on_gloo(backend), *args, **kwargs)

    def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
        return real_barrier(group, async_op)

    def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device_id", None)
        kwargs.pop("pg_options", None)
        return real_group(ranks, timeout, backend and on_gloo(backend), **kwargs)

    made = {"init_process_group": init, "barrier": barrier, "new_group": new_group, "is_nccl_available": lambda: True}
    for name, function in made.items():
        setattr(c10d, name, function)
        setattr(distributed, name, function)
