"""The releases that code needs today, whatever an edit adds: a run without them ends before it gets there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from packaging.version import Version

from ..purpose.files import is_test
from ..purpose.imports import importers_of, reached_from
from ..python.names import Binding, FunctionNode, ModuleNames
from ..releases.gates import guarding_try, is_gated
from ..releases.pins import allowed
from ..source.project import Project

MAX_MODULES = 40
MAX_PROGRAMS = 8
FIRST_FOR_PYTHON = (("3.10", "1.11"), ("3.11", "1.13"), ("3.12", "2.2"), ("3.13", "2.5"))
"""A Python, and the first PyTorch that there is for it (the wheels of each release)."""
SYNTAX_OF = "3.10"
BUILT_IN = ("int", "str", "float", "bool", "bytes", "list", "dict", "tuple", "set", "type")
TORCH_SINCE = {
    "torch.autocast": "1.10",
    "torch.inference_mode": "1.9",
    "torch.is_autocast_cpu_enabled": "1.10",
    "torch.get_autocast_gpu_dtype": "1.10",
    "torch.get_autocast_cpu_dtype": "1.10",
    "torch.cuda.is_bf16_supported": "1.10",
    "torch.cpu.amp": "1.10",
    "torch.amp": "1.12",
    "torch.set_float32_matmul_precision": "1.12",
    "torch.compile": "2.0",
    "torch.func": "2.0",
    "torch.nn.functional.scaled_dot_product_attention": "2.0",
    "torch.amp.GradScaler": "2.3",
    "torch.backends.mha": "2.3",
    "torch.nn.attention": "2.3",
    "torch.amp.custom_fwd": "2.4",
    "torch.amp.custom_bwd": "2.4",
    "torch.get_autocast_dtype": "2.4",
    "torch.set_autocast_dtype": "2.4",
    "torch.set_autocast_enabled": "2.4",
    "torch.nn.RMSNorm": "2.4",
    "torch.amp.is_autocast_available": "2.5",
}
"""Release notes, and the wheels of each release."""
WITH_DEVICE = frozenset(("torch.set_autocast_enabled",))
"""Of these, what older releases have as well, without a device: what is written needs the release, no use proves it."""
KEYWORDS_SINCE = {
    ("torch.cuda.amp.autocast", "dtype"): "1.10",
    ("torch.cuda.amp.autocast_mode.autocast", "dtype"): "1.10",
    ("torch.cuda.is_bf16_supported", "including_emulation"): "2.4",
}
"""A function's name and a keyword that it did not always take."""
EVALUATED = (
    ast.Module | ast.ClassDef | ast.arguments | ast.arg | ast.Assign | ast.AnnAssign | ast.Expr | ast.Call | ast.keyword
    | ast.Attribute | ast.Subscript | ast.Import | ast.ImportFrom
)  # fmt: skip
"""What evaluates all that stands in it."""
_MODELS = ("Bloom", "GPTNeoX", "Gemma", "Llama", "Llava", "Mistral", "Mixtral", "Mllama", "OPT", "PaliGemma", "Phi")
_NEWER = ("Qwen", "Siglip", "Whisper")
COME_WITH = (
    ("torchvision.transforms.v2", "torch", "2.0"),
    ("peft", "torch", "1.13"),
    ("peft", "transformers", "4.16"),
    ("trl.SFTTrainer", "transformers", "4.18"),
    ("trl.SFTConfig", "transformers", "4.31"),
    ("trl.DPOTrainer", "transformers", "4.18"),
    ("transformers.BitsAndBytesConfig", "transformers", "4.26"),
    ("transformers.GenerationConfig", "transformers", "4.25"),
    ("transformers.AutoImageProcessor", "transformers", "4.25"),
    ("transformers.AutoProcessor", "transformers", "4.13"),
    ("transformers.TextIteratorStreamer", "transformers", "4.28"),
    *((f"transformers.{name}*", "transformers", "4.18") for name in (*_MODELS, *_NEWER)),
)
"""What is imported, and the release of which package it does not come without: its requirements, or its own history.

A release that is older than the first one only proves less.
"""


def is_newer_anyway(project: Project, module: ModuleNames, package: str, release: str) -> bool:
    """Whether what runs with ``module`` needs ``release`` of ``package`` or a newer one, and no pin says otherwise."""
    if package == "torch" and _comes_with_python(project, module, release):
        return True
    versions = allowed(project, package, module.path)
    if versions is not None and not versions.may_reach(release):
        return False
    needed = _newest_at_import if versions is not None and versions.may_be_below(release) else _newest_needed
    if project.memo(needed, (module, package)) >= Version(release):
        return True
    programs = [item for item in importers_of(project, module) if not is_test(item.document.path)]
    if not 0 < len(programs) <= MAX_PROGRAMS or "__name__" in module.name_loads:
        return False
    return all(project.memo(needed, (item, package)) >= Version(release) for item in programs)


def _comes_with_python(project: Project, module: ModuleNames, release: str) -> bool:
    """Whether the oldest Python that a manifest or the file's syntax allows has no PyTorch before ``release``."""
    python = allowed(project, "python", module.path)
    for version, first in FIRST_FOR_PYTHON:
        if Version(first) >= Version(release):
            stated = python is not None and not python.may_be_below(version)
            if stated or (version == SYNTAX_OF and project.memo(_has_new_syntax, module)):
                return True
    return False


def _has_new_syntax(project: Project, module: ModuleNames) -> bool:
    """``match``, or ``int | None`` where it is evaluated: code for Python 3.10 and later."""
    if module.of_type(ast.Match):
        return True
    if any(item.module == "__future__" for item in module.of_type(ast.ImportFrom)):
        return False
    told = [item.annotation for item in module.of_type(ast.arg)]
    told += [item.returns for item in module.of_type(ast.FunctionDef)]
    unions = (node for node in told if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr))
    return any(_is_plain(node.left) and _is_plain(node.right) for node in unions)


def _is_plain(node: ast.expr) -> bool:
    """None, a built-in class, or a union of such: classes of others may define ``|`` themselves."""
    if isinstance(node, ast.Subscript):
        node = node.value
    name = node.id if isinstance(node, ast.Name) else ""
    return (isinstance(node, ast.Constant) and node.value is None) or name in BUILT_IN


def _newest_needed(project: Project, asked: tuple[ModuleNames, str]) -> Version:
    """The newest release of a package that a module, or what it imports, does not work without."""
    module, package = asked
    needed = {
        item for other in reached_from(project, [module], MAX_MODULES) for item in _needed(project, other, package)
    }
    return max((Version(item) for item in needed), default=Version("0"))


def _newest_at_import(project: Project, asked: tuple[ModuleNames, str]) -> Version:
    """The newest release of torch without which the import of a module fails, whatever a pin promises."""
    module, package = asked
    if package != "torch":
        return Version("0")
    imported = [item.qualified or "" for item in module.imports if _is_at_import(module, item.node)]
    listed = TORCH_SINCE.keys() - WITH_DEVICE
    loads = [node for name in sorted(listed) for node in module.attribute_loads.get(name.rpartition(".")[2], ())]
    imported += [module.qualified(node) or "" for node in loads if _is_at_import(module, node)]
    return max((Version(found[1]) for found in map(since, imported) if found is not None), default=Version("0"))


def _is_at_import(module: ModuleNames, node: ast.AST) -> bool:
    """Whether a node is evaluated whenever the module is imported: outside of functions, and of what may be left out.

    So are decorators, defaults, and annotations that no ``from __future__ import annotations`` puts off.
    """
    below = node
    for above in module.ancestors(node):
        if isinstance(above, FunctionNode | ast.Lambda):
            is_put_off = any(item.module == "__future__" for item in module.of_type(ast.ImportFrom))
            inside = above.body if isinstance(above.body, list) else [above.body]
            if below in inside or isinstance(above, ast.Lambda) or is_put_off:
                return False
        elif not isinstance(above, EVALUATED):
            return False
        below = above
    return True


def _needed(project: Project, module: ModuleNames, package: str) -> Iterator[str]:
    if package == "torch":
        yield from project.memo(_of_torch, module)
    for binding in module.imports:
        if binding.qualified and _is_certain(module, binding):
            yield from (
                item for start, name, item in COME_WITH if name == package and _begins(binding.qualified, start)
            )


def _begins(name: str, start: str) -> bool:
    """Whether a full name is ``start`` or below it; ``transformers.Llama*`` stands for all that begin so."""
    return name.startswith(start[:-1]) if start.endswith("*") else f"{name}.".startswith(f"{start}.")


def _is_certain(module: ModuleNames, binding: Binding) -> bool:
    """Whether an import is made whatever is installed, and not for the type checker alone."""
    if is_gated(module, binding.node) or guarding_try(module, binding.node) is not None:
        return False
    tests = (parent.test for parent in module.ancestors(binding.node) if isinstance(parent, ast.If))
    return not any("TYPE_CHECKING" in ast.unparse(test) for test in tests)


def _of_torch(project: Project, module: ModuleNames) -> frozenset[str]:
    """The releases that have what a file uses of torch where no test of the release decides about it."""
    found = {item for name, item in TORCH_SINCE.items() if name not in WITH_DEVICE and _uses(module, name)}
    for (name, keyword), item in KEYWORDS_SINCE.items():
        calls = module.calls_by_name.get(name.rpartition(".")[2], [])
        given = (call for call in calls if any(each.arg == keyword for each in call.keywords))
        if any(module.qualified(call.func) == name and not is_gated(module, call) for call in given):
            found.add(item)
    return frozenset(found)


def _uses(module: ModuleNames, name: str) -> bool:
    last = name.rpartition(".")[2]
    uses = [*module.attribute_loads.get(last, []), *module.name_loads.get(last, [])]
    return any(module.qualified(node) == name and not is_gated(module, node) for node in uses)


def since(name: str) -> tuple[str, str] | None:
    """(the longest listed part of a qualified name, its release); None where every release has it."""
    parts = name.split(".")
    for end in range(len(parts), 1, -1):
        known = ".".join(parts[:end])
        if known in TORCH_SINCE:
            return known, TORCH_SINCE[known]
    return None
