"""A device that the machine does not have: what torch says about it, and what is asked of it."""

from __future__ import annotations

import types
from collections import Counter
from typing import Any

from . import autocast, collectives, old_types, registered, streams
from .imports import after_import
from .loading import Loading
from .settings import ProgramDevice

_NOT_COMPILED = "torch.compile ran eagerly: the rehearsal does not compile"


def simulate(session: Any) -> None:
    """Make torch answer as on a machine with the device."""
    torch, device = session.torch, session.settings.on
    policy = autocast.DevicePolicy(torch, device.type, not device.hip, session.tensor_devices.are_on_cpu)
    if not policy.install():
        session.recorder.note(f"this torch does not say what autocast for {device.type} casts: it is not simulated")
    state = autocast.DeviceAutocast(torch, device.type)
    state.install()
    session.in_each_thread.append(state.enter_thread)
    if device.type == "cuda":
        _cuda(session, torch, device)
    elif device.type == "mps":
        _mps(session, torch)
    _general(session, torch, device)
    collectives.install(session)


def _cuda(session: Any, torch: Any, device: ProgramDevice) -> None:
    cuda = torch.cuda
    count = session.devices.count
    answers: dict[str, Any] = {
        "is_available": True,
        "is_initialized": True,
        "device_count": count,
        "get_device_name": device.name,
        "get_device_capability": tuple(device.capability),
        "get_device_properties": _properties(device),
        "get_arch_list": [f"sm_{device.capability[0]}{device.capability[1]}"],
        "can_device_access_peer": True,
        "mem_get_info": (device.memory, device.memory),
        "memory_stats": Counter(),
        "memory_summary": "",
        "memory_snapshot": [],
        "utilization": 0,
        "is_tf32_supported": device.capability[0] >= 8 and not device.hip,
        "is_current_stream_capturing": False,
    }
    for name, answer in answers.items():
        _answer(cuda, name, answer)
    cuda.set_device, cuda.current_device = session.devices.use, lambda: session.devices.index
    cuda.is_bf16_supported = lambda including_emulation=True: device.native_bf16 or including_emulation
    for name in dir(cuda):
        if name.startswith(("memory_", "max_memory_", "host_memory")) and name not in answers:
            _answer(cuda, name, 0)
    nothing = "synchronize empty_cache init _lazy_init ipc_collect set_stream reset_peak_memory_stats"
    more = "reset_max_memory_allocated reset_max_memory_cached reset_accumulated_memory_stats set_sync_debug_mode"
    last = "set_per_process_memory_fraction _sleep _record_memory_history current_blas_handle _dump_snapshot"
    for name in f"{nothing} {more} {last}".split():
        _answer(cuda, name, None)
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        _answer(cuda.nvtx, name, 0)
    _versions(torch, device)
    streams.install(torch, cuda, session)
    old_types.install(torch, session.functions)
    _seeds(torch, cuda, session)


def _answer(module: Any, name: str, answer: Any) -> None:
    if hasattr(module, name):
        function = lambda *args, **kwargs: answer  # noqa: E731
        function.__name__ = name
        setattr(module, name, function)


def _put_away(module: Any, name: str) -> None:
    """A choice among libraries that this build lacks: asked, it is answered; made, it changes nothing."""
    real = getattr(module, name, None)
    if real is not None:
        setattr(module, name, lambda backend=None: real())


def _properties(device: ProgramDevice) -> Any:
    return types.SimpleNamespace(
        name=device.name,
        major=device.capability[0],
        minor=device.capability[1],
        total_memory=device.memory,
        multi_processor_count=108,
        gcnArchName="gfx1100" if device.hip else "",
        is_integrated=False,
        is_multi_gpu_board=False,
        max_threads_per_multi_processor=2048,
        warp_size=32,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        uuid="GPU-00000000-0000-0000-0000-000000000000",
        L2_cache_size=40 << 20,
    )


def _versions(torch: Any, device: ProgramDevice) -> None:
    if device.hip:
        torch.version.cuda, torch.version.hip = None, torch.version.hip or "6.4"
    else:  # the own version where there is one: torchvision refuses to be imported beside another
        torch.version.cuda, torch.version.hip = torch.version.cuda or "12.8", None
    backends = torch.backends
    backends.cuda.is_built = lambda: True
    for name in ("flash_sdp_enabled", "mem_efficient_sdp_enabled", "math_sdp_enabled"):
        _answer(backends.cuda, name, True)
    for name in ("preferred_linalg_library", "preferred_blas_library", "preferred_rocm_fa_library"):
        _put_away(backends.cuda, name)
    backends.cudnn.is_acceptable = lambda tensor: False
    backends.cudnn.version = lambda: 91000
    backends.cudnn.is_available = lambda: True


def _seeds(torch: Any, cuda: Any, session: Any) -> None:
    """The device's generator is the CPU's: one stream of random numbers instead of two."""
    for name in ("manual_seed", "manual_seed_all", "seed", "seed_all"):
        _answer(cuda, name, None)
        _answer(cuda.random, name, None)
    for module in (cuda, cuda.random):
        module.get_rng_state = lambda device="cuda": torch.get_rng_state()
        module.set_rng_state = lambda state, device="cuda": torch.set_rng_state(state)
        module.get_rng_state_all = lambda: [torch.get_rng_state()]
        module.set_rng_state_all = lambda states: torch.set_rng_state(states[0]) if len(states) else None
        module.initial_seed = torch.initial_seed
    cuda.default_generators = tuple(torch.default_generator for _ in range(session.devices.count))


def _mps(session: Any, torch: Any) -> None:
    torch.backends.mps.is_available = torch.backends.mps.is_built = lambda: True
    torch.backends.mps.is_macos_or_newer = lambda major, minor=0: True
    for name in ("synchronize", "empty_cache", "manual_seed", "seed", "set_per_process_memory_fraction"):
        _answer(torch.mps, name, None)
    for name in ("current_allocated_memory", "driver_allocated_memory", "recommended_max_memory"):
        _answer(torch.mps, name, 0)
    torch.mps.get_rng_state = lambda: torch.get_rng_state()  # an object of its own: torch._dynamo keeps a table of them
    torch.mps.set_rng_state = lambda state: torch.set_rng_state(state)
    _answer(torch.mps, "device_count", 1)


def _general(session: Any, torch: Any, device: ProgramDevice) -> None:
    _accelerator(session, torch)
    _generators(session, torch)
    Loading(session).install()
    registered.install(session)
    _contexts(session, torch)
    _data_parallel(torch)
    after_import("torch.utils.checkpoint", lambda module: _checkpointing(session, module))
    real = torch.nn.Parameter.__new__

    def made(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
        parameter = real(cls, data, requires_grad)
        birth = session.births.of(data) if data is not None else None
        if birth is not None:
            session.births.note(parameter, birth)
        return parameter

    torch.nn.Parameter.__new__ = made


def _accelerator(session: Any, torch: Any) -> None:
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        return
    for name in ("synchronize", "set_stream", "empty_cache"):
        _answer(accelerator, name, None)
    accelerator.current_stream = lambda device=None: streams.Stream()
    for name in dir(accelerator):
        if "memory" in name and callable(getattr(accelerator, name)) and name.startswith(("memory_", "max_memory_")):
            _answer(accelerator, name, 0)
    _answer(accelerator, "is_available", True)
    _answer(accelerator, "device_count", session.devices.count)
    accelerator.set_device_index = accelerator.set_device_idx = session.devices.use
    accelerator.current_device_index = accelerator.current_device_idx = lambda: session.devices.index
    _answer(accelerator, "current_accelerator", torch.device(session.devices.kind))


def _generators(session: Any, torch: Any) -> None:
    devices, real = session.devices, torch.Generator

    class SimulatedKind(type(real)):  # type: ignore[misc]
        def __instancecheck__(cls, value: Any) -> bool:
            return type.__instancecheck__(real, value)

    class Generator(real, metaclass=SimulatedKind):  # type: ignore[misc,valid-type]
        def __new__(cls, device: Any = "cpu") -> Any:
            made = real.__new__(cls, device=devices.real(device))
            made.claimed = devices.device if devices.asked(device) else devices.cpu
            return made

        def __init__(self, device: Any = "cpu") -> None:
            pass

        @property
        def device(self) -> Any:
            return getattr(self, "claimed", devices.cpu)

    torch.Generator = Generator


def _contexts(session: Any, torch: Any) -> None:
    """A default device adds its argument above our mode, or below it, where nothing maps the device any more."""
    context = torch.utils._device.DeviceContext
    real, devices = context.__torch_function__, session.devices

    def function(own: Any, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        if devices.asked(own.device) and session.functions.running:
            return func(*args, **(kwargs or {}))
        return real(own, func, kinds, args, kwargs)

    context.__torch_function__ = function


def keep_fast_path(torch: Any) -> None:
    """The fast path of ``nn.TransformerEncoder`` is not taken where a mode is on; ours is to change nothing."""
    torch.overrides.has_torch_function = lambda arguments: any(
        type(each) is not torch.Tensor
        and isinstance(each, torch.Tensor)
        and type(each).__torch_function__
        not in (torch.Tensor.__torch_function__, torch._C._disabled_torch_function_impl)
        for each in arguments
    )


def _data_parallel(torch: Any) -> None:
    """``nn.DataParallel`` splits its input also where there is one device."""
    torch._C._scatter = lambda tensor, devices, sizes, dim, streams: tensor.chunk(len(devices), dim)
    torch._C._gather = lambda tensors, dim, device: torch.cat(tuple(tensors), dim)


def _checkpointing(session: Any, module: Any) -> None:
    """Recomputed tensors are compared with saved ones; where these are believed to be depends on who asks."""

    def described(tensor: Any) -> dict[str, Any]:
        return {"shape": tensor.shape, "dtype": tensor.dtype, "device": session.devices.device}

    checks = getattr(module, "_allowed_determinism_checks_to_fns", {})
    if "default" in checks:
        checks["default"] = described


def compile_nothing(session: Any, torch: Any) -> None:
    """Also on a GPU: what is compiled cannot be watched, and torch would compile what watches."""

    def compiled(model: Any = None, **options: Any) -> Any:
        session.recorder.note(_NOT_COMPILED)
        if not isinstance(model, torch.nn.Module):
            return compiled if model is None else model
        from torch._dynamo.eval_frame import DisableContext

        return DisableContext()(
            model
        )  # the module as torch.compile wraps it, with ``_orig_mod``, its compiler left out

    torch.compile = compiled
    torch.compiler.cudagraph_mark_step_begin = lambda: None
    for name in ("_cuda_CUDAAllocator_AllocatorState", "_set_cached_tensors_enabled"):
        vars(torch._C).setdefault(name, None)  # torch._dynamo.reset() imports them where there is a GPU
    torch.nn.Module.compile = lambda own, *args, **options: session.recorder.note(_NOT_COMPILED)
