"""Regions whose first forward pass runs without gradients: the copies of the weights that autocast keeps have none."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.purpose.steps import entered
from ....codemod.python.names import FunctionNode, ModuleNames
from ....codemod.python.paths import calls_of, exclusive, function_of, position
from ....codemod.releases.pins import allowed
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast, is_without_gradients
from ....codemod.torch.trained_modules import is_trained

REPAIRED = "2.10"
"""The first release that may know that a copy has no history (pytorch/pytorch#165068); 2.13 was seen to."""
MESSAGE = (
    "the first pass of the model in this autocast region runs without gradients: before PyTorch 2.10 autocast uses its "
    "16-bit copies of the weights again in the pass that is trained, and linear and convolution weights get no gradient"
)


def passes_without_history(project: Project, region: Autocast) -> Iterator[Draft]:
    """``with autocast(): with torch.no_grad(): old = model(x)`` before ``new = model(x)`` in the same region."""
    module = region.module
    versions = allowed(project, "torch", near=module.path)
    if versions is None or versions.may_reach(REPAIRED) or "inference_mode" in module.attribute_loads:
        return  # copies of inference mode raise in the backward pass
    for item in entered(region):
        every = calls_of(module, function_of(module, region.node))
        calls = [call for call in every if item.block in module.ancestors(call)]
        quiet = [call for call in calls if is_without_gradients(module, call)]
        for first in quiet:
            same = [call for call in calls if ast.dump(call.func) == ast.dump(first.func) and call not in quiet]
            same = [call for call in same if not exclusive(module, first, call)]
            if same and all(position(call) > position(first) for call in same) and _is_trained(module, region, first):
                trained = module.place(same[0], "the same weights, in the pass that is trained")
                yield Draft.at(module, first, MESSAGE, (trained, module.place(region.node, "the region")))
                return


def _is_trained(module: ModuleNames, region: Autocast, call: ast.Call) -> bool:
    """Whether what is called is a module whose weights the function trains: it is not frozen, and a loss goes back."""
    function = function_of(module, region.node)
    back = isinstance(function, FunctionNode) and bool(module.calls_inside.get((function, "backward")))
    return back and is_trained(module, call.func)
