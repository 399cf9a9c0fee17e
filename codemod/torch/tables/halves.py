"""Whether a project's weights can be 16-bit at all: then "the dtype of the weights" can be a 16-bit type."""

from __future__ import annotations

from ...source.project import Project

CASTS = (
    ".half()",
    ".bfloat16()",
    "torch_dtype",
    "weight_dtype",
    "param_dtype",
    "16-true",
    "model_dtype",
    "torch.float16",
    "torch.bfloat16",
    "fp16_module",
)
"""Words one of which a project holds that casts modules, or says in which dtype to load them."""


def weights_can_be_half(project: Project) -> bool:
    """Whether any Python file of the project speaks of 16-bit weights. Autocast alone leaves weights in float32."""
    return project.fact(speaks_of_half_weights)


def speaks_of_half_weights(project: Project) -> bool:
    return any(True for _ in project.python_documents(CASTS[:-3])) or any(
        True
        for _ in project.python_documents(
            ("float16",), ("torch.float16", "torch.bfloat16"), where=lambda text: "autocast" not in text
        )
    )
