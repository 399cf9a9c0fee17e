"""Why the edits of a place may not be right for every run: then they are unsafe, and say so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from ...formats.shell_variables import REFERENCE, variable_of
from ...formats.text import CommandLine
from ...purpose.imports import connected_modules, reached_from
from ...purpose.proved_reach import is_reached
from ...purpose.runs import starts_of
from ...purpose.targets import compute_dtype
from ...purpose.training import training_modules
from ...python.callers import callers_of
from ...python.creations import known_creations
from ...python.names import FunctionNode, last_name
from ...source.documents import FileKind
from ...source.project import Project
from ...torch.api import COMPUTE_KEY, IN_8_BITS, LOAD_KEYS, QUANTIZING
from ...torch.autocast import autocasts_in
from ...torch.dtypes import FP32, HALVES, as_dtype
from ..reading.chosen_alternatives import is_unnamed
from ..reading.configs import config_files
from ..reading.declarations import scopes_of
from ..reading.handed import handed_to
from ..reading.known_readers import HANDED_FILES, is_left_to_others, reader_is_known
from ..reading.named_classes import CLASS_KEYS
from ..reading.program_files import files_matching, script_of, words_of_script
from ..reading.recognition import plain_flag
from ..reading.run_files import BASES
from ..reading.runs import runs_with
from ..reading.scopes import CodeOrigin, SettingScope, TextOrigin
from ..reading.stated_words import speaks
from ..reading.trained_loads import trainer_calls
from .handed_deepspeed import STARTING, may_be_handed
from .handed_values import asks_for_none, is_switched_off
from .line_doubts import missing_files, of_any_program, open_calls
from .steps import Plan

BITS = ("bits", "quantization_bit", "quant_bits")
"""Flags that say how many bits a weight has."""
NARROW = ("2", "3", "4", "8")
QUANTIZING_FLAGS = (*QUANTIZING, "use_4bit", "use_8bit", "q_lora", "use_qlora")
"""Flags that ask for quantized weights."""
MAX_MODULES = 200
"""How many files around a trainer are looked through for what loads its weights."""
VALUE = r"""(?:\([^)]*|"[^"]*|'[^']*|(?:\\\r?\n|[^\n])*)"""
"""What a shell gives a variable: a list, a string, or the rest of the line."""
FILE_OF_FLAG = re.compile(r"[\s\"'(=]--?[a-z][\w-]*[ =][^\s-]\S*\.(?:ya?ml|json|toml)\b")
"""A flag that names a file of settings."""
DATA = (FileKind.YAML, FileKind.JSON, FileKind.TOML)
OF_HARDWARE = ("capability", "supported")
"""Words of tests that ask what a machine can do."""
OFF_TODAY = "mixed precision is declared off here and nothing says that this run wants 16 bits"
MORE = "more is needed than this edit, as the finding says"
TWICE = "weights that are 16 bits wide today become float32, which takes twice the memory"
CODE = (".py", ".ipynb")


def why_unproved(project: Project, scope: SettingScope, plan: Plan, target: str) -> str:
    """The first reason; empty where the runs that read the place are known."""
    if not reader_is_known(project, scope):
        return f"nothing here is known to read {_what(scope)}"
    if is_left_to_others(project, scope):
        return f"no code here is seen to give {scope.path} to {scope.framework.title}"
    if _is_made_for_nobody(project, scope):
        return "nothing here is seen to use it"
    if target == "fp16-mixed" and _has_regions_without_steps(project, scope):
        return f"no training step is seen under the region of {scope.path}, and float16 needs one that scales the loss"
    for name in _classes_of_others(project, scope):
        return f"{name} is another package's class, which may read it in its own way"
    script = script_of(project, scope.path, scope.command.script) if scope.command is not None else None
    if script is not None and next(iter(project.python_documents_at([script])), None) is None:
        return f"{script}, which the line starts, cannot be read"
    for name in _unseen_scripts(project, scope):
        return f"{name}, which is started with it, cannot be read"
    for place in of_any_program(project, scope):
        return f"which program {place} starts is not known, and it may state another precision"
    for place in open_calls(project, scope) if scope.command is not None else ():
        return f"{place} makes the trainer's arguments of what is not followed, maybe not of this line"
    for name in missing_files(project, scope, scope.command) if scope.command is not None else ():
        return f"{name}, which the line names, is not seen here and may state another precision"
    for name in _named_by_variables(project, scope):
        return f"which file {name} is decides a variable, and each of them states a precision"
    for name in _defaulted(project, scope):
        return f"{name} may be set by who starts the script, and to another precision"
    for name, path in _set_elsewhere(project, scope):
        return f"{path} sets {name}, which the line is passed, and may state another precision with it"
    for name in _unseen_bases(scope):
        return f"{name}, which {scope.path} is based on, is not seen here and may need kernels of float16"
    for name in _strays(project, scope, target):
        return f"{name}, which nothing here is known to read, may be this run's and states another precision"
    for name in _unread_lists(project, scope):
        return f"what {name} holds could not be read, and it names a file, which may state another precision"
    for name in _unfollowed_words(project, scope, target):
        return f"{name}, and nothing here is known to read it"
    for name in _of_strangers(project, scope):
        return f"{name}, which it trains, is passed by callers that are not seen, and may have weights in any dtype"
    given = next(_quantizing(scope.command), "") if scope.command is not None else ""
    quantized = given or _loaded_in_few_bits(project, scope)
    if quantized:
        return f"{quantized} computes with quantized weights"
    if any(word in item.source.picked_by for item in handed_to(project, scope) for word in OF_HARDWARE):
        return "a test of the hardware picks the value, and another precision may need other hardware"
    if target.endswith("-mixed") and _widens_weights(project, scope, plan):
        return TWICE
    off = is_switched_off(scope) or any(asks_for_none(project, scope, step) for step in (*plan.steps, *plan.unknown))
    asked = {*scope.regimes, *(item.regime for item in handed_to(project, scope))} - {None, "fp32"}
    return OFF_TODAY if off and not asked and not scope.is_filled_in else ""


def _unseen_scripts(project: Project, scope: SettingScope) -> Iterator[str]:
    """The programs that launch lines pass a file, and that are not there: whether they train, nobody sees."""
    for run in runs_with(project, scope) if scope.kind == "file" else ():
        if run.command is not None and not run.modules and run.command.script.endswith(CODE):
            yield run.command.script


def _is_made_for_nobody(project: Project, scope: SettingScope) -> bool:
    """Whether nothing names what a call makes that only chooses dtypes, or comes to the call, whatever tests say."""
    if scope.call is None or not isinstance(scope.origin, CodeOrigin) or scope.framework.scales_loss:
        return False
    is_called = is_reached(project, scope.origin.module, scope.call, lambda _project, _place: True)
    return not is_called or is_unnamed(project, scope)


def _has_regions_without_steps(project: Project, scope: SettingScope) -> bool:
    """Whether a program that holds its settings itself opens a region with them, and nothing here trains with it."""
    module = scope.origin.module if scope.is_of_module and isinstance(scope.origin, CodeOrigin) else None
    if module is None or not autocasts_in(project, module):
        return False
    near = {module.path, *(item.path for item in starts_of(project, module))}
    near |= {path for run in runs_with(project, scope) for path in run.modules}
    return near.isdisjoint(item.path for item in training_modules(project))


def _of_strangers(project: Project, scope: SettingScope) -> Iterator[str]:
    """The models that trainers with these arguments get from functions and classes which nobody is seen to call."""
    module = scope.origin.module if isinstance(scope.origin, CodeOrigin) and scope.call is not None else None
    for _, model, arguments, _ in trainer_calls(project, module) if module is not None else ():
        if module is not None and any(made.call is scope.call for made in known_creations(project, module, arguments)):
            values = [model, *(value for _, value, _ in module.attribute_stores.get(last_name(model), ()))]
            found = [item for value in values if value is not None for item in module.bindings_of(value)]
            functions = [item.scope.node for item in found if item.kind == "parameter"]
            if any(
                isinstance(each, FunctionNode) and not callers_of(project, module, each).sites for each in functions
            ):
                yield ast.unparse(model)


def _classes_of_others(project: Project, scope: SettingScope) -> Iterator[str]:
    """The class beside a setting (``_target_: kit.Trainer``) that is neither the trainer's own nor the project's."""
    origin, own = scope.origin, {name.partition(".")[0] for name in scope.framework.recognize.calls}
    if scope.kind != "file" or not isinstance(origin, TextOrigin) or not own:
        return
    for setting in (item for item in scope.settings if item.key.means):
        above = origin.config.text.entries[setting.index].key[:-1]
        for section in (above, above[:-1]):
            for entry in (item for word in CLASS_KEYS for item in origin.config.text.find(*section, word)):
                name = str(entry.value)
                root = name.partition(".")[0]
                is_here = any(f"/{root}/" in f"/{path}" or f"/{path}".endswith(f"/{root}.py") for path in project.paths)
                if "." in name and root not in own and not is_here and (section == above or above[-1] == "init_args"):
                    yield name


def _what(scope: SettingScope) -> str:
    return "these flags" if scope.kind == "command" else "this file"


def _widens_weights(project: Project, scope: SettingScope, plan: Plan) -> bool:
    """Whether weights leave 16 bits: with the regime (``bf16-true``), or by a setting of their own."""
    regimes = {*scope.regimes, *(item.regime or "" for item in handed_to(project, scope))}
    set_there = (step for step in plan.steps if step.setting is not None and step.key.role == "weights")
    return any(regime.endswith("-true") for regime in regimes) or any(
        as_dtype(step.value) == FP32 and as_dtype(step.setting.value) in HALVES
        for step in set_there
        if step.setting is not None
    )


def _quantizing(command: CommandLine) -> Iterator[str]:
    """The flags that quantize the weights: ``--bits 4``, ``--load_in_4bit``."""
    for word, after in pairwise((*command.words, "")):
        flag, equals, value = word.partition("=")
        name, given = plain_flag(flag), (value if equals else after).lower()
        is_on = given in NARROW if name in BITS else given not in ("false", "no", "0")
        if flag.startswith("-") and is_on and (name in BITS or name in QUANTIZING_FLAGS):
            yield flag


def _loaded_in_few_bits(project: Project, scope: SettingScope) -> str:
    """``load_in_8bit=True`` in what a trainer's module runs with: bitsandbytes' int8 products are in float16.

    So is what a 4-bit model keeps of its weights, if nothing says another dtype.
    """
    module = scope.origin.module if isinstance(scope.origin, CodeOrigin) else None
    behind = reached_from(project, connected_modules(project, module), MAX_MODULES) if module is not None else ()
    for item in behind:
        tables: list[dict[object, ast.expr]] = [{each.arg: each.value for each in call.keywords} for call in item.calls]
        pairs = ([*zip(node.keys, node.values, strict=True)] for node in item.of_type(ast.Dict))
        tables += [{key.value: value for key, value in each if isinstance(key, ast.Constant)} for each in pairs]
        for table in tables:
            on = [name for name in QUANTIZING if getattr(table.get(name), "value", None) is True]
            if on and (IN_8_BITS in on or table.keys().isdisjoint((*LOAD_KEYS, COMPUTE_KEY, "quantization_config"))):
                return on[0]
    return ""


def _named_by_variables(project: Project, scope: SettingScope) -> Iterator[str]:
    """The files that variables name on command lines of the runs that read a place."""
    for run in runs_with(project, scope):
        if run.command is not None:
            yield from _named_by_variable(project, run.place.path, run.command)


def _defaulted(project: Project, scope: SettingScope) -> Iterator[str]:
    """The variables of shells of which a value is only the default, and that other texts set, or pass the script."""
    for source in (item.source for item in handed_to(project, scope)):
        if source.config is None or not source.is_of_line:
            continue
        path = source.config.document.path
        line = source.config.document.line(source.span.row)
        for name in (match[1] for match in REFERENCE.finditer(line) if match[3] is not None):
            said = path.rpartition("/")[2] if name.isdigit() else f"{name}="
            others = (item for kind in STARTING for item in project.documents(kind, (said,)))
            if any(item.path != path and said in item.text for item in others):
                yield name


def _set_elsewhere(project: Project, scope: SettingScope) -> Iterator[tuple[str, str]]:
    """The words of the launch lines that another file gives (``source common.sh``), where it speaks of precision."""
    followed = {item.source.path for item in handed_to(project, scope)}
    for run in runs_with(project, scope):
        for word in run.command.words if run.command is not None else ():
            name = variable_of(word)
            for path in _setting(project, name) if name else ():
                if path not in followed and path != run.place.path:
                    yield word, path


def _unread_lists(project: Project, scope: SettingScope) -> Iterator[str]:
    """The words of the launch lines whose script gives them several words, a flag with a file among them."""
    for run in runs_with(project, scope):
        document = project.document(run.place.path) if run.command is not None else None
        for word in run.command.words if document is not None and run.command is not None else ():
            name = variable_of(word)
            said = re.finditer(rf"\b{name}\+?={VALUE}", document.text) if name and document is not None else ()
            if any(FILE_OF_FLAG.search(match[0]) for match in said):
                yield word


def _setting(project: Project, name: str) -> Iterator[str]:
    """The texts that give a variable a value which speaks of precision, or is named for one."""
    said = re.compile(rf"\b{name}\+?={VALUE}")
    for item in (item for kind in STARTING for item in project.documents(kind, (name,))):
        if any(speaks(match[0]) for match in said.finditer(item.text)):
            yield item.path


def _unseen_bases(scope: SettingScope) -> Iterator[str]:
    """``_base_ = "mmdet::mask2former/..."``: the model and its kernels belong to another package."""
    module = scope.origin.module if isinstance(scope.origin, CodeOrigin) and scope.kind == "mapping" else None
    bound = module.module_scope.bindings.get(BASES[0], ()) if module is not None else ()
    for node in (node for item in bound if item.value is not None for node in ast.walk(item.value)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "::" in node.value:
            yield node.value


def _strays(project: Project, scope: SettingScope, target: str) -> Iterator[str]:
    """The DeepSpeed files with which somebody may start a trainer: nothing that is followed says it or rules it out."""
    runs = (run for run in runs_with(project, scope) if run.modules)
    if scope.framework.id in HANDED_FILES and any(may_be_handed(project, run) for run in runs):
        for item in scopes_of(project):
            is_file = item.kind == "file" and item.framework.id == "deepspeed"
            if is_file and item.regime not in (None, "fp32", target) and not reader_is_known(project, item):
                yield item.path


def _unfollowed_words(project: Project, scope: SettingScope, target: str) -> Iterator[str]:
    """What configurations say of a 16-bit dtype beside an engine that casts no input: data may be made in it."""
    if (
        scope.kind != "file"
        or scope.framework.id != "deepspeed"
        or any(run.command for run in runs_with(project, scope))
    ):
        return
    stated = {item.path for item in scopes_of(project)}
    others = [dtype for dtype in HALVES if dtype != compute_dtype(target)]
    for config in config_files(project, [dtype.name for dtype in others], DATA):
        for entry in config.text.entries if config.document.path not in stated else ():
            if as_dtype(entry.value) in others:
                yield f"{config.document.path}:{config.span(entry).row} {entry.name} is {entry.value}"


def _named_by_variable(project: Project, path: str, command: CommandLine) -> Iterator[str]:
    """``recipes/${task}.yaml``: any of several files, each with a precision of its own."""
    stating = project.fact(_stating)
    for word in words_of_script(command):
        if not stating.isdisjoint(files_matching(project, path, word.rpartition("=")[2])):
            yield word.rpartition("=")[2]


def _stating(project: Project) -> set[str]:
    """The files that state what a trainer computes in, also those that only look like what its code reads."""
    read = (item for scope in scopes_of(project) for item in handed_to(project, scope))
    entries = {item.source.path for item in read if item.source.kind == "entry" and item.regime}
    return entries | {scope.path for scope in scopes_of(project) if scope.kind == "file" and any(scope.regimes)}
