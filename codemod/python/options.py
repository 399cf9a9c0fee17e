"""What a project says about its own options: defaults and choices of argparse flags, dataclass fields, config nodes.

Found by the option's name alone (``amp_dtype`` of ``args.amp_dtype``, ``self.cfg.amp_dtype``), in the asking module
first. Only names that speak of precision or of the device are looked for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ..source.project import Project
from .limits import MAX_OPTION_FILES, MAX_OPTIONS
from .names import ModuleNames, attribute_chain, names_of

SPEAKING = ("dtype", "precision", "bf16", "fp16", "float16", "amp", "half", "device", "accelerator")
"""What is in the names of options that are looked for."""
WORDS = ("autocast", "scaler", "bfloat16", "float16", "bf16", "fp16", "precision")
"""What files say that can declare such options."""
SETTINGS = frozenset(
    ("args", "opt", "opts", "cfg", "config", "conf", "options", "hparams", "flags", "params", "settings", "hps")
)
"""What is in the names of objects that hold a program's options."""


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """One declaration of an option."""

    module: ModuleNames
    default: ast.expr | None
    choices: tuple[ast.expr, ...] = ()
    """Every value it accepts, where the declaration lists them."""


def options_in(project: Project, module: ModuleNames) -> dict[str, list[Option]]:
    """The options that one module declares, by name."""
    return project.memo(_options_in, module)


def _options_in(project: Project, module: ModuleNames) -> dict[str, list[Option]]:
    found: dict[str, list[Option]] = {}
    for name, option in (*_flags(module), *_fields(module), *_nodes(module)):
        found.setdefault(name, []).append(option)
    return found


def _options_anywhere(project: Project, name: str) -> list[Option]:
    """The declarations of the option ``name``; empty where the name stands in too many files."""
    spellings = (name, name.upper(), name.replace("_", "-"))
    documents = project.python_documents(
        containing=WORDS, where=lambda text: any(spelling in text for spelling in spellings)
    )
    found: list[Option] = []
    for count, document in enumerate(documents):
        if count >= MAX_OPTION_FILES:
            return []
        found += options_in(project, names_of(project, document)).get(name, [])
    return found


def options_named(project: Project, module: ModuleNames, name: str) -> list[Option]:
    """How the option ``name`` is declared: by ``module`` itself, else anywhere; empty when too many say something."""
    if not _speaks(name):
        return []
    chosen = options_in(project, module).get(name.lower()) or project.memo(_options_anywhere, name.lower())
    return chosen if len(chosen) <= MAX_OPTIONS else []


def options_read(project: Project, module: ModuleNames, node: ast.Attribute) -> list[Option]:
    """How the option that ``node`` reads is declared; the ``dtype`` and ``device`` of a tensor are not options."""
    if node.attr.lower() in ("dtype", "device") and not _holds_options(node.value):
        return []
    return options_named(project, module, node.attr)


def _holds_options(owner: ast.expr) -> bool:
    chain = attribute_chain(owner.func if isinstance(owner, ast.Call) else owner) or [""]
    return not SETTINGS.isdisjoint(chain[-1].lower().split("_"))


def _speaks(name: str) -> bool:
    return any(word in name.lower() for word in SPEAKING)


def _flags(module: ModuleNames) -> Iterator[tuple[str, Option]]:
    """``parser.add_argument("--amp-dtype", default=..., choices=[...])``; a switch has the values True and False."""
    for call in module.calls_by_name.get("add_argument", []):
        flags = [item.value for item in call.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        given = {item.arg: item.value for item in call.keywords if item.arg is not None}
        named = given.get("dest")
        if isinstance(named, ast.Constant) and isinstance(named.value, str):
            flags = [named.value]
        listed = given.get("choices")
        choices = tuple(listed.elts) if isinstance(listed, ast.List | ast.Tuple | ast.Set) else ()
        for flag in flags:
            name = flag.lstrip("-").replace("-", "_").lower()
            if _speaks(name):
                yield name, Option(module, given.get("default"), choices)


def _fields(module: ModuleNames) -> Iterator[tuple[str, Option]]:
    """``amp_dtype: str = "bfloat16"`` in a class body."""
    for name, stores in module.attribute_stores.items():
        if _speaks(name):
            for receiver, value, statement in stores:
                if receiver is None and isinstance(statement, ast.AnnAssign) and value is not None:
                    yield name.lower(), Option(module, value)


def _nodes(module: ModuleNames) -> Iterator[tuple[str, Option]]:
    """``_C.TRAIN.AMP_DTYPE = "bfloat16"``: the defaults of a configuration tree."""
    for name, stores in module.attribute_stores.items():
        if _speaks(name) and name.isupper():
            for receiver, value, _ in stores:
                if receiver and receiver[0] in ("_C", "cfg", "config", "C", "__C") and value is not None:
                    yield name.lower(), Option(module, value)
