"""A program for each model and regime: a training step that runs, with the model's code as a file beside it."""

from __future__ import annotations

import ast
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from .models import Model
from .operators import submodules

REGIMES = {"bf16-true": "bfloat16", "fp16-true": "float16", "autocast": "bfloat16"}
PLAIN = "fp32"


@dataclass(frozen=True, slots=True)
class Program:
    """Files by name; ``train.py`` is what runs."""

    name: str
    files: dict[str, str]
    plain: str
    """``train.py`` in float32: what fails there as well is no mistake of precision."""
    parts: list[str]
    """Attributes of the model that may be submodules."""


def program(model: Model, regime: str) -> Program:
    """Raises ModuleNotFoundError where the package is not installed or has no such module."""
    local = {module: module.rpartition(".")[2] for module in model.modules}
    files = {f"{local[module]}.py": _source(module, local) for module in model.modules}
    main = local[model.modules[0]]
    parts = submodules(files[f"{main}.py"], model.name)
    files["train.py"] = _script(model, regime, main)
    return Program(f"{model.name}, {regime}", files, _script(model, PLAIN, main), parts)


def _script(model: Model, regime: str, module: str) -> str:
    dtype = f"torch.{REGIMES.get(regime, 'float32')}"
    names = ", ".join(sorted({model.name, *(["BasicBlock"] if "BasicBlock" in model.build else [])}))
    half, open_region = regime.endswith("-true"), regime == "autocast"
    lines = ["import torch", *model.imports.splitlines(), f"from {module} import {names}", "", "", "def main():"]
    lines += ["    torch.manual_seed(0)", f"    model = {model.build}", "    model.train()"]
    lines += [f"    model.to({dtype})"] if half else []
    optimizer = "SGD" if regime == "fp16-true" else "AdamW"  # Adam's epsilon is 0 in float16
    lines += [f"    optimizer = torch.optim.{optimizer}(model.parameters(), lr=1e-3)", "    for _ in range(2):"]
    for name, value in model.inputs:
        made = value.removeprefix("FLOAT ")
        lines.append(f"        {name} = {made}" + (f".to({dtype})" if half and made != value else ""))
    call = "model(" + ", ".join(f"{name}={name}" for name, _ in model.inputs) + ")"
    lines += [f'        with torch.autocast("cpu", dtype={dtype}):'] if open_region else []
    lines += [("            " if open_region else "        ") + f"output = {call}"]
    lines += [f"        loss = {model.result}.float().pow(2).mean()", "        loss.backward()"]
    lines += [
        "        optimizer.step()",
        "        optimizer.zero_grad()",
        "",
        "",
        'if __name__ == "__main__":',
        "    main()",
    ]
    return "\n".join(lines) + "\n"


def _source(module: str, local: dict[str, str]) -> str:
    """The text of an installed module, its relative imports made absolute, or local where that module is copied too."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(module)
    text = Path(found.origin).read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            package = module.split(".")[: -node.level]
            target = ".".join([*package, *([node.module] if node.module else [])])
            before = "." * node.level + (node.module or "")
            row = node.lineno - 1
            lines[row] = lines[row].replace(f"from {before} ", f"from {local.get(target, target)} ", 1)
    return "".join(lines)
