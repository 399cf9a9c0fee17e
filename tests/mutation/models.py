"""The models: a class of an installed package each, a tiny configuration, and how one step calls it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Model:
    """``modules`` are copied into the program, the first holds ``name``; ``build`` makes the model from it."""

    package: str
    modules: tuple[str, ...]
    name: str
    build: str
    inputs: tuple[tuple[str, str], ...]
    """Argument name -> the expression that makes it; one that holds ``FLOAT`` is cast to the dtype of the regime."""
    result: str
    """What the loss is computed from, given ``output``."""
    imports: str = ""


IDS = ("input_ids", "torch.randint(3, 60, (2, 8))")
MASK = ("attention_mask", "torch.ones(2, 8, dtype=torch.long)")
PIXELS = ("pixel_values", "FLOAT torch.randn(2, 3, 32, 32)")
_TEXT = "vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48"


def _hf(folder: str, name: str, config: str, settings: str, inputs: tuple[tuple[str, str], ...], result: str) -> Model:
    module = f"transformers.models.{folder}.modeling_{folder}"
    imports = f"from transformers import {config}"
    return Model("transformers", (module,), name, f"{name}({config}({settings}))", inputs, result, imports)


def _text(folder: str, prefix: str, more: str = "", kind: str = "Model") -> Model:
    settings = f"{_TEXT}, pad_token_id=0{more}"
    return _hf(folder, f"{prefix}{kind}", f"{prefix}Config", settings, (IDS, MASK), "output.last_hidden_state")


def _vision(folder: str, prefix: str, more: str = "") -> Model:
    settings = _TEXT.partition(", ")[2] + ", image_size=32, patch_size=8" + more
    return _hf(folder, f"{prefix}Model", f"{prefix}Config", settings, (PIXELS,), "output.last_hidden_state")


def _timm(module: str, name: str, settings: str) -> Model:
    inputs = (("x", "FLOAT torch.randn(2, 3, 32, 32)"),)
    return Model("timm", (f"timm.models.{module}",), name, f"{name}({settings})", inputs, "output")


_KV = ", num_key_value_heads=2"
_UNET = (
    "sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(32, 32), norm_num_groups=8, "
)
_SAMPLE = ("sample", "FLOAT torch.randn(2, 4, 8, 8)")
_STEP = ("timestep", "torch.tensor([3, 7])")

MODELS: tuple[Model, ...] = (
    _text("bert", "Bert"),
    _text("roberta", "Roberta", ", max_position_embeddings=64"),
    _text("electra", "Electra", ", embedding_size=32"),
    _text("llama", "Llama", _KV),
    _text("mistral", "Mistral", _KV),
    _text("qwen2", "Qwen2", _KV),
    _text("qwen3", "Qwen3", _KV + ", head_dim=8"),
    _text("gemma", "Gemma", _KV + ", head_dim=8"),
    _text("gemma2", "Gemma2", _KV + ", head_dim=8"),
    _text("phi", "Phi"),
    _text("olmo2", "Olmo2", _KV),
    _text("stablelm", "StableLm", _KV),
    _text("gpt_neox", "GPTNeoX"),
    _text("mpnet", "MPNet", ", max_position_embeddings=64"),
    _hf(
        "gpt2",
        "GPT2Model",
        "GPT2Config",
        "vocab_size=64, n_embd=32, n_layer=2, n_head=4",
        (IDS, MASK),
        "output.last_hidden_state",
    ),
    _hf(
        "opt",
        "OPTModel",
        "OPTConfig",
        "vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=48, "
        "word_embed_proj_dim=32, pad_token_id=0",
        (IDS, MASK),
        "output.last_hidden_state",
    ),
    _hf(
        "distilbert",
        "DistilBertModel",
        "DistilBertConfig",
        "vocab_size=64, dim=32, n_layers=2, n_heads=4, hidden_dim=48",
        (IDS, MASK),
        "output.last_hidden_state",
    ),
    _hf(
        "t5",
        "T5EncoderModel",
        "T5Config",
        "vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4",
        (IDS, MASK),
        "output.last_hidden_state",
    ),
    _hf(
        "bloom",
        "BloomModel",
        "BloomConfig",
        "vocab_size=64, hidden_size=32, n_layer=2, n_head=4",
        (IDS, MASK),
        "output.last_hidden_state",
    ),
    _hf(
        "falcon",
        "FalconModel",
        "FalconConfig",
        "vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4",
        (IDS, MASK),
        "output.last_hidden_state",
    ),
    _hf(
        "xglm",
        "XGLMModel",
        "XGLMConfig",
        "vocab_size=64, d_model=32, num_layers=2, attention_heads=4, ffn_dim=48",
        (IDS, MASK),
        "output.last_hidden_state",
    ),
    _vision("vit", "ViT"),
    _vision("dinov2", "Dinov2"),
    _hf(
        "deit",
        "DeiTModel",
        "DeiTConfig",
        "hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=32, patch_size=8",
        (PIXELS,),
        "output.last_hidden_state",
    ),
    _hf(
        "convnext",
        "ConvNextModel",
        "ConvNextConfig",
        "hidden_sizes=[16, 24], depths=[1, 1], num_stages=2, patch_size=4",
        (PIXELS,),
        "output.last_hidden_state",
    ),
    _hf(
        "segformer",
        "SegformerModel",
        "SegformerConfig",
        "hidden_sizes=[16, 24, 32, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 2], decoder_hidden_size=16",
        (PIXELS,),
        "output.last_hidden_state",
    ),
    _timm(
        "vision_transformer",
        "VisionTransformer",
        "img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4, num_classes=4",
    ),
    _timm("resnet", "ResNet", "BasicBlock, [1, 1, 1, 1], num_classes=4"),
    _timm("convnext", "ConvNeXt", "depths=(1, 1, 1, 1), dims=(16, 24, 32, 40), num_classes=4"),
    _timm("mlp_mixer", "MlpMixer", "img_size=32, patch_size=8, num_blocks=2, embed_dim=32, num_classes=4"),
    _timm(
        "swin_transformer",
        "SwinTransformer",
        "img_size=32, patch_size=2, window_size=4, embed_dim=16, depths=(1, 1), num_heads=(2, 4), num_classes=4",
    ),
    Model(
        "diffusers",
        ("diffusers.models.unets.unet_2d", "diffusers.models.embeddings", "diffusers.models.resnet"),
        "UNet2DModel",
        f'UNet2DModel({_UNET}down_block_types=("DownBlock2D", "DownBlock2D"), '
        'up_block_types=("UpBlock2D", "UpBlock2D"))',
        (_SAMPLE, _STEP),
        "output.sample",
    ),
    Model(
        "diffusers",
        ("diffusers.models.unets.unet_2d_condition", "diffusers.models.embeddings", "diffusers.models.attention"),
        "UNet2DConditionModel",
        f'UNet2DConditionModel({_UNET}down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), '
        'up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=32, attention_head_dim=8)',
        (_SAMPLE, _STEP, ("encoder_hidden_states", "FLOAT torch.randn(2, 6, 32)")),
        "output.sample",
    ),
    Model(
        "diffusers",
        ("diffusers.models.autoencoders.autoencoder_kl", "diffusers.models.autoencoders.vae"),
        "AutoencoderKL",
        "AutoencoderKL(block_out_channels=(32, 32), norm_num_groups=8, layers_per_block=1, "
        'down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2)',
        (("sample", "FLOAT torch.randn(2, 3, 16, 16)"),),
        "output.sample",
    ),
    Model(
        "diffusers",
        ("diffusers.models.transformers.transformer_sd3", "diffusers.models.embeddings"),
        "SD3Transformer2DModel",
        "SD3Transformer2DModel(sample_size=8, patch_size=2, in_channels=4, num_layers=1, attention_head_dim=8, "
        "num_attention_heads=4, joint_attention_dim=32, caption_projection_dim=32, pooled_projection_dim=16, "
        "out_channels=4, pos_embed_max_size=8)",
        (
            ("hidden_states", "FLOAT torch.randn(2, 4, 8, 8)"),
            ("encoder_hidden_states", "FLOAT torch.randn(2, 6, 32)"),
            ("pooled_projections", "FLOAT torch.randn(2, 16)"),
            _STEP,
        ),
        "output.sample",
    ),
)
