# peer_model.py - the models of dtrain_step_bench in PyTorch, for peer_step.py and peer_torch.py.
# SPDX-License-Identifier: Apache-2.0
"""Sizes and the PyTorch model of each benchmark of tools/bench/dtrain_step_bench.cc.

Learned positions, post-norm, dropout on residuals, attention and (cls, seq2seq, nmt_base) activation.
Encoders alone classify the first token into CLASSES; the others predict their target with an output
matrix of their own and label smoothing 0.1. Sequences may be padded and masked, or packed.
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


def tiny(sizes):
    """The same architecture, so small that a processor runs it at once."""
    return dataclasses.replace(sizes, vocab=96, hidden=32, ffn=64, heads=2, encoder=2,
                               decoder=min(sizes.decoder, 2), sequences=4, length=16)


@dataclasses.dataclass
class Packed:
    """Sequences one after another, without padding: tensors and numbers of one side of a batch."""
    offsets: object  # [sequences + 1]: where each begins
    positions: object  # [tokens]: each token's place in its sequence
    shortest: int
    longest: int


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

        def forward(self, x, memory=None, mask=None, causal=False, packed=(None, None)):
            def heads(t, side):
                t = t.unflatten(-1, (sizes.heads, -1))
                if side is not None:
                    # Only on the CPU do nested tensors need their values in one piece.
                    t = t if t.is_cuda else t.contiguous()
                    t = torch.nested.nested_tensor_from_jagged(
                        t, side.offsets, min_seqlen=side.shortest, max_seqlen=side.longest)
                return t.transpose(1, 2)

            own, other = packed
            if memory is None:
                other = own
                q, k, v = self.packed(x).chunk(3, -1)
            else:
                q, (k, v) = self.query(x), self.packed(memory).chunk(2, -1)
            rate = dropout if self.training else 0.0
            mixed = F.scaled_dot_product_attention(
                heads(q, own), heads(k, other), heads(v, other), attn_mask=mask, dropout_p=rate,
                is_causal=causal).transpose(1, 2)
            return self.out((mixed if own is None else mixed.values()).flatten(-2))

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

        def forward(self, x, memory=None, mask=None, packed=(None, None)):
            # A causal mask hides what is padded behind each target as well.
            own = None if self.is_decoder else mask
            x = self.norms[0](x + self.drop(
                self.blocks[0](x, mask=own, causal=self.is_decoder, packed=packed)))
            if self.is_decoder:
                x = self.norms[1](x + self.drop(self.blocks[1](x, memory, mask=mask, packed=packed)))
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

        def embed(self, ids, side):
            positions = self.positions if side is None else self.positions[side.positions]
            return self.drop(self.tokens(ids) * math.sqrt(sizes.hidden) + positions)

        def forward(self, source, shifted, labels, mask=None, sides=(None, None)):
            """Ids and labels are [sequences, length], padded: labels of padding are -100, and mask
            [sequences, 1, 1, length] is true for source tokens; or [tokens], with `sides`: Packed of
            the source and of the target."""
            read, written = sides
            x = self.embed(source, read)
            for layer in self.encoder:
                x = layer(x, mask=mask, packed=(read, read))
            if not self.decoder:
                first = x[:, 0] if read is None else x[read.offsets[:-1]]
                return F.cross_entropy(self.head(first).float(), labels)
            y = self.embed(shifted, written)
            for layer in self.decoder:
                y = layer(y, x, mask=mask, packed=(written, read))
            logits = self.head(y).float().flatten(0, -2)
            return F.cross_entropy(logits, labels.flatten(), label_smoothing=0.1)

    return Peer()
