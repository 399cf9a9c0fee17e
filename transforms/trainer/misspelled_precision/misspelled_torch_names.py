"""Names of PyTorch that do not exist: ``torch.bloat16``, ``torch.bf16``, ``x.blfloat16()``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from difflib import get_close_matches

from ....codemod.model import Draft
from ....codemod.proof.needs import RAISES, Known
from ....codemod.proof.proving import proved
from ....codemod.python.names import ModuleNames, modules_at, names_of, string_of
from ....codemod.python.paths import tries
from ....codemod.source.documents import Document
from ....codemod.source.project import Project
from .misspellings import DTYPES, paths_with_slips, slips, slips_of
from .slips import SPELLING, renamed_attribute, respelled_string

SHORT = {
    "bf16": "bfloat16",
    "bfp16": "bfloat16",
    "bfloat": "bfloat16",
    "b_float16": "bfloat16",
    "bfloat_16": "bfloat16",
    "fp16": "float16",
    "float_16": "float16",
    "half16": "float16",
    "fp32": "float32",
    "float_32": "float32",
    "fp64": "float64",
    "float_64": "float64",
}
"""Names that other libraries use and PyTorch (2.13) does not have."""

SPELLED = tuple(start + name for start in ("torch.", 'torch, "', 'torch, \\"') for name in (*SHORT, *DTYPES))
"""How they are read, in lower case; in a notebook's file a quote has a backslash before it."""

METHODS = {"bfloat16": "bfloat16", "float16": "half"}
"""What a cast is meant to be called, and the method that does it."""
LIKENESS = 0.84
"""How much of a name has to be right: a letter or two of eight may be wrong."""
HALF = frozenset(slip for slip in slips_of("half") if len(slip) >= len("half"))


def misspelled_torch_names(project: Project) -> Iterator[Draft]:
    """Every read of a dtype by a name that PyTorch has never had."""
    short = project.checked_paths(SPELLED, where=_reads_short_name)
    paths = sorted({*short, *filter(project.is_checked, paths_with_slips(project))})
    if not paths or project.python_path("torch") is not None:
        return
    for module in modules_at(project, paths):
        for name, nodes in module.attribute_loads.items():
            meant = _meant(name)
            for node in nodes if meant is not None else ():
                if meant is not None and _is_torch(module, node.value) and _raises(project, module, node, name):
                    edit = renamed_attribute(module, node, meant)
                    fix = proved(project, SPELLING, f"read torch.{meant}", [edit], RAISES)
                    yield Draft.at(module, node, _message(name, meant), fixes=[fix])
        for call in module.calls_by_name.get("getattr", []):
            yield from _by_string(project, module, call)


def misspelled_casts(project: Project) -> Iterator[Draft]:
    """``x.blfloat16()``: calls without arguments of a method that neither tensors nor modules have."""
    for path in project.checked_paths(("16()", *(f".{slip}()" for slip in HALF)), where=_casts_by_slip):
        for module in modules_at(project, (path,)):
            slipped = {name: meant for name in module.calls_by_name if (meant := _method_meant(name)) is not None}
            for name, meant in slipped.items() if "torch" in module.imported_packages else ():
                if any(project.python_documents((name,), (f"def {name}", f".{name} =", f'"{name}"', f"'{name}'"))):
                    continue  # an object of the project has it, or may have
                for call in module.calls_by_name[name]:
                    node, is_plain = call.func, not (call.args or call.keywords or any(tries(module, call)))
                    if is_plain and isinstance(node, ast.Attribute) and not _is_torch(module, node.value):
                        edit, other = renamed_attribute(module, node, meant), "another library's object may have it"
                        fix = proved(project, SPELLING, f"call {meant}", [edit], Known(False, other))
                        message = f"tensors have no method {name} (AttributeError); did you mean {meant}?"
                        yield Draft.at(module, node, message, fixes=[fix])


def _casts_by_slip(text: str) -> bool:
    """Whether the file calls a method of such a name without arguments: only then is it parsed."""
    called = (part.partition("()") for part in text.split(".") if "()" in part)
    return any(_method_meant(name) is not None for name, _, _ in called)


def _method_meant(name: str) -> str | None:
    """The method that casts to 16 bits which a name was meant to be; None: no slip."""
    if name in HALF:
        return "half"
    letters = name.removesuffix("16")  # ``ufloat16`` is another format
    is_word = letters != name and letters.isalpha() and letters.islower()
    if name in METHODS or not is_word or letters[0] not in "bf":
        return None
    near = get_close_matches(name, METHODS, 1, LIKENESS)
    return METHODS[near[0]] if near else None


def _message(name: str, meant: str) -> str:
    return f"torch has no {name} (AttributeError); did you mean torch.{meant}?"


def _reads_short_name(text: str) -> bool:
    """Whether the file holds one of the names behind ``torch.``, or in quotes beside it: only then is it parsed."""
    lowered = text.lower()
    return any(spelled in lowered for spelled in SPELLED)


def _meant(name: str) -> str | None:
    """The dtype a name stands for that PyTorch does not have under it."""
    lowered = name.lower()
    if name in DTYPES:
        return None
    found = SHORT.get(lowered) or slips().get(lowered) or (lowered if lowered in DTYPES else None)
    return found if found != "precision" else None


def _is_torch(module: ModuleNames, node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and module.qualified(node) == "torch" and not module.is_ambiguous(node)


def _by_string(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[Draft]:
    """``getattr(torch, "bloat16")``, without a default."""
    if not isinstance(call.func, ast.Name) or call.func.id != "getattr" or len(call.args) != 2 or call.keywords:
        return
    name = call.args[1]
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str) or not _is_torch(module, call.args[0]):
        return
    meant = _meant(name.value)
    if meant is None or not _raises(project, module, call, name.value):
        return
    operation = respelled_string(module, name, name.value, meant)
    fixes = [proved(project, SPELLING, f"read torch.{meant}", [operation], RAISES)] if operation is not None else []
    yield Draft.at(module, name, _message(name.value, meant), fixes=fixes)


def _raises(project: Project, module: ModuleNames, node: ast.AST, name: str) -> bool:
    """Whether nothing makes room for the name: no test, no ``except``, no assignment to ``torch.<name>``."""
    if any(tries(module, node)):
        return False
    for test in ("hasattr", "getattr", "setattr"):
        calls = [call for call in module.calls_by_name.get(test, []) if call is not node]
        if any(len(call.args) > 1 and string_of(call.args[1]) == name for call in calls):
            return False
    return not any(_assigns(names_of(project, other), name) for other in _mentioning(project, name))


def _mentioning(project: Project, name: str) -> Iterator[Document]:
    return project.python_documents((name,), (f"torch.{name} =", f"torch.{name}="))


def _assigns(module: ModuleNames, name: str) -> bool:
    return any(receiver == ["torch"] for receiver, _, _ in module.attribute_stores.get(name, []))
