"""What torch.nn's modules do to dtypes: the rows of ``layers.txt``, which explains their words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from . import table_rows
from .operations import policy_of


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One class of torch.nn."""

    name: str
    role: str
    operation: str = ""
    """The functional operation (a key of ``OPERATIONS``) behind it; "" where there is not just one."""
    result: str = "input"
    """``input``, ``weights``, ``promote`` (input and target), ``input-float`` or ``int64``, outside autocast."""
    mix: str = "none"
    """What an input of another dtype than the weights (for a loss: than the target) does: a mix of operations."""
    returns: str = "tensor"
    affine: str = ""
    """The keyword that makes the module own parameters, where there is one; ``!`` before it: off by default."""
    on_cuda: str = ""
    on_cpu: str = ""
    """The policy under autocast where it is not the operation's own.

    ``keeps-input``: the result has the input's dtype, while products inside are lowered. For Transformer modules that
    holds in training; ``eval()`` without gradients may take a fast path that gives the lower dtype. Their ``fp32`` on
    CUDA is the norm they end with: not under ``norm_first=True``.
    """

    @property
    def has_weights(self) -> bool:
        """Whether the module owns floating parameters when it is built with default arguments."""
        return self.role in ("weighted", "lookup") and not self.affine.startswith("!")

    def autocast(self, device: str) -> str:
        """The policy under autocast of ``device``, in the words of :meth:`Operation.autocast`, or ``keeps-input``."""
        return (self.on_cpu if device == "cpu" else self.on_cuda) or policy_of(self.operation, device)


def _layers() -> Iterator[LayerRow]:
    for (role, fields), words in table_rows("layers.txt"):
        given = dict(word.split("=") for word in fields.split())
        for each in (word.replace("?", dim) for word in words for dim in ("123" if "?" in word else " ")):
            name, _, operation = each.partition("=")
            yield LayerRow(name, role, operation, **given)


LAYERS: dict[str, LayerRow] = {each.name: each for each in _layers()}
"""Every known class by its name in torch.nn."""

IN_FLOAT16 = ("RNN", "LSTM", "GRU")
"""cuDNN's layers: CUDA's autocast runs them in float16 in a bfloat16 region as well (seen on an H200, torch 2.11)."""
