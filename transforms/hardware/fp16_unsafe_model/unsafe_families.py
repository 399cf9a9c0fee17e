"""Model families whose activations leave float16's range, as their authors or their library's issues document."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class Family:
    """Checkpoints that were made in bfloat16 or float32 and overflow in float16."""

    name: str
    patterns: tuple[str, ...]
    """Globs of a checkpoint's name without its owner, in lower case; with a slash: of both."""
    source: str


FAMILIES = (
    Family(
        "T5 1.1, mT5, Flan-T5, and the larger T5",
        (
            "t5-large*",
            "t5-3b*",
            "t5-11b*",
            "t5-v1_1-*",
            "flan-t5-*",
            "mt5-*",
            "long-t5-*",
            "bigscience/t0*",
            "google/ul2",
            "flan-ul2*",
        ),
        "huggingface/transformers#23918, #11461, #10956; model card of bigscience/T0pp",
    ),
    Family("Pegasus", ("google/pegasus-*",), "transformers' page on Pegasus, huggingface/transformers#9257"),
    Family("Gemma 3", ("gemma-3-*", "gemma-3n-*"), "huggingface/transformers#36822, unsloth.ai/blog/gemma3"),
)
BREAK_WHEN_HALVED = (
    "t5-3b*",
    "t5-11b*",
    "t5-v1_1-x*l*",
    "flan-t5-x*l*",
    "mt5-x*l*",
    "bigscience/t0*",
    "google/ul2",
    "flan-ul2*",
)
"""Checkpoints that go wrong in float16 even without training, once `.half()` has cast the layers kept in float32."""
MENDED = ("fp16", "float16", "gguf", "gptq", "awq", "onnx", "-ct2", "mlx")
"""Names of checkpoints that were rescaled for float16, or are run by something else than PyTorch."""
PARTS = ("tokenizer", "processor", "featureextractor", "config", "encodermodel", "imageprocessor")
"""Ends of class names that load something else than the model that is trained."""


def family_of(model: str) -> Family | None:
    """The family that a checkpoint's name or path belongs to."""
    return next((family for family in FAMILIES if _is_among(model, family.patterns)), None)


def breaks_when_halved(model: str) -> bool:
    """Whether the checkpoint needs some layers in float32 to run at all."""
    return _is_among(model, BREAK_WHEN_HALVED)


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
