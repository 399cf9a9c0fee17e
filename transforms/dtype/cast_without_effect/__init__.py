"""A tensor is cast, and what the cast gives is thrown away: the tensor stays as it was.

## What goes wrong

`param.to(torch.float32)` as a statement changes nothing, and neither does `p = p.half()` in a loop over
`model.parameters()`: the name is bound to a new tensor, which nobody reads, and the model keeps its weights. Nothing is
raised here. The dtype that was asked for is missing later: `expected mat1 and mat2 to have the same dtype`, or weights
that train in float16 although a line says otherwise.

## Why

`module.half()` and `module.to(dtype)` change the module in place and return it. The methods of the same name on a
tensor return a new tensor (PyTorch documentation of `torch.Tensor.to`; the same one where it has that dtype already).

## Fix

`assign` [unsafe]: the result of the cast takes the place of the tensor, by assignment, or by `.data` for parameters of
a model. The tensor is in another dtype afterwards, for the first time.

## Off by default

`extend-select = ["PF218"]` switches it on. Of eleven findings in public projects, read by people who had not written
the rule, none did harm: most of the tensors had that dtype already.

## Not flagged

Casts of modules, pipelines and whatever else may be cast in place; receivers that the file does not show to be
tensors; `.to(device)`; casts inside `try`, which ask whether a cast is possible; tensors that nothing keeps
(`torch.ones(1).to("cuda", dtype)` warms up a device); statements of notebook cells, which may show the value; loop
variables that are read after the cast; tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Finding, Fix, Rule
from ....codemod.purpose.files import purpose_of
from ....codemod.python.names import ModuleNames, names_of
from ....codemod.source.project import Project
from .known_tensors import KnownTensors
from .unread_casts import CASTS, UnreadCast, unread_casts

WORDS = ("dtype", "float16", "float32", *(f".{name}(" for name in CASTS if name not in ("to", "type")))


def check(project: Project) -> Iterator[Finding]:
    for document in project.checked_documents(WORDS, ("torch",)):
        if purpose_of(document.path).is_foreign:
            continue
        module = names_of(project, document)
        known = KnownTensors(project, module)
        for cast in unread_casts(project, module):
            if known.holds(cast.receiver):
                yield _finding(module, cast)


def _finding(module: ModuleNames, cast: UnreadCast) -> Finding:
    text = module.document.source(module.document.span(cast.receiver))
    if cast.loop is None:
        message = f"this cast has no effect: it returns a new tensor, which is not used, and {text} keeps its dtype"
        return rule.at(module, cast.call, message, (), _fixes(module, cast))
    message = (
        f"this cast has no effect: it binds {text} to a new tensor, which nothing reads before the loop binds it again"
    )
    evidence = (module.place(cast.loop.target, "what is iterated over keeps its dtype"),)
    return rule.at(module, cast.call, message, evidence, _fixes(module, cast))


def _fixes(module: ModuleNames, cast: UnreadCast) -> list[Fix]:
    if cast.assigned is None:
        return []
    if isinstance(cast.statement, ast.Assign):
        edit = module.replace(cast.statement.targets[0], cast.assigned)
    else:
        span = module.document.span(cast.statement)
        start = module.document.offset(span.row, span.column)
        edit = module.replace_text(start, start, f"{cast.assigned} = ")
    return [Fix.unsafe("assign", f"assign the result to {cast.assigned}", edit)]


rule = Rule.of("PF218", check)
