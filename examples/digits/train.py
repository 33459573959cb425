# SPDX-License-Identifier: Apache-2.0
"""Trains the two digit models of this folder and exports them, with a held-out test set.

    python3 train.py [DIGITS.csv.gz]

Needs PyTorch 1.13 or newer. The data is scikit-learn's 8x8 digits: from the installed scikit-learn, or from its
file sklearn/datasets/data/digits.csv.gz. The models are exported as training code leaves them, with nothing
folded: BatchNormalization stays apart, LayerNorm and GELU are spelled out node by node, Q, K and V are three
MatMuls. Putting these together again is opfuse's work.
"""

import pathlib
import sys

import numpy as np
import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
N_TEST = 360


def load_digits():
    if len(sys.argv) > 1:
        table = np.loadtxt(sys.argv[1], delimiter=",")
    else:
        from sklearn.datasets import load_digits as load

        bunch = load()
        table = np.column_stack([bunch.data, bunch.target])
    table = table[np.random.default_rng(7).permutation(len(table))]
    images = (table[:, :64] / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    labels = table[:, 64].astype(np.int64)
    return images[N_TEST:], labels[N_TEST:], images[:N_TEST], labels[:N_TEST]


class Block(nn.Module):
    """conv-bn-relu-conv-bn, plus the input, relu; a 1x1 conv-bn fits the input when the shape changes."""

    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.fit = None
        if stride != 1 or c_in != c_out:
            self.fit = nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return torch.relu(y + (x if self.fit is None else self.fit(x)))


class ResidualNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(16)
        self.blocks = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2), Block(32, 32, 1))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.blocks(torch.relu(self.bn(self.conv(x))))
        return self.head(torch.flatten(self.pool(x), 1))


class SpelledLayerNorm(nn.Module):
    """Nine nodes, as exporters without a LayerNormalization operator write them."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        d = x - x.mean(-1, keepdim=True)
        return d / torch.sqrt(d.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight + self.bias


class Encoder(nn.Module):
    def __init__(self, width, heads, tokens):
        super().__init__()
        self.tokens, self.heads, self.depth = tokens, heads, width // heads
        self.norm1 = SpelledLayerNorm(width)
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.norm2 = SpelledLayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def split(self, x):
        return x.reshape(-1, self.tokens, self.heads, self.depth).transpose(1, 2)

    def forward(self, x):
        y = self.norm1(x)
        q, k, v = self.split(self.q(y)), self.split(self.k(y)), self.split(self.v(y))
        scores = torch.matmul(q, k.transpose(-1, -2)) / self.depth**0.5
        y = torch.matmul(torch.softmax(scores, -1), v)
        x = x + self.out(y.transpose(1, 2).reshape(-1, self.tokens, self.heads * self.depth))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class VisionTransformer(nn.Module):
    """16 patches of 2x2 pixels, two encoder layers, mean over the patches."""

    def __init__(self, width=48, heads=4):
        super().__init__()
        self.embed = nn.Linear(4, width)
        self.position = nn.Parameter(torch.randn(16, width) * 0.1)
        self.layers = nn.Sequential(Encoder(width, heads, 16), Encoder(width, heads, 16))
        self.norm = SpelledLayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = x.reshape(-1, 4, 2, 4, 2).permute(0, 1, 3, 2, 4).reshape(-1, 16, 4)
        x = self.layers(self.embed(x) + self.position)
        return self.head(self.norm(x).mean(1))


def accuracy(model, images, labels):
    model.eval()
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


def train(model, images, labels, epochs, rate):
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        model.train()
        for batch in torch.randperm(len(images)).split(64):
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()


def main():
    torch.manual_seed(1)
    train_x, train_y, test_x, test_y = load_digits()
    np.save(HERE / "test_images.npy", test_x)
    np.save(HERE / "test_labels.npy", test_y)
    train_x, train_y, test_x, test_y = map(torch.from_numpy, (train_x, train_y, test_x, test_y))
    for name, model, epochs, rate in (("residual", ResidualNet(), 15, 3e-3), ("transformer", VisionTransformer(), 60, 2e-3)):
        train(model, train_x, train_y, epochs, rate)
        print(f"{name}: {100 * accuracy(model, test_x, test_y):.1f} % of the held-out digits")
        torch.onnx.export(
            model, test_x[:2], str(HERE / f"{name}.onnx"), opset_version=13,
            training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
            input_names=["image"], output_names=["scores"],
            dynamic_axes={"image": {0: "N"}, "scores": {0: "N"}})


if __name__ == "__main__":
    main()
