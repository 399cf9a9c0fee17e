"""Command lines and configuration files that run an endangered checkpoint in float16."""

from __future__ import annotations

from collections.abc import Iterator

from ....codemod.model import Draft, Edit, EditRefused, ReplaceText
from ....codemod.purpose.files import is_test, purpose_of
from ....codemod.source.project import Project
from ....codemod.trainers.reading.configs import ConfigFile, Entry, config_files
from .fp16_danger import goes_to, other_precision
from .unsafe_families import family_of

MODEL_KEYS = ("model_name_or_path", "model_name", "model_id", "base_model", "model", "model_checkpoint", "model_path")


def unsafe_launches(project: Project) -> Iterator[Draft]:
    """Flags of one command, and keys of one mapping."""
    for config in config_files(project, containing=("fp16",)):
        if is_test(config.document.path):
            continue
        if config.is_shell:
            yield from _in_commands(project, config)
        else:
            yield from _in_mappings(project, config)


def _bare(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _asks_fp16(entry: Entry) -> bool:
    value = "" if entry.value is None else str(entry.value).strip().lower()
    if _bare(entry.name) == "mixed_precision":
        return value == "fp16"
    bare_flag = entry.kind == "flag" and entry.value is None and entry.end == entry.start
    return _bare(entry.name) == "fp16" and (value == "true" or bare_flag)


def _model_in(entry: Entry) -> str | None:
    named = _bare(entry.name) in MODEL_KEYS and isinstance(entry.value, str)
    return str(entry.value) if named and family_of(str(entry.value)) is not None else None


# --- command lines ----------------------------------------------------------------------------------------------------


def _in_commands(project: Project, config: ConfigFile) -> Iterator[Draft]:
    calls: dict[int, list[Entry]] = {}
    for entry in config.text.entries:
        if entry.kind == "flag" and entry.call is not None and not entry.inside:
            calls.setdefault(entry.call, []).append(entry)
    for entries in calls.values():
        script = next((entry.command for entry in entries if entry.owner == "script"), "")
        name = script.replace("\\", "/").rpartition("/")[2].lower()
        if name and not purpose_of(name).is_left_alone and _trains(entries):
            yield from _run(project, config, entries)


def _trains(entries: list[Entry]) -> bool:
    """Whether the flags of the Hugging Face examples, where they are there, ask for training."""
    names = {_bare(entry.name) for entry in entries}
    return "do_train" in names or names.isdisjoint({"do_eval", "do_predict", "eval_only"})


def _in_mappings(project: Project, config: ConfigFile) -> Iterator[Draft]:
    boxes: dict[tuple[object, ...], list[Entry]] = {}
    for entry in config.text.entries:
        if entry.kind == "pair" and entry.is_scalar and entry.key:
            boxes.setdefault((entry.document, *entry.key[:-1]), []).append(entry)
    for entries in boxes.values():
        if not purpose_of(config.document.path).is_left_alone:
            yield from _run(project, config, entries)


def _run(project: Project, config: ConfigFile, entries: list[Entry]) -> Iterator[Draft]:
    models = [entry for entry in entries if _model_in(entry) is not None]
    asking = [entry for entry in entries if _asks_fp16(entry)]
    others = [entry for entry in entries if _bare(entry.name) == "bf16"]
    if len(models) != 1 or not asking or any(str(entry.value).lower() != "false" for entry in others):
        return
    model, entry = str(models[0].value), asking[-1]
    family = family_of(model)
    said = f" ({family.name})" if family is not None else ""
    goal = goes_to(project)
    edits = _moves(config, entry, others, goal) if goal is not None and len(asking) == 1 else ()
    yield Draft.at(
        config,
        entry,
        f"{model} overflows in float16: its activations exceed 65504{said}, the loss becomes nan or every step is "
        "skipped",
        (config.place(models[0], f"{model} is trained"),),
        [other_precision(goal, edits) if goal is not None and edits else None],
    )


def _moves(config: ConfigFile, entry: Entry, others: list[Entry], goal: str) -> tuple[Edit, ...]:
    bare = entry.value is None
    try:
        if _bare(entry.name) == "mixed_precision":
            return (config.edit(config.text.set(entry, "bf16" if goal == "bf16" else "no")),)
        if goal == "fp32":
            return (config.edit(config.text.remove(entry, with_value=not bare)),)
        if others:
            first = config.edit(config.text.set(entry, "false" if config.is_shell else False))
            return first, config.edit(config.text.set(others[-1], "true" if config.is_shell else True))
    except EditRefused:
        return ()
    at = config.document.text.find("fp16", entry.key_start, entry.key_end)
    return (config.edit(ReplaceText(at, at + len("fp16"), "bf16")),) if at >= 0 else ()
