"""The words in which an operation's treatment of dtypes is told; the tables of ``operations`` are made of these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .policies import policy_of

RESULTS = {
    "promote": "the promoted dtype of the operands",
    "promote-float": "the same, where integers become the default dtype (true division)",
    "where": "the promoted dtype of the two branches",
    "first": "the dtype of operand 0 (the receiver of a method)",
    "first-float": "the dtype of operand 0; integers and bools become the default dtype",
    "operand:1": "the dtype of the operand at position 1",
    "softmax-like": "the dtype= keyword, else the dtype of operand 0",
    "sum-like": "the dtype= keyword, else the dtype of operand 0, where integers and bools become int64",
    "like": "the dtype= keyword, else the dtype of operand 0",
    "factory": "the dtype= keyword, else the default dtype",
    "factory:int64": "the dtype= keyword, else int64",
    "arguments": "dtype=, else int64 if all number arguments are ints, bool if all are bools, else the default dtype",
    "data": "dtype=, else that of the data: tensors and arrays keep theirs, Python floats become the default dtype",
    "numpy": "the dtype of the NumPy array (float64 by default)",
    "bool": "bool",
    "int64": "int64",
    "values_indices": "(values of the dtype of operand 0, int64 indices)",
    "max-like": "values_indices with dim=; promote with a second tensor; else the dtype of operand 0",
    "tuple_of_first": "a tuple or list of tensors of the dtype of operand 0",
    "tuple_of_each": "a tuple of tensors, each with the dtype of the operand at its place",
    "complex": "the complex dtype of operand 0's precision",
    "real": "the real dtype of operand 0's precision",
    "to": "the dtype among the arguments, or that of the tensor among them, else the dtype of operand 0",
    "type_as": "the dtype of the operand at position 1",
    "array": "a NumPy array of the same dtype; bfloat16 raises",
    "scalar": "no tensor: a Python number, string, tuple or list",
    "none": "None",
}
"""What the result's dtype is. Beside these: ``cast:<dtype>``, a fixed dtype."""

MIXES = {
    "none": "one tensor operand: nothing can meet",
    "promotes": "operands of different floating dtypes are promoted; nothing raises",
    "raises": "operands of different floating dtypes raise; autocast helps where it casts the operands",
    "raises-narrow-weight": "parameters that agree with each other and are float32 under a 16-bit input are fine",
    "raises-backward": "promotes forward, and raises in backward",
    "keeps-destination": "written into operand 0, whose dtype stays; nothing raises",
    "raises-destination": "written into operand 0: another dtype raises, also under autocast",
    "raises-mask": "the float mask may be float32 or of the query's dtype; query, key and value must agree",
}
"""What happens outside autocast when floating operands of different dtypes meet."""


@dataclass(frozen=True, slots=True)
class Operand:
    """Where a tensor that takes part in a mix is passed.

    ``position`` counts the receiver of a method as 0, so a method and its function agree. ``spread``: a list or tuple
    of tensors stands there, or it and all positions after it (``einsum``, ``broadcast_tensors``).
    """

    position: int
    keyword: str
    spread: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """What one operation does to dtypes. Read it through :func:`operations.operation`."""

    name: str
    result: str
    """A key of ``RESULTS``, or ``cast:<dtype>``."""
    mix: str = "none"
    """A key of ``MIXES``: for the CPU, and for every device unless ``mix_on_cuda`` says otherwise."""
    operands: tuple[Operand, ...] = ()
    """The operands that take part in the mix and, for the promoting results, in the promotion."""
    method_operands: tuple[Operand, ...] = ()
    """The same for the method form, where its order differs (``x.where(condition, y)``)."""
    zero_dim: str = ""
    """When the result has no dimensions: ``always``, ``without-dim`` (no dim= given), ``literal`` (from a number).

    Such a tensor does not widen a tensor with dimensions: ``x.bfloat16() * torch.tensor(0.5)`` is bfloat16.
    """
    mix_on_cuda: str = ""

    def operands_in(self, *, method: bool) -> tuple[Operand, ...]:
        return self.method_operands if method and self.method_operands else self.operands

    def mix_on(self, device: str) -> str:
        return self.mix_on_cuda if device != "cpu" and self.mix_on_cuda else self.mix

    def autocast(self, device: str) -> str:
        """The policy under autocast of ``device``: ``lower``, ``fp32``, ``set_opt_dtype``, ``promote``, ``banned``.

        Empty when autocast leaves the operation alone. ``set_opt_dtype``: float32 unless dtype= is given.
        ``agree-lower``: the operation checks its operands as without autocast, then calls lowered operations.
        """
        return policy_of(self.name, device)


def rows(
    names: str,
    result: str,
    mix: str = "none",
    operands: str = "",
    *,
    zero_dim: str = "",
    mix_on_cuda: str = "",
) -> Iterator[Operation]:
    """Operations of one kind; ``operands`` lists ``position:keyword`` words, ``*`` marks a spread one."""
    taking = tuple(_operand(word) for word in operands.split())
    for name in names.split():
        yield Operation(
            name,
            result,
            mix,
            taking,
            zero_dim=zero_dim,
            mix_on_cuda=mix_on_cuda,
        )


def _operand(word: str) -> Operand:
    position, _, keyword = word.partition(":")
    return Operand(int(position), keyword.removesuffix("*"), keyword.endswith("*"))
