"""``from_pretrained(dtype=...)`` where the pinned transformers only knows ``torch_dtype``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Edit
from ....codemod.proof.needs import RAISES
from ....codemod.proof.proving import proved
from ....codemod.python.names import ModuleNames, names_of, resolve
from ....codemod.releases.pins import VersionRange, allowed
from ....codemod.source.project import Project
from ....codemod.torch.api import LOADERS

SINCE = "4.56.0"
OTHER_LIBRARIES = ("jax", "flax", "tensorflow", "numpy")
"""A model that is given a dtype of these is none of PyTorch."""


def unknown_keywords(project: Project) -> Iterator[Draft]:
    for document in project.checked_documents(LOADERS, ("transformers",), ("dtype",)):
        versions = allowed(project, "transformers", document.path)
        if versions is None or versions.may_reach(SINCE):
            continue
        module = names_of(project, document)
        for call in _of_transformers(project, module):
            yield from _at(project, module, call, versions)


def _of_transformers(project: Project, module: ModuleNames) -> Iterator[ast.Call]:
    for name in LOADERS:
        for call in module.calls_by_name.get(name, []):
            owner = (resolve(project, module, call.func) or "").split(".")
            if owner[0] == "transformers" and len(owner) > 2 and _is_model(owner[-2]):
                yield call


def _is_model(name: str) -> bool:
    if name.startswith(("Flax", "TF")):
        return False  # these are given the dtype of another library, and always as dtype=
    return name.startswith("AutoModel") or "For" in name or name.endswith("Model")


def _at(project: Project, module: ModuleNames, call: ast.Call, versions: VersionRange) -> Iterator[Draft]:
    keyword = next((item for item in call.keywords if item.arg == "dtype"), None)
    if keyword is None or _spans_rows(call) or any(item.arg in (None, "torch_dtype") for item in call.keywords):
        return
    text = "pass torch_dtype, which this transformers release accepts"
    if (module.qualified(keyword.value) or "").partition(".")[0] in OTHER_LIBRARIES:
        return
    fix = proved(project, "old-keyword", text, [_renamed(module, call, keyword)], RAISES)
    message = (
        "the pinned transformers is older than 4.56 and has no 'dtype' here: TypeError, unexpected keyword argument"
    )
    yield Draft.at(module, keyword, message, tuple(versions.places[:1]), (fix,))


def _renamed(module: ModuleNames, call: ast.Call, keyword: ast.keyword) -> Edit:
    """The call as it is written, with the keyword's old name; further rows stand as in the outermost block."""
    document = module.document
    span, inner = document.span(call), document.span(keyword)
    start = document.offset(inner.row, inner.column) - document.offset(span.row, span.column)
    source = document.source(span)
    text = f"{source[:start]}torch_{source[start:]}".replace("\r\n", "\n").replace("\r", "\n")
    first, *rows = text.split("\n")
    indent = document.line(document.span(module.statement_of(call)).row)
    indent = indent[: len(indent) - len(indent.lstrip())]
    return module.replace(span, "\n".join([first, *(row.removeprefix(indent) for row in rows)]))


def _spans_rows(call: ast.Call) -> bool:
    """Whether a string in the call goes over several rows, which cannot be indented otherwise."""
    nodes = ast.walk(call)
    return any(isinstance(node, ast.Constant | ast.JoinedStr) and node.lineno != node.end_lineno for node in nodes)
