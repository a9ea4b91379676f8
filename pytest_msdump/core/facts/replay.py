"""Limits of replayed modules, and which operations of PyTorch have limits of their own or cannot be replayed.

A module's score is the left's error over the error of the reference's own run in the same precision, when both get the
left's values. The numbers are measured: see ``docs/explanation/replay.md``, which `benchmarks/replay.py` reproduces.
"""

from __future__ import annotations

import re

# By what is judged: outputs, those behind an exponential (MindSpore's is off by 17 units), and gradients, whose long
# sums cancel, so that the order of summation shows; outputs of 16 bits that round in several places, beside which what
# an exponential is off by is nothing.
SCORE_LIMITS = {"plain": 16.0, "exp": 64.0, "gradient": 64.0, "half": 8.0}

# Of elements stored in 16 bits: the share that may not be correctly rounded, and the number that a small tensor may
# have. Healthy runs were at 0.03 % at most.
FLIPS_SHARE_LIMIT = 1e-3
FLIPS_ALLOWED = 2
# Where the reference's own run has up to so many times more (short sums, few elements), twice its number is allowed;
# with still more it rounds in several places, and flips say nothing.
FLIPS_USABLE = 4

# Of the operators that a replay can judge.
LEAST_REPLAYED = 0.5

# Parts of the names of operations that take an exponential, as their kernels do.
EXP_FAMILY = re.compile(
    r"softmax|softplus|logsumexp|logcumsumexp|attention|sigmoid|tanh|silu|mish|erf|lstm|gru|rnn"
    r"|(?<![a-z])(exp(m1|2)?|[gsc]?elu)(?![a-z])"
)
