"""A region moves to bfloat16 without leave only if all that its results reach is known to take bfloat16."""

from __future__ import annotations

from pathlib import Path

import pytest

from .fixture_cases import all_rules
from .test_moving import moved

CODE = """
    import functools

    import numpy as np
    import torch
    from elsewhere import copy, marks
    from torch import nn

    TABLE = {torch.float16: "half", torch.float32: "single"}
    LAST = None


    class Meter:
        def __init__(self):
            self.total, self.kept = 0.0, []

        def add_number(self, value, count=1):
            self.total += value * count

        def keep(self, value):
            self.kept.append(value)

        def all(self):
            return np.concatenate(self.kept)


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 4)

        def forward(self, x):
            return self.layer(x)


    def dump(value):
        return value.numpy()


    def remember(value):
        global LAST
        LAST = value


    @marks
    def marked(value):
        return value


    def overlap(pred, target):
        pred = torch.sigmoid(pred)
        return (pred * target).sum() / (pred.sum() + target.sum())


    def train(model, batches, criterion, writer, pool, opt, scaler):
        meter, kept, entries, array, right, total = Meter(), [], {}, np.zeros((4, 4)), 0, 0.0
        for step, (x, y) in enumerate(batches):
            with torch.autocast("cuda", dtype=torch.float16):
                out = model(x.cuda())
                loss = criterion(out, y.cuda())
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            USE
        return total / 3


    def main():
        model = Net().cuda()
        opt = torch.optim.AdamW(model.parameters())
        got = train(model, [], nn.CrossEntropyLoss(), print, None, opt, torch.amp.GradScaler("cuda"))
        print(f"{got}")


    main()
"""
UNPROVED = (
    "np.log(out.detach().exp().cpu())",
    "np.stack(list(out.detach().cpu()))",
    "kept.append(out.detach().cpu()); np.vstack(kept)",
    "entries.setdefault('p', []).append(out.detach().cpu()); np.concatenate(entries['p'])",
    "np.save('a.npy', out.detach().cpu())",
    "array[:] = out.detach().cpu()",
    "print(array * out.detach().cpu())",
    "list(map(dump, out.detach().cpu()))",
    "functools.partial(dump)(out.detach().cpu())",
    "pool.submit(dump, out.detach().cpu())",
    "remember(out.detach().cpu()); dump(LAST)",
    "meter.keep(out.detach().cpu()); meter.all()",
    "getattr(out.detach().cpu(), 'numpy')()",
    "out.detach().cpu().__array__()",
    "np.from_dlpack(out.detach().cpu())",
    "assert out.dtype == torch.float16",
    "assert 'Half' in out.type()",
    "print(TABLE[out.dtype])",
    "out.view(torch.int16)",
    "out.cpu().untyped_storage()",
    "writer.add_images('out', out, step)",
    "torch.save(out.detach().cpu(), 'a.pt')",
    "print(writer.log_loss(out.detach().cpu()))",
    "print(model.rendered(out.detach().cpu()))",
    "out.drawn('a.png')",
    "writer.write(out.detach().cpu())",
    "print(torch.ops.mine.packed(out))",
    "print(marked(out))",
    "assert str(out.dtype) == 'torch.float16'",
    "assert out.element_size() == 2",
    "print(sorted(out, key=pool))",
    "print(copy(out))",
    "out.register_hook(pool)",
)
PROVED = (
    "total += loss.item(); meter.add_number(loss.item(), x.size(0))",
    "total += loss.detach()",
    "right += (out.argmax(1) == y).sum().item()",
    "_, best = torch.max(out.data, 1); right += best.eq(y.view_as(best)).sum().item()",
    "kept.append(out.detach().cpu()); print(torch.cat(kept).float().numpy())",
    "kept.append(out.softmax(-1).detach().cpu().float().numpy())",
    "kept.append(loss.item()); print(np.mean(kept))",
    "entries['loss'] = loss; print({key: value.item() for key, value in entries.items()})",
    "print('loss', loss, out.shape, f'{loss:.3f}')",
    "meter.add_number(overlap(out, y).item())",
    "writer.add_scalar('loss', loss.item(), step)",
    "torch.save({'model': model.state_dict(), 'loss': loss.item()}, 'a.pt')",
    "print(criterion(out, y).item())",
)


@pytest.mark.parametrize(
    ("use", "is_safe"), [*((use, False) for use in UNPROVED), *((use, True) for use in PROVED)], ids=str
)
def test_a_use_of_a_result_that_is_not_known_to_take_bfloat16_needs_leave(
    use: str, is_safe: bool, tmp_path: Path
) -> None:
    code = CODE.replace("USE", use.replace("; ", "\n            "))
    report, _ = moved(tmp_path, all_rules(), {"train.py": code, "requirements.txt": "torch>=2.4\n"}, "bf16-mixed")
    assert bool(report.changes) == is_safe


INSIDE = (
    ("shown = pool(out)", False),
    ("shown = writer.loss_of(out)", False),
    ("loss = loss + pool(out)", True),
    ("other = pool(model(x)); loss = loss + other.mean()", True),
    ("both = writer.parts(out); loss = sum(both.values())", True),
)


@pytest.mark.parametrize(("use", "is_safe"), INSIDE)
def test_what_nobody_knows_takes_a_result_only_if_a_backward_pass_goes_through_it(
    use: str, is_safe: bool, tmp_path: Path
) -> None:
    inside = use.replace("; ", "\n                ")
    code = CODE.replace("y.cuda())\n", f"y.cuda())\n                {inside}\n", 1).replace("USE", "pass")
    report, _ = moved(tmp_path, all_rules(), {"train.py": code, "requirements.txt": "torch>=2.4\n"}, "bf16-mixed")
    assert bool(report.changes) == is_safe


LIBRARY = """
    import torch


    def step(model, x, y, criterion, opt, scaler):
        with torch.autocast("cuda", dtype=torch.float16):
            out = model(x)
            loss = criterion(out, y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        return GIVEN
"""


@pytest.mark.parametrize(("given", "is_safe"), [("out", False), ("{'loss': loss.item()}", True)])
def test_a_result_that_is_returned_to_callers_of_which_none_is_seen_needs_leave(
    given: str, is_safe: bool, tmp_path: Path
) -> None:
    files = {"step.py": LIBRARY.replace("GIVEN", given), "requirements.txt": "torch>=2.4\n"}
    report, _ = moved(tmp_path, all_rules(), files, "bf16-mixed")
    assert bool(report.changes) == is_safe


DEMANDS = (
    ("assert out.dtype == torch.float16", False),
    ("assert torch.is_autocast_enabled('cuda')", False),
    ("print(TABLE[out.dtype])", False),
    ("out.view(torch.int16)", False),
    ("assert out.dtype in (torch.float16, torch.float32)", True),
    ("print(out.dtype)", True),
)


@pytest.mark.parametrize(("use", "is_safe"), DEMANDS)
def test_what_demands_float16_needs_leave_for_float32(use: str, is_safe: bool, tmp_path: Path) -> None:
    report, _ = moved(
        tmp_path, all_rules(), {"train.py": CODE.replace("USE", use), "requirements.txt": "torch>=2.4\n"}, "fp32"
    )
    assert bool(report.changes) == is_safe
