"""Truth values that do not say what they seem to: ``type=bool``, ``"False"``, ``Accelerator(mixed_precision=True)``.

And switches that do the opposite of their name: ``store_false`` without ``dest=``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.model import Draft, Fix
from ....codemod.proof.needs import RAISES, Known
from ....codemod.proof.proving import proved
from ....codemod.purpose.checked import checked_code
from ....codemod.purpose.files import is_test
from ....codemod.python.names import ModuleNames, modules_with, resolve
from ....codemod.python.options import SETTINGS, options_in
from ....codemod.python.precision_words import SWITCHING
from ....codemod.python.scopes import attribute_chain
from ....codemod.source.facts import fact
from ....codemod.source.project import Project
from ....codemod.trainers.reading.declarations import calls_of, scope_of_call
from ....codemod.trainers.reading.launch_flags import flags_given
from ....codemod.trainers.reading.shown_lines import shown_values
from .slips import SPELLING

NEGATIONS = ("no", "not", "disable", "without")
SWAPPED = "store_true"

FLAG_WORDS = (*SWITCHING, "tf32")
"""A command-line switch with one of these words in its name is about precision."""
NO_WORDS = ("0", "false", "no", "off")
NO_WORD = '("", "0", "false", "no", "off")'
SWITCHES = ("fp16", "bf16", "tf32", "fp16_full_eval", "bf16_full_eval")
PARSERS_THAT_READ_BOOLS = ("jsonargparse", "tap", "click", "typer", "absl", "fire", "simple_parsing")
"""With these a ``bool`` is read from its name."""
BOOLEANS = ("type=bool", "type = bool", *(f"default{gap}={gap}{value}" for gap in ("", " ") for value in (True, False)))
"""How files spell what makes a truth value of an option, in one of its arguments."""
SWITCH_ACTIONS = ("store_true", "store_false")


def wrong_truth_values(project: Project) -> Iterator[Draft]:
    """Every place where a precision is switched by a value that is not read as it is written."""
    yield from _switches(project)
    yield from _strings(project)
    yield from _booleans_for_accelerate(project)


# --- add_argument("--fp16", type=bool), default=False without a type --------------------------------------------------


def _switches(project: Project) -> Iterator[Draft]:
    for module in checked_code(project, (*FLAG_WORDS, "precision"), ("add_argument",), BOOLEANS):
        for call in module.calls_by_name.get("add_argument", []):
            flag = precision_flag(call)
            wrong = _wrong_switch(module, call, flag) if flag is not None else None
            if wrong is None or not _is_argparse(project, module, call):
                continue
            if flag is not None and _is_given_no(project, module, flag):
                yield _text_draft(module, call, wrong, flag)


def _is_given_no(project: Project, module: ModuleNames, flag: str) -> bool:
    """Whether a launch line of the project asks for the wrong thing: ``--fp16 False``."""
    name = flag.lstrip("-").replace("-", "_")
    given = [item for option in options_in(project, module).get(name, ()) for item in flags_given(project, option)]
    words = [*(str(item.value) for item in given), *shown_values(project, module, name)]
    return any(word.lower() in NO_WORDS for word in words if word)


@dataclass(frozen=True, slots=True)
class _Wrong:
    """What is wrong with the declaration of a switch."""

    place: ast.expr
    shown: str
    """What Python does with the value, for a message."""


def _wrong_switch(module: ModuleNames, call: ast.Call, flag: str) -> _Wrong | None:
    given = {item.arg: item.value for item in call.keywords}
    kind, default, action = given.get("type"), given.get("default"), given.get("action")
    value = default.value if isinstance(default, ast.Constant) else None
    if isinstance(kind, ast.Name) and kind.id == "bool" and action is None:
        return None if module.scope_of(kind).lookup("bool") else _Wrong(kind, 'bool("False")')
    if default is None or not isinstance(value, bool) or not flag.startswith("-") or None in given:
        return None
    if {"type", "action", "nargs", "choices"}.isdisjoint(given):
        return _Wrong(default, 'the string "False"')
    return None


def _text_draft(module: ModuleNames, call: ast.Call, wrong: _Wrong, flag: str) -> Draft:
    name = next((word for word in ("str2bool", "str_to_bool", "strtobool") if module.module_scope.lookup(word)), None)
    text = name if name is not None else f"lambda text: text.lower() not in {NO_WORD}"
    operation = module.set_argument(call, "type", text)
    changes = f"read the words false, no, off and 0 as False; {flag} False switches it off"
    fix = Fix.unsafe(SPELLING, changes, operation)
    message = f"argparse reads {flag} False as True: {wrong.shown} is True because any non-empty string is truthy"
    return Draft.at(module, wrong.place, message, fixes=[fix])


def precision_flag(call: ast.Call) -> str | None:
    """The switch for a precision that the call declares; a name like ``--half_window`` is none."""
    for item in reversed(call.args):
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            words = item.value.lower().lstrip("-").replace("-", "_").split("_")
            if "half" in words and words not in (["half"], ["use", "half"], ["half", "precision"]):
                words.remove("half")
            if ("precision" in words and "mixed" in words) or not set(FLAG_WORDS).isdisjoint(words):
                return item.value
    return None


def _is_argparse(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    roots = {
        (item.qualified or "").partition(".")[0]
        for group in module.module_scope.bindings.values()
        for item in group
        if item.kind == "import"
    }
    if not roots.isdisjoint(PARSERS_THAT_READ_BOOLS) or _teaches_bool(project):
        return False
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    owner = module.scope_of(call).enclosing_class
    if isinstance(receiver, ast.Name) and receiver.id == "self" and owner is not None:
        bases = owner.node.bases if isinstance(owner.node, ast.ClassDef) else []
        return "add_argument" not in owner.bindings and any(
            module.qualified(base) == "argparse.ArgumentParser" for base in bases
        )
    return receiver is not None and module.qualified(receiver) is None


@fact
def _teaches_bool(project: Project) -> bool:
    """Whether a parser of the project is told how to read ``bool`` (``parser.register("type", bool, ...)``), or is a
    class of its own that has its own ``add_argument``."""
    spelled = ("def add_argument(", 'register("type", bool', "register('type', bool")
    return bool(project.python_paths(("add_argument", "register"), spelled))


# --- TrainingArguments(bf16="False") ----------------------------------------------------------------------------------


def _strings(project: Project) -> Iterator[Draft]:
    spelled = [f"={quote}{word}{quote}" for quote in "\"'" for word in ("True", "False", "true", "false")]
    for module in checked_code(project, ("fp16", "bf16", "autocast", "gradscaler"), spelled):
        for call in module.calls:
            for item in call.keywords:
                word = item.value.value if isinstance(item.value, ast.Constant) else None
                quoted = isinstance(word, str) and word.lower() in ("true", "false")
                if quoted and _takes_bool(project, module, call, item):
                    yield _string_slip(project, module, item, str(word))


def _takes_bool(project: Project, module: ModuleNames, call: ast.Call, item: ast.keyword) -> bool:
    if item.arg == "enabled":
        qualified = resolve(project, module, call.func) or ""
        return qualified.startswith("torch.") and qualified.rpartition(".")[2] in ("autocast", "GradScaler")
    scope = scope_of_call(project, call)
    return scope is not None and scope.framework.id in ("hf_trainer", "trl") and item.arg in SWITCHES


def _string_slip(project: Project, module: ModuleNames, item: ast.keyword, word: str) -> Draft:
    right = word.capitalize()
    message = f"{item.arg}={word!r} is a string, and any non-empty string is truthy"
    changes = "nothing changes in the run" if right == "True" else f"{item.arg} is switched off from now on"
    same = Known(right == "True", "the run goes on with it switched on today")
    operation = module.replace(item.value, right)
    fix = proved(project, SPELLING, f"write {right}; {changes}", [operation], same)
    return Draft.at(module, item.value, message, fixes=[fix])


# --- Accelerator(mixed_precision=True) --------------------------------------------------------------------------------


def _booleans_for_accelerate(project: Project) -> Iterator[Draft]:
    for scope in calls_of(project, "accelerate"):
        module, value = scope.argument(scope.last("mixed_precision")) or (None, None)
        if module is None or value is None or is_test(scope.path):
            continue
        if isinstance(value, ast.Constant) and isinstance(value.value, bool):
            yield _boolean_slip(project, module, value, value.value)
        else:
            yield from _switch_slip(project, module, value)


def _boolean_slip(project: Project, module: ModuleNames, value: ast.Constant, on: bool) -> Draft:
    message = f"accelerate does not accept mixed_precision {on} (ValueError): it must be 'no', 'fp16', 'bf16' or 'fp8'"
    operation = module.replace(value, '"no"')
    fixes = [] if on else [proved(project, SPELLING, 'write "no"', [operation], RAISES)]
    return Draft.at(module, value, message, fixes=fixes)


def _switch_slip(project: Project, module: ModuleNames, value: ast.expr) -> Iterator[Draft]:
    """``mixed_precision=args.fp16`` where ``--fp16`` is a switch."""
    chain = attribute_chain(value)
    if chain is None or len(chain) != 2 or chain[1] not in ("fp16", "bf16", "fp8"):
        return
    stores = module.attribute_stores.get(chain[1], [])
    for call in module.calls_by_name.get("add_argument", []):
        flags = [item.value for item in call.args if isinstance(item, ast.Constant)]
        action = next((item.value for item in call.keywords if item.arg == "action"), None)
        is_switch = isinstance(action, ast.Constant) and action.value in SWITCH_ACTIONS
        if f"--{chain[1]}" in flags and is_switch and not stores:
            text = ast.unparse(value)
            message = f"{text} is True or False, which accelerate does not accept as mixed_precision (ValueError)"
            operation = module.replace(value, f'"{chain[1]}" if {text} else "no"')
            said = f'"{chain[1]}" where the switch is given, else "no"'
            fix = proved(project, SPELLING, said, [operation], RAISES)
            yield Draft.at(module, value, message, [module.place(call, "the switch")], [fix])
            return


# --- switches that do the opposite of their name ----------------------------------------------------------------------


def inverted_switches(project: Project) -> Iterator[Draft]:
    """``--no_fp16`` that is true where it is left out, and ``--fp16`` that switches off what a launch line asks for."""
    for module in checked_code(project, (*FLAG_WORDS, "precision"), ("store_false",)):
        for call in module.calls_by_name.get("add_argument", []):
            flag, given = precision_flag(call), {item.arg: item.value for item in call.keywords}
            action = given.get("action")
            if flag is None or not isinstance(action, ast.Constant) or action.value != "store_false":
                continue
            if given.keys() & {None, "dest", "default"}:
                continue
            name = flag.lstrip("-").replace("-", "_")
            reads = set(_reads(project, name))
            if name.split("_")[0] in NEGATIONS and reads == {False}:
                yield _draft(module, call, f"{name} is True without {flag}, which switches on what it speaks against")
            elif not name.startswith(NEGATIONS) and reads == {True} and _is_launched_with(project, module, name):
                yield _draft(module, call, f"{flag} switches off what it names, and a launch line gives it")


def _draft(module: ModuleNames, call: ast.Call, message: str) -> Draft:
    action = next(item.value for item in call.keywords if item.arg == "action")
    changes = f"write {SWAPPED}: runs with the switch and without it change places"
    fix = Fix.unsafe("action", changes, module.replace(action, f'"{SWAPPED}"'))
    return Draft.at(module, action, message, fixes=[fix])


def _reads(project: Project, name: str) -> Iterator[bool]:
    """How each reader takes the option: as it is, or negated; a branch does not show which way it is meant."""
    for module in modules_with(project, (name,)):
        for node in module.attribute_loads.get(name, ()):
            chain = attribute_chain(node)
            if chain is not None and len(chain) > 1 and not SETTINGS.isdisjoint(chain[-2].lower().split("_")):
                above = module.parents[node]
                negated = isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not)
                yield not negated or isinstance(module.parents[above], ast.If | ast.IfExp)


def _is_launched_with(project: Project, module: ModuleNames, name: str) -> bool:
    return any(next(iter(flags_given(project, option)), None) for option in options_in(project, module).get(name, ()))
