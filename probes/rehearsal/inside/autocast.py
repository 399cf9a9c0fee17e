"""The autocast of the simulated device over tensors that really live on the CPU.

The device's policy is registered in place of the CPU's own, and what a program asks about the device's autocast is
answered from the state of the CPU's. Autocast for the CPU has no say then: on the real machine it leaves tensors of the
device alone, so here it only keeps its own state.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from typing import Any

_BANNED_TEXT = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)
_RECURRENT = tuple(
    f"aten::{name}.{form}" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu") for form in ("input", "data")
)
"""On a GPU these end in cuDNN's kernel, which autocast runs in float16 whatever its dtype is; they have no policy."""
HALF = "half"


class DevicePolicy:
    """The kernels of one device's autocast, installed for the CPU's key."""

    def __init__(
        self, torch: Any, device: str, cudnn: bool = False, elsewhere: Callable[[Any], bool] = lambda args: False
    ) -> None:
        self.torch, self.device, self.cudnn = torch, device, cudnn
        self._elsewhere = elsewhere
        """Whether the operands are on the CPU, where the device's autocast leaves them alone."""
        self._key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
        self._library: Any = None
        self._cast: dict[tuple[int, Any], tuple[Any, Any]] = {}
        self._clear = torch.clear_autocast_cache

    def install(self) -> bool:
        """Whether this torch says what the policy is."""
        policies = policies_of(self.torch, self.device)
        if not policies:
            return False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # replacing the CPU's kernels is what is wanted
            self._register(policies)
        return True

    def _register(self, policies: dict[str, str]) -> None:
        torch = self.torch
        torch.clear_autocast_cache = self._forget
        self._library = torch.library.Library("aten", "IMPL", "AutocastCPU")
        if self.device == "cuda":
            policies = {**policies, **dict.fromkeys(_RECURRENT, HALF if self.cudnn else LOWER)}
        for name in torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU"):
            if name.startswith("aten::") and name not in policies:
                self._library.impl(name.removeprefix("aten::"), torch.library.fallthrough_kernel)
        for name, policy in policies.items():
            self._library.impl(name.removeprefix("aten::"), self._kernel(name, policy))

    def _kernel(self, name: str, policy: str) -> Callable[..., Any]:
        operation = self._operation(name)
        if policy == BANNED:
            return lambda *args, **kwargs: self._banned(operation, args, kwargs)
        casts = {LOWER: self._lowered, FP32: self._raised, PROMOTE: self._promoted, HALF: self._halved}
        cast = casts.get(policy)
        if cast is None:
            return self._with_dtype(name, operation, append=policy == APPEND)
        guard, key = self.torch._C._ExcludeDispatchKeyGuard, self._key

        def kernel(*args: Any, **kwargs: Any) -> Any:
            with guard(key):
                if self._elsewhere(args):
                    return operation(*args, **kwargs)
                change = cast(args, kwargs)
                return operation(*[change(each) for each in args], **{k: change(v) for k, v in kwargs.items()})

        return kernel

    def _operation(self, name: str) -> Any:
        packet, _, overload = name.removeprefix("aten::").partition(".")
        return getattr(getattr(self.torch.ops.aten, packet), overload or "default")

    def _lowered(self, args: Any, kwargs: Any) -> Callable[[Any], Any]:
        return self._caster(self.torch.get_autocast_dtype(self.device))

    def _halved(self, args: Any, kwargs: Any) -> Callable[[Any], Any]:
        return self._caster(self.torch.float16)

    def _raised(self, args: Any, kwargs: Any) -> Callable[[Any], Any]:
        return self._caster(self.torch.float32)

    def _promoted(self, args: Any, kwargs: Any) -> Callable[[Any], Any]:
        return self._caster(self._widest((*args, *kwargs.values())))

    def _widest(self, values: Any) -> Any:
        """As ``at::autocast::promote_type``."""
        torch = self.torch
        lower = torch.get_autocast_dtype(self.device)
        found = lower
        for each in self._floats(values):
            if each.dtype == torch.float32:
                found = torch.float32
            elif each.dtype != lower and found != torch.float32:  # beside float32 it is as good as any
                raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
        return found

    def _floats(self, values: Any) -> Any:
        torch = self.torch
        for each in values:
            if isinstance(each, torch.Tensor):
                if each.is_floating_point() and each.dtype != torch.float64:
                    yield each
            elif isinstance(each, list | tuple):
                yield from self._floats(each)

    def _caster(self, dtype: Any) -> Callable[[Any], Any]:
        torch = self.torch
        tensor, double = torch.Tensor, torch.float64

        def change(value: Any) -> Any:
            if isinstance(value, tensor):
                if value.dtype == dtype or not value.is_floating_point() or value.dtype == double:
                    return value
                return self._weight(value, dtype)
            if isinstance(value, list | tuple):
                return [change(each) for each in value]
            return value

        return change

    def _with_dtype(self, name: str, operation: Any, append: bool) -> Callable[..., Any]:
        """float32 by the operation's own ``dtype`` argument, where the program has not asked for another."""
        torch, guard, key = self.torch, self.torch._C._ExcludeDispatchKeyGuard, self._key
        plain = operation
        defaults = {each.name: each.default_value for each in operation._schema.arguments if each.has_default_value()}
        if append:
            form = {"norm.Scalar": "ScalarOpt_dtype", "norm.ScalarOpt_dim": "ScalarOpt_dim_dtype"}
            operation = getattr(torch.ops.aten.norm, form[name.removeprefix("aten::")])
        names = [argument.name for argument in operation._schema.arguments]

        def kernel(*args: Any, **kwargs: Any) -> Any:
            with guard(key):
                given = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
                first = args[0]
                if self._elsewhere(args):
                    return plain(*args, **kwargs)
                eligible = first.is_floating_point() and first.dtype != torch.float64
                if eligible and given.get("dtype") is None:
                    given["dtype"] = torch.float32
                elif append:
                    given["dtype"] = first.dtype
                return operation(**given)

        return kernel

    def _weight(self, value: Any, dtype: Any) -> Any:
        """A weight in another dtype, cast once per region as ``at::autocast::cached_cast`` does."""
        torch = self.torch
        kept = value.requires_grad and value.is_leaf and value.dtype == torch.float32 and dtype != torch.float32
        if not kept or value._is_view() or not torch.is_autocast_cache_enabled():
            return value.to(dtype)
        key = (id(value), dtype)
        known = self._cast.get(key)
        if known is None or known[0] is not value:
            known = self._cast[key] = (value, value.to(dtype))
        return known[1]

    def _forget(self) -> None:
        self._cast.clear()
        self._clear()

    def _banned(self, operation: Any, args: Any, kwargs: Any) -> Any:
        if self._elsewhere(args):
            with self.torch._C._ExcludeDispatchKeyGuard(self._key):
                return operation(*args, **kwargs)
        raise RuntimeError(_BANNED_TEXT)


class DeviceAutocast:
    """What a program asks and says about autocast, by device type: the device's own is kept by torch as the CPU's."""

    def __init__(self, torch: Any, device: str) -> None:
        self.torch, self.device = torch, device
        self._idle = {"enabled": False, "dtype": torch.bfloat16}
        real = ("is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype")
        self._real = {name: getattr(torch, name) for name in real}

    def install(self) -> None:
        torch = self.torch
        torch.is_autocast_enabled, torch.set_autocast_enabled = self.is_enabled, self.set_enabled
        torch.get_autocast_dtype, torch.set_autocast_dtype = self.dtype, self.set_dtype
        if self.device == "cuda":
            torch.get_autocast_gpu_dtype = lambda: self.dtype("cuda")
            torch.set_autocast_gpu_dtype = lambda dtype: self.set_dtype("cuda", dtype)
        torch.is_autocast_cpu_enabled = lambda: self.is_enabled("cpu")
        torch.set_autocast_cpu_enabled = lambda enabled: self.set_enabled("cpu", enabled)
        torch.get_autocast_cpu_dtype = lambda: self.dtype("cpu")
        torch.set_autocast_cpu_dtype = lambda dtype: self.set_dtype("cpu", dtype)

    def enter_thread(self) -> None:
        """Each thread begins with the dtype that is the device's own."""
        self._real["set_autocast_dtype"]("cpu", self._real["get_autocast_dtype"](self.device))

    def is_enabled(self, device_type: Any = None) -> bool:
        device_type = "cuda" if device_type is None else device_type
        if device_type == self.device:
            return bool(self._real["is_autocast_enabled"]("cpu"))
        return bool(self._idle["enabled"]) if device_type == "cpu" else False

    def set_enabled(self, *given: Any) -> None:
        device_type, enabled = given if len(given) == 2 else ("cuda", given[0])
        if not isinstance(enabled, bool):
            kind = type(enabled).__name__.replace("dtype", "torch.dtype")
            raise TypeError(f"set_autocast_enabled(): argument 'enabled' (position 2) must be bool, not {kind}")
        if device_type == self.device:
            self._real["set_autocast_enabled"]("cpu", enabled)
        elif device_type == "cpu":
            self._idle["enabled"] = enabled

    def dtype(self, device_type: str) -> Any:
        if device_type == self.device:
            return self._real["get_autocast_dtype"]("cpu")
        return self._idle["dtype"] if device_type == "cpu" else self._real["get_autocast_dtype"](device_type)

    def set_dtype(self, device_type: str, dtype: Any) -> None:
        if device_type == self.device:
            self._real["set_autocast_dtype"]("cpu", dtype)
        elif device_type == "cpu":
            self._idle["dtype"] = dtype


# --- the policy of each operation -------------------------------------------------------------------------------------


LOWER, FP32, OPTIONAL, APPEND, PROMOTE, BANNED = "lower", "fp32", "set_opt_dtype", "append", "promote", "banned"
_LISTS = {
    "AT_FORALL_LOWER_PRECISION_FP": LOWER,
    "AT_FORALL_FP32": FP32,
    "AT_FORALL_FP32_SET_OPT_DTYPE": OPTIONAL,
    "AT_FORALL_PROMOTE": PROMOTE,
}
_LIST = re.compile(r"#define (\w+)\(_\)((?:[^\n]*\\\n)+[^\n]*)")
_ENTRY = re.compile(r"_\((\w+)(?:,\s*(\w+))?\)")
_CUDNN = {"aten::cudnn_convolution": LOWER, "aten::cudnn_convolution_transpose": LOWER}
_BANNED = {"aten::binary_cross_entropy": BANNED}
_MPS_FP32 = frozenset({"aten::conv_transpose3d.input", "aten::batch_norm"})


def policies_of(torch: Any, device: str) -> dict[str, str]:
    """Operation with overload (``aten::pow.Scalar``) -> what is done to it. Empty where this torch does not say."""
    listed = _listed(torch)
    key = "Autocast" + device.upper()
    try:
        registered = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    except RuntimeError:
        return {}
    found = {name: listed[name] for name in registered if name in listed}
    if device == "mps":
        found.update({name: FP32 for name in registered if name in _MPS_FP32})
    return found


def _listed(torch: Any) -> dict[str, str]:
    header = os.path.join(os.path.dirname(torch.__file__), "include", "ATen", "autocast_mode.h")
    try:
        with open(header, encoding="utf-8") as stream:
            text = stream.read()
    except OSError:
        return {}
    found = {**_CUDNN, **_BANNED, "aten::norm.Scalar": APPEND, "aten::norm.ScalarOpt_dim": APPEND}
    for name, body in _LIST.findall(text):
        if name in _LISTS:
            entries = _ENTRY.findall(body)
            found.update({_aten(operation, overload): _LISTS[name] for operation, overload in entries})
    return found


def _aten(operation: str, overload: str) -> str:
    return f"aten::{operation}.{overload}" if overload else f"aten::{operation}"
