"""A DeepSpeed configuration holds precision keys that contradict each other.

## What goes wrong

Loss-scale keys in the `bf16` section (`ds-bf16-loss-scale`): `pydantic ValidationError: Extra inputs are not permitted`
from DeepSpeed 0.17.1 on, even when the section is disabled; ignored before. Both types enabled (`ds-both`):
`AssertionError: bfloat16 and fp16 modes cannot be simultaneously enabled`. Unknown keys such as `opt_level` in the
`fp16` section (`ds-fp16-unknown-key`) or `enable` in the `bf16` section (`ds-bf16-unknown-key`): the same
ValidationError. A Hugging Face trainer set to `bf16`, or to neither, with a file that enables fp16
(`hf-deepspeed-mismatch`): `ValueError: Please correct the following DeepSpeed config values that mismatch
TrainingArguments values`, or accelerate's `--mixed_precision arg cannot be set to bf16 when fp16 is set`. Without ZeRO
(stage 0, or none) DeepSpeed 0.18.3 to 0.19.8 divides gradients of fp16 by a loss scale that it never applied
(`ds-fp16-without-zero`): nothing raises, steps are up to 65536 times too small, and small gradients are lost, as they
are with a static `loss_scale` of 1 (`ds-fp16-unscaled`). `"enabled": "auto"` in what `deepspeed.initialize` reads by
itself (`ds-auto-unfilled`): `pydantic ValidationError: Input should be a valid boolean`; before 0.17.1 the word counts
as true. Code that
reads `deepspeed_config["fp16"]["enabled"]`: `KeyError: 'fp16'` when the file leaves the section out, as a bf16
configuration does. accelerate hands such a trainer the file of `--deepspeed_config_file`, whatever the launcher's own
`--mixed_precision` says.

## Why

bfloat16 needs no loss scaling, so DeepSpeed's `bf16` section never had these keys; since 0.17.1 (2025-06) both sections
are strict pydantic models. They usually come from a copied `fp16` section.

## Fix

`delete-keys` [safe]: the keys are deleted; nothing read them, on any version. For two enabled types `keep-bf16` and
`keep-fp16` [unsafe] switch the other one off: which of the two the run wants is the owner's word, so neither is the
default without `--unsafe-fixes` or `--fix`. `auto` [safe]: where a trainer's own argument says the type, the file says
`"auto"`, and the trainer fills it in. `tolerant-read` [safe]: the section is read with `.get`. `respell` [safe]: what
else clashes, by the tables in `transforms/frameworks/`: apex `amp` beside a 16-bit type is dropped, data types that are
not the one enabled are dropped, and `communication_data_type` gets the name that DeepSpeed knows. `respell` [unsafe]: a
static `loss_scale` of 1 becomes 0, which scales dynamically. fp16 without ZeRO is told only.

## Not flagged

fp16 without ZeRO where the stage is not known, or a manifest allows only DeepSpeed before 0.18.3; loss-scale and
unknown keys where a manifest allows only DeepSpeed before 0.17.1, or takes it from an address (a fork, a commit); files
that no launch line names, beside a trainer's arguments; `"auto"` in both sections, which the Hugging Face Trainer fills
in, unless a launch line or a call of `deepspeed.initialize` names the file; loss-scale keys in the `fp16` section;
sections of files that are no DeepSpeed configuration; `loss_scale` keys elsewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ....codemod.model import Edit, EditRefused, Finding, Fix, Rule
from ....codemod.proof.needs import RAISES, Need, SameResult
from ....codemod.proof.proving import proved
from ....codemod.python.names import ModuleNames, checked_modules, string_of
from ....codemod.releases.pins import allowed, is_from_source
from ....codemod.source.project import Project
from ....codemod.trainers.reading.declarations import checked_scopes
from ....codemod.trainers.reading.deepspeed_objects import CONFIG_WORDS, is_deepspeed_config
from ....codemod.trainers.reading.scopes import Setting, SettingScope
from ....codemod.trainers.writing.edits import edits_of
from ....codemod.trainers.writing.findings import findings_of
from ....codemod.trainers.writing.steps import ChangeStep
from .trainer_words import TYPES, TrainerWord, word_for
from .unfilled_autos import unfilled_autos

STRAYS = {
    "bf16.scaling": ("loss-scale keys", "ds-bf16-loss-scale"),
    "bf16.unknown": ("unknown keys", "ds-bf16-unknown-key"),
    "fp16.unknown": ("unknown keys", "ds-fp16-unknown-key"),
}
"""Keys of DeepSpeed's table that are in the wrong section, what they are, and what the contradiction is called."""
STRICT = "0.17.1"
"""The release of DeepSpeed that refuses unknown keys."""
UNSCALED, NO_SUM = "0.18.3", "0.19.0"
"""The first that scales no loss without ZeRO (still so in 0.19.8), and that sums no bf16 gradients in float32 there."""
FALSE, AUTO = "false", "auto"


def check(project: Project) -> Iterator[Finding]:
    for scope in checked_scopes(project):
        if scope.framework.id == "deepspeed":
            for name, (what, contradiction) in STRAYS.items() if _may_be(STRICT, project, scope) else ():
                yield from _stray_keys(project, scope, name, what, contradiction)
            yield from _both_enabled(project, scope)
            yield from _without_zero(project, scope)
            yield from _against_trainer(project, scope)
    yield from findings_of(project, rule)
    yield from _section_reads(project)
    yield from (rule.found(*draft) for draft in unfilled_autos(project))


def _may_be(release: str, project: Project, scope: SettingScope) -> bool:
    versions = allowed(project, "deepspeed", scope.path)
    return not is_from_source(project, "deepspeed") and (versions is None or versions.may_reach(release))


def _without_zero(project: Project, scope: SettingScope) -> Iterator[Finding]:
    """What the newer engines do with 16 bits where no stage of ZeRO is on."""
    stage, sums = scope.last("zero_optimization.stage"), scope.last("data_types.grad_accum_dtype")
    # A file that says no size of a batch may be a part of one.
    if not (stage.value == "0" if stage is not None else _is_whole(scope) and bool(scope.of("filled_by_trainer"))):
        return
    fp16, bf16 = _switch(scope, "fp16"), _switch(scope, "bf16")
    places = [stage.place.saying("ZeRO is off")] if stage is not None else []
    if fp16 is not None and bf16 is None and _may_be(UNSCALED, project, scope):
        divided = f"DeepSpeed {UNSCALED} and later divides the gradients by a loss scale that it does not apply"
        message = f"fp16 without ZeRO: {divided}; stage 1 does, and bf16 needs none [ds-fp16-without-zero]"
        yield rule.found(fp16.place.saying(message), places, [])
    if bf16 is not None and sums is not None and sums.value == "fp32" and _may_be(NO_SUM, project, scope):
        refused = (
            f"without ZeRO DeepSpeed {NO_SUM} and later refuses to sum gradients of bf16 in fp32 [ds-grad-accum-mix]"
        )
        yield rule.found(sums.place.saying(refused), places, [])


def _stray_keys(project: Project, scope: SettingScope, name: str, what: str, contradiction: str) -> Iterator[Finding]:
    by_section: dict[str, list[Setting]] = {}
    for setting in scope.of(name):
        by_section.setdefault(setting.name.rpartition(".")[0], []).append(setting)
    for path, stray in by_section.items():
        section = path.rpartition(".")[2]
        names = ", ".join(_last(setting) for setting in stray)
        message = (
            f"{what} in the {section} section ({names}): DeepSpeed {STRICT} and later rejects it [{contradiction}]"
        )
        done = f"delete {names} from {section}: no DeepSpeed version reads them there"
        steps = [ChangeStep("drop", setting.key, setting=setting) for setting in stray]
        yield rule.found(
            stray[0].place.saying(message),
            [setting.place.saying(f"{_last(setting)} has no meaning in {section}") for setting in stray[1:]],
            _fix(project, "delete-keys", scope, done, SameResult("no DeepSpeed reads the keys there"), steps),
        )


def _last(setting: Setting) -> str:
    return setting.name.rpartition(".")[2]


def _both_enabled(project: Project, scope: SettingScope) -> Iterator[Finding]:
    fp16, bf16 = _switch(scope, "fp16"), _switch(scope, "bf16")
    if fp16 is None or bf16 is None:
        return
    word = _word(project, scope)
    is_asked = word is not None and bool(word.type)
    trainer = _to_auto(project, scope, fp16 if word.type == "bf16" else bf16, word.type) if word and is_asked else []
    other = "the run computes in the other type"
    yield rule.found(
        bf16.place.saying("fp16 and bf16 are both enabled: DeepSpeed stops with an AssertionError [ds-both]"),
        [fp16.place.saying("fp16 is enabled here"), *([word.place] if word else [])],
        [
            *trainer,
            *_fix(project, "keep-bf16", scope, f"switch fp16 off; {other}", None, [_off(fp16)]),
            *_fix(project, "keep-fp16", scope, f"switch bf16 off; {other}", None, [_off(bf16)]),
        ],
    )


def _switch(scope: SettingScope, section: str) -> Setting | None:
    """Where a type is switched on; None where it is not."""
    found = scope.last(f"{section}.enabled")
    return found if found is not None and found.kind == "bool" and found.value != FALSE else None


def _word(project: Project, scope: SettingScope) -> TrainerWord | None:
    """What the trainers say that read this very file."""
    return word_for(project, scope.path) if _is_whole(scope) else None


def _is_whole(scope: SettingScope) -> bool:
    """Whether the scope is a file of its own, not a section of another one."""
    return scope.kind == "file" and all(setting.name.count(".") <= 1 for setting in scope.settings)


def _against_trainer(project: Project, scope: SettingScope) -> Iterator[Finding]:
    """A Hugging Face trainer that asks for one type and is given a file that says the other stops with a ValueError."""
    switches = {name: found for name in TYPES.values() if (found := _switch(scope, name)) is not None}
    word = _word(project, scope) if switches else None
    if word is None or len(switches) > 1 or word.type in switches:
        return
    other, wrong = next(iter(switches.items()))
    asked = f"asks for {word.type}" if word.type else f"asks for no 16-bit type: ValueError; pass it {other}=True"
    message = f"{other} is enabled here while the trainer that reads this file {asked}"
    place = wrong.place.saying(f"{message} [hf-deepspeed-mismatch]")
    yield rule.found(place, [word.place], _to_auto(project, scope, wrong, word.type) if word.type else [])


def _to_auto(project: Project, scope: SettingScope, wrong: Setting, wanted: str) -> list[Fix]:
    """``"auto"`` in both sections: the trainer fills them in. A section that is missing would stay switched off."""
    right = scope.of(f"{wanted}.enabled")
    if not right:
        return []
    steps = [ChangeStep("set", setting.key, AUTO, setting) for setting in (wrong, *right)]
    message = f'write "auto": the trainer fills in what its arguments say ({wanted})'
    return _fix(project, "auto", scope, message, RAISES, steps)


def _off(switch: Setting) -> ChangeStep:
    return ChangeStep("set", switch.key, FALSE, switch)


def _fix(
    project: Project, name: str, scope: SettingScope, message: str, need: Need | None, steps: Sequence[ChangeStep]
) -> list[Fix]:
    try:
        edits = edits_of(project, scope, steps)
    except EditRefused:
        return []
    return [Fix.unsafe(name, message, *edits) if need is None else proved(project, name, message, edits, need)]


def _section_reads(project: Project) -> Iterator[Finding]:
    for module, node in unguarded_reads(project):
        message = "read the section with .get: a configuration without it means disabled"
        fix = proved(project, "tolerant-read", message, [tolerant(module, node)], RAISES)
        message = "reads a DeepSpeed precision section that the configuration may omit: KeyError"
        yield rule.at(module, node, message, (), (fix,))


# --- code that reads a section ----------------------------------------------------------------------------------------


SECTIONS = ("fp16", "bf16")


def unguarded_reads(project: Project) -> Iterator[tuple[ModuleNames, ast.Subscript]]:
    """Every ``<DeepSpeed config>["fp16"]["enabled"]`` that nothing around it protects from a missing section."""
    for module in checked_modules(project, ("fp16", "bf16"), ("enabled",), CONFIG_WORDS):
        for node in module.nodes:
            if isinstance(node, ast.Subscript) and _is_section_read(node) and not _is_guarded(module, node):
                yield module, node


def tolerant(module: ModuleNames, node: ast.Subscript) -> Edit:
    """``config.get("fp16", {}).get("enabled", False)`` instead."""
    section = node.value
    assert isinstance(section, ast.Subscript)
    return module.replace(node, section.value, ".get(", section.slice, ", {}).get(", node.slice, ", False)")


def _is_section_read(node: ast.Subscript) -> bool:
    section = node.value
    if not isinstance(section, ast.Subscript) or not isinstance(node.ctx, ast.Load):
        return False
    if string_of(node.slice) != "enabled" or string_of(section.slice) not in SECTIONS:
        return False
    return is_deepspeed_config(section.value)


def _is_guarded(module: ModuleNames, node: ast.Subscript) -> bool:
    """Inside ``try``, or after a test of the same condition or function that asks for the section."""
    for parent in module.ancestors(node):
        if isinstance(parent, ast.Try):
            return True
        asked = isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module | ast.BoolOp | ast.If)
        if asked and any(_asks_for_section(child) for child in ast.walk(parent)):
            return True
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            return _is_filled_in(module)
    return _is_filled_in(module)


def _asks_for_section(node: ast.AST) -> bool:
    """``"fp16" in config``, ``config.get("fp16")``, ``config.setdefault("fp16", ...)``."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        return string_of(node.left) in SECTIONS
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    if not called or not isinstance(node, ast.Call) or not node.args:
        return False
    return string_of(node.args[0]) in SECTIONS


def _is_filled_in(module: ModuleNames) -> bool:
    """Whether the module itself writes the section, or a switch in it, or holds the literal it reads."""
    for other in module.nodes:
        keys = [key for key in other.keys if key is not None] if isinstance(other, ast.Dict) else []
        if any(string_of(key) in SECTIONS for key in keys):
            return True
        stored = other if isinstance(other, ast.Subscript) and isinstance(other.ctx, ast.Store) else None
        while stored is not None:
            if string_of(stored.slice) in SECTIONS:
                return True
            stored = stored.value if isinstance(stored.value, ast.Subscript) else None
    return False


rule = Rule.of("PF502", check)
