"""What plain code says of precision: autocast, scalers, casts of models, dtypes of loads, options, constants."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from ...model import Span
from ...outcome import Declaration
from ...purpose.files import is_test
from ...purpose.steps import carries_nothing_back, validates
from ...purpose.training import training_modules
from ...python.arguments import receiver_of
from ...python.exits import blocks_of
from ...python.names import ModuleNames, last_name, modules_with, string_of
from ...python.options import speaking_options
from ...python.precision_words import CHOOSING
from ...source.project import Project
from ...torch.api import LOAD_KEYS, LOADERS
from ...torch.autocast import DEFAULT_DTYPE, Autocast, autocasts, autocasts_in, dtype_scenarios
from ...torch.dtype_values import constants_of
from ...torch.dtypes import BF16, FP16, FP32, MIXED, TORCH_DTYPES, UNKNOWN, Dtype
from ...torch.machine_answers import machine_dtypes
from ...torch.machine_tests import picked_by_machine
from ...torch.scalers import scalers
from .followed import BY_MACHINE, OR_FLOAT32, casts_of_models, followed_declarations
from .region_switches import condition_of, dtypes_when_on
from .source import NUMBERS
from .stated_apex import stated_apex, stated_hooks
from .stated_casts import set_aside, stated_casts
from .stated_values import stated_values
from .stated_words import SHOWN, is_precision_word, is_switch, speaks, text_of

TORCH = "torch"
WORDS = (*CHOOSING, "float32", "float", "amp")
SETTER = "set_default_dtype"
"""What makes weights of a dtype wherever none is named."""
TOLD_ONCE = ("constant", "argument", "setting", "fallback", "parameter")
"""Roles of places that are not told again where it is followed what they feed."""
ASKING = frozenset({"add_argument", "option", "startswith", "endswith", "index", "count", "replace", "split", "remove"})
"""Calls whose strings declare a flag or look for one."""
MAX_TEXT = 20_000


def code_declarations(project: Project) -> tuple[Declaration, ...]:
    """Every declaration in plain code, by place."""
    followed = followed_declarations(project)
    known = {(item.path, item.span.row) for item in followed}
    spans = {(item.path, item.span) for item in followed}
    found = [*_regions(project), *_scalers(project), *_cast_elsewhere(project), *followed]
    for module in modules_with(project, WORDS):
        told = [*_loads(project, module), *_options(project, module), *stated_apex(project, module)]
        told += [*stated_commands(module), *stated_hooks(module)]
        if not is_test(module.path):
            told += [*stated_casts(project, module), *stated_values(project, module)]
        found += (
            item
            for item in _once(told)
            if ((item.path, item.span.row) not in known or item.role != "option")
            and ((item.path, item.span) not in spans or item.role not in TOLD_ONCE)
        )
    return tuple(sorted(set(found), key=lambda item: (item.path, item.span, item.key, item.role, item.feeds)))


def _once(told: Sequence[Declaration]) -> Iterator[Declaration]:
    """One declaration for each place: what is known more exactly comes first."""
    seen: set[Span] = set()
    for item in told:
        if item.span not in seen:
            seen.add(item.span)
            yield item


def _regions(project: Project) -> Iterator[Declaration]:
    trained = {module.document.path for module in training_modules(project)}
    for item in autocasts(project):
        document = item.module.document
        if item.form == "reference":
            yield from _chosen(project, item)
            continue
        values = {scenario.value for scenario in dtype_scenarios(project, item)}
        names = [value.name for value in values if isinstance(value, Dtype)]
        told = UNKNOWN not in values and len(names) == len(values) and bool(names)
        shown = " or ".join(sorted(names)) if told else text_of(item.dtype_node) or "decided at run time"
        if item.dtype_node is None and told:
            shown += " (the default)"
        when_on = dtypes_when_on(project, item)
        only = next(iter(when_on)) if len(when_on) == 1 else None
        regime = MIXED.get(only, "") if isinstance(only, Dtype) else ""
        by_machine = item.dtype_node is not None and picked_by_machine(project, item.module, item.dtype_node)
        if told and values - {FP32} == {BF16, FP16} and by_machine:
            regime, shown = MIXED[BF16], f"{BF16.name} {BY_MACHINE}"
        decided = machine_dtypes(project, item.module, item.dtype_node) if item.dtype_node is not None else None
        if told and decided == (BF16, FP32):
            regime, shown = MIXED[BF16], f"{BF16.name} {OR_FLOAT32}"
        if document.path in trained and (carries_nothing_back(item) or validates(item)):
            regime = ""  # it says nothing of the training step beside it
        role = "compute"
        if item.switched_off:  # beside nothing else it says that a training step computes in float32
            role, regime = "island", "fp32" if regime and document.path in trained else ""
        place, condition = (document.path, document.span(item.node), TORCH, "autocast"), condition_of(project, item)
        test = _mostly_off(project, item) if not condition else ""
        yield Declaration(*place, role, shown, "" if test else regime, test or condition)


def _mostly_off(project: Project, item: Autocast) -> str:
    """The test of a choice that may leave a region out by what the code sets itself: ``self.casted = False``."""
    holder = item.module.parents.get(item.node)
    if not isinstance(holder, ast.IfExp) or holder.test is item.node or holder.orelse is item.node:
        return ""
    return f"if {text_of(holder.test)}" if False in constants_of(project, item.module, holder.test) else ""


def _chosen(project: Project, item: Autocast) -> Iterator[Declaration]:
    """``autocast = torch.cuda.amp.autocast if args.precision == "amp" else suppress``, and one that is passed on."""
    holder, document = item.module.parents.get(item.reference), item.module.document
    dtype, said = DEFAULT_DTYPE.get(item.device or "cuda"), condition_of(project, item)
    if isinstance(holder, ast.IfExp) and holder.test is not item.reference:
        other = holder.orelse if holder.body is item.reference else holder.body
        if (item.module.qualified(other) or "").endswith(".autocast"):
            return  # two spellings of one: what is entered by the name says what it computes in
        said = f"{'if' if holder.body is item.reference else 'if not'} {text_of(holder.test)}"
    elif isinstance(holder, ast.Assign):
        name, regions = last_name(holder.targets[0]), autocasts_in(project, item.module)
        given = [*item.module.bindings_of(holder.targets[0]), *item.module.attribute_stores.get(name, ())]
        if len(given) < 2 or any(last_name(other.reference) == name for other in regions):
            return  # a name of its own: what is entered by it says what it computes in
    elif not isinstance(holder, ast.Return | ast.Lambda) and item.reference not in getattr(holder, "args", ()):
        return
    if dtype is not None:
        value, span = f"{dtype.name} (the default)", document.span(item.reference)
        yield Declaration(document.path, span, TORCH, "autocast", "compute", value, MIXED[dtype], said)


def _cast_elsewhere(project: Project) -> Iterator[Declaration]:
    """``vae.to(device, dtype=weight_dtype)``, ``torch.set_default_dtype(dtype)``: what a setting decides elsewhere."""
    for call, cast in casts_of_models(project):
        yield _stated(cast.module, cast.node, f"{text_of(call.func)}()", "cast")
    for module in modules_with(project, (SETTER,)):
        for call in module.calls_by_name.get(SETTER, ()):
            if len(call.args) == 1 and (module.qualified(call.func) or "").startswith("torch."):
                role = "cast" if isinstance(call.args[0], ast.Name | ast.Subscript) else "weights"
                yield _stated(module, call.args[0], f"{SETTER}()", role)


def _scalers(project: Project) -> Iterator[Declaration]:
    for scaler in scalers(project):
        document = scaler.module.document
        node = scaler.enabled_node
        if scaler.switched_off:
            value, condition = "off", ""
        else:
            value = "on"
            plain = node is None or isinstance(node, ast.Constant)
            condition = "" if plain else f"enabled={text_of(node)}"
        name = scaler.api.rpartition(".")[2] or text_of(scaler.call.func)
        yield Declaration(document.path, document.span(scaler.call), TORCH, name, "scaler", value, condition=condition)


def _loads(project: Project, module: ModuleNames) -> Iterator[Declaration]:
    for loader in LOADERS:
        for call in module.calls_by_name.get(loader, ()):
            for keyword in call.keywords:
                if keyword.arg in LOAD_KEYS:
                    told = _stated(module, keyword.value, f"{loader}({keyword.arg}=)", "weights")
                    yield replace(told, condition=set_aside(project, module, call))


def _options(project: Project, module: ModuleNames) -> Iterator[Declaration]:
    for name, options in speaking_options(project, module).items():
        if "device" in name or "accelerator" in name:
            continue
        for option in options:
            if isinstance(option.default, ast.Constant) and not _counts_digits(option.default.value):
                yield _stated(module, option.default, name, "option")
            elif option.default is None and option.switch is not None:
                span, value = module.document.span(option.node), str(option.switch).lower()
                yield Declaration(module.document.path, span, TORCH, name, "option", value)


def _counts_digits(value: object) -> bool:
    """Whether a default is a number of digits or places: ``--int_precision 20``."""
    return type(value) is int and value not in NUMBERS


def _stated(module: ModuleNames, node: ast.expr, key: str, role: str) -> Declaration:
    dtype = TORCH_DTYPES.get(module.qualified(node) or "")
    value = dtype.name if dtype is not None else text_of(node)
    return Declaration(module.document.path, module.document.span(node), TORCH, key, role, value)


def stated_commands(module: ModuleNames) -> Iterator[Declaration]:
    """Every flag with its value in the strings of one module."""
    for node in module.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "--" in node.value[:MAX_TEXT]:
            if not isinstance(module.parents.get(node), ast.JoinedStr | ast.Expr):
                yield from _told(module, node, node.value)
        elif isinstance(node, ast.JoinedStr):
            yield from _told(module, node, _joined(node))


def _told(module: ModuleNames, node: ast.expr, text: str) -> Iterator[Declaration]:
    parent = module.parents.get(node)
    words = text[:MAX_TEXT].split()
    alone = len(words) == 1 and "=" not in text
    filled = alone or isinstance(node, ast.JoinedStr)
    if alone and "/" not in text and isinstance(parent, ast.List | ast.Tuple):
        words = [*words, *_following(parent, node)]
    elif alone and isinstance(parent, ast.Call) and receiver_of(parent, "append") is not None:
        words = [*words, *_appended_next(module, parent)]
    elif alone or _is_asked(parent) or not _is_command(words):
        return
    for flag, value in _flags(words, filled):
        yield Declaration(module.document.path, module.document.span(node), "torch", flag, "flag", value)


def _is_command(words: list[str]) -> bool:
    """Whether a text is (a part of) a command line; in prose a flag stands among other words."""
    first = next((at for at, word in enumerate(words) if word.startswith("--")), len(words))
    launched = bool(words) and words[0] in ("python", "python3", "accelerate", "torchrun", "deepspeed", "uv", "srun")
    return first == 0 or launched


def _flags(words: list[str], is_filled_in: bool) -> Iterator[tuple[str, str]]:
    for word, after in zip_longest(words, words[1:], fillvalue=""):
        flag, equals, value = word.partition("=")
        if not flag.startswith("--") or not speaks(flag):
            continue
        value = value if equals else after if not after.startswith("-") else ""
        value = value.strip("\"'")
        if is_precision_word(value) or (is_switch(flag) and value.lower() in ("", "true", "false")):
            yield flag, value or "true"
        elif value.startswith("{") and is_filled_in:
            yield flag, value[:SHOWN]


def _following(holder: ast.List | ast.Tuple, node: ast.expr) -> list[str]:
    at = next(number for number, item in enumerate(holder.elts) if item is node)
    item = holder.elts[at + 1] if at + 1 < len(holder.elts) else None
    if isinstance(item, ast.Constant):
        return [str(item.value)]
    return [] if item is None else [f"{{{ast.unparse(item)}}}"]


def _appended_next(module: ModuleNames, call: ast.Call) -> list[str]:
    """The word for a precision that the next statement puts behind a flag: ``argv.append("--dtype")``, then another."""
    statement = module.statement_of(call)
    block = next((item for item in blocks_of(module.parents[statement]) if statement in item), [])
    for below in block[block.index(statement) + 1 :][:1] if block else ():
        other = below.value if isinstance(below, ast.Expr) else None
        is_same = isinstance(other, ast.Call) and ast.unparse(other.func) == ast.unparse(call.func)
        word = string_of(other.args[0]) if isinstance(other, ast.Call) and is_same and other.args else None
        return [word] if word is not None and is_precision_word(word) else []
    return []


def _joined(node: ast.JoinedStr) -> str:
    """The text of an f-string; what is filled in stands in braces, without blanks."""
    parts = []
    for item in node.values:
        if isinstance(item, ast.FormattedValue):
            parts.append("{" + "".join(ast.unparse(item.value).split()) + "}")
        elif isinstance(item, ast.Constant):
            parts.append(str(item.value))
    return "".join(parts)


def _is_asked(parent: ast.AST | None) -> bool:
    called = parent.func if isinstance(parent, ast.Call) else None
    return isinstance(parent, ast.Compare) or getattr(called, "attr", getattr(called, "id", "")) in ASKING
