"""What other libraries do to dtypes: their classes by qualified name, and what only names and keys tell.

Read in diffusers 0.42.1, transformers 5.23.0, accelerate 1.15.0. An unknown name has no entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from functools import cache


class Loaded(Enum):
    """The dtype of a model's floating parameters after ``from_pretrained``, where none is asked for."""

    FLOAT32 = "float32"
    FLOAT32_OR_AUTO = "float32-or-auto"
    """float32 before transformers 5, from then on the dtype of the checkpoint (``modeling_utils.py``)."""


@dataclass(frozen=True, slots=True)
class LibraryObject:
    """One class, or all classes whose names fit a pattern."""

    pattern: str
    loaded: Loaded | None = None
    """For models: ``torch.nn.Module`` classes whose result has the dtype of their weights, outside of autocast."""

    @property
    def is_model(self) -> bool:
        return self.loaded is not None


def _rows(patterns: str, loaded: Loaded | None = None) -> tuple[LibraryObject, ...]:
    return tuple(LibraryObject(pattern, loaded) for pattern in patterns.split())


OBJECTS: tuple[LibraryObject, ...] = (
    *_rows("diffusers.*Scheduler diffusers.*Pipeline diffusers.image_processor.VaeImageProcessor"),
    # torch_dtype=None leaves the default dtype in place: diffusers, modeling_utils.py, ModelMixin.from_pretrained
    *_rows(
        """
        diffusers.AutoencoderKL* diffusers.AutoencoderTiny diffusers.AsymmetricAutoencoderKL diffusers.UNet2D*Model
        diffusers.ControlNetModel diffusers.*Transformer2DModel diffusers.*Transformer3DModel
        """,
        Loaded.FLOAT32,
    ),
    *_rows(
        """
        transformers.*Tokenizer transformers.*TokenizerFast transformers.*FeatureExtractor transformers.*ImageProcessor
        transformers.*ImageProcessorFast accelerate.Accelerator
        """
    ),
    *_rows(
        """
        transformers.CLIPTextModel* transformers.CLIPVisionModel* transformers.T5EncoderModel
        transformers.UMT5EncoderModel transformers.*ForCausalLM transformers.AutoModel*
        """,
        Loaded.FLOAT32_OR_AUTO,
    ),
)
"""In order: the first pattern that fits counts."""
_ROOTS = ("diffusers", "transformers", "accelerate")

SCHEDULER_METHODS = {"add_noise": (0, 1), "get_velocity": (0, 1), "scale_model_input": (0,)}
"""What the schedulers of diffusers do, by the arguments whose promoted dtype each result has: tables are cast by
``.to(dtype=original_samples.dtype)``, a sigma without dimensions widens nothing (``scheduling_ddpm.py``)."""
FLOAT32_TABLES = {"scheduler": ("alphas_cumprod", "betas", "sigmas")}
"""Attributes that stay float32 whatever the model computes in, by the word in the name of the object that holds them:
``SchedulerMixin`` of diffusers."""
LABELS = ("label", "labels", "label_ids", "labels_ids")
"""How the names end of what a model compares its output with."""
FREE_INPUTS = ("timestep", "mask", "sigma", "ids", "guidance", "c_noise", "noise_label")
"""Words in the names of what models cast themselves: UNets of diffusers and EDM embed times in float32 and then cast to
``sample.dtype``, models of transformers turn masks into biases of their own dtype."""
TO_TENSOR = tuple(f"torchvision.transforms{module}.ToTensor" for module in ("", ".transforms", ".v2"))
"""Makes float32 of every image: ``functional.to_tensor`` of torchvision."""
IMAGE_DATASETS = tuple(
    f"torchvision.datasets.{name}"
    for name in ("MNIST", "FashionMNIST", "KMNIST", "EMNIST", "CIFAR10", "CIFAR100", "SVHN", "STL10", "ImageFolder")
)
"""Give pairs of what ``transform`` makes of an image, and a label (torchvision 0.25)."""
SAMPLING = ("Subset", "random_split")
"""Of ``torch.utils.data``: datasets whose samples are those of another one, and lists of these."""
TAKE_IMAGES = (
    "*Autoencoder*", "*VAE", "UNet*", "ControlNet*", "*Transformer2DModel", "*Transformer3DModel", "*VisionModel*",
    "*ForImageClassification", "vae", "ae", "unet", "controlnet", "image_encoder",
)  # fmt: skip
"""Classes of models, and names they are kept under, whose first argument is an image or its latents, not token ids."""
MODEL_NAMES = ("vae", "ae", "unet", "transformer", "text_encoder", "controlnet", "image_encoder", "prior")
"""Names under which code keeps models of diffusers and transformers that it did not build itself."""
MODEL_PARAMETERS = ("model", "unet", "vae", "transformer", "text_encoder", "controlnet", "net", "encoder", "decoder")
"""Parameters under which a function is given a model, where no annotation says so."""
MODEL_WORDS = (
    "model", "net", "network", "unet", "vae", "transformer", "generator", "decoder", "encoder", "backbone", "module",
)  # fmt: skip
"""The last word of names under which code calls any model: enough to say what autocast does inside it."""


@dataclass(frozen=True, slots=True)
class ItemWriter:
    """A module of a data pipeline that writes an item of the batch, by the keywords of its constructor."""

    item: str
    """Names the item that is written."""
    follows: str = ""
    """Names the item whose dtype the written one has."""
    dtype: str = ""
    """Gives the dtype; float32 where it is left out."""


ITEM_WRITERS = {
    "mgds.pipelineModules.LoadImage.LoadImage": ItemWriter("image_out_name", dtype="dtype"),
    "mgds.pipelineModules.GenerateImageLike.GenerateImageLike": ItemWriter("image_out_name", follows="image_in_name"),
    "mgds.pipelineModules.ScaleImage.ScaleImage": ItemWriter("out_name", follows="in_name"),
}
"""Read in mgds at 3a6994a: ``LoadImage`` divides bytes by 255, or takes ``ToTensor``. ``GenerateImageLike`` made
float32 of every image before 9c51999 (July 2024); mgds has no releases, so the later one counts."""
TOKEN_IDS = ("input_ids", "token_ids", "decoder_input_ids", "prompt_ids", "generated_ids", "output_ids")
"""Under these names tokenizers, collators and ``generate`` of transformers hold int64 ids."""
COUNTS = {"num_train_timesteps": 1000, "vocab_size": 30522}
"""How large a configuration's count is by default: schedulers of diffusers, BERT's vocabulary (the smallest in use)."""
DEQUANTIZERS = ("dequantize", "fast_dequantize")
"""How the names of functions begin that turn a packed weight back into numbers, in the dtype that the quantization
remembers: ``functional`` of bitsandbytes (``quant_state.dtype``), and what wraps it."""


ACTIVATIONS = (
    "transformers.activations.ACT2FN", "transformers.activations.get_activation",
    "diffusers.models.activations.get_activation", "diffusers.models.activations.ACT2FN",
)  # fmt: skip
"""Tables of activations: modules without weights, each of which gives the dtype of its input."""
ATTENTION_FUNCTIONS = ("transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS",)
"""Tables of functions ``(module, query, key, value, mask, ...)``, which give the result and the weights of attention.
The eager ones stand in the model's own file; they multiply, and like the others never promote."""
CALLERS = {
    "transformers.pytorch_utils.apply_chunking_to_forward": 3,
    "transformers.modeling_utils.apply_chunking_to_forward": 3,
    "torch.utils.checkpoint.checkpoint": 1,
}
"""Functions that call their first argument and give what it gives, by where the arguments for it begin."""
_OF_TIMM = {
    **{"DropPath": "Dropout", "LayerNorm": "LayerNorm", "LayerNorm2d": "LayerNorm"},
    **{"PatchEmbed": "Conv2d", "Mlp": "Linear", "GluMlp": "Linear", "SwiGLU": "Linear", "ConvMlp": "Conv2d"},
    **{"ClassifierHead": "Linear", "NormMlpClassifierHead": "Linear"},
}
_OF_TORCHAUDIO = ("MelScale", "MelSpectrogram")
LAYER_CLASSES = {
    **{f"transformers.{module}.Conv1D": "Linear" for module in ("pytorch_utils", "modeling_utils")},
    **{f"timm.{module}.{name}": layer for module in ("layers", "models.layers") for name, layer in _OF_TIMM.items()},
    **{f"torchaudio.transforms{part}.{name}": "Linear" for part in ("", "._transforms") for name in _OF_TORCHAUDIO},
}
"""Layers that treat dtypes as one of ``torch.nn`` does: those of torchaudio end with a product with a table that is a
buffer (``MelScale``, which autocast lowers), ``Conv1D`` calls ``addmm`` (``pytorch_utils.py``, transformers
5.23.0), those of timm 1.0.31 derive from it, call its function, or begin and end with it (``norm.py``, ``mlp.py``)."""
_CHANGING = ("ConvertImageDtype", "ToDtype", "ToPILImage", "PILToTensor", "ToImage", "Lambda", "Compose")


def keeps_image_dtype(name: str) -> bool:
    """Whether a transform, by its qualified name, gives a floating tensor in the dtype it takes."""
    package, _, last = name.rpartition(".")
    return package.startswith("torchvision.transforms") and last not in _CHANGING and not last.startswith("Random")


OUTPUT_ATTRIBUTES = (
    "sample", "prev_sample", "last_hidden_state", "latent_dist", "logits", "pooler_output", "image_embeds",
    "text_embeds", "pred_original_sample", "hidden_states", "embeddings",
)  # fmt: skip
"""Attributes of what a model returns that hold a tensor of its dtype: floating ones all."""
_OF_NUMPY = """
    abs absolute append argmax argmin argpartition argsort around array asanyarray asarray ascontiguousarray average
    ceil clip column_stack copy corrcoef count_nonzero cov cumsum diff dot dstack exp expand_dims expm1 fabs flatnonzero
    floor histogram hstack isfinite isinf isnan log log10 log1p log2 maximum median minimum nan_to_num nanargmax
    nanargmin nanmax nanmean nanmedian nanmin nanstd nansum nanvar negative percentile ptp quantile ravel repeat reshape
    rint round save savetxt sign sort sqrt square stack take tanh tile transpose unique vstack where
    """
_OF_LISTS = "all amax amin any argwhere concat concatenate max mean min prod squeeze std sum var"
"""Those that call a tensor's own method, or take its rows one by one; of a list of tensors they make an array."""
_OF_OTHERS = {
    "matplotlib.pyplot": "bar boxplot fill_between hist imsave imshow matshow plot scatter",
    "scipy.stats": "kendalltau pearsonr spearmanr",
    "sklearn.metrics": """
    average_precision_score brier_score_loss log_loss mean_absolute_error mean_squared_error precision_recall_curve
    r2_score roc_auc_score roc_curve root_mean_squared_error
    """,
}
ARRAY_FUNCTIONS = {
    **{f"numpy.{name}": name not in _OF_LISTS.split() for name in f"{_OF_NUMPY} {_OF_LISTS}".split()},
    **{f"{module}.{name}": True for module, names in _OF_OTHERS.items() for name in names.split()},
}
"""Functions that make a NumPy array of tensors in a list, and (true) of a tensor that stands alone: run with NumPy 2.4,
Matplotlib 3.11, SciPy and scikit-learn of 2026."""
OUTPUT_CLASSES = ("transformers.*Output*", "diffusers.*Output*", "types.SimpleNamespace")
"""Classes whose objects keep what they are called with under the keywords: ``ModelOutput`` of transformers,
``BaseOutput`` of diffusers."""


@cache
def is_output_class(name: str) -> bool:
    """Whether a class, by its qualified name, keeps its keywords as attributes."""
    return any(fnmatchcase(name, pattern) for pattern in OUTPUT_CLASSES)


def takes_images(name: str) -> bool:
    """Whether a model, by its class or the name it is kept under, takes an image or its latents first."""
    return any(fnmatchcase(name.lstrip("_").rstrip("_0123456789"), pattern) for pattern in TAKE_IMAGES)


def library_object(name: str) -> LibraryObject | None:
    """The entry for a class by its qualified name; submodules in between do not matter.

    ``diffusers.models.autoencoders.autoencoder_kl.AutoencoderKL`` is ``diffusers.AutoencoderKL``.
    """
    root, _, rest = name.partition(".")
    if root not in _ROOTS or not rest:
        return None
    short = f"{root}.{rest.rpartition('.')[2]}"
    return next((each for each in OBJECTS if fnmatchcase(name, each.pattern) or fnmatchcase(short, each.pattern)), None)
