# peer_model.py - the models of dtrain_step_bench in PyTorch, for peer_step.py and peer_torch.py.
# SPDX-License-Identifier: Apache-2.0
"""Sizes and the PyTorch model of each benchmark of tools/bench/dtrain_step_bench.cc.

Learned positions, post-norm, dropout on residuals, attention and (cls, seq2seq, nmt_base) activation.
Encoders alone classify the first token into CLASSES; the others predict their target with an output
matrix of their own and label smoothing 0.1. Sequences may be padded: `lengths` says how far.
"""
import dataclasses
import math

CLASSES = 4


@dataclasses.dataclass(frozen=True)
class Sizes:
    vocab: int
    hidden: int
    ffn: int
    heads: int
    encoder: int
    decoder: int
    sequences: int
    length: int
    activation_dropout: bool = True


MODELS = {
    "cls": Sizes(8000, 256, 1024, 4, 4, 0, 32, 128),
    "seq2seq": Sizes(8000, 256, 1024, 4, 3, 3, 64, 32),
    "bert_base": Sizes(30528, 768, 3072, 12, 12, 0, 64, 128, activation_dropout=False),
    "bert_large": Sizes(30528, 1024, 4096, 16, 24, 0, 32, 512, activation_dropout=False),
    "nmt_base": Sizes(32768, 512, 2048, 8, 6, 6, 128, 32),
}


def step_flop(sizes):
    """Floating-point operations of the matrix products of one step on sequences of full length."""
    tokens = sizes.sequences * sizes.length
    projection = 2 * tokens * sizes.hidden * sizes.hidden
    feed_forward = 4 * tokens * sizes.hidden * sizes.ffn
    scores = 4 * tokens * sizes.length * sizes.hidden
    forward = sizes.encoder * (4 * projection + feed_forward + scores)
    forward += sizes.decoder * (8 * projection + feed_forward + 2 * scores)
    if sizes.decoder:
        forward += 2 * tokens * sizes.hidden * sizes.vocab
    return 3 * forward


def build_peer(sizes, dropout, gelu="erf"):
    """The PyTorch model; calling it with a batch gives the loss."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Attention(nn.Module):
        def __init__(self, cross):
            super().__init__()
            hidden = sizes.hidden
            self.query = nn.Linear(hidden, hidden) if cross else None
            self.packed = nn.Linear(hidden, (2 if cross else 3) * hidden)
            self.out = nn.Linear(hidden, hidden)

        def forward(self, x, memory=None, mask=None, causal=False):
            def heads(t):
                return t.unflatten(-1, (sizes.heads, -1)).transpose(1, 2)

            if memory is None:
                q, k, v = self.packed(x).chunk(3, -1)
            else:
                q, (k, v) = self.query(x), self.packed(memory).chunk(2, -1)
            rate = dropout if self.training else 0.0
            mixed = F.scaled_dot_product_attention(
                heads(q), heads(k), heads(v), attn_mask=mask, dropout_p=rate, is_causal=causal)
            return self.out(mixed.transpose(1, 2).flatten(2))

    class Layer(nn.Module):
        def __init__(self, is_decoder):
            super().__init__()
            self.is_decoder = is_decoder
            self.blocks = nn.ModuleList([Attention(cross=False)])
            if is_decoder:
                self.blocks.append(Attention(cross=True))
            self.up = nn.Linear(sizes.hidden, sizes.ffn)
            self.down = nn.Linear(sizes.ffn, sizes.hidden)
            self.norms = nn.ModuleList(nn.LayerNorm(sizes.hidden) for _ in range(2 + is_decoder))
            self.drop = nn.Dropout(dropout)

        def activation(self, x):
            if sizes.decoder:
                return F.relu(x)
            return F.gelu(x, approximate="tanh" if gelu == "tanh" else "none")

        def forward(self, x, memory=None, mask=None):
            # A causal mask hides what is padded behind each target as well.
            own = None if self.is_decoder else mask
            x = self.norms[0](x + self.drop(self.blocks[0](x, mask=own, causal=self.is_decoder)))
            if self.is_decoder:
                x = self.norms[1](x + self.drop(self.blocks[1](x, memory, mask=mask)))
            middle = self.activation(self.up(x))
            if sizes.activation_dropout:
                middle = self.drop(middle)
            return self.norms[-1](x + self.drop(self.down(middle)))

    class Peer(nn.Module):
        def __init__(self):
            super().__init__()
            hidden = sizes.hidden
            self.tokens = nn.Embedding(sizes.vocab, hidden)
            self.positions = nn.Parameter(torch.randn(sizes.length, hidden) * 0.02)
            self.drop = nn.Dropout(dropout)
            self.encoder = nn.ModuleList(Layer(False) for _ in range(sizes.encoder))
            self.decoder = nn.ModuleList(Layer(True) for _ in range(sizes.decoder))
            self.head = nn.Linear(hidden, sizes.vocab if sizes.decoder else CLASSES,
                                  bias=not sizes.decoder)
            nn.init.normal_(self.tokens.weight, std=hidden**-0.5)

        def embed(self, ids):
            return self.drop(self.tokens(ids) * math.sqrt(sizes.hidden) + self.positions)

        def forward(self, source, shifted, labels, mask=None):
            """mask: [sequences, 1, 1, length], true for source tokens; labels of padding: -100."""
            x = self.embed(source)
            for layer in self.encoder:
                x = layer(x, mask=mask)
            if not self.decoder:
                return F.cross_entropy(self.head(x[:, 0]).float(), labels)
            y = self.embed(shifted)
            for layer in self.decoder:
                y = layer(y, x, mask=mask)
            logits = self.head(y).float().flatten(0, 1)
            return F.cross_entropy(logits, labels.flatten(), label_smoothing=0.1)

    return Peer()
