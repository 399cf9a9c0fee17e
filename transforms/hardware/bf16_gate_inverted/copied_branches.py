"""A branch for bfloat16 that was copied from the one for float16, and still picks float16."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ....codemod.model import Draft, Fix
from ....codemod.python.names import ModuleNames, resolve
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import FP16, TORCH_DTYPES
from ....codemod.trainers.reading.configs import config_files

MESSAGE = "bfloat16 is asked for and float16 is picked, as in the branch for float16 above"


def copied_branches(project: Project, module: ModuleNames) -> Iterator[Draft]:
    """``if "fp16" in config: dtype = torch.float16``, and the same test of ``bf16`` with the same dtype."""
    for node in module.of_type(ast.If):
        twin = _twin_above(module, node)
        picked = _picked(project, module, node.body)
        if twin is None or picked is None or not _is_given(project, node.test):
            continue
        above = _picked(project, module, twin.body)
        if above is not None and ast.unparse(above.targets[0]) == ast.unparse(picked.targets[0]):
            text = module.source(picked.value).replace("float16", "bfloat16").replace("half", "bfloat16")
            fix = Fix.unsafe("bfloat16", "pick bfloat16; the run changes its dtype", module.replace(picked.value, text))
            place = module.place(twin.test, "the branch for float16")
            yield Draft.at(module, picked.value, MESSAGE, [place], [fix])


def _twin_above(module: ModuleNames, node: ast.If) -> ast.If | None:
    """The branch before this one that asks just the same of float16."""
    text = ast.unparse(node.test)
    wanted = text.replace("bfloat16", "float16").replace("bf16", "fp16")
    parent = module.parents[node]
    siblings = [node]
    if isinstance(parent, ast.If) and parent.orelse == [node]:
        siblings = [parent]
    elif isinstance(body := getattr(parent, "body", None), list) and node in body:
        siblings = body[: body.index(node)][-1:]
    twins = [item for item in siblings if isinstance(item, ast.If) and ast.unparse(item.test) == wanted != text]
    return twins[0] if twins else None


def _picked(project: Project, module: ModuleNames, body: Sequence[ast.stmt]) -> ast.Assign | None:
    """The assignment of float16 that is all that a branch does."""
    only = body[0] if len(body) == 1 else None
    if not isinstance(only, ast.Assign) or len(only.targets) != 1:
        return None
    return only if TORCH_DTYPES.get(resolve(project, module, only.value) or "") == FP16 else None


def _is_given(project: Project, test: ast.expr) -> bool:
    """Whether some file asks DeepSpeed for bfloat16, where the test asks what that is configured for."""
    if "deepspeed" not in ast.unparse(test).lower():
        return True
    texts = (file.document.text.lower() for file in config_files(project, ("bf16",)))
    return any("deepspeed" in text or "zero_optimization" in text for text in texts)
