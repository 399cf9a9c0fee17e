"""The command line. The only place that knows engine, rules and reports together; imports happen inside commands."""

from __future__ import annotations

from .running import main

__all__ = ["main"]
