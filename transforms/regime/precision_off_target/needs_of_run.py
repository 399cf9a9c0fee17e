"""What a run needs to be right in the other 16-bit dtype, beside the edits that take it there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.proof.needed_today import is_newer_anyway
from ....codemod.proof.needs import Known, Need, Release
from ....codemod.purpose.files import is_test, purpose_of
from ....codemod.purpose.imports import imported_modules, importers_of
from ....codemod.purpose.targets import compute_dtype
from ....codemod.purpose.training import trains
from ....codemod.python.creations import creations_of
from ....codemod.python.names import FunctionNode, ModuleNames, is_none, modules_with, resolve, string_of
from ....codemod.python.paths import guards, name_parts
from ....codemod.python.reach import reached
from ....codemod.python.scopes import is_off, last_name
from ....codemod.releases.pins import allowed
from ....codemod.source.facts import memo
from ....codemod.source.project import Project
from ....codemod.torch.api import QUANTIZED_KEYS
from ....codemod.torch.autocast import autocasts
from ....codemod.torch.dtypes import BF16, FP16, FP32, HALVES, TORCH_DTYPES, Dtype
from ....codemod.torch.tables.kernels import WORKS_SINCE
from ....codemod.trainers.reading.configs import config_files
from ....codemod.trainers.reading.declarations import scope_of_call, scopes_of
from ....codemod.trainers.reading.loaded_files import is_only_composed, loaders_of
from ....codemod.trainers.reading.loads import Load, loads_in
from ....codemod.trainers.reading.program_files import words_of_script
from ....codemod.trainers.reading.reach_of_runs import recurrent_layer
from ....codemod.trainers.reading.run_code import is_used
from ....codemod.trainers.reading.run_files import composed_files
from ....codemod.trainers.reading.runs import all_runs_of
from ....codemod.trainers.reading.trained_loads import trainer_calls
from ....codemod.trainers.writing.alternatives import QUANTIZED_BY_BNB, QUANTIZED_FOR_HALF
from .demanded_halves import overflowing
from .half_kernels import used_by_runs
from .needs_of_gradients import gradients_by_hand
from .needs_of_packages import foreign_code
from .region_results import arrays_inside
from .unknown_arrays import array_of_steps, array_of_trainers
from .weights_trained import float32_adapters, only_adapters

LATE = ("interpolate", "upsample", "Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d")
LATE_SINCE = WORKS_SINCE["interpolate", "cuda", "bfloat16"]
"""The release of torch that brought the bfloat16 kernels of these calls."""
SCALE = "cur_scale"
"""What DeepSpeed's optimizers for float16 have; that for bfloat16 does not (`runtime/bf16_optimizer.py`)."""
ASKED, OTHER = "fp16_enabled", "bfloat16_enabled"
"""What DeepSpeed's engine answers."""
KERNELS_SINCE = {"torch_scatter": ("torch-scatter", "2.1")}
"""Packages with compiled kernels, and the release whose kernels take bfloat16."""
DOUBTED = ("mmcv.ops", "spconv", "torchsparse", "MinkowskiEngine")
"""Packages whose kernels are compiled for float32 and float16, some of them for bfloat16 (traveller59/spconv#728)."""
FLASH = ("flash_att", "flash-att")
"""What names of the kernels hold: `flash_attention_2`, `paged|flash_attention_3`, `kernels-community/flash-attn2`."""
FLASH_BACKEND, FLASH_PACKAGES = "FLASH_ATTENTION", ("flash_attn.", "flash_attn_interface.")
"""How attention is asked for whose kernels have no float32: of transformers, of torch, of the package itself."""
AS_SAVED = "5.0"
"""The release of transformers that loads weights in the dtype of their checkpoint if none is asked for."""
BY_NAME_AUTO, BY_NAME_IN_FLOAT32 = "0.26", "0.27"
"""The releases of TRL that load a model by its name in its own dtype if none is asked for, and in float32; before, as
transformers does (`trl/trainer/utils.py`)."""
NAMES_OF_MODELS = ("model_name_or_path", "model_name", "model_id")
QUANTIZED = "loads quantized weights without a dtype, which then compute in float16"
PREPARING = ("prepare_model_for_kbit_training", "prepare_model_for_int8_training")
FOR_HALF = ("GPTQConfig", "AwqConfig")
"""Quantizations whose kernels compute in float16."""
AUTO = "auto"
NO_MODELS = ("Tokenizer", "Processor", "Config", "Extractor")
"""What else of transformers is loaded by a name."""
OVERFLOWING = "StableDiffusionXL"
"""How the names of pipelines begin whose VAE overflows in float16 (huggingface/diffusers#4038)."""


@memo
def needs_of_run(project: Project, module: ModuleNames) -> tuple[Need, ...]:
    """The needs of what ``module`` runs, on the way to the project's target."""
    wanted = compute_dtype(project.target)
    used = used_by_runs(project, module)
    behind = tuple(item for item in used if item is module or not purpose_of(item.path).is_left_alone)
    found = (
        _of_bf16(project, module, behind)
        if wanted == BF16
        else _of_fp16(project, module, behind)
        if wanted == FP16
        else ()
    )
    foreign = foreign_code(project, module, behind, wanted)
    by_hand = gradients_by_hand(project, behind) if wanted == FP16 else None
    return (
        *(
            Known(False, f"{place.path}:{place.span.row} {place.message}")
            for place in (foreign, by_hand)
            if place is not None
        ),
        *found,
        *(_of_deepspeed(behind, wanted) if wanted in (BF16, FP32) else ()),
        *_of_tests(project, module, wanted),
        *(_of_evaluations(project, module) if wanted != FP16 else ()),
        *(
            (
                *_of_attention(project, behind),
                *_of_checkpoints(project, behind),
                *_of_quantized(project, behind),
                *_of_arrays(project),
            )
            if wanted == FP32
            else ()
        ),
    )


def _of_attention(project: Project, behind: tuple[ModuleNames, ...]) -> Iterator[Need]:
    """Attention kernels that raise in float32, asked for by code or by the files that it loads."""
    for config in config_files(project, FLASH):
        found = next((item for item in config.text.entries if _is_flash(item.value)), None)
        if found is not None and _is_read(project, behind, config.document.path):
            where = f"{config.document.path}:{config.span(found).row}"
            yield Known(False, f"{where} asks for flash attention, which takes 16-bit numbers only")
            break
    for item in behind:
        imported = next((each.node for each in item.imports if (each.qualified or "").startswith(FLASH_PACKAGES)), None)
        asked = (node for node in item.of_type(ast.Constant) if _is_flash(node.value))
        forced = item.attribute_loads.get(FLASH_BACKEND, ())
        for node in (imported, *asked, *forced):
            if node is not None:
                line = getattr(node, "lineno", 1)
                yield Known(False, f"{item.path}:{line} flash attention takes 16-bit numbers only")
                break


def _is_flash(value: object) -> bool:
    return isinstance(value, str) and " " not in value and any(word in value for word in FLASH)


def _is_read(project: Project, behind: tuple[ModuleNames, ...], path: str) -> bool:
    """Whether these modules load a file; of what Hydra may compose only what it does, alone or for a launch line."""
    if loaders_of(project, path).isdisjoint(item.path for item in behind):
        return False
    runs = [run for run in all_runs_of(project) if run.command is not None and run.modules]
    lines = [(item, run.command) for item in behind for run in runs if run.modules[0] == item.path]
    asked = [*((item, ()) for item in behind), *((item, words_of_script(line)) for item, line in lines if line)]
    composed = (file.path for item, words in asked for file in composed_files(project, item, words))
    return not is_only_composed(project, path) or path in composed


def _of_checkpoints(project: Project, behind: tuple[ModuleNames, ...]) -> Iterator[Need]:
    """Weights that keep the dtype of their checkpoint, whatever the run computes in."""
    for load in (load for item in behind for load in (*_saved_auto(project, item), *_as_saved(project, item))):
        since = "" if load.node is not None else f" from transformers {AS_SAVED} on"
        where = f"{load.module.path}:{load.call.lineno}"
        yield Known(False, f"{where} loads weights as they are saved{since}, maybe in 16 bits")
        return
    for item in behind:
        yield from (_float32_by_name(project, item) for _ in _loading_by_name(project, item))


def _float32_by_name(project: Project, module: ModuleNames) -> Known:
    loads = Release("trl", BY_NAME_IN_FLOAT32, module.path, "float32 for a model that they load by its name")
    return Known(not (missing := loads.missing(project)), missing)


def _loading_by_name(project: Project, module: ModuleNames) -> Iterator[ast.Call]:
    """The calls of TRL's trainers that load a model by its name, without a dtype, maybe in a release that asks for
    none."""
    versions = allowed(project, "trl", module.path)
    library = allowed(project, "transformers", module.path)
    if _float32_by_name(project, module).holds or "model_init_kwargs" in module.attribute_stores:
        return
    is_auto = versions is None or versions.may_reach(BY_NAME_AUTO)
    if not (is_auto or library is None or library.may_reach(AS_SAVED)):
        return
    for call, model, arguments, _ in trainer_calls(project, module):
        made = [scope_of_call(project, item.call) for item in creations_of(project, module, arguments)]
        is_named = string_of(model) is not None or last_name(model) in NAMES_OF_MODELS
        is_given = any(scope is not None and scope.of("model_init_kwargs.dtype") for scope in made)
        if is_named and not is_given and (resolve(project, module, call.func) or "").startswith("trl."):
            yield call


def _of_quantized(project: Project, behind: tuple[ModuleNames, ...]) -> Iterator[Need]:
    """Quantized weights that are loaded without a dtype: all that is not quantized of them is float16 then.

    PEFT's preparation makes it float32; what GPTQ and AWQ multiply stays float16.
    """
    prepared = any(call for item in behind for name in PREPARING for call in item.calls_by_name.get(name, ()))
    for item in behind:
        made = [call for name in FOR_HALF for call in item.calls_by_name.get(name, ())]
        texts = [node.value for node in item.of_type(ast.Constant) if isinstance(node.value, str)]
        names = [text for text in texts if " " not in text and "/" in text]
        for load in loads_in(project, item):
            given = [load.given.values.get(key) for key in QUANTIZED_KEYS]
            is_asked = any(node is not None and not is_off(node) for node in given) or any(
                map(QUANTIZED_BY_BNB.match, names)
            )
            is_for_half = bool(made) or any(map(QUANTIZED_FOR_HALF.match, names))
            if load.node is None and _is_model(project, load) and (is_for_half or (is_asked and not prepared)):
                yield Known(False, f"{item.path}:{load.call.lineno} {QUANTIZED}")
                return
        for call in item.calls_by_name.get("from_quantized", ()):
            yield Known(False, f"{item.path}:{call.lineno} {QUANTIZED}")
            return


def _of_evaluations(project: Project, module: ModuleNames) -> Iterator[Need]:
    """``model.half()`` in a file of another purpose that training calls in between: ``test.test(model=ema)``."""
    for other in imported_modules(project, module) if trains(module) else ():
        alone = purpose_of(other.path).is_left_alone and other.path.count("/") == module.path.count("/")
        for call in other.calls_by_name.get("half", ()) if alone else ():
            if not call.args and is_used(project, module.path, other.path, call.lineno):
                yield Known(False, f"{other.path}:{call.lineno} {ast.unparse(call)} evaluates in float16 in between")
                return


def _of_arrays(project: Project) -> Iterator[Need]:
    """Arrays that the project makes in float16, maybe to train with: autocast casts them, layers in float32 do not."""
    for module in modules_with(project, ("float16",), ("numpy",)):
        for node in module.attribute_loads.get("float16", ()) if not is_test(module.path) else ():
            parent = module.parents.get(node)
            is_cast = isinstance(parent, ast.Call) and last_name(parent.func) == "astype"
            is_stated = isinstance(parent, ast.keyword) and parent.arg == "dtype"
            if (is_cast or is_stated) and (module.qualified(node) or "").startswith("numpy."):
                yield Known(
                    False, f"{module.path}:{node.lineno} makes an array in float16, which float32 layers refuse"
                )
                return


def _of_tests(project: Project, module: ModuleNames, wanted: Dtype | None) -> Iterator[Need]:
    """That no test of the project demands the dtype of today: ``assert out.dtype == torch.float16``."""
    for item in importers_of(project, module):
        for node in item.of_type(ast.Compare) if is_test(item.path) else ():
            sides = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
            told = {TORCH_DTYPES.get(item.qualified(side) or "") for side in sides if isinstance(side, ast.Attribute)}
            if any(getattr(side, "attr", "") == "dtype" for side in sides) and told & {*HALVES} and wanted not in told:
                yield Known(False, f"{item.path}:{node.lineno} tests {ast.unparse(node)}")
                return


def _of_deepspeed(behind: tuple[ModuleNames, ...], wanted: Dtype | None) -> Iterator[Need]:
    for item in behind:
        for node in item.attribute_loads.get(SCALE, ())[:1]:
            yield Known(False, f"{item.path}:{node.lineno} reads {SCALE}, which DeepSpeed has for float16")
        if wanted == BF16 and ASKED in item.attribute_loads and OTHER not in item.attribute_loads:
            line = item.attribute_loads[ASKED][0].lineno
            yield Known(False, f"{item.path}:{line} asks {ASKED}(), and nothing there asks {OTHER}()")


def _of_bf16(project: Project, module: ModuleNames, behind: tuple[ModuleNames, ...]) -> Iterator[Need]:
    calls = ((item, name, call) for item in behind for name in LATE for call in item.calls_by_name.get(name, ()))
    late = next((name for item, name, call in calls if _is_of_model(project, behind, item, call)), "")
    if late and not is_newer_anyway(project, module, "torch", LATE_SINCE):
        yield Release("torch", LATE_SINCE, module.path, f"a bfloat16 kernel for {late}")
    layer = recurrent_layer(project, module) if project.target == "bf16-mixed" else None
    if layer is not None:
        yield Known(False, f"{layer.path}:{layer.span.row} {layer.message}")
    for item in behind:
        array = array_of_steps(project, item) or array_of_trainers(project, item)
        if array is not None:
            yield Known(False, f"{array.path}:{array.span.row} {array.message}")
        yield from _of_kernels(item)


def _of_kernels(module: ModuleNames) -> Iterator[Need]:
    """The compiled kernels of other packages."""
    for binding in module.imports:
        name = f"{binding.qualified or ''}."
        for package, (distribution, since) in KERNELS_SINCE.items():
            if name.startswith(f"{package}."):
                yield Release(distribution, since, module.path, f"bfloat16 kernels of {package}")
        doubted = next((item for item in DOUBTED if name.startswith(f"{item}.")), "")
        if doubted:
            line = getattr(binding.node, "lineno", 1)
            yield Known(False, f"{module.path}:{line} not all kernels of {doubted} take bfloat16")


def _is_of_model(project: Project, behind: tuple[ModuleNames, ...], module: ModuleNames, call: ast.Call) -> bool:
    """Whether a call stands in a class or an autocast region, or in what these use; not what resizes a checkpoint."""
    function = module.scope_of(call).function.node
    if not isinstance(function, FunctionNode) or _stands_in_class(module, call):
        return True
    methods = [(item, node) for item in behind for cls in item.of_type(ast.ClassDef) for node in cls.body]
    entered = (each for each in autocasts(project) if each.module in behind)
    regions = [(each.module, each.module.statement_of(each.node)) for each in entered]
    return reached(project, [*methods, *regions]).holds(module, call)


def _stands_in_class(module: ModuleNames, node: ast.AST) -> bool:
    return any(isinstance(above, ast.ClassDef) for above in module.ancestors(node))


def _of_fp16(project: Project, module: ModuleNames, behind: tuple[ModuleNames, ...]) -> Iterator[Need]:
    large = overflowing(arrays_inside(project, module, ()).held)
    if large is not None:
        yield Known(False, f"{large.path}:{large.span.row} {large.message}")
    sharded = any(scope.framework.id == "deepspeed" for scope in scopes_of(project))
    for item in behind:
        for load in (*_as_saved(project, item), *_saved_auto(project, item)) if not sharded else ():
            need = only_adapters(project, item, load.call)
            where = f"{item.path}:{load.call.lineno}"
            said = "" if load.node is not None else f" from transformers {AS_SAVED} on"
            why = f"{where} loads bfloat16 weights as they are saved{said}"
            yield need if isinstance(need, Release) else Known(not need.missing(project), why)
        for call in _loading_by_name(project, item) if not sharded else ():
            given = (each for each in call.keywords if each.arg == "peft_config" and not is_none(each.value))
            yield float32_adapters(item) if any(given) else _float32_by_name(project, item)
        needs = (only_adapters(project, item, each.call) for each in loads_in(project, item) if FP16 in each.dtypes)
        yield from (need for need in needs if isinstance(need, Release))  # of weights that are trained PF107 tells
        is_xl = any(name.startswith(OVERFLOWING) for name in item.name_loads)
        for call in item.calls_by_name.get("to", ()) if is_xl else ():
            if _narrows_vae(item, call):
                yield Known(False, f"{item.path}:{call.lineno} casts the VAE of SDXL, which overflows in float16")


def _as_saved(project: Project, module: ModuleNames) -> Iterator[Load]:
    """The loads without a dtype that are trained as a whole: no scaler unscales bfloat16 gradients, and no trainer for
    float32 casts them."""
    versions = allowed(project, "transformers", module.path)
    is_old = versions is not None and not versions.may_reach(AS_SAVED)
    for load in loads_in(project, module) if not is_old else ():
        is_bare = load.node is None and load.given.complete
        name = resolve(project, module, load.call.func) or ""
        if is_bare and _is_model(project, load) and (name.startswith("transformers.AutoModel") or trains(module)):
            yield load


def _is_model(project: Project, load: Load) -> bool:
    name = resolve(project, load.module, load.call.func) or ""
    return name.startswith("transformers.") and not any(word in name for word in NO_MODELS)


def _saved_auto(project: Project, module: ModuleNames) -> Iterator[Load]:
    """``torch_dtype="auto"``: the weights have the dtype of their checkpoint, which nobody sees."""
    loads = loads_in(project, module)
    yield from (load for load in loads if isinstance(load.node, ast.Constant) and load.node.value == AUTO)


def _narrows_vae(module: ModuleNames, call: ast.Call) -> bool:
    """``vae.to(device, dtype=weight_dtype)``, which no test of the VAE itself chooses."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    given = next((item.value for item in call.keywords if item.arg == "dtype"), call.args[1] if call.args[1:] else None)
    if given is None or "vae" not in name_parts(receiver):
        return False
    is_stated = TORCH_DTYPES.get(module.qualified(given) or "") is not None
    return not is_stated and not any("vae" in name_parts(guard.test) for guard in guards(module, call))
