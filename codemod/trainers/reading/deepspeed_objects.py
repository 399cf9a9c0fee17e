"""Python expressions that are a DeepSpeed configuration, told by their names."""

from __future__ import annotations

import ast

CONFIG_WORDS = ("deepspeed_config", "ds_config", "deepspeed_plugin")
"""An expression with one of these in it is a DeepSpeed configuration."""


def is_deepspeed_config(node: ast.expr) -> bool:
    """``ds_config``, ``self.deepspeed_config``, ``state.deepspeed_plugin.deepspeed_config``."""
    text = ast.unparse(node)
    return any(word in text for word in CONFIG_WORDS)
