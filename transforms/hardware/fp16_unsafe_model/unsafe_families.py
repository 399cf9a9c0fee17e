"""Model families whose activations leave float16's range: the rows of ``families.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import resources
from typing import Any

from ....codemod.trainers.framework_yaml import plain_data

TABLE = "families.yaml"


@dataclass(frozen=True, slots=True)
class CheckpointFamily:
    """Checkpoints that were made in bfloat16 or float32 and overflow in float16."""

    name: str
    patterns: tuple[str, ...]
    halved: tuple[str, ...]
    """Of those that need some layers in float32 to run at all."""

    def overflows(self, model: str) -> str:
        """What goes wrong with a checkpoint in float16 mixed precision."""
        said = f"{model} overflows in float16: its activations exceed 65504 ({self.name})"
        return f"{said}, the loss becomes nan or every step is skipped"


@lru_cache(maxsize=1)
def families() -> tuple[CheckpointFamily, ...]:
    data: Any = plain_data(resources.files(__package__).joinpath(TABLE).read_text("utf-8"), TABLE)
    rows = data["families"]
    return tuple(
        CheckpointFamily(row["name"], tuple(row["patterns"]), tuple(row.get("breaks_when_halved", ()))) for row in rows
    )


MENDED = ("fp16", "float16", "gguf", "gptq", "awq", "onnx", "-ct2", "mlx")
"""Names of checkpoints that were rescaled for float16, or are run by something else than PyTorch."""
PARTS = ("tokenizer", "processor", "featureextractor", "config", "encodermodel", "imageprocessor")
"""Ends of class names that load something else than the model that is trained."""


def family_of(model: str) -> CheckpointFamily | None:
    """The family that a checkpoint's name or path belongs to."""
    return next((family for family in families() if _is_among(model, family.patterns)), None)


def breaks_when_halved(model: str) -> bool:
    """Whether the checkpoint needs some layers in float32 to run at all."""
    return any(_is_among(model, family.halved) for family in families())


def loads_model(class_name: str) -> bool:
    """Whether ``<class_name>.from_pretrained`` loads a model, and not a tokenizer or a lone text encoder."""
    name = class_name.lower().removesuffix("fast")
    return not name.endswith(PARTS)


def _is_among(model: str, patterns: tuple[str, ...]) -> bool:
    parts = model.lower().rstrip("/").replace("\\", "/").split("/")
    whole, last = "/".join(parts[-2:]), parts[-1]
    if any(word in last for word in MENDED) or not last.isascii() or " " in last:
        return False
    return any(fnmatchcase(whole if "/" in pattern else last, pattern) for pattern in patterns)
