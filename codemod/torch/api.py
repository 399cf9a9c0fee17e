"""Names of torch, accelerate, Lightning, transformers and diffusers that several questions ask about, each once.

What a name *does* to dtypes stands in `tables`; here is what objects and arguments are called.
"""

from __future__ import annotations

from .dtypes import BF16, FP16, FP32, FP64

ACCELERATOR = ("accelerate.Accelerator", "accelerate.accelerator.Accelerator")
PARTIAL_STATE = ("accelerate.PartialState", "accelerate.state.PartialState")
FABRIC = ("lightning.Fabric", "lightning.fabric.Fabric", "lightning_fabric.Fabric")
LIGHTNING = ("lightning", "pytorch_lightning", "lightning_fabric")
"""The packages that Lightning is imported from."""
PRECISION_KEYWORDS = {**dict.fromkeys(ACCELERATOR, "mixed_precision"), **dict.fromkeys(FABRIC, "precision")}
"""Classes whose objects run the loop in a precision of their own, each with the argument that names it; the objects
have a method ``autocast``."""

LOADERS = ("from_pretrained", "from_config", "_from_config", "from_single_file")
"""Class methods that make a model in the dtype they are asked for (transformers, diffusers)."""
LOAD_KEYS = ("torch_dtype", "dtype")
"""The argument that asks for it: ``dtype`` since transformers 4.56, ``torch_dtype`` before and in diffusers."""
IN_8_BITS = "load_in_8bit"
QUANTIZING = (IN_8_BITS, "load_in_4bit")
"""Switches that load weights in less than 16 bits."""
QUANTIZED_KEYS = (*QUANTIZING, "quantization_config")
"""Arguments of a loader by which the weights are quantized; such weights have a compute dtype of their own."""
COMPUTE_KEY = "bnb_4bit_compute_dtype"
"""The argument of ``BitsAndBytesConfig`` that names it."""
DEFAULT_SETTERS = ("set_default_dtype", "set_default_tensor_type")
"""Functions of torch after which what is made without a dtype has another one than float32."""

SAME_WEIGHTS = ("to", "cuda", "cpu", "xpu", "npu", "train", "eval", "requires_grad_", "to_empty", "share_memory")
"""Methods of ``torch.nn.Module`` that give back the module, whose weights keep their dtype where no argument
names another one."""
WEIGHT_CASTS = {"half": FP16, "bfloat16": BF16, "float": FP32, "double": FP64}
"""Those that cast the weights first."""
CASTS = (*WEIGHT_CASTS, "to")
NARROWING = ("to", "type", "type_as", "half", "bfloat16")
"""Methods of tensors after which one can be 16-bit."""
SAME_MODULE = (*SAME_WEIGHTS, *WEIGHT_CASTS, "type")
"""All that give back the module itself; tests/test_flow_layers.py calls them."""
WALKS = ("parameters", "named_parameters", "modules", "named_modules", "children", "named_children")
"""Methods that go through the parts of a model."""
SAME_COMPUTATION = ("compile", "DistributedDataParallel", "DataParallel", "DDP", "convert_sync_batchnorm")
"""What torch wraps a model in that then computes as before, with the weights it had."""
MODEL_WRAPPERS = (
    *SAME_COMPUTATION,
    "prepare",
    "prepare_model",
    "prepare_model_for_kbit_training",
    "prepare_model_for_int8_training",
    "get_peft_model",
    "for_training",
    "setup_module",
)
"""Functions and methods that give back the model that is their first argument (torch, accelerate, PEFT, Unsloth,
Fabric)."""
ADAPTER_CLASSES = ("PeftModel", "PeftModelForCausalLM", "PeftModelForSeq2SeqLM")
"""PEFT's classes whose ``from_pretrained`` wraps the model that is its first argument."""
