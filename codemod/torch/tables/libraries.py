"""What the objects of other libraries do to dtypes, found by the qualified name of their class or function.

Read in diffusers 0.42.1, transformers 5.23.0, accelerate 1.15.0, peft 0.21.2. What differs between classes of one kind
is left out: an unknown name or method has no entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

KINDS = {
    "model": "a torch.nn.Module whose result has the dtype of its weights, unless autocast says otherwise",
    "scheduler": "a noise scheduler: no module, casts its tables to the samples",
    "processor": "turns images or audio into float32 tensors",
    "tokenizer": "turns text into int64 ids and masks",
    "pipeline": "holds models",
    "accelerator": "accelerate's Accelerator",
}
MODEL_INPUTS = {
    "any": "unknown",
    "ids": "integer ids: no dtype can be wrong",
    "weights": "floating samples must have the dtype of the weights: another raises outside autocast",
}
LOADED = {
    "float32": "float32 unless torch_dtype= or dtype= says otherwise",
    "float32-or-auto": "float32 before transformers 5, from then on the dtype of the checkpoint",
    "float32-adapters": "the base model keeps its dtype; adapter weights of 16 bits become float32",
}
"""The dtype of the floating parameters after ``from_pretrained`` (or the function that makes the module)."""


@dataclass(frozen=True, slots=True)
class Method:
    """What a call gives: ``result`` in the words of ``operation.RESULTS``, or one of these.

    ``weights``: the dtype of the module's weights. ``self``: the first argument itself. ``forward-float32``:
    the module, whose forward runs under autocast and gives float32 for 16-bit floating results. ``model:1``: a model
    like the first argument.
    """

    result: str
    operands: tuple[int, ...] = ()
    """The argument positions whose dtypes the result follows, ``self`` not counted."""
    mix: str = "none"


@dataclass(frozen=True, slots=True)
class LibraryObject:
    """One class, or all classes whose names fit a pattern."""

    pattern: str
    kind: str
    inputs: str = "any"
    loaded: str = "float32"
    methods: tuple[tuple[str, Method], ...] = ()

    def method(self, name: str) -> Method | None:
        return dict(self.methods).get(name)


_PROMOTING = Method("promote", (0, 1), "promotes")
_SCHEDULER = (
    # tables cast by .to(dtype=original_samples.dtype), then a * samples + b * noise: scheduling_ddpm.py, _ddim.py, ...
    ("add_noise", _PROMOTING),
    ("get_velocity", _PROMOTING),
    # sample / ((sigma**2 + 1) ** 0.5) with sigma of no dimensions: scheduling_euler_discrete.py
    ("scale_model_input", Method("first", (0,))),
)
# prev_sample.to(model_output.dtype): scheduling_euler_discrete.py, scheduling_euler_ancestral_discrete.py
_EULER = (*_SCHEDULER, ("step", Method("first", (0,))))
# sigmas.to(dtype=sample.dtype), then sigma * noise + (1 - sigma) * sample: scheduling_flow_match_euler_discrete.py
_FLOW_MATCH = (("scale_noise", Method("promote", (0, 2), "promotes")),)
_VAE = (
    # conv_in and quant_conv take the input as it comes: autoencoder_kl.py
    ("encode", Method("weights", (0,), "raises")),
    ("decode", Method("weights", (0,), "raises")),
)
_UNCAST_SCHEDULERS = (
    "AmusedScheduler",
    "BlockRefinementScheduler",
    "DDPMWuerstchenScheduler",
    "FlowMatchHeunDiscreteScheduler",
    "HeliosDMDScheduler",
    "RePaintScheduler",
    "ScoreSdeVeScheduler",
)
"""Their add_noise or scale_noise does not cast its tables to the samples, or takes none."""

OBJECTS: tuple[LibraryObject, ...] = (
    *(LibraryObject(f"diffusers.{name}", "scheduler") for name in _UNCAST_SCHEDULERS),
    LibraryObject("diffusers.FlowMatchEulerDiscreteScheduler", "scheduler", methods=_FLOW_MATCH),
    LibraryObject("diffusers.FlowMatchLCMScheduler", "scheduler", methods=_FLOW_MATCH),
    LibraryObject("diffusers.EulerDiscreteScheduler", "scheduler", methods=_EULER),
    LibraryObject("diffusers.EulerAncestralDiscreteScheduler", "scheduler", methods=_EULER),
    LibraryObject("diffusers.DDPM*Scheduler", "scheduler", methods=_SCHEDULER),
    LibraryObject("diffusers.DDIM*Scheduler", "scheduler", methods=_SCHEDULER),
    LibraryObject("diffusers.PNDMScheduler", "scheduler", methods=_SCHEDULER),
    LibraryObject("diffusers.LCMScheduler", "scheduler", methods=_SCHEDULER),
    LibraryObject("diffusers.DPMSolver*Scheduler", "scheduler", methods=_SCHEDULER),
    LibraryObject("diffusers.UniPCMultistepScheduler", "scheduler", methods=_SCHEDULER),
    # torch_dtype=None leaves the default dtype in place: modeling_utils.py, ModelMixin.from_pretrained
    LibraryObject("diffusers.AutoencoderKL*", "model", "weights", methods=_VAE),
    LibraryObject("diffusers.AutoencoderTiny", "model", "weights", methods=_VAE),
    LibraryObject("diffusers.AsymmetricAutoencoderKL", "model", "weights", methods=_VAE),
    # conv_in(sample); only the time embedding is cast, to sample.dtype: unets/unet_2d_condition.py
    LibraryObject("diffusers.UNet2D*Model", "model", "weights"),
    LibraryObject("diffusers.ControlNetModel", "model", "weights"),
    LibraryObject("diffusers.*Transformer2DModel", "model", "weights"),
    LibraryObject("diffusers.*Transformer3DModel", "model", "weights"),
    LibraryObject("diffusers.*Pipeline", "pipeline"),
    LibraryObject("diffusers.image_processor.VaeImageProcessor", "processor"),  # np.float32 / 255: image_processor.py
    # PreTrainedModel.from_pretrained: dtype=None becomes "auto" (modeling_utils.py); 4.x: torch_dtype=None is float32
    LibraryObject("transformers.CLIPTextModel*", "model", "ids", "float32-or-auto"),
    LibraryObject("transformers.T5EncoderModel", "model", "ids", "float32-or-auto"),
    LibraryObject("transformers.UMT5EncoderModel", "model", "ids", "float32-or-auto"),
    LibraryObject("transformers.AutoModelFor*LM", "model", "ids", "float32-or-auto"),
    LibraryObject("transformers.*ForCausalLM", "model", "ids", "float32-or-auto"),
    LibraryObject("transformers.AutoModel*", "model", "any", "float32-or-auto"),
    LibraryObject("transformers.CLIPVisionModel*", "model", "any", "float32-or-auto"),  # casts pixel_values itself
    LibraryObject("transformers.*Tokenizer", "tokenizer"),
    LibraryObject("transformers.*TokenizerFast", "tokenizer"),
    LibraryObject("transformers.*FeatureExtractor", "processor"),
    LibraryObject("transformers.*ImageProcessor", "processor"),
    LibraryObject("transformers.*ImageProcessorFast", "processor"),
    LibraryObject(
        "accelerate.Accelerator",
        "accelerator",
        methods=(
            # with mixed_precision fp16 or bf16: autocast, then convert_outputs_to_fp32 (accelerator.py, prepare_model)
            ("prepare", Method("forward-float32")),
            ("prepare_model", Method("forward-float32")),
            # keep_fp32_wrapper=True by default: the forward stays wrapped; weights keep their dtype
            ("unwrap_model", Method("self")),
            ("gather", Method("first", (0,))),
            ("gather_for_metrics", Method("first", (0,))),
            ("backward", Method("none")),
        ),
    ),
)
"""In order: the first pattern that fits counts."""
_ROOTS = ("diffusers", "transformers", "accelerate")

FUNCTIONS: dict[str, Method] = {
    # autocast_adapter_dtype=True: adapter weights of fp16/bf16 become float32 (peft/mapping_func.py)
    "peft.get_peft_model": Method("model:1"),
    # randn with the dtype that is passed, else the default one: diffusers/utils/torch_utils.py
    "diffusers.utils.torch_utils.randn_tensor": Method("factory"),
    # uint8 images become the default dtype, divided by 255; other arrays keep theirs: torchvision functional.to_tensor
    "torchvision.transforms.functional.to_tensor": Method("factory"),
}
"""Functions."""


SCHEDULER_METHODS = {name: method.operands for name, method in _SCHEDULER}
"""What schedulers do, for those that only their name tells: the arguments whose dtypes each result follows."""
FLOAT32_TABLES = {"scheduler": ("alphas_cumprod", "betas", "sigmas")}
"""Attributes that stay float32 whatever the model computes in, by the word in the name of the object that holds them:
``SchedulerMixin`` of diffusers 0.35."""
FREE_INPUTS = ("timestep", "mask", "sigma", "ids", "guidance", "c_noise", "noise_label")
"""Words in the names of what models cast themselves: UNets of diffusers and EDM embed times in float32 and then cast to
``sample.dtype``, models of transformers turn masks into biases of their own dtype."""
TO_TENSOR = tuple(f"torchvision.transforms{module}.ToTensor" for module in ("", ".transforms", ".v2"))
"""Makes float32 of every image: torchvision 0.28."""
TOKEN_IDS = ("input_ids", "token_ids", "decoder_input_ids", "prompt_ids", "generated_ids", "output_ids")
"""Under these names tokenizers, collators and ``generate`` of transformers hold int64 ids."""
COUNTS = {"num_train_timesteps": 1000, "vocab_size": 30522}
"""How large a configuration's count is by default: schedulers of diffusers, BERT's vocabulary (the smallest in use)."""
DEQUANTIZERS = ("dequantize_4bit", "dequantize_blockwise", "fast_dequantize", "dequantize")
"""Functions that turn a packed weight back into numbers, in the dtype that the quantization remembers: bitsandbytes'
``functional`` (``quant_state.dtype``), and what wraps it."""


def library_object(name: str) -> LibraryObject | None:
    """The entry for a class by its qualified name; submodules in between do not matter.

    ``diffusers.models.autoencoders.autoencoder_kl.AutoencoderKL`` is ``diffusers.AutoencoderKL``.
    """
    root, _, rest = name.partition(".")
    if root not in _ROOTS or not rest:
        return None
    short = f"{root}.{rest.rpartition('.')[2]}"
    return next((each for each in OBJECTS if fnmatchcase(name, each.pattern) or fnmatchcase(short, each.pattern)), None)
