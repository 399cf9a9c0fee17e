"""Whether several backward passes add to the same gradients before the optimizer steps, and what the step waits for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.python.names import attribute_chain
from ....codemod.python.paths import Guard, calls_of, exclusive, guards, loops, name_parts, position
from .gradient_casts import CastSite

WAITING_WORDS = {
    "accum",
    "accumulate",
    "accumulation",
    "accumulating",
    "sync",
    "micro",
    "microbatch",
    "last",
    "boundary",
}
"""Words of a test that tells the last micro-batch from the others."""
STEPPERS = ("optimizer", "optim", "optimizers", "opt", "scaler", "engine")


@dataclass(frozen=True, slots=True, eq=False)
class Accumulation:
    """What shows that gradients accumulate across the passes of a loop."""

    node: ast.expr | ast.stmt
    description: str


def accumulation_of(site: CastSite) -> Accumulation | None:
    """How the loop of ``site`` accumulates; None where it does not, or where the cast waits for the last pass."""
    around = [guard.test for guard in guards(site.module, site.node)]
    if any(_tells_last(test) and site.loop in site.module.ancestors(test) for test in around):
        return None
    return _by_accelerate(site) or _by_waiting_step(site) or _by_inner_loop(site)


def _by_accelerate(site: CastSite) -> Accumulation | None:
    """``with accelerator.accumulate(model):`` around both the backward pass and the cast."""
    module = site.module
    for parent in module.ancestors(site.node):
        if not isinstance(parent, ast.With) or parent not in set(module.ancestors(site.backward)):
            continue
        for item in parent.items:
            if _is_accelerator(item.context_expr):
                return Accumulation(item.context_expr, "accelerate accumulates here")
    return None


def _is_accelerator(node: ast.expr) -> bool:
    """Whether it is ``self.accelerator.accumulate(model)``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "accumulate":
        return False
    return "accelerator" in ast.unparse(node.func.value).lower()


def _by_waiting_step(site: CastSite) -> Accumulation | None:
    """``if (i + 1) % n == 0: optimizer.step()`` further down in the same pass of the loop."""
    mine = guards(site.module, site.node)
    for call in _steps(site):
        inside = site.loop in loops(site.module, call) and not exclusive(site.module, call, site.node)
        if not inside or position(call) < position(site.node):
            continue
        extra = [guard for guard in guards(site.module, call) if not _is_among(guard, mine)]
        waiting = [guard for guard in extra if _tells_last(guard.test)]
        if not waiting or _clears_every_pass(site):
            return None
        return Accumulation(waiting[0].test, "the optimizer waits for the last micro-batch")
    return None


def _by_inner_loop(site: CastSite) -> Accumulation | None:
    """``for micro_batch in ...: backward, cast`` inside the loop that steps."""
    outer = loops(site.module, site.loop)
    if not outer or not isinstance(site.loop, ast.For) or _clears_every_pass(site):
        return None
    words = name_parts(site.loop.iter) | name_parts(site.loop.target)
    if not words & WAITING_WORDS and not any(word.startswith("accum") for word in words):
        return None
    for call in _steps(site):
        around = loops(site.module, call)
        if outer[0] in around and site.loop not in around and position(call) > position(site.node):
            return Accumulation(site.loop.iter, "the micro-batches of one step")
    return None


def _steps(site: CastSite) -> Iterator[ast.Call]:
    for call in calls_of(site.module, site.function):
        chain = attribute_chain(call.func) or []
        if len(chain) > 1 and chain[-1] == "step" and set(chain[-2].lower().split("_")) & set(STEPPERS):
            yield call


def _clears_every_pass(site: CastSite) -> bool:
    """Whether gradients are cleared in every pass of the loop, so that none accumulate."""
    mine = guards(site.module, site.backward)
    cleared = [call for call in calls_of(site.module, site.function) if _is_zero_grad(call)]
    return any(
        site.loop in loops(site.module, call) and all(_is_among(guard, mine) for guard in guards(site.module, call))
        for call in cleared
    )


def _is_zero_grad(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "zero_grad"


def _is_among(guard: Guard, others: tuple[Guard, ...]) -> bool:
    return any(guard.test is other.test and guard.holds is other.holds for other in others)


def _tells_last(test: ast.expr) -> bool:
    words = name_parts(test)
    counted = any(isinstance(item, ast.BinOp) and isinstance(item.op, ast.Mod) for item in ast.walk(test))
    return counted or bool(words & WAITING_WORDS) or any(word.startswith("accum") for word in words)
