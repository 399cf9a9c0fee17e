"""The dtype of checkpoints that many projects train, for loads that take it from there: ``torch_dtype="auto"``."""

from __future__ import annotations

from ..source.project import Project
from ..torch.dtype_values import constants_of
from ..torch.dtypes import BF16, Dtype
from ..trainers.reading.loads import Load

AUTO = ('dtype="auto"', "dtype='auto'")
IN_BFLOAT16 = ("Qwen/Qwen2.5-", "meta-llama/Llama-3.1-", "meta-llama/Llama-3.2-")
"""Beginnings of names whose config.json says bfloat16 (huggingface/transformers#36567; logs of their loads)."""
CONVERTED = ("awq", "gptq", "gguf", "int4", "int8", "fp8", "bnb")


def stored_dtype(project: Project, load: Load) -> Dtype | None:
    """The dtype that ``"auto"`` takes from a checkpoint; None for one that is not known."""
    asked = constants_of(project, load.module, load.node) if load.node is not None else set()
    names = constants_of(project, load.module, load.call.args[0]) if asked == {"auto"} and load.call.args else set()
    texts = [name for name in names if isinstance(name, str) and name.startswith(IN_BFLOAT16)]
    plain = [name for name in texts if not any(word in name.lower() for word in CONVERTED)]
    return BF16 if names and len(plain) == len(names) else None
