"""A training script of a hundred lines: what `precfix check` of one file is measured with. It has one mistake."""

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.amp import GradScaler, autocast
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, width: int, depth: int, classes: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("out"))
    return parser.parse_args()


def batches(args: argparse.Namespace, number: int) -> DataLoader:
    features = torch.randn(number, args.width)
    labels = torch.randint(args.classes, (number,))
    return DataLoader(TensorDataset(features, labels), batch_size=args.batch_size, shuffle=True)


def train_epoch(model, loader, optimizer, scaler, args) -> float:
    model.train()
    total = 0.0
    for features, labels in loader:
        features, labels = features.to(args.device), labels.to(args.device)
        with autocast(args.device, dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(features), labels)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        scaler.step(optimizer)
        scaler.update()
        total += loss.item()
    return total / len(loader)


@torch.no_grad()
def accuracy(model, loader, args) -> float:
    model.eval()
    right = seen = 0
    for features, labels in loader:
        features, labels = features.to(args.device), labels.to(args.device)
        with autocast(args.device, dtype=torch.bfloat16):
            scores = model(features)
        right += (scores.argmax(-1) == labels).sum().item()
        seen += len(labels)
    return right / seen


def main() -> None:
    args = options()
    torch.manual_seed(0)
    model = Model(args.width, args.depth, args.classes).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = GradScaler(args.device)
    train, test = batches(args, 4096), batches(args, 512)
    for epoch in range(args.epochs):
        loss = train_epoch(model, train, optimizer, scaler, args)
        print(f"epoch {epoch}: loss {loss:.4f}, accuracy {accuracy(model, test, args):.3f}")
    args.out.mkdir(exist_ok=True)
    torch.save(model.state_dict(), args.out / "model.pt")


if __name__ == "__main__":
    main()
