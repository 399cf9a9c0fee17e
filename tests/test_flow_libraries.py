"""The table of library objects: names find the right entry. Its facts were read in the libraries, not run here."""

from __future__ import annotations

import pytest
from precfix.codemod.torch.tables.libraries import Loaded, library_object


@pytest.mark.parametrize(
    ("name", "loaded"),
    [
        ("diffusers.AutoencoderKL", Loaded.FLOAT32),
        ("diffusers.models.autoencoders.autoencoder_kl.AutoencoderKL", Loaded.FLOAT32),
        ("diffusers.AutoencoderKLWan", Loaded.FLOAT32),
        ("diffusers.UNet2DConditionModel", Loaded.FLOAT32),
        ("diffusers.SD3Transformer2DModel", Loaded.FLOAT32),
        ("diffusers.FluxPipeline", None),
        ("diffusers.DDPMScheduler", None),
        ("transformers.CLIPTextModelWithProjection", Loaded.FLOAT32_OR_AUTO),
        ("transformers.AutoModelForCausalLM", Loaded.FLOAT32_OR_AUTO),
        ("transformers.AutoTokenizer", None),
        ("accelerate.Accelerator", None),
        ("accelerate.accelerator.Accelerator", None),
    ],
)
def test_names(name: str, loaded: Loaded | None) -> None:
    found = library_object(name)
    assert found is not None
    assert (found.loaded, found.is_model) == (loaded, loaded is not None)


@pytest.mark.parametrize("name", ["AutoencoderKL", "mine.AutoencoderKL", "diffusers", "diffusers.utils.logging", ""])
def test_other_names(name: str) -> None:
    assert library_object(name) is None
