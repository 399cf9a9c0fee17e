"""Whether several backward passes add to the same gradients before the optimizer steps, and what the step waits for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Place
from ....codemod.python.names import ModuleNames, attribute_chain
from ....codemod.python.paths import Guard, calls_of, exclusive, guards, loops, name_parts, position
from .gradient_casts import CastSite

WAITING_WORDS = ("sync", "micro", "microbatch", "last", "boundary")
"""Words of a test that tells the last micro-batch from the others, besides those that begin with ``accum``."""
STEPPERS = ("optimizer", "optim", "optimizers", "opt", "scaler", "engine")


def accumulation_of(site: CastSite) -> Place | None:
    """What shows that gradients accumulate across the passes of the loop of ``site``.

    None where they do not, or where the cast waits for the last pass.
    """
    around = [guard.test for guard in guards(site.module, site.node)]
    if any(_tells_last(test) and site.loop in site.module.ancestors(test) for test in around):
        return None
    return _by_accelerate(site) or _by_waiting_step(site) or _by_inner_loop(site)


def _by_accelerate(site: CastSite) -> Place | None:
    """``with accelerator.accumulate(model):`` around both the backward pass and the cast."""
    around = set(site.module.ancestors(site.backward))
    found = (call for call, block in accumulating(site.module, site.node) if block in around)
    return next((site.module.place(call, "accelerate accumulates here") for call in found), None)


def accumulating(module: ModuleNames, node: ast.AST) -> Iterator[tuple[ast.Call, ast.AST]]:
    """The contexts ``self.accelerator.accumulate(model)`` around ``node``, and their blocks."""
    around = set(module.ancestors(node))
    for call in module.calls_by_name.get("accumulate", []):
        block = module.parents.get(module.parents.get(call, call))
        if block in around and block is not None and "accelerator" in ast.unparse(call.func).lower():
            yield call, block


def _by_waiting_step(site: CastSite) -> Place | None:
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
        return site.module.place(waiting[0].test, "the optimizer waits for the last micro-batch")
    return None


def _by_inner_loop(site: CastSite) -> Place | None:
    """``for micro_batch in ...: backward, cast`` inside the loop that steps."""
    outer = loops(site.module, site.loop)
    if not outer or not isinstance(site.loop, ast.For) or _clears_every_pass(site):
        return None
    if not _speaks_of_last(name_parts(site.loop.iter) | name_parts(site.loop.target)):
        return None
    for call in _steps(site):
        around = loops(site.module, call)
        if outer[0] in around and site.loop not in around and position(call) > position(site.node):
            return site.module.place(site.loop.iter, "the micro-batches of one step")
    return None


def _steps(site: CastSite) -> Iterator[ast.Call]:
    for call in calls_of(site.module, site.function):
        chain = attribute_chain(call.func) or []
        if len(chain) > 1 and chain[-1] == "step" and set(chain[-2].lower().split("_")) & set(STEPPERS):
            yield call


def _clears_every_pass(site: CastSite) -> bool:
    """Whether gradients are cleared in every pass of the loop, so that none accumulate."""
    mine = guards(site.module, site.backward)
    return any(
        site.loop in loops(site.module, call) and all(_is_among(guard, mine) for guard in guards(site.module, call))
        for call in site.module.calls_inside.get((site.function, "zero_grad"), ())
        if isinstance(call.func, ast.Attribute)
    )


def _is_among(guard: Guard, others: tuple[Guard, ...]) -> bool:
    return any(guard.test is other.test and guard.holds is other.holds for other in others)


def _tells_last(test: ast.expr) -> bool:
    counted = any(isinstance(item, ast.BinOp) and isinstance(item.op, ast.Mod) for item in ast.walk(test))
    return counted or _speaks_of_last(name_parts(test))


def _speaks_of_last(words: set[str]) -> bool:
    return any(word in WAITING_WORDS or word.startswith("accum") for word in words)
