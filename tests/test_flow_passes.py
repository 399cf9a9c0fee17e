"""The dtype flow through autograd Functions, models in a region, and masks that data code makes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from precfix.codemod.flow.analysis import flow_of
from precfix.codemod.flow.autograd import Passes, differ, follow_passes, input_of
from precfix.codemod.flow.frame import ASSUMED, MixedProduct
from precfix.codemod.flow.lattice import Role, Value
from precfix.codemod.flow.stored import stored_mask
from precfix.codemod.python.names import FunctionNode, ModuleNames, names_of
from precfix.codemod.source.project import Project

from .flow_runs import opened


def module_of(project: Project) -> ModuleNames:
    document = project.document("main.py")
    assert document is not None
    return names_of(project, document)


def functions(module: ModuleNames) -> dict[str, FunctionNode]:
    return {node.name: node for node in ast.walk(module.tree) if isinstance(node, FunctionNode)}


def passes(folder: Path, source: str, *, restored: bool = False) -> tuple[Passes, FunctionNode]:
    project = opened(folder, source)
    module = module_of(project)
    found = functions(module)
    forward, backward = found["forward"], found["backward"]
    return follow_passes(flow_of(project), module, forward, backward, frozenset(), restored=restored), forward


def only_product(found: Passes) -> MixedProduct:
    (product,) = found.backward.record.products.values()
    return product


LINEAR = """
class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        ctx.kept = weight
        return x @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return {result}, None
"""


@pytest.mark.parametrize("weight", ["weight", "ctx.kept", "ctx.saved_tensors[1]"])
def test_backward_reads_what_forward_saved(weight: str, tmp_path: Path) -> None:
    found, forward = passes(tmp_path, LINEAR.format(result=f"grad @ {weight}"))
    (_, grad), (_, held) = only_product(found).operands
    assert grad.only is not None
    assert held.only is not None
    assert (grad.only.role, grad.is_of_gradient) == (Role.AUTOCAST, True)
    assert input_of(forward, held.only) == "weight"
    assert held.only.symbol in found.saved
    assert differ(grad, held)


def test_autocast_that_is_restored(tmp_path: Path) -> None:
    text = LINEAR.format(result="grad @ weight")
    assert not only_product(passes(tmp_path, text)[0]).autocast
    assert only_product(passes(tmp_path, text, restored=True)[0]).autocast


def test_unknown_kernels_follow_the_gradient(tmp_path: Path) -> None:
    text = LINEAR.format(result="torch.mm(backend.scaled(grad, x)[0], weight)")
    (_, first), (_, second) = only_product(passes(tmp_path, text)[0]).operands
    assert (first.is_of_gradient, second.is_of_gradient) == (True, False)


def test_buffer_of_a_product(tmp_path: Path) -> None:
    text = LINEAR.format(result="torch.mm(grad, weight, out=x if ctx.reuse else None)")
    product = only_product(passes(tmp_path, text)[0])
    assert product.target is not None
    assert product.target[1].only is not None
    assert not product.in_place


SAVED = """
class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, first, second):
        if ctx.both:
            ctx.save_for_backward(x, first, second)
        else:
            ctx.save_for_backward(first, x)
        return x @ first

    @staticmethod
    def backward(ctx, grad):
        {names} = ctx.saved_tensors
        return grad @ weight
"""


@pytest.mark.parametrize(("names", "expected"), [("_, _, weight", "second"), ("weight, _", "first")])
def test_what_is_saved_in_two_places_is_told_by_its_length(names: str, expected: str, tmp_path: Path) -> None:
    found, forward = passes(tmp_path, SAVED.format(names=names))
    held = only_product(found).operands[1][1].only
    assert held is not None
    assert input_of(forward, held) == expected


def value_of(folder: Path, source: str) -> Value:
    """What the function ``f`` returns, as its callers run it in a region."""
    module = module_of(project := opened(folder, source))
    return flow_of(project).observed(module, functions(module)["f"], ASSUMED).returned


@pytest.mark.parametrize(
    ("returned", "role"),
    [
        ("model(x)", Role.RESULT),
        ("model(x).logits", Role.RESULT),
        ("model(x) @ x", Role.AUTOCAST),
        ("model(x).softmax(-1)", None),
        ("model.generate(x)", None),
        ("helper(x)", None),
    ],
)
def test_what_a_model_gives_in_a_region(returned: str, role: Role | None, tmp_path: Path) -> None:
    only = value_of(tmp_path, f"def f(model, helper, x):\n    return {returned}\n").only
    assert (only.role if only is not None else None) is role


MAKERS = {
    "a comparison": "(image > 0.5).float()",
    "moved": "(image > 0.5).float().to(device='cuda').unsqueeze(0)",
    "ones": "torch.ones(3)",
    "an image": "transforms.ToTensor()(image)",
}
OTHERS = {
    "a name": "image",
    "a dtype": "torch.ones(3, dtype=image.dtype)",
    "a cast": "(image > 0.5).float().to(image.dtype)",
    "bool": "image > 0.5",
    "noise": "torch.rand(3)",
}


@pytest.mark.parametrize("name", [*MAKERS, *OTHERS])
def test_masks_are_told_by_their_maker(name: str, tmp_path: Path) -> None:
    maker = {**MAKERS, **OTHERS}[name]
    text = f"from torchvision import transforms\ndef f(image):\n    mask = {maker}\n    return {{'mask': mask}}\n"
    project = opened(tmp_path, text)
    assert (stored_mask(project, "mask") is not None) is (name in MAKERS)
    assert stored_mask(project, "image") is None
