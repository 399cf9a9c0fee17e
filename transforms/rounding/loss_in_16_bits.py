"""Cross entropy, or another sum of exponentials, is computed over 16-bit logits outside of autocast

## What goes wrong

Nothing raises. The loss is quantized, small differences between classes vanish, and so do their gradients. Cross
entropy over 50,000 classes, measured with PyTorch 2.13, absolute error against float64:

| computed in | error |
|---|---|
| bfloat16 | 0.062 |
| float16 | 0.008 |
| float32, from the same bfloat16 logits | 0.0001 |

## Why

The loss of a batch is rounded to 8 (11) significant bits, and so are the probabilities that its gradient is made of.
Inside a CUDA autocast region `cross_entropy`, `log_softmax`, `nll_loss` and `kl_div` compute in float32 by
themselves; a model whose weights are 16-bit and that runs without a region has nobody who does that, nor has a loss
that stands behind the region which computed its logits. Models of
transformers cast their logits (`logits.float()`) before the loss.

## Fix

`float32` [unsafe]: `.float()` on what goes into the loss. The loss is another number and float32; the cast takes 4
bytes for each logit.

## Not flagged

Logits that are cast before; losses that no training program of the project comes to, by calls, arguments and stated
settings, or only where a package is missing (`except ImportError`); fewer than 1,000 classes, where the last layer is
known; releases of transformers before 4.46, which cast their logits; files that open an autocast region, or make what
may (`Accelerator`, `Trainer`), beside the loss or the cast; models of other libraries than transformers and diffusers,
which may return another dtype than their weights have; entropies (logarithms times their own probabilities); code
without gradients; dtypes that are not certain; softmax inside of attention, whose few classes lose little.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from ...codemod.flow.analysis import flow_of
from ...codemod.flow.frame import OUTSIDE
from ...codemod.flow.lattice import MadeHow
from ...codemod.half.atom_places import chain_of
from ...codemod.half.half_here import Half
from ...codemod.model import Finding, Fix, Rule
from ...codemod.purpose.entered import way_inside
from ...codemod.purpose.files import is_test
from ...codemod.purpose.runs import can_be_open, is_trained
from ...codemod.purpose.training import is_aside, reached_modules
from ...codemod.python.arguments import argument, receiver_of
from ...codemod.python.bindings import only_value
from ...codemod.python.callers import callers_of
from ...codemod.python.creations import known_creations, only_call
from ...codemod.python.functions import class_of, method_of
from ...codemod.python.keywords import entries_of
from ...codemod.python.names import FunctionNode, ModuleNames, last_name, names_of
from ...codemod.python.numbers import number_of
from ...codemod.python.scopes import string_of
from ...codemod.source.project import Project
from ...codemod.torch.autocast import autocasts_in, is_without_gradients
from ...codemod.torch.dtypes import HALVES
from .certain_halves import VIEWS, call_behind, certainly_half, may_open_regions

FUNCTIONS = ("cross_entropy", "nll_loss", "log_softmax", "kl_div", "logsumexp")
METHODS = ("log_softmax", "logsumexp")
"""Those that tensors have as well: ``logits.log_softmax(-1)``."""
CLASSES = ("CrossEntropyLoss", "NLLLoss", "LogSoftmax", "KLDivLoss")
WORDS = ("bfloat16", "float16", ".half(", "bf16", "fp16")

MANY = 1000
"""Classes from which the logarithms are large enough to be rounded by much."""
PREDICTING = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration", "ForSeq2SeqLM")
"""Parts of the names of models whose classes are words."""
MAX_HOPS = 4
MEASURED = {"bfloat16": "0.062", "float16": "0.008"}
"""Absolute error of a cross entropy over 50,000 classes, as in the manual's table."""


def check(project: Project) -> Iterator[Finding]:
    if not any(True for _ in project.python_documents(WORDS)):
        return
    for document in project.checked_documents((*FUNCTIONS, *CLASSES), ("torch",), ("backward", "forward", "train")):
        module = names_of(project, document)
        if is_aside(module):
            continue
        found = dict[ast.Call, Finding]()
        for call in module.calls:
            name = _loss(project, module, call)
            plain = name and call.args and not isinstance(call.args[0], ast.Starred)
            owner = _owner(module, call)
            logits = owner if owner is not None else call.args[0] if plain else None
            name = name if owner is None else last_name(call.func)
            made = _finding(project, module, call, logits, name) if logits is not None else ()
            found.update((call, finding) for finding in made)
        yield from (finding for call, finding in found.items() if found.keys().isdisjoint(_inner(module, call)))


def _inner(module: ModuleNames, loss: ast.Call) -> Iterator[ast.AST]:
    """What computes the logarithms that a loss is given: ``kl_div(log_softmax(logits), chances)`` is one mistake."""
    given = (only_value(module, item) or item for item in loss.args[:1])
    yield from (node for item in given for node in ast.walk(item))


def _owner(module: ModuleNames, call: ast.Call) -> ast.expr | None:
    """The tensor of ``logits.log_softmax(-1)``."""
    return receiver_of(call, *METHODS) if module.qualified(call.func) is None else None


def _loss(project: Project, module: ModuleNames, call: ast.Call) -> str:
    """The loss that a call computes: ``F.cross_entropy(x, y)``, ``criterion(x, y)`` of one that is known."""
    qualified = module.qualified(call.func) or ""
    name = qualified.rpartition(".")[2]
    if qualified.startswith("torch.") and name in FUNCTIONS:
        return name
    func = call.func
    held = isinstance(func, ast.Name) or (isinstance(func, ast.Attribute) and ast.unparse(func.value) == "self")
    made = only_call(project, module, func) if held and not qualified and _may_be_criterion(func) else None
    made = func if isinstance(func, ast.Call) else made
    made_name = (module.qualified(made.func) or "") if made is not None else ""
    is_class = made_name.startswith("torch.nn.") and made_name.rpartition(".")[2] in CLASSES
    return made_name.rpartition(".")[2] if is_class else ""


def _may_be_criterion(func: ast.expr) -> bool:
    name = last_name(func).lower()
    return any(word in name for word in ("loss", "crit", "ce", "entropy", "objective"))


def _finding(project: Project, module: ModuleNames, call: ast.Call, logits: ast.expr, name: str) -> Iterator[Finding]:
    if is_without_gradients(module, call) or (name == "log_softmax" and _is_of_entropy(module, call, logits)):
        return
    half = _half_of(project, module, logits) or _half_as_given(project, module, logits)
    if half is None or not is_trained(project, module, call):
        return
    dtypes = " or ".join(sorted(dtype.name for dtype in half.dtypes))
    off = MEASURED["bfloat16" if "bfloat16" in dtypes else "float16"]
    message = (
        f"{name} is computed over {dtypes} logits outside of autocast: the loss and the probabilities behind its"
        f" gradient are rounded (cross entropy over 50,000 classes is off by {off}); cast the logits to float32"
    )
    fix = Fix.unsafe("float32", "the logits are cast to float32: 4 bytes each", module.append(logits, ".float()"))
    yield rule.at(module, call, message, half.why, [fix])


def _half_of(project: Project, module: ModuleNames, logits: ast.expr) -> Half | None:
    """Why logits are 16-bit where they stand, of classes that are not known to be few, in no region."""
    half = certainly_half(project, module, logits)
    many = set(_has_many_classes(project, module, logits, MAX_HOPS)) if half is not None else {False}
    behind = many == {True} and _is_behind_region(project, module, logits)
    is_left = half is None or False in many or (not behind and _may_be_lowered(project, module, half))
    return None if is_left else half


def _half_as_given(project: Project, module: ModuleNames, logits: ast.expr) -> Half | None:
    """The same of what a call gives a function that computes the loss: ``def loss(logits, labels)``."""
    function = module.scope_of(logits).function.node
    source = _viewed(module, logits)
    bindings = module.bindings_of(source) if isinstance(source, ast.Name) else []
    if not isinstance(function, FunctionNode) or [item.kind for item in bindings] != ["parameter"]:
        return None
    if way_inside(project, module, logits) is not None:
        return None
    for site in callers_of(project, module, function).sites:
        given = site.target.arguments(site.call).get(bindings[0].name)
        half = _half_of(project, site.module, given) if given is not None and not is_test(site.module.path) else None
        if half is not None and not is_without_gradients(site.module, site.call):
            return replace(half, steps=(*half.steps, site.module.place(site.call, f"{function.name} is given it here")))
    return None


def _viewed(module: ModuleNames, node: ast.expr) -> ast.expr:
    """What is viewed in another shape: ``logits`` of ``logits.view(-1, 8)``."""
    for _ in range(MAX_HOPS):
        inner = node.value if isinstance(node, ast.Subscript) else receiver_of(node, *VIEWS) or only_value(module, node)
        if inner is None:
            break
        node = inner
    return node


def _is_behind_region(project: Project, module: ModuleNames, logits: ast.expr) -> bool:
    """Whether a region of the same function computed the logits, and is closed again."""
    atoms = flow_of(project).value_at(module, logits, OUTSIDE).atoms
    steps = {step.node for atom in atoms for step in chain_of(atom)}
    regions = [item for item in autocasts_in(project, module) if item.node in steps or item.call in steps]
    lowered = all(atom.made is MadeHow.AUTOCAST and atom.dtype in HALVES for atom in atoms)
    return bool(regions) and lowered and all(can_be_open(project, item) for item in regions)


def _has_many_classes(project: Project, module: ModuleNames, logits: ast.expr, hops: int) -> Iterator[bool]:
    """Whether the last layer gives many logits, and for models of transformers whether they predict words."""
    logits = only_value(module, logits) or logits
    key = _key_in(module, logits)
    call = call_behind(module, logits.value if isinstance(logits, ast.Attribute) else logits)
    for made in known_creations(project, module, call.func) if call is not None and hops else ():
        size = argument(made.call, "out_features", position=1)
        of_linear = made.module.qualified(made.call.func) == "torch.nn.Linear"
        number = number_of(project, made.module, size) if of_linear and size is not None else None
        if number is not None:
            yield number >= MANY
        named = ast.unparse(made.call.func)
        yield from [True] * any(item in named for item in PREDICTING) + [False] * ("Classification" in named)
        owner = class_of(project, made.module, made.call.func)
        target = method_of(project, *owner, "forward") if owner is not None else None
        returned = target.module.returns_of(target.node) if target is not None else []
        for item in returned:
            value = entries_of(target.module, item.value) if key and target is not None and item.value else None
            found = item.value if value is None else value.get(key)
            if target is not None and found is not None:
                yield from _has_many_classes(project, target.module, found, hops - 1)


def _key_in(module: ModuleNames, logits: ast.expr) -> str:
    """The key of ``out["logits"].view(-1, 8)``; empty for none."""
    for _ in range(MAX_HOPS):
        if isinstance(logits, ast.Subscript):
            return string_of(logits.slice) or ""
        logits = receiver_of(logits, *VIEWS) or only_value(module, logits) or logits
    return ""


def _is_of_entropy(module: ModuleNames, call: ast.Call, logits: ast.expr) -> bool:
    """Whether logarithms are only multiplied by their own probabilities, over which the rounding averages out."""
    statement = module.statement_of(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is call else None
    if not isinstance(target, ast.Name):
        return False
    scope = module.scope_of(call)
    loads = [load for load in module.name_loads.get(target.id, []) if module.scope_of(load) is scope]
    return bool(loads) and all(_is_weighed(module, load, ast.unparse(logits)) for load in loads)


def _is_weighed(module: ModuleNames, logs: ast.Name, logits: str) -> bool:
    """Whether logarithms stand in a product with ``exp`` of them, or with the softmax of the same logits."""
    for product in islice(module.ancestors(logs), 3):
        if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult):
            sides = {ast.unparse(item): item for item in (product.left, product.right)}
            chances = [item for text, item in sides.items() if text != logs.id]
            own = (f"{logs.id}.exp()", f"torch.exp({logs.id})")
            return len(chances) == 1 and (ast.unparse(chances[0]) in own or _softmax_of(module, chances[0]) == logits)
    return False


def _softmax_of(module: ModuleNames, node: ast.expr) -> str:
    """The logits of a name of probabilities, as they are written."""
    made = only_value(module, node)
    owner = receiver_of(made, "softmax")
    if owner is None or not isinstance(made, ast.Call):
        return ""
    of_torch = (module.qualified(made.func) or "").startswith("torch.")
    return ast.unparse(made.args[0] if of_torch and made.args else owner)


def _may_be_lowered(project: Project, module: ModuleNames, half: Half) -> bool:
    """Whether the file of the loss, or of what makes it 16-bit, opens regions, or none of the latter trains.

    A script that only infers casts a model of its own.
    """
    near = project.python_documents_at(tuple(dict.fromkeys(place.path for place in half.why)))
    files = [names_of(project, document) for document in near]
    trained = any("backward" in item.document.text for item in files) and reached_modules(project).issuperset(files)
    return not trained or any(may_open_regions(project, item) for item in (module, *files))


rule = Rule.of("PF805", check)
