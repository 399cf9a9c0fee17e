"""A model is loaded in another 16-bit dtype than the one it is trained in.

## What goes wrong

`from_pretrained(torch_dtype=torch.float16)` and `TrainingArguments(bf16=True)`: nothing complains, and float16
gradients that no scaler scales become zero or infinite. The reverse, bfloat16 weights under `fp16=True`, dies in the
GradScaler on CUDA: `"_amp_foreach_non_finite_check_and_unscale_cuda" not implemented for 'BFloat16'`. float16 weights
under `fp16=True`: `ValueError: Attempting to unscale FP16 gradients.` With Unsloth: `TypeError: Unsloth: Model is in
float16 precision but you want to use bfloat16 precision`. `dtype=` on transformers before 4.56: `TypeError:
... got an unexpected keyword argument 'dtype'`.

## Why

A trainer's `bf16` and `fp16` switch autocast (and a GradScaler) on; the weights keep the dtype they were loaded in, and
gradients have the dtype of their weights. float16 + bfloat16 gives float32. A GradScaler only works on float32
gradients.

## Fix

`trainer-dtype` [unsafe]: the weights are loaded in what the trainer computes in, or asks the machine for.
`automatic` [safe]: Unsloth's `dtype=None` takes bfloat16 where the GPU has it, else float16; written where the trainer
asks for bfloat16 and Unsloth refuses to train float16 weights in it.
`unsloth-dtype` [safe]: Unsloth loads in the trainer's float16 where it refuses to train bfloat16 weights in it.
`float32-weights` [unsafe]: what a GradScaler steps is loaded in float32; it takes twice the memory.
`float32-adapters` [safe]: PEFT makes the adapters float32 again, its default; without it the first step fails.
`bfloat16-too` [unsafe]: a choice that takes float16 where bfloat16 is asked for takes bfloat16.
`old-keyword` [safe]: `torch_dtype=`, which the pinned transformers knows.

Two of the cases have names of their own: `hf-fp16-weights-fp16-amp`, a float16 model that a scaler unscales, and
`peft-fp16-trainable`, adapters that stay float16.

## Not flagged

Models that are not trained in the same program; a dtype that is chosen and that nothing reads; float32 weights,
`torch_dtype="auto"`, a dtype chosen at run time,
unless the same choice switches the scaler on; a frozen base under adapters, which PEFT makes float32: it runs in
autocast's dtype, with one cast more; quantized weights, and `bnb_4bit_compute_dtype`, of which the same is true;
weights that are cast or frozen on the way; DeepSpeed and FSDP, which cast weights themselves; precision that a command
line decides and no launch line of the project gives (`HfArgumentParser` beside a script with `--fp16` is followed);
tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Finding, Fix, Place, Rule
from ....codemod.proof.needs import RAISES
from ....codemod.proof.proving import proved
from ....codemod.purpose.checked import checked_code
from ....codemod.purpose.given import is_given
from ....codemod.python.conditions import conditions_in, excludes
from ....codemod.python.names import ModuleNames, attribute_chain, names_of, resolve
from ....codemod.python.paths import guard_facts
from ....codemod.releases.pins import VersionRange, allowed
from ....codemod.source.project import Project
from ....codemod.torch.api import LOADERS
from ....codemod.torch.dtype_values import scenarios_of
from ....codemod.torch.dtypes import FP16, Scenario
from ....codemod.trainers.framework import FAMILIES
from ....codemod.trainers.reading.precision import Compute
from ....codemod.trainers.reading.scopes import TRUE
from ....codemod.trainers.reading.trained_loads import TrainedLoad, trained_loads
from .load_clashes import load_clashes

SINCE = "4.56.0"
OTHER_LIBRARIES = ("jax", "flax", "tensorflow", "numpy")
"""A model that is given a dtype of these is none of PyTorch."""

MESSAGE = (
    "the choice that makes the model float16 has a GradScaler step it: the first step raises 'Attempting to unscale "
    "FP16 gradients' [hf-fp16-weights-fp16-amp]"
)
DTYPE_NAMES = ("dtype", "torch_dtype", "weight_dtype", "model_dtype", "load_dtype")
"""How the dtype of weights is called; ``compute_dtype`` is that of a calculation."""
BF16_NAMES = ("bf16", "use_bf16", "bfloat16", "use_bfloat16", "is_bf16")


def check(project: Project) -> Iterator[Finding]:
    for find in (load_clashes, loads_chosen_together, forgotten_dtypes, unknown_keywords):
        for draft in find(project):
            yield rule.found(*draft)


# --- dtypes that are chosen together ----------------------------------------------------------------------------------


def loads_chosen_together(project: Project) -> Iterator[Draft]:
    """Where the project states a run that makes the choice, or nothing but its owner decides."""
    for run in trained_loads(project):
        load, node = run.load, run.load.node
        aside = run.recast or run.frozen or run.adapted or run.by_accelerate or load.quantized or load.unsloth
        if node is None or aside or run.precision.partitioned or run.precision.compute is not Compute.UNKNOWN:
            continue
        around = conditions_in(project, load.module).path_given(load.call)
        for scenario in scenarios_of(project, load.module, node):
            switch = _switched_on(project, run, scenario.under(*around))
            if switch is not None:
                places = (load.module.place(switch, "it switches on mixed precision in float16"), _trained(run))
                yield Draft.at(load.module, node, MESSAGE, places)
                break


def _trained(run: TrainedLoad) -> Place:
    return run.module.place(run.trainer, "the model is passed to the trainer here")


def _switched_on(project: Project, run: TrainedLoad, loaded: Scenario) -> ast.expr | None:
    """What certainly switches on float16 mixed precision where float16 weights are loaded, in a run that is given."""
    module = run.load.module
    if loaded.value != FP16 or not loaded.given or run.precision.module is not module:
        return None
    scope = run.precision.scope
    switches = (item for item in scope.effective() if FAMILIES.get(item.key.meaning(TRUE) or "") == "fp16")
    tests = [argument[1] for item in switches if (argument := scope.argument(item)) is not None]
    asked = next((test for test in tests if _comes_with(project, module, test, loaded)), None)
    return asked if asked is not None and is_given(project, module, loaded.given) else None


def _comes_with(project: Project, module: ModuleNames, test: ast.expr, loaded: Scenario) -> bool:
    """Whether a switch is on wherever the weights are loaded so: by their test, or set in the same branch."""
    conditions = conditions_in(project, module)
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    open_parts = [part for part in parts if conditions.decide(part, loaded.given) is not True]
    if len(open_parts) < len(parts) and all(_is_left_off(project, module, part) for part in open_parts):
        return True
    found = scenarios_of(project, module, test)
    values = {each.value for each in found if not any(excludes(item, loaded.given) for item in each.given)}
    return values == {True} and len(found) > 1


def _is_left_off(project: Project, module: ModuleNames, test: ast.expr) -> bool:
    """``not args.bf16``, of an option that some stated run leaves off."""
    asked = conditions_in(project, module).given(test, True) if isinstance(test, ast.UnaryOp) else ()
    return bool(asked) and is_given(project, module, asked)


def unknown_keywords(project: Project) -> Iterator[Draft]:
    for document in project.checked_documents(LOADERS, ("transformers",), ("dtype",)):
        versions = allowed(project, "transformers", document.path)
        if versions is None or versions.may_reach(SINCE):
            continue
        module = names_of(project, document)
        for call in _of_transformers(project, module):
            yield from _at(project, module, call, versions)


def _of_transformers(project: Project, module: ModuleNames) -> Iterator[ast.Call]:
    for name in LOADERS:
        for call in module.calls_by_name.get(name, []):
            owner = (resolve(project, module, call.func) or "").split(".")
            if owner[0] == "transformers" and len(owner) > 2 and _is_model(owner[-2]):
                yield call


def _is_model(name: str) -> bool:
    if name.startswith(("Flax", "TF")):
        return False  # these are given the dtype of another library, and always as dtype=
    return name.startswith("AutoModel") or "For" in name or name.endswith("Model")


def _at(project: Project, module: ModuleNames, call: ast.Call, versions: VersionRange) -> Iterator[Draft]:
    keyword = next((item for item in call.keywords if item.arg == "dtype"), None)
    if keyword is None or any(item.arg in (None, "torch_dtype") for item in call.keywords):
        return
    text = "pass torch_dtype, which this transformers release accepts"
    if (module.qualified(keyword.value) or "").partition(".")[0] in OTHER_LIBRARIES:
        return
    fix = proved(project, "old-keyword", text, [module.name_argument(call, "dtype", "torch_dtype")], RAISES)
    message = (
        "the pinned transformers is older than 4.56 and has no 'dtype' here: TypeError, unexpected keyword argument"
    )
    yield Draft.at(module, keyword, message, tuple(versions.places[:1]), (fix,))


def forgotten_dtypes(project: Project) -> Iterator[Draft]:
    for module in checked_code(project, LOADERS, ("dtype",), ("16",)):
        yield from _forgetful_choices(module)


def _forgetful_choices(module: ModuleNames) -> Iterator[Draft]:
    if not module.mentions("bf16", "bfloat16"):
        return
    for node in module.nodes:
        if isinstance(node, ast.IfExp) and _names_dtype(module, node):
            asked = _asked_for(node.test)
            if asked is not None and _is_half(module, node.body) and _is_open(module, node, asked):
                yield _forgetful(module, node.body, asked, "()")
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and _is_half(module, node.value):
            branch = module.parents[node]
            asked = _asked_for(branch.test) if isinstance(branch, ast.If) and node in branch.body else None
            if asked is not None and _is_dtype_target(node.targets[0]) and _is_open(module, branch, asked):
                yield _forgetful(module, node.value, asked, "  ")


def _forgetful(module: ModuleNames, half: ast.expr, asked: ast.expr, around: str) -> Draft:
    """``around``: the parentheses that the choice needs where ``half`` stands."""
    text, span = ast.unparse(asked), module.document.span(half)
    fixes: tuple[Fix, ...] = ()
    if isinstance(half, ast.Attribute) and ast.unparse(half.value) == "torch":
        message = f"choose bfloat16 where {text} asks for it"
        parts = (f"{around[0]}torch.bfloat16 if {text} else ".lstrip(" "), span, around[1].strip())
        edits = (module.replace(span, *parts),)
        fixes = (Fix.unsafe("bfloat16-too", message, *edits),)
    evidence = (module.place(asked, "this asks for bfloat16"),)
    return Draft.at(module, half, f"float16 is chosen although {text} asks for bfloat16", evidence, fixes)


def _asked_for(test: ast.expr) -> ast.expr | None:
    """The part of a condition that alone makes it true and is called like bfloat16's switch, beside others that do."""
    if not isinstance(test, ast.BoolOp) or not isinstance(test.op, ast.Or):
        return None
    return next((item for item in test.values if (attribute_chain(item) or [""])[-1] in BF16_NAMES), None)


def _is_half(module: ModuleNames, node: ast.expr) -> bool:
    return module.qualified(node) in ("torch.float16", "torch.half")


def _is_open(module: ModuleNames, node: ast.AST, asked: ast.expr) -> bool:
    """Whether the switch can still be on where ``node`` runs."""
    return (ast.unparse(asked), False) not in guard_facts(module, node)


def _names_dtype(module: ModuleNames, node: ast.IfExp) -> bool:
    parent = module.parents[node]
    if isinstance(parent, ast.keyword):
        return parent.arg in ("torch_dtype", "dtype")
    return isinstance(parent, ast.Assign) and len(parent.targets) == 1 and _is_dtype_target(parent.targets[0])


def _is_dtype_target(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value in ("torch_dtype", "dtype")
    return (attribute_chain(node) or [""])[-1] in DTYPE_NAMES


rule = Rule.of("PF403", check)
