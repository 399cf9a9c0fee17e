"""Weights that a training run loads in a dtype, and compute dtypes of quantized weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ....codemod.model import Edit, EditRefused, Place, Span
from ....codemod.proof.needs import Need
from ....codemod.purpose.files import purpose_of
from ....codemod.purpose.targets import compute_dtype
from ....codemod.purpose.training import only_infers, reached_modules, stepping_modules, training_modules
from ....codemod.python.functions import all_bases
from ....codemod.python.names import ModuleNames, names_of
from ....codemod.python.paths import guards, name_parts
from ....codemod.source.project import Project
from ....codemod.torch.api import COMPUTE_KEY, LOAD_KEYS, LOADERS, WEIGHT_CASTS
from ....codemod.torch.dtype_values import constants_of, scenarios_of
from ....codemod.torch.dtypes import (
    BF16,
    DTYPE_WORDS,
    FP16,
    FP32,
    HALVES,
    TORCH_DTYPES,
    UNKNOWN,
    Constant,
    Dtype,
    as_dtype,
)
from ....codemod.trainers.reading.declarations import scopes_of
from ....codemod.trainers.reading.followed import casts_of_models
from ....codemod.trainers.reading.knobs import knobs_of
from ....codemod.trainers.reading.links import sources
from ....codemod.trainers.reading.loaded_files import serves_inference
from ....codemod.trainers.reading.loads import loads_in
from ....codemod.trainers.reading.source import ValueSource, entry_source
from ....codemod.trainers.reading.stated_casts import is_widened
from ....codemod.trainers.reading.stated_words import named_attribute
from ....codemod.trainers.reading.taken_whole import TakenEntry, taken_whole
from ....codemod.trainers.writing.moves import Move
from ....codemod.trainers.writing.transactions import as_far_as_it_counts
from .branches import is_picked, picked_moves
from .half_kernels import half_only_kernel
from .input_casts import leaving
from .spelling import argument_set, replaced, respelled_cast
from .training_autocasts import fixed_in_model_code, training_regions
from .weights_trained import looks_frozen, only_adapters, scaled_loss

QUANTIZED = ("BitsAndBytesConfig",)
QUANTIZED_KEYS = (COMPUTE_KEY,)
OTHERS = "what else is done with these weights is not known"
MACHINES = ("device", "cuda")
BY_TEST = "loads 16-bit weights on the machines that a test picks"
UNREAD = "loads weights in a dtype that is not known here"
OF_UNSLOTH = "today the machine decides what the weights are loaded in"
SETTERS = ("set_default_dtype", "set_autocast_gpu_dtype")


@dataclass(frozen=True, slots=True, eq=False)
class DtypeArgument:
    """An argument that says in which dtype weights are kept or computed with."""

    module: ModuleNames
    call: ast.Call
    name: str
    node: ast.expr
    quantized: bool


def moves(project: Project) -> Iterator[Move]:
    """What must change for loaded weights to fit the target."""
    wanted = compute_dtype(project.target)
    if wanted is None:
        return
    trained = _trained(project)
    for argument in dtype_arguments(project):
        if wanted != FP32 or not argument.quantized:
            shared = argument.quantized and argument.module not in trained and not _prepares_training(argument)
            is_own = argument.module in trained or argument.quantized or _is_in_model(project, argument)
            mixed = argument.module not in trained and next(fixed_in_model_code(project), None) is not None
            for move in _moves(project, argument, wanted):
                move = move.only_reported("inference may load with it") if shared and move.edits else move
                doubt = _switch_of(argument, wanted) or ("" if is_own else OTHERS)
                move = replace(move, unproved=doubt) if doubt and move.edits and not move.unproved else move
                yield move.only_reported("model code enters regions of a fixed dtype with them") if mixed else move
    yield from (move for item in taken_whole(project).values() for move in _of_section(project, item, wanted))
    yield from _left_to_unsloth(project, trained) if wanted == FP16 else ()


def _of_section(project: Project, taken: TakenEntry, wanted: Dtype) -> Iterator[Move]:
    """``torch_dtype: float16`` in a section that a load takes whole."""
    path, said = taken.config.document.path, str(taken.entry.value)
    other = as_dtype(said)
    is_kept = wanted == FP32 and taken.is_quantized
    if not isinstance(other, Dtype) or not _is_wrong(other, wanted) or is_kept or serves_inference(project, path):
        return
    kept = FP32 if wanted == FP16 and not taken.is_quantized else wanted
    written = said.replace(other.name, kept.name)
    source = entry_source(taken.config, taken.entry)
    try:
        edits = (source.respelled(written),) if written != said else ()
    except EditRefused:
        edits = ()
    message = f"{taken.taker} takes {source.key}, which is {said}; the target is {project.target}"
    yield Move(path, source.span, message, f"use {kept.name}: {_cost(kept)}", edits, unproved=OTHERS)


def _switch_of(argument: DtypeArgument, wanted: Dtype) -> str:
    """``if args.bf16: model = load(torch_dtype=torch.bfloat16)``: the switch moves; not ``if dtype == ...: raise``."""
    module = argument.module
    for test, holds in ((guard.test, guard.holds) for guard in guards(module, argument.call)):
        named, branch = {DTYPE_WORDS.get(word) for word in name_parts(test)} & {*HALVES}, module.parents.get(test)
        stops = isinstance(branch, ast.If) and not holds and isinstance(branch.body[-1], ast.Raise)
        if named and (not stops or wanted in named):
            return f"{ast.unparse(test)} decides whether it is loaded so"
    return ""


def _left_to_unsloth(project: Project, trained: set[ModuleNames]) -> Iterator[Move]:
    """Loads without a dtype by Unsloth, which takes bfloat16 where the GPU has it, and refuses ``fp16=True`` then."""
    moving = {scope.path for scope in scopes_of(project) if scope.kind == "call" and "bf16-mixed" in scope.regimes}
    for module in sorted((item for item in trained if item.path in moving), key=lambda item: item.path):
        for load in (item for item in loads_in(project, module) if item.unsloth):
            node = load.node
            if node is None:
                edits = argument_set(module, load.call, "dtype", FP16) if load.given.complete else ()
            elif constants_of(project, module, node) == {None}:
                edits = replaced(module, _written(module, node), FP16)
            else:
                continue
            message = (
                f"Unsloth picks the dtype of weights, and refuses fp16 for bfloat16; the target is {project.target}"
            )
            place = module.place(load.call if node is None else node, message)
            yield Move(module.path, place.span, message, f"use float16: {_cost(FP16)}", edits, unproved=OF_UNSLOTH)


def _written(module: ModuleNames, node: ast.expr) -> ast.expr:
    """Where a value stands: ``node``, or what the only binding of a variable gives it."""
    bindings = module.bindings_of(node)
    value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assign" else None
    return value if value is not None else node


def dtype_arguments(project: Project) -> Iterator[DtypeArgument]:
    trained = _trained(project)
    for module in sorted({*trained, *reached_modules(project)}, key=lambda item: item.document.path):
        for argument in _arguments_of(project, module):
            is_own = module in trained or argument.quantized or _is_in_model(project, argument)
            if is_own or _is_of_leaving_runs(project, argument):
                yield argument
    for call, cast in casts_of_models(project):
        if cast.module in trained and cast.knobs:
            yield DtypeArgument(cast.module, call, "the dtype of the cast", cast.node, False)


def _trained(project: Project) -> set[ModuleNames]:
    """The files that run a training step, and those whose trainer moves although their names say evaluation."""
    paths = {scope.path for scope in scopes_of(project) if scope.kind == "call" and any(scope.regimes)}
    evaluating = [path for path in sorted(paths) if purpose_of(path).is_left_alone and not purpose_of(path).is_foreign]
    documents = project.python_documents_at([path for path in evaluating if not only_infers(project, path)])
    return {
        *training_modules(project),
        *stepping_modules(project),
        *(names_of(project, document) for document in documents),
    }


def _prepares_training(argument: DtypeArgument) -> bool:
    """Whether the file that loads makes a model ready for training, too."""
    return argument.module.mentions("prepare_model_for", "get_peft_model", "loraconfig", "training")


def _is_of_leaving_runs(project: Project, argument: DtypeArgument) -> bool:
    """Whether only runs load with it that compute in the other 16-bit dtype so far, and train."""
    wanted = compute_dtype(project.target)
    old = next((dtype for dtype in HALVES if dtype != wanted), None) if wanted in HALVES else None
    return old is not None and leaving(project, argument.module, argument.call, old) is not None


def _is_in_model(project: Project, argument: DtypeArgument) -> bool:
    """In a file that does not train itself: whether a model's class loads the weights as a part of it."""
    owner = argument.module.scope_of(argument.call).enclosing_class
    bases = all_bases(project, argument.module, owner) if owner is not None else ()
    return any(ast.unparse(base).endswith("Module") for _, base in bases)


def _arguments_of(project: Project, module: ModuleNames) -> Iterator[DtypeArgument]:
    for names, keys in ((LOADERS, LOAD_KEYS), (QUANTIZED, QUANTIZED_KEYS)):
        calls = (call for name in names for call in module.calls_by_name.get(name, []))
        for call in (call for call in calls if names is QUANTIZED or not is_widened(project, module, call)):
            for item in call.keywords:
                if item.arg is not None and item.arg in keys:
                    yield DtypeArgument(module, call, item.arg, item.value, keys is QUANTIZED_KEYS)
    for call in (call for name in WEIGHT_CASTS for call in module.calls_by_name.get(name, [])):
        if _casts_loaded(call):
            yield DtypeArgument(module, call, "the cast", call, False)
    for call in (call for name in SETTERS for call in module.calls_by_name.get(name, [])):
        if len(call.args) == 1 and (module.qualified(call.func) or "").startswith("torch."):
            yield DtypeArgument(module, call, "dtype", call.args[0], False)


def _casts_loaded(call: ast.Call) -> bool:
    """``AutoModel.from_pretrained(...).half()``"""
    made = call.func.value if isinstance(call.func, ast.Attribute) and not call.args else None
    return isinstance(made, ast.Call) and getattr(made.func, "attr", "") in LOADERS


def _moves(project: Project, argument: DtypeArgument, wanted: Dtype) -> Iterator[Move]:
    module, node = argument.module, argument.node
    if node is argument.call and isinstance(argument.call.func, ast.Attribute):
        value = WEIGHT_CASTS[argument.call.func.attr]
        if _is_wrong(value, wanted):
            edits: tuple[Edit, ...] = (respelled_cast(module, argument.call, _kept_in(project, argument, wanted)),)
            yield _move(project, argument, wanted, module.document.path, _place(argument), value, edits)
        return
    scenarios = scenarios_of(project, module, node)
    values = {scenario.value for scenario in scenarios}
    if not any(_is_wrong(value, wanted) for value in values) and not _may_be_named(node):
        return
    if isinstance(node, ast.Attribute) and (module.qualified(node) or "") in TORCH_DTYPES:
        edits = replaced(module, node, _kept_in(project, argument, wanted))
        yield _move(project, argument, wanted, module.document.path, _place(argument), next(iter(values)), edits)
        return
    word = named_attribute(node) or node
    if isinstance(word, ast.Constant) and isinstance(word.value, str) and word.value in ("float16", "bfloat16"):
        named = sources(project, module, word) if any(_is_wrong(value, wanted) for value in values) else ()
        for source in named:
            for move in _respelled(project, argument, wanted, source, _kept_in(project, argument, wanted).name):
                yield as_far_as_it_counts(move, source, named) if source.is_guessed else move
        return
    known = knobs_of(project, module, scenarios, node)
    knobs = [knob for knob in known if knob.literal(wanted) is not None]
    for knob in known if wanted == FP32 else knobs:
        found = knob.sources(project)
        for source in found:
            kept = knob.written(_kept_in(project, argument, wanted), source)
            if _is_wrong(knob.meaning(source.value), wanted) and (kept is not None or knob in knobs):
                for move in _respelled(project, argument, wanted, source, kept, knob.meaning(source.value)):
                    yield as_far_as_it_counts(move, source, found)
    asked = [given.text for scenario in scenarios for given in scenario.given]
    if wanted == FP32 and wanted in values and not knobs and any(word in text for text in asked for word in MACHINES):
        yield Move(module.path, module.document.span(node), "a test picks 16 bits for these weights", doubt=BY_TEST)
    if knobs or wanted in values:
        return
    if UNKNOWN in values and not any(_is_wrong(value, wanted) for value in values):
        yield Move(module.path, module.document.span(node), "this dtype is not known", doubt=UNREAD)
    if is_picked(scenarios, wanted):
        yield from picked_moves(project, module, node, tuple(scenarios), wanted)
    else:
        found = sources(project, module, node)
        for source in found:
            if _is_wrong(source.value, wanted):
                kept = _kept_in(project, argument, wanted)
                for move in _respelled(project, argument, wanted, source, kept):
                    yield as_far_as_it_counts(move, source, found)


def _may_be_named(node: ast.expr) -> bool:
    """``getattr(torch, args.dtype)``, whose values the code does not list."""
    return isinstance(node, ast.Call | ast.Name)


def _is_wrong(value: Constant, wanted: Dtype) -> bool:
    return value in HALVES and value != wanted


def _respelled(
    project: Project,
    argument: DtypeArgument,
    wanted: Dtype,
    source: ValueSource,
    value: Constant,
    meant: Dtype | None = None,
) -> Iterator[Move]:
    """``meant``: the dtype that a truth value at the source picks."""
    if _kept_in(project, argument, wanted) != wanted and (source.path, source.span) in project.fact(_given_to_regions):
        edits = replaced(argument.module, argument.node, FP32)
        yield _move(project, argument, wanted, argument.module.path, _place(argument), source.value, edits)
        return
    place = source.place(f"{source.key or argument.name} is {source.text or source.value}")
    try:
        edits = (source.believed.respelled(value),) if value is not None else ()
    except EditRefused:
        edits = ()
    is_switch = isinstance(source.value, bool) and meant is not None
    yield _move(project, argument, wanted, source.path, place, meant if is_switch else source.value, edits)


def _given_to_regions(project: Project) -> frozenset[tuple[str, Span]]:
    """Where the dtypes of the training regions are given: what moves there for the regions moves weights with it."""
    found: list[ValueSource] = []
    for region in training_regions(project):
        node = region.autocast.dtype_node
        found += sources(project, region.module, node) if node is not None else ()
        found += (source for knob in region.knobs for source in knob.sources(project))
    return frozenset((source.path, source.span) for source in found)


def _place(argument: DtypeArgument) -> Place:
    return argument.module.place(argument.node, f"{argument.name} is {ast.unparse(argument.node)}")


def _move(
    project: Project,
    argument: DtypeArgument,
    wanted: Dtype,
    path: str,
    place: Place,
    value: Constant,
    edits: tuple[Edit, ...],
) -> Move:
    what = "quantized weights are computed with" if argument.quantized else "weights are kept"
    said = value.name if isinstance(value, Dtype) else str(value)
    message = f"{what} in {said}; the target is {project.target}"
    evidence = [argument.module.place(argument.call, f"{argument.name} is given here")]
    kernel = half_only_kernel(project, argument.module) if wanted == BF16 else None
    if kernel is not None:
        return Move(path, place.span, f"{message}; {kernel.message}", evidence=(*evidence, kernel))
    kept, unproved = _kept_in(project, argument, wanted), ""
    needs: tuple[Need, ...] = ()
    if kept != wanted:
        message += "; trained float16 weights cannot be unscaled: keep trainable parameters in float32"
        unproved = "weights and gradients take twice the memory"
    elif _is_scaled(argument, wanted):
        needs = (only_adapters(project, argument.module, argument.call),)
    elif wanted == FP16:
        needs = (scaled_loss(project, argument.module),)
    effect = f"use {kept.name}: {_cost(kept)}"
    return Move(path, place.span, message, effect, edits, tuple(evidence), unproved, needs)


def _is_scaled(argument: DtypeArgument, wanted: Dtype) -> bool:
    """Whether gradients of the loaded weights would meet a GradScaler."""
    return wanted == FP16 and not argument.quantized


def _kept_in(project: Project, argument: DtypeArgument, wanted: Dtype) -> Dtype:
    """The dtype in which weights are kept for a run that computes in ``wanted``."""
    if _is_scaled(argument, wanted) and not looks_frozen(project, argument.module, argument.call):
        return FP32
    return wanted


def _cost(wanted: Dtype) -> str:
    if wanted == FP32:
        return "twice the memory, full precision"
    return "the same memory, a wider range, fewer digits" if wanted == BF16 else "the same memory, range up to 65504"
