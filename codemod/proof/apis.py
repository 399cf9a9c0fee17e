"""From which release PyTorch has what a fix may write; names that every release since 1.6 has are not listed."""

from __future__ import annotations

TORCH_SINCE = {
    "torch.autocast": "1.10",
    "torch.inference_mode": "1.9",
    "torch.is_autocast_cpu_enabled": "1.10",
    "torch.get_autocast_gpu_dtype": "1.10",
    "torch.get_autocast_cpu_dtype": "1.10",
    "torch.cuda.is_bf16_supported": "1.10",
    "torch.cpu.amp": "1.10",
    "torch.amp": "1.12",
    "torch.set_float32_matmul_precision": "1.12",
    "torch.compile": "2.0",
    "torch.func": "2.0",
    "torch.nn.functional.scaled_dot_product_attention": "2.0",
    "torch.amp.GradScaler": "2.3",
    "torch.backends.mha": "2.3",
    "torch.nn.attention": "2.3",
    "torch.amp.custom_fwd": "2.4",
    "torch.amp.custom_bwd": "2.4",
    "torch.get_autocast_dtype": "2.4",
    "torch.set_autocast_dtype": "2.4",
    "torch.set_autocast_enabled": "2.4",
    "torch.nn.RMSNorm": "2.4",
    "torch.amp.is_autocast_available": "2.5",
}
"""Release notes, and the wheels of each release."""

KEYWORDS_SINCE = {
    ("torch.cuda.amp.autocast", "dtype"): "1.10",
    ("torch.cuda.amp.autocast_mode.autocast", "dtype"): "1.10",
    ("torch.cuda.is_bf16_supported", "including_emulation"): "2.4",
}
"""A function's name and a keyword that it did not always take."""

_MODELS = ("Bloom", "GPTNeoX", "Gemma", "Llama", "Llava", "Mistral", "Mixtral", "Mllama", "OPT", "PaliGemma", "Phi")
_NEWER = ("Qwen", "Siglip", "Whisper")
COME_WITH = (
    ("torchvision.transforms.v2", "torch", "2.0"),
    ("peft", "torch", "1.13"),
    ("peft", "transformers", "4.16"),
    ("trl.SFTTrainer", "transformers", "4.18"),
    ("trl.SFTConfig", "transformers", "4.31"),
    ("trl.DPOTrainer", "transformers", "4.18"),
    ("transformers.BitsAndBytesConfig", "transformers", "4.26"),
    ("transformers.GenerationConfig", "transformers", "4.25"),
    ("transformers.AutoImageProcessor", "transformers", "4.25"),
    ("transformers.AutoProcessor", "transformers", "4.13"),
    ("transformers.TextIteratorStreamer", "transformers", "4.28"),
    *((f"transformers.{name}*", "transformers", "4.18") for name in (*_MODELS, *_NEWER)),
)
"""What is imported, and the release of which package it does not come without: its requirements, or its own history.

A release that is older than the first one only proves less.
"""


def since(name: str) -> tuple[str, str] | None:
    """(the longest listed part of a qualified name, its release); None where every release has it."""
    parts = name.split(".")
    for end in range(len(parts), 1, -1):
        known = ".".join(parts[:end])
        if known in TORCH_SINCE:
            return known, TORCH_SINCE[known]
    return None
