"""What precfix knows: its rules, each a module or a package named for the mistake. No machinery lives here."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from ..codemod.model import Rule


def load() -> tuple[Rule, ...]:
    """All rules, ordered by code: every module below a family's folder that has a ``rule``."""
    families = [each.name for each in pkgutil.iter_modules(__path__) if each.ispkg]
    modules = [module for family in families for module in _members(family)]
    rules = [rule for module in modules if isinstance(rule := getattr(module, "rule", None), Rule)]
    return tuple(sorted(rules, key=lambda rule: rule.code))


def _members(family: str) -> list[object]:
    package = import_module(f"{__name__}.{family}")
    return [import_module(f"{package.__name__}.{each.name}") for each in pkgutil.iter_modules(package.__path__)]
