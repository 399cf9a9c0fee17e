"""What torch's operations do to dtypes: the rows of ``operations.txt``, and how a call's name finds its row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from . import table_rows

_ALIASES = {
    "linalg.softmax": "softmax",
    "special.softmax": "softmax",
    "special.log_softmax": "log_softmax",
    "special.logsumexp": "logsumexp",
    "special.expit": "sigmoid",
}
_ROOTS = (
    "torch.nn.functional.",
    "torch.functional.",
    "torch.Tensor.",
    "torch._C._nn.",
    "torch._C._VariableFunctions.",
    "torch.ops.aten.",
    "torch.nn.",
    "torch.",
)
POLICIES: dict[str, dict[str, str]] = {}
"""Policy by operation, by device type."""
CALLS: dict[str, str] = {}
"""Operations that autocast knows by the operations they call."""
LIKE_CUDA = ("xpu", "mtia", "maia")
"""Device types whose lists are CUDA's but for the cuDNN-only operations."""


@dataclass(frozen=True, slots=True)
class OperandSlot:
    """Where a tensor that takes part in a mix is passed.

    ``position`` counts the receiver of a method as 0, so a method and its function agree. ``spread``: a list or tuple
    of tensors stands there, or it and all positions after it (``einsum``, ``broadcast_tensors``).
    """

    position: int
    keyword: str
    spread: bool = False


@dataclass(frozen=True, slots=True)
class TorchOperation:
    """What one operation does to dtypes; ``operations.txt`` explains the words."""

    name: str
    result: str
    mix: str = "none"
    """For the CPU, and for every device unless ``mix_on_cuda`` says otherwise."""
    operands: tuple[OperandSlot, ...] = ()
    """The operands that take part in the mix and, for the promoting results, in the promotion."""
    method_operands: tuple[OperandSlot, ...] = ()
    """The same for the method form, where its order differs (``x.where(condition, y)``)."""
    zero_dim: str = ""
    """When the result has no dimensions: ``always``, ``without-dim`` (no dim= given), ``literal`` (from a number).

    Such a tensor does not widen a tensor with dimensions: ``x.bfloat16() * torch.tensor(0.5)`` is bfloat16.
    """
    mix_on_cuda: str = ""

    def operands_in(self, *, method: bool) -> tuple[OperandSlot, ...]:
        return self.method_operands if method and self.method_operands else self.operands

    def autocast(self, device: str) -> str:
        """The policy under autocast of ``device``: ``lower``, ``fp32``, ``set_opt_dtype``, ``promote``, ``banned``.

        Empty when autocast leaves the operation alone. ``set_opt_dtype``: float32 unless dtype= is given.
        ``agree-lower``: the operation checks its operands as without autocast, then calls lowered operations.
        """
        return policy_of(self.name, device)


def _table() -> dict[str, TorchOperation]:
    table: dict[str, TorchOperation] = {}
    for (result, mix, said), names in table_rows("operations.txt"):
        operands = _operands(word for word in said.split() if "=" not in word)
        fields = dict(word.split("=") for word in said.split() if "=" in word)
        of_method = _operands(word for word in fields.pop("method_operands", "").split(",") if word)
        for name in names:
            if result == "in-place":
                taken = table[name].operands
                table[f"{name}_"] = TorchOperation(f"{name}_", "first", mix if len(taken) > 1 else "none", taken)
            else:
                table[name] = TorchOperation(name, result, mix, operands, of_method, **fields)
    return table


def _operands(words: Iterable[str]) -> tuple[OperandSlot, ...]:
    """``position:keyword``, with ``*`` behind it for a spread one."""
    parts = (word.split(":") for word in words)
    return tuple(OperandSlot(int(place), keyword.removesuffix("*"), keyword.endswith("*")) for place, keyword in parts)


OPERATIONS: dict[str, TorchOperation] = _table()
"""Every known operation by name. A bare name says nothing of its receiver: ask only for calls on tensors."""


@lru_cache(4096)
def operation(name: str) -> TorchOperation | None:
    """The entry for ``torch.nn.functional.linear``, ``torch.Tensor.add_``, ``torch.linalg.norm``, ``matmul``, ...

    None for unknown names and for names of other packages (``numpy.stack``).
    """
    root = next((root for root in _ROOTS if name.startswith(root)), "")
    bare = name[len(root) :]
    bare = _ALIASES.get(bare, bare)
    if bare in OPERATIONS:
        return OPERATIONS[bare]
    namespace, _, last = bare.rpartition(".")
    return OPERATIONS.get(last) if root and namespace in ("special", "init") else None


def keeps_dtype(name: str) -> bool:
    """Whether an operation's result has the dtype of its first operand, whatever that is."""
    known = operation(name)
    return known is not None and known.result == "first"


for (_device, _said), _names in table_rows("policies.txt"):
    (CALLS if _device == "like" else POLICIES.setdefault(_device, {})).update(dict.fromkeys(_names, _said))


def policy_of(name: str, device: str) -> str:
    """A policy's name as :meth:`TorchOperation.autocast` explains it; "" where autocast does nothing."""
    table = POLICIES.get("cuda" if device in LIKE_CUDA else device, {})
    return next((table[called] for called in (name, *CALLS.get(name, "").split()) if called in table), "")
