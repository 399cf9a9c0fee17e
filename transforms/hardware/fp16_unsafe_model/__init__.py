"""A model whose activations do not fit into float16 is trained or run in float16.

## What goes wrong

The loss becomes nan, or the gradient scaler skips step after step while the loss stays where it is; generation returns
empty or repeated tokens. Nothing is raised.

## Why

float16 ends at 65504; bfloat16 has the range of float32. These models were trained in bfloat16 or float32 and use that
range:

- T5 1.1, mT5, Flan-T5, LongT5, T0, UL2 and the larger T5: the second layer of their feed-forward blocks
  (huggingface/transformers#10956, #11461, #23918). Since release 4.26 `from_pretrained(torch_dtype=torch.float16)`
  keeps that layer (`wo`) in float32, so inference with weights loaded that way is right. Mixed precision with float16
  casts the layer again, and `.half()` casts what was kept.
- Pegasus: float16 "is not supported" by transformers' own page.
- Gemma 3: huggingface/transformers#36822.

## Fix

- `bf16` [unsafe]: the trainer's arguments, the flag, the key or the cast asks for bfloat16. Offered unless the profile
  of the machine says that it has no native bfloat16.
- `fp32` [unsafe]: they ask for float32, where that profile says so or `--to fp32` was given.

Loops of the project's own and Lightning trainers are reported.

## Not flagged

bfloat16 and float32; a precision that is chosen at run time; T5-small and T5-base, which train in float16; weights
loaded with `torch_dtype=torch.float16` and only run; tokenizers and lone text encoders; quantized weights; Unsloth,
which trains Gemma 3 in float32 on such GPUs; checkpoints that were rescaled for float16; tests.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....codemod.formats.text import Entry
from ....codemod.model import Draft, Finding, Place, Rule
from ....codemod.purpose.files import is_test, purpose_of
from ....codemod.source.project import Project
from ....codemod.trainers.reading.declarations import scopes_of
from ....codemod.trainers.reading.precision import Compute, precision_of
from ....codemod.trainers.reading.recognition import plain_flag
from ....codemod.trainers.reading.scopes import Scope, Setting, TextOrigin
from .unsafe_families import Family, family_of
from .unsafe_training import moved, unsafe_training

MODEL_KEYS = ("model_name_or_path", "model_name", "model_id", "base_model", "model", "model_checkpoint", "model_path")
OTHER_TASKS = frozenset({"--do_eval", "--do_predict", "--eval_only"})
"""Flags of the Hugging Face examples for what needs no training; beside ``--do_train`` they say nothing."""


def check(project: Project) -> Iterator[Finding]:
    for search in (unsafe_training, unsafe_launches):
        for draft in search(project):
            yield rule.found(*draft)


# --- launch lines -----------------------------------------------------------------------------------------------------


def unsafe_launches(project: Project) -> Iterator[Draft]:
    """Places that ask a trainer for float16 beside the name of such a checkpoint."""
    for scope in scopes_of(project):
        origin = scope.origin
        if not isinstance(origin, TextOrigin) or scope.kind not in ("file", "command") or is_test(scope.path):
            continue
        precision = precision_of(project, scope)
        if precision.setting is None or precision.compute is not Compute.FP16:
            continue
        models = [found for entry in _beside(origin, precision.setting) for found in _named(entry)]
        if len(models) == 1 and _trains(scope):
            entry, model, family = models[0]
            place = Place(scope.path, precision.place.span, family.overflows(model))
            fix = moved(project, scope)
            evidence = (origin.config.place(entry, f"{model} is trained"),)
            yield Draft(place, evidence, (fix,) if fix is not None else ())


def _beside(origin: TextOrigin, setting: Setting) -> Iterator[Entry]:
    """The flags of the same command line, or the keys of the same mapping."""
    own = origin.config.text.entries[setting.index]
    for entry in origin.config.text.entries:
        same = entry.kind == "flag" if origin.call is not None else entry.is_scalar
        beside = (entry.document, entry.key[:-1]) == (own.document, own.key[:-1])
        if same and beside and origin.holds(entry):
            yield entry


def _named(entry: Entry) -> Iterator[tuple[Entry, str, Family]]:
    """The checkpoint of an endangered family that an entry names as the model."""
    model = entry.value if plain_flag(entry.name) in MODEL_KEYS else None
    family = family_of(model) if isinstance(model, str) else None
    if isinstance(model, str) and family is not None:
        yield entry, model, family


def _trains(scope: Scope) -> bool:
    command = scope.command
    if command is None:
        return not purpose_of(scope.path).is_left_alone
    words = set(command.words)
    script = command.script.replace("\\", "/").rpartition("/")[2].lower()
    return bool(script) and not purpose_of(script).is_left_alone and ("--do_train" in words or not OTHER_TASKS & words)


rule = Rule.of("PF604", check, depends_on=("profile",))
