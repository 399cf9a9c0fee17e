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

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.formats.text import TextEntry
from ....codemod.model import Draft, Edit, Finding, Fix, Place, Rule
from ....codemod.profiles.profile import Support
from ....codemod.purpose.checked import checked_code
from ....codemod.purpose.files import is_test, purpose_of
from ....codemod.python.arguments import argument, receiver_of
from ....codemod.python.names import ModuleNames, attribute_chain
from ....codemod.python.paths import function_of
from ....codemod.source.project import Project
from ....codemod.torch.api import LOADERS
from ....codemod.torch.autocast import autocasts_in, dtype_scenarios, is_float32_island, runs_without_gradients
from ....codemod.torch.dtype_values import constants_of
from ....codemod.torch.dtypes import FP16
from ....codemod.torch.weights import cast_dtype
from ....codemod.trainers.reading.declarations import calls_of, checked_scopes
from ....codemod.trainers.reading.precision import Compute, precision_of
from ....codemod.trainers.reading.recognition import plain_flag
from ....codemod.trainers.reading.scopes import Setting, SettingScope, TextOrigin
from ....codemod.trainers.reading.trained_loads import TrainedLoad, trained_loads
from ....codemod.trainers.writing.edits import change_of
from .unsafe_families import CheckpointFamily, breaks_when_halved, family_of, loads_model

MODEL_KEYS = ("model_name_or_path", "model_name", "model_id", "base_model", "model", "model_checkpoint", "model_path")
OTHER_TASKS = frozenset({"--do_eval", "--do_predict", "--eval_only"})
"""Flags of the Hugging Face examples for what needs no training; beside ``--do_train`` they say nothing."""
WORDS = ("t5-", "ul2", "science/t0", "pegasus-", "gemma-3")
HALF_WORDS = ("float16", "fp16", "half()", "autocast", "16")


def check(project: Project) -> Iterator[Finding]:
    for search in (unsafe_training, unsafe_launches):
        for draft in search(project):
            yield rule.found(*draft)


def unsafe_launches(project: Project) -> Iterator[Draft]:
    """Places that ask a trainer for float16 beside the name of such a checkpoint."""
    for scope in checked_scopes(project):
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


def _beside(origin: TextOrigin, setting: Setting) -> Iterator[TextEntry]:
    """The flags of the same command line, or the keys of the same mapping."""
    own = origin.config.text.entries[setting.index]
    for entry in origin.config.text.entries:
        same = entry.kind == "flag" if origin.call is not None else entry.is_scalar
        beside = (entry.document, entry.key[:-1]) == (own.document, own.key[:-1])
        if same and beside and origin.holds(entry):
            yield entry


def _named(entry: TextEntry) -> Iterator[tuple[TextEntry, str, CheckpointFamily]]:
    """The checkpoint of an endangered family that an entry names as the model."""
    model = entry.value if plain_flag(entry.name) in MODEL_KEYS else None
    family = family_of(model) if isinstance(model, str) else None
    if isinstance(model, str) and family is not None:
        yield entry, model, family


def _trains(scope: SettingScope) -> bool:
    command = scope.command
    if command is None:
        return not purpose_of(scope.path).is_left_alone
    words = set(command.words)
    script = command.script.replace("\\", "/").rpartition("/")[2].lower()
    return bool(script) and not purpose_of(script).is_left_alone and ("--do_train" in words or not OTHER_TASKS & words)


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A load of one known checkpoint."""

    module: ModuleNames
    call: ast.Call
    model: str
    family: CheckpointFamily

    @property
    def loaded(self) -> Place:
        return self.module.place(self.call, f"{self.model} is loaded")


def unsafe_training(project: Project) -> Iterator[Draft]:
    """Trainers, autocast loops and plain casts; each load is reported once."""
    seen: set[ast.Call] = set()
    for run in trained_loads(project) if project.python_paths(WORDS, ("from_pretrained",)) else ():
        checkpoint = checkpoint_at(project, run.load.module, run.load.call)
        plain = run.precision.compute is Compute.FP16 and not run.load.quantized and not run.load.unsloth
        if checkpoint is not None and plain and checkpoint.call not in seen:
            seen.add(checkpoint.call)
            yield _of_run(project, run, checkpoint)
    for module in checked_code(project, WORDS, ("from_pretrained",), where=_may_load):
        for danger, call in _in_module(project, module):
            if call not in seen:
                seen.add(call)
                yield danger


def checkpoint_at(project: Project, module: ModuleNames, call: ast.Call) -> Checkpoint | None:
    """The checkpoint of an endangered family that ``call`` certainly loads."""
    owner = receiver_of(call, *LOADERS)
    node = argument(call, "pretrained_model_name_or_path", position=0)
    if node is None or owner is None or not loads_model((attribute_chain(owner) or [""])[-1]):
        return None
    found = constants_of(project, module, node)
    model = found.pop() if len(found) == 1 else None
    family = family_of(model) if isinstance(model, str) else None
    return Checkpoint(module, call, model, family) if isinstance(model, str) and family is not None else None


def _may_load(text: str) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in HALF_WORDS) and any(word in lowered for word in WORDS)


def _of_run(project: Project, run: TrainedLoad, checkpoint: Checkpoint) -> Draft:
    precision = run.precision
    node = precision.node or precision.call
    evidence = [checkpoint.loaded]
    if run.trainer is not precision.call:
        evidence.append(run.module.place(run.trainer, "and trained"))
    message = checkpoint.family.overflows(checkpoint.model)
    return Draft.at(precision.module, node, message, evidence, [moved(project, precision.scope)])


def _in_module(project: Project, module: ModuleNames) -> Iterator[tuple[Draft, ast.Call]]:
    loads = [call for name in LOADERS for call in module.calls_by_name.get(name, [])]
    found = [item for call in loads if (item := checkpoint_at(project, module, call)) is not None]
    for checkpoint in found:
        halved = _halved(project, checkpoint)
        told = _lightning(project, module) or _own_loop(project, module) if len(found) == 1 else None
        if halved is not None and breaks_when_halved(checkpoint.model):
            yield _of_cast(project, checkpoint, halved), checkpoint.call
        elif told is not None:
            node, said = told
            message = checkpoint.family.overflows(checkpoint.model)
            yield Draft.at(module, node, message, (checkpoint.loaded, module.place(node, said))), checkpoint.call


def _halved(project: Project, checkpoint: Checkpoint) -> ast.Call | None:
    """``from_pretrained(...).half()``, or ``model.half()`` of the one variable that holds it."""
    module, call = checkpoint.module, checkpoint.call
    statement = module.statement_of(call)
    for outer in module.ancestors(call):
        if isinstance(outer, ast.Call) and cast_dtype(project, module, outer) == FP16:
            return outer
        if outer is statement:
            break
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    name = ast.unparse(statement.targets[0])
    for cast in [*module.calls_by_name.get("half", []), *module.calls_by_name.get("to", [])]:
        owner = receiver_of(cast)
        same = owner is not None and ast.unparse(owner) == name
        if (
            same
            and function_of(module, cast) is function_of(module, call)
            and cast_dtype(project, module, cast) == FP16
        ):
            return cast
    return None


def _of_cast(project: Project, checkpoint: Checkpoint, cast: ast.Call) -> Draft:
    module, owner = checkpoint.module, receiver_of(cast, "half")
    goal, fix = _goes_to(project), None
    if goal is not None and owner is not None:
        fix = _other_precision(goal, module.replace(cast, owner, ".bfloat16()" if goal == "bf16" else ".float()"))
    message = f"{checkpoint.model} overflows in float16: the cast takes even the layers that loading keeps in float32"
    return Draft.at(module, cast, message, (checkpoint.loaded,), [fix])


def _lightning(project: Project, module: ModuleNames) -> tuple[ast.expr, str] | None:
    for scope in calls_of(project, "lightning"):
        precision = precision_of(project, scope) if scope.path == module.document.path else None
        if precision is not None and precision.node is not None and precision.regimes == {"fp16-mixed"}:
            return precision.node, "Lightning computes in float16"
    return None


def _own_loop(project: Project, module: ModuleNames) -> tuple[ast.expr, str] | None:
    """An autocast region that is certainly float16 in a function that runs ``backward``."""
    for item in autocasts_in(project, module):
        if item.form != "with" or is_float32_island(project, item) or runs_without_gradients(item):
            continue
        home = function_of(module, item.node)
        trains = any(function_of(module, call) is home for call in module.calls_by_name.get("backward", []))
        switched = item.enabled_node is not None and not isinstance(item.enabled_node, ast.Constant)
        if trains and not switched and {one.value for one in dtype_scenarios(project, item)} == {FP16}:
            return item.node, "autocast computes in float16"
    return None


def _goes_to(project: Project) -> str | None:
    """``bf16`` or ``fp32``: where a run in float16 should go; None where float16 was asked for."""
    if project.target is not None:
        return {"bf16": "bf16", "fp32": "fp32"}.get(project.target.partition("-")[0])
    known = project.profile is not None and project.profile.support("bf16") is not Support.NATIVE
    return "fp32" if known else "bf16"


def _other_precision(goal: str, *edits: Edit) -> Fix:
    """The fix that moves a run to ``goal``."""
    said = {
        "bf16": "train in bfloat16, as the checkpoint was: needs a GPU that has it, and drops loss scaling",
        "fp32": "train in float32: about twice the memory for activations, and slower",
    }
    return Fix.unsafe(goal, said[goal], *edits)


def moved(project: Project, scope: SettingScope) -> Fix | None:
    """The fix that configures a trainer for another precision, as its table says."""
    goal = _goes_to(project)
    target = {"bf16": "bf16-mixed", "fp32": "fp32"}.get(goal or "", "")
    change = change_of(project, scope, scope.framework.actions(target) or ())
    return _other_precision(goal, *change.edits) if goal is not None and change is not None else None


rule = Rule.of("PF604", check, depends_on=("profile",))
