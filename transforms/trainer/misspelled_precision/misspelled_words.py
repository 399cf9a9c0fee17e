"""Misspelled words: dtypes in strings and configuration files, and options and settings read under another name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.model import Draft, EditRefused, Fix
from ....codemod.proof.needs import Known
from ....codemod.proof.proving import proved
from ....codemod.purpose.files import is_test
from ....codemod.python.keywords import key_of
from ....codemod.python.names import ModuleNames, defaults_in, modules_at, modules_with
from ....codemod.source.project import Project
from ....codemod.trainers.reading.configs import ConfigFile, TextEntry, config_files
from .misspellings import SPELLED, paths_with_slips, respelled, respelled_dtype, slips
from .slips import SPELLING, renamed_attribute, respelled_string

SPEAKING = ("dtype", "precision", "float_type", "amp")
"""Words in the name of a setting whose value is a dtype."""
CONFIG_WORDS = ("dtype", "precision", "amp")


@dataclass(frozen=True, slots=True)
class _Text:
    """A misspelled dtype in a text, and whether it is what is asked for (``==``) or what is given (``=``)."""

    module: ModuleNames
    node: ast.Constant
    asks: bool


def misspelled_words(project: Project) -> Iterator[Draft]:
    """Misspelled dtypes in Python and in configuration files."""
    modules = [other for other in modules_at(project, paths_with_slips(project)) if not is_test(other.path)]
    texts = [found for module in modules for found in _texts(module)]
    settings = list(_settings(project))
    asked = {str(found.node.value) for found in texts if found.asks}
    given = {str(found.node.value) for found in texts if not found.asks} | {str(entry.value) for _, entry in settings}
    agreed = asked & given
    for found in texts:
        if found.node.value not in agreed:
            yield _text_slip(found)
    for config, entry in settings:
        if entry.value not in agreed:
            yield _setting_slip(config, entry)
    for module in modules:
        yield from _attributes(project, module)


def _texts(module: ModuleNames) -> Iterator[_Text]:
    for node in module.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 20:
            meant = respelled_dtype(node.value)
            asks = _asks(module, node) if meant is not None else None
            if meant is not None and asks is not None and not _stands_beside(module, node, meant):
                yield _Text(module, node, asks)


def _asks(module: ModuleNames, node: ast.Constant) -> bool | None:
    """True: compared, or the key of a table. False: given as a dtype. None: nothing says that it is a dtype."""
    child: ast.AST = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.Compare | ast.MatchValue):
            return True
        if isinstance(parent, ast.Dict) and child in parent.keys:
            return True
        if not isinstance(parent, ast.List | ast.Tuple | ast.Set | ast.IfExp | ast.BoolOp):
            return False if _speaks(_receiver(parent, child)) else None
        child = parent
    return None


def _receiver(parent: ast.AST, value: ast.AST) -> str:
    """The name under which ``value`` is given: of a keyword, a variable, a parameter, a table's key, an option."""
    if isinstance(parent, ast.keyword):
        return parent.arg or ""
    if isinstance(parent, ast.Assign | ast.AnnAssign):
        return ast.unparse(parent.targets[0] if isinstance(parent, ast.Assign) else parent.target)
    if isinstance(parent, ast.Dict):
        return key_of(parent, value) or ""
    if isinstance(parent, ast.arguments):
        return next((name for name, default in defaults_in(parent).items() if default is value), "")
    return ""


def _speaks(name: str) -> bool:
    return name in ("default", "choices") or any(word in name.lower() for word in SPEAKING)


def _stands_beside(module: ModuleNames, node: ast.AST, meant: str) -> bool:
    """Whether the right spelling stands in the same list, table or comparison: the slip is accepted on purpose."""
    for parent in module.ancestors(node):
        if isinstance(parent, ast.stmt):
            return False
        if isinstance(parent, ast.Dict | ast.List | ast.Tuple | ast.Set | ast.BoolOp | ast.Compare) and any(
            isinstance(item, ast.Constant) and item.value == meant for item in ast.walk(parent)
        ):
            return True
    return False


def _text_slip(found: _Text) -> Draft:
    wrong = str(found.node.value)
    meant = respelled_dtype(wrong) or wrong
    operation = respelled_string(found.module, found.node, wrong, meant)
    effect = f"nothing equals {wrong!r}" if found.asks else f"{wrong!r} is not a dtype"
    message = f"{effect}: did you mean {meant!r}?"
    fixes = [Fix.unsafe(SPELLING, f"write {meant!r}", operation)] if operation is not None else []
    return Draft.at(found.module, found.node, message, fixes=fixes)


def _settings(project: Project) -> Iterator[tuple[ConfigFile, TextEntry]]:
    """Values of settings for a dtype or precision."""
    for config in config_files(project, [slip for slip, word in slips().items() if word in SPELLED]):
        for entry in config.text.entries:
            names = " ".join(str(part) for part in entry.key).lower()
            speaks = any(word in names for word in CONFIG_WORDS)
            if speaks and isinstance(entry.value, str) and entry.is_scalar and respelled_dtype(entry.value):
                yield config, entry


def _setting_slip(config: ConfigFile, entry: TextEntry) -> Draft:
    meant = respelled_dtype(str(entry.value)) or ""
    fixes: tuple[Fix, ...] = ()
    try:
        edit = config.edit(config.text.set(entry, meant))
        fixes = (Fix.unsafe(SPELLING, f"write {meant}", edit),)
    except EditRefused:
        pass
    message = f"{entry.value!r} is not a dtype: did you mean {meant!r}?"
    return Draft.at(config, entry, message, (), fixes)


def _attributes(project: Project, module: ModuleNames) -> Iterator[Draft]:
    """``args.mix_precision`` where ``mixed_precision`` is an option, or is read of ``args`` too.

    Nothing is ever called ``mix_precision``.
    """
    for name, loads in module.attribute_loads.items():
        meant = respelled(name)
        if meant is None:
            continue
        option = _option(module, meant)
        right = {ast.unparse(node.value) for node in module.attribute_loads.get(meant, [])}
        reads = [
            node
            for node in loads
            if isinstance(node.value, ast.Name | ast.Attribute)
            and module.qualified(node.value) is None
            and (option is not None or ast.unparse(node.value) in right)
        ]
        if reads and not _stands_elsewhere(project, name):
            yield from (_attribute_slip(project, module, node, meant, option) for node in reads)


def _attribute_slip(
    project: Project, module: ModuleNames, node: ast.Attribute, meant: str, option: ast.Call | None
) -> Draft:
    """A settings object may return None for a name that it does not have: without an option the run may go on."""
    receiver = ast.unparse(node.value)
    ends = "AttributeError" if option is not None else "AttributeError, or None where missing names are allowed"
    message = f"{receiver}.{node.attr} does not exist ({ends}); did you mean {receiver}.{meant}?"
    places = [module.place(option, "the option")] if option is not None else []
    operation = renamed_attribute(module, node, meant)
    raises = Known(option is not None, f"{receiver} may give None for names that it does not have")
    fix = proved(project, SPELLING, f"read {receiver}.{meant}", [operation], raises)
    return Draft.at(module, node, message, places, [fix])


def _option(module: ModuleNames, name: str) -> ast.Call | None:
    """The declaration of a command-line option of this name."""
    for call in module.calls_by_name.get("add_argument", []):
        words = [item.value for item in call.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        if any(word.startswith("--") and word.lstrip("-").replace("-", "_") == name for word in words):
            return call
    return None


def _stands_elsewhere(project: Project, name: str) -> bool:
    """Whether the name is anything else than read somewhere: declared, assigned, a key, a parameter."""
    dashed = name.replace("_", "-")
    for module in modules_with(project, (name, dashed)):
        spelled = module.document.text.count(name) + (module.document.text.count(dashed) if dashed != name else 0)
        if spelled > len(module.attribute_loads.get(name, [])):
            return True
    return any(True for _ in config_files(project, (name, dashed)))
