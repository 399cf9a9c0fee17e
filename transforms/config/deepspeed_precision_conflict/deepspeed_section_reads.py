"""Code that reads ``config["fp16"]["enabled"]`` although DeepSpeed makes both precision sections optional."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Edit
from ....codemod.python.names import ModuleNames, names_of
from ....codemod.source.project import Project
from ....codemod.trainers.reading.deepspeed_objects import CONFIG_WORDS, is_deepspeed_config

SECTIONS = ("fp16", "bf16")


def unguarded_reads(project: Project) -> Iterator[tuple[ModuleNames, ast.Subscript]]:
    """Every ``<DeepSpeed config>["fp16"]["enabled"]`` that nothing around it protects from a missing section."""
    for document in project.checked_documents(("fp16", "bf16"), ("enabled",), CONFIG_WORDS):
        module = names_of(project, document)
        for node in module.nodes:
            if isinstance(node, ast.Subscript) and _is_section_read(node) and not _is_guarded(module, node):
                yield module, node


def tolerant(module: ModuleNames, node: ast.Subscript) -> Edit:
    """``config.get("fp16", {}).get("enabled", False)`` instead."""
    section = node.value
    assert isinstance(section, ast.Subscript)
    return module.replace(node, section.value, ".get(", section.slice, ", {}).get(", node.slice, ", False)")


def _is_section_read(node: ast.Subscript) -> bool:
    section = node.value
    if not isinstance(section, ast.Subscript) or not isinstance(node.ctx, ast.Load):
        return False
    if not _is_key(node.slice, "enabled") or not any(_is_key(section.slice, name) for name in SECTIONS):
        return False
    return is_deepspeed_config(section.value)


def _is_key(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == name


def _is_guarded(module: ModuleNames, node: ast.Subscript) -> bool:
    """Inside ``try``, or after a test of the same condition or function that asks for the section."""
    for parent in module.ancestors(node):
        if isinstance(parent, ast.Try):
            return True
        asked = isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module | ast.BoolOp | ast.If)
        if asked and any(_asks_for_section(child) for child in ast.walk(parent)):
            return True
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            return _is_filled_in(module)
    return _is_filled_in(module)


def _asks_for_section(node: ast.AST) -> bool:
    """``"fp16" in config``, ``config.get("fp16")``, ``config.setdefault("fp16", ...)``."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        return any(_is_key(node.left, name) for name in SECTIONS)
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    if not called or not isinstance(node, ast.Call) or not node.args:
        return False
    return any(_is_key(node.args[0], name) for name in SECTIONS)


def _is_filled_in(module: ModuleNames) -> bool:
    """Whether the module itself writes the section, or holds the literal it reads."""
    for other in module.nodes:
        keys = [key for key in other.keys if key is not None] if isinstance(other, ast.Dict) else []
        if any(_is_key(key, name) for key in keys for name in SECTIONS):
            return True
        stored = isinstance(other, ast.Subscript) and isinstance(other.ctx, ast.Store)
        if stored and isinstance(other, ast.Subscript) and any(_is_key(other.slice, name) for name in SECTIONS):
            return True
    return False
