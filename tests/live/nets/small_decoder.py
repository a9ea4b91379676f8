"""A decoder of three blocks; what lies between its layers is written out."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, n, heads):
        super().__init__()
        self.heads, self.qkv, self.o = heads, nn.Linear(n, 3 * n), nn.Linear(n, n)

    def forward(self, x):
        b, t, n = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, n // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (n // self.heads) ** 0.5
        scores = scores.masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
        mixed = scores.softmax(-1) @ v
        return self.o(mixed.transpose(1, 2).reshape(b, t, n))


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(n), Attention(n, 2), nn.LayerNorm(n)
        self.up, self.down = nn.Linear(n, 4 * n), nn.Linear(4 * n, n)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self, n=16, words=50):
        super().__init__()
        self.embed, self.blocks = nn.Embedding(words, n), nn.Sequential(*(Block(n) for _ in range(3)))
        self.norm, self.head = nn.LayerNorm(n), nn.Linear(n, words, bias=False)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.embed(ids))))


def build():
    torch.manual_seed(0)
    return Decoder().eval(), torch.randint(0, 50, (2, 9))
