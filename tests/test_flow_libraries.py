"""The table of library objects: names find the right entry. Its facts were read in the libraries, not run here."""

from __future__ import annotations

import pytest
from precfix.codemod.torch.tables.libraries import FUNCTIONS, KINDS, LOADED, MODEL_INPUTS, OBJECTS, library_object
from precfix.codemod.torch.tables.operation import MIXES, RESULTS

WORDS = {"weights", "self", "forward-float32", "model:1"}


def test_every_word_is_explained() -> None:
    for each in OBJECTS:
        assert each.kind in KINDS
        assert each.inputs in MODEL_INPUTS
        assert each.loaded in LOADED
        for _, method in each.methods:
            assert method.result in RESULTS or method.result in WORDS
            assert method.mix in MIXES
    assert all(method.result in RESULTS or method.result in WORDS for method in FUNCTIONS.values())


@pytest.mark.parametrize(
    ("name", "kind", "inputs"),
    [
        ("diffusers.AutoencoderKL", "model", "weights"),
        ("diffusers.models.autoencoders.autoencoder_kl.AutoencoderKL", "model", "weights"),
        ("diffusers.AutoencoderKLWan", "model", "weights"),
        ("diffusers.UNet2DConditionModel", "model", "weights"),
        ("diffusers.SD3Transformer2DModel", "model", "weights"),
        ("diffusers.FluxPipeline", "pipeline", "any"),
        ("transformers.CLIPTextModelWithProjection", "model", "ids"),
        ("transformers.AutoModelForCausalLM", "model", "ids"),
        ("transformers.AutoTokenizer", "tokenizer", "any"),
        ("accelerate.Accelerator", "accelerator", "any"),
        ("accelerate.accelerator.Accelerator", "accelerator", "any"),
    ],
)
def test_names(name: str, kind: str, inputs: str) -> None:
    found = library_object(name)
    assert found is not None
    assert (found.kind, found.inputs) == (kind, inputs)


@pytest.mark.parametrize("name", ["AutoencoderKL", "mine.AutoencoderKL", "diffusers", "diffusers.utils.logging", ""])
def test_other_names(name: str) -> None:
    assert library_object(name) is None


def test_transformers_5_changed_the_dtype_of_loading() -> None:
    vae, text = library_object("diffusers.AutoencoderKL"), library_object("transformers.T5EncoderModel")
    assert vae is not None
    assert text is not None
    assert (vae.loaded, text.loaded) == ("float32", "float32-or-auto")


def test_schedulers() -> None:
    ddpm, uncast = library_object("diffusers.DDPMScheduler"), library_object("diffusers.DDPMWuerstchenScheduler")
    assert ddpm is not None
    assert uncast is not None
    noise = ddpm.method("add_noise")
    assert noise is not None
    assert (noise.result, noise.operands) == ("promote", (0, 1))
    assert ddpm.method("set_timesteps") is None
    assert uncast.method("add_noise") is None
