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
    SEEN = []


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


    def metered(**kwargs):
        sums = {}
        for key, value in kwargs.items():
            if isinstance(value, torch.Tensor):
                value = value.item()
            sums[key] = remember(value)


    @marks
    def marked(value):
        return value


    def overlap(pred, target):
        pred = torch.sigmoid(pred)
        return (pred * target).sum() / (pred.sum() + target.sum())


    def named(pred, target):
        loss = (pred - target).abs().mean()
        return loss, {"l1": loss.item()}


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
    "steps = [row for row in out.sigmoid().cpu()]; np.stack(steps)",
    "meters = {}; meters['out'].update(out.detach().cpu())",
    "print(array * out.detach().cpu())",
    "list(map(dump, out.detach().cpu()))",
    "functools.partial(dump)(out.detach().cpu())",
    "pool.submit(dump, out.detach().cpu())",
    "remember(out.detach().cpu()); dump(LAST)",
    "meter.keep(out.detach().cpu()); meter.all()",
    "getattr(out.detach().cpu(), 'numpy')()",
    "out.detach().cpu().__array__()",
    "np.from_dlpack(out.detach().cpu())",
    "print(torch.fft.rfft(out).abs().mean().item())",
    "print(torch.arange(y.size(0), dtype=out.dtype))",
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
    "pool['out'] = out.detach().cpu()",
    "pool.out = out.detach().cpu()",
    "globals()['KEPT'] = out.detach().cpu()",
    "SEEN.append(out.detach().cpu())",
    "SEEN[0]['out'] = out.detach().cpu()",
    "state = pool.state; state['out'] = out.detach().cpu()",
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
    "kept.append(loss.item()); print(np.mean([loss for loss in kept if np.isfinite(loss)]))",
    "metered(loss=loss, **{'l1': loss}); print(loss)",
    "masks = out.sigmoid(); print(masks.float().cpu().numpy())",
    "print(torch.fft.rfft(out.float()).abs().mean().item())",
    "print(torch.arange(8, dtype=out.dtype))",
    "shown = {}; shown['out'] = out.detach(); print(shown['out'].float().cpu().numpy())",
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
    ("loss = overlap(model(x), y)", True),
    (
        "loss, parts = named(out, y); entries.update({key: entries.get(key, 0.0) + one for key, one in parts.items()})",
        True,
    ),
    ("shown = dump(model(x))", False),
    ("scaler.scale(loss).backward(); scaler.step(opt); scaler.update()", True),
    ("part = np.random.beta(0.4, 0.4); loss = part * criterion(out, y) + (1 - part) * criterion(out, y.flip(0))", True),
    ("part = np.random.beta(0.4, 0.4, 8); shown = part * out.mean()", False),
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


INNER = """
    import numpy as np
    import torch
    from scipy.optimize import linear_sum_assignment
    from torch import nn


    class Hard(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            FORWARD
            return x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            BACKWARD
            return grad


    class Matched(nn.Module):
        def __init__(self):
            super().__init__()
            self.kept, self.scale = None, np.sqrt(2.0)

        def forward(self, out, y):
            out = Hard.apply(out)
            cost = torch.cdist(out, y)
            MODULE
            return (out - y).abs().mean() * self.scale


    def hook(module, given, result):
        HOOK


    def train(model, criterion, batches, opt, scaler):
        for x, y in batches:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = criterion(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()


    def main():
        model, criterion = nn.Linear(8, 4).cuda(), Matched().cuda()
        model.register_forward_hook(hook)
        train(model, criterion, [], torch.optim.AdamW(model.parameters()), torch.amp.GradScaler("cuda"))
        OUTSIDE


    main()
"""
IN_MODULES = (
    ({"FORWARD": "print(x.detach().cpu().numpy())"}, False),
    ({"BACKWARD": "print(x.cpu().numpy())"}, False),
    ({"BACKWARD": "print(np.log(grad.cpu()))"}, False),
    ({"BACKWARD": "print(x.float().cpu().numpy())"}, True),
    ({"MODULE": "linear_sum_assignment((out @ y.T).detach().cpu())"}, False),
    ({"MODULE": "linear_sum_assignment(cost.detach().cpu())"}, True),
    ({"MODULE": "np.save('out.npy', out.detach().cpu())"}, False),
    ({"MODULE": "assert out.dtype in (torch.float16, torch.float32)"}, False),
    ({"MODULE": "assert out.dtype in (torch.float16, torch.bfloat16, torch.float32)"}, True),
    ({"MODULE": "y = torch.fft.rfft(out)"}, False),
    ({"MODULE": "y = torch.fft.rfft(out.float()).abs() + torch.stft(y, 64, window=self.window)"}, True),
    ({"MODULE": "y = y + torch.arange(y.shape[0], device=y.device).type_as(out)"}, False),
    ({"MODULE": "y = y + torch.arange(y.shape[0], device=y.device, dtype=torch.float32)"}, True),
    ({"MODULE": "print(np.sqrt(out.shape[0]), np.array([1.0]))"}, True),
    ({"MODULE": "self.kept = out.detach().cpu()", "OUTSIDE": "print(criterion.kept.numpy())"}, False),
    ({"MODULE": "self.kept = out.detach().cpu()", "OUTSIDE": "print(criterion.kept.float().numpy())"}, True),
    ({"HOOK": "print(result.detach().cpu().numpy())"}, False),
    ({"HOOK": "print(result.detach().mean().item())"}, True),
    ({"OUTSIDE": "model.register_forward_hook(lambda layer, given, out: print(out.cpu().numpy()))"}, False),
    (
        {"OUTSIDE": "seen = []; model.register_forward_hook(lambda a, b, out: seen.append(out)); seen[0].numpy()"},
        False,
    ),
)


@pytest.mark.parametrize(("code", "is_safe"), IN_MODULES)
def test_what_modules_do_with_a_region_s_tensors_has_to_be_known(
    code: dict[str, str], is_safe: bool, tmp_path: Path
) -> None:
    text = INNER
    for place in ("FORWARD", "BACKWARD", "MODULE", "HOOK", "OUTSIDE"):
        text = text.replace(place, code.get(place, "pass").replace("; ", "\n        "))
    files = {"train.py": text, "requirements.txt": "torch>=2.4\n"}
    report, _ = moved(tmp_path, all_rules(), files, "bf16-mixed")
    assert bool(report.changes) == is_safe


HANDED = """
    import torch
    from elsewhere import tiled
    from torch import nn


    def applied(function, x):
        return function(x)


    def main():
        model = nn.Linear(8, 8).cuda()
        opt, scaler = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler("cuda")

        def step(x):
            with torch.autocast("cuda", dtype=torch.float16):
                return model(x)

        x = torch.ones(8, 8).cuda()
        scaler.scale(step(x).mean()).backward()
        scaler.step(opt)
        scaler.update()
        USE


    main()
"""
CALLBACKS = (
    ("print(tiled(x, step)[0].cpu().numpy())", False),
    ("print(tiled(x, predictor=step)[0].cpu().numpy())", False),
    ("print(applied(function=step, x=x)[0].cpu().numpy())", False),
    ("other = step", False),
    ("print(applied(function=step, x=x)[0].float().cpu().numpy())", True),
    ("print(step(x)[0].float().cpu().numpy())", True),
)


@pytest.mark.parametrize(("use", "is_safe"), CALLBACKS)
def test_a_region_in_a_function_that_is_handed_on_needs_leave_unless_its_caller_is_followed(
    use: str, is_safe: bool, tmp_path: Path
) -> None:
    files = {"train.py": HANDED.replace("USE", use), "requirements.txt": "torch>=2.4\n"}
    report, _ = moved(tmp_path, all_rules(), files, "bf16-mixed")
    assert bool(report.changes) == is_safe
