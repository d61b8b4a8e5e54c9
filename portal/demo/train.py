"""The demo's training job: a small network in numpy learns handwritten digits. Runs inside the container."""

import gzip
import itertools
import os
import time
from pathlib import Path

import numpy as np

DATA = Path(os.environ.get("DIGITS", "/opt/demo/digits.csv.gz"))
OUT = Path("/berth/out")
EPOCHS = int(os.environ.get("EPOCHS", "40"))
SIZES = (64, 384, 192, 10)
BATCH = 64
Layers = list[tuple[np.ndarray, np.ndarray]]


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns train images, train labels, test images, test labels; each train image also shifted by one pixel."""
    with gzip.open(DATA, "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    rng = np.random.default_rng(7)
    table = table[rng.permutation(len(table))]
    images, labels = table[:, :-1] / 16.0, table[:, -1].astype(int)
    split = int(len(table) * 0.8)
    square = images[:split].reshape(-1, 8, 8)
    shifted = [np.roll(square, (dy, dx), axis=(1, 2)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
    train = np.concatenate(shifted).reshape(-1, 64)
    return train, np.tile(labels[:split], len(shifted)), images[split:], labels[split:]


def forward(layers: Layers, x: np.ndarray) -> list[np.ndarray]:
    """Returns the activations of every layer; the last one holds probabilities."""
    acts = [x]
    for i, (w, b) in enumerate(layers):
        z = acts[-1] @ w + b
        if i < len(layers) - 1:
            acts.append(np.maximum(z, 0))
        else:
            e = np.exp(z - z.max(axis=1, keepdims=True))
            acts.append(e / e.sum(axis=1, keepdims=True))
    return acts


def step(layers: Layers, moments: Layers, x: np.ndarray, y: np.ndarray, rate: float) -> float:
    """Makes one step of gradient descent with momentum; returns the batch's loss."""
    acts = forward(layers, x)
    loss = float(-np.log(acts[-1][np.arange(len(y)), y] + 1e-9).mean())
    delta = acts[-1].copy()
    delta[np.arange(len(y)), y] -= 1
    delta /= len(y)
    for i in reversed(range(len(layers))):
        w, b = layers[i]
        grads = (acts[i].T @ delta, delta.sum(axis=0))
        delta = (delta @ w.T) * (acts[i] > 0)
        for value, moment, grad in zip((w, b), moments[i], grads, strict=True):
            np.multiply(moment, 0.9, out=moment)
            np.subtract(moment, rate * grad, out=moment)
            np.add(value, moment, out=value)
    return loss


def main() -> None:
    """Trains, prints a line per epoch, keeps a checkpoint every tenth epoch and at the end."""
    gpus = sorted(p.name for p in Path("/dev").glob("nvidia[0-9]*"))
    print(f"digits: {EPOCHS} epochs, numpy {np.__version__}, devices: {', '.join(gpus) or 'none'}", flush=True)
    train_x, train_y, test_x, test_y = load()
    rng = np.random.default_rng(1)
    layers = [
        (rng.normal(0, np.sqrt(2 / a), (a, b)).astype(np.float32), np.zeros(b, np.float32))
        for a, b in itertools.pairwise(SIZES)
    ]
    moments = [(np.zeros_like(w), np.zeros_like(b)) for w, b in layers]
    accuracy = 0.0
    for epoch in range(1, EPOCHS + 1):
        began = time.monotonic()
        rate = 0.05 * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS)) + 1e-4
        order = rng.permutation(len(train_x))
        losses = [
            step(layers, moments, train_x[order[i : i + BATCH]], train_y[order[i : i + BATCH]], rate)
            for i in range(0, len(order), BATCH)
        ]
        accuracy = float((forward(layers, test_x)[-1].argmax(axis=1) == test_y).mean())
        seconds = time.monotonic() - began
        print(
            f"epoch {epoch:2d}/{EPOCHS}  loss {np.mean(losses):.4f}  accuracy {accuracy:.4f}  {seconds:.2f} s",
            flush=True,
        )
        if epoch % 10 == 0 or epoch == EPOCHS:
            name = OUT / f"checkpoint-{epoch:03d}.npz"
            np.savez(name, *[value for layer in layers for value in layer])
            print(f"checkpoint {name} ({name.stat().st_size // 1024} KiB)", flush=True)
    print(f"final accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
