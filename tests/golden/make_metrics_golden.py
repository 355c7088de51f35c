#!/usr/bin/env python3
"""make_metrics_golden.py - writes metrics.json: BLEU and chrF of sacreBLEU for tests/train/*_test.cc.

Run with sacrebleu 2.6.0 from PyPI:  python3 make_metrics_golden.py > metrics.json
SPDX-License-Identifier: Apache-2.0
"""
import json
import random
import sys

import sacrebleu
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

SENTENCES = [
    ("The report was published on 12-13 May 2019, at 3.30 p.m.",
     "The report was released on 12-13 May 2019, at 3.30 pm."),
    ("It costs 1,299.00 € (about $1,400) - or less...", "It costs 1.299,00 € (some $1,400) – or less…"),
    ("„Grüße aus Köln“, schrieb er.", "„Viele Grüße aus Köln!“, schrieb er."),
    ("He said: \"no\" & left; she didn't.", "He said &quot;no&quot; &amp; left; she did not."),
    ("a&lt;b&gt;c &amp;quot; <skipped> end", "a<b>c \" end"),
    ("x\u00a0y\u2009z\u3000w", "x y z w"),
    ("well-known state-of-the-art 7-up 90-day", "well known state of the art 7-up 90-day"),
    ("ΟΔΥΣΣΕΥΣ ΑΣ. Σ ΣΑΣ' Σ'Α", "ὀδυσσεύς ας. σ σας' σ'α"),
    ("İstanbul'da ILIK bir GÜN.", "istanbul'da ılık bir gün."),
    ("ÄÖÜ ẞ ǅ Ǆ ſ K Å", "äöü ß ǆ ǆ s k å"),
    ("", "An empty hypothesis."),
    ("An empty reference.", ""),
    ("...", ". . ."),
    ("1.2.3,4,5.-6-7-a-8", "1.2.3,4,5. - 6 - 7 - a - 8"),
    ("Ja.", "Ja."),
    ("Ein Hund läuft.", "Ein Hund rennt."),
    ("👩‍🚀 fliegt 🚀🚀 ins All!", "👩‍🚀 fliegt 🚀 ins All!"),
    ("tab\tand\x1cfile\x1fseparator\x85next", "tab and file separator next"),
    ("trailing space.  \u2003", "trailing space."),
    ("[x](y){z} a_b^c`d~e|f\\g/h@i", "[x] (y) {z} a_b^c`d~e|f \\ g / h@i"),
]
ALPHABET = list("abAB019.,-'&;:!?()[]<>/_ ") + [
    " ", " ", "\u00a0", "\u2009", "–", "ß", "Ü", "Σ", "&amp;", "&quot;", "&lt;", "<skipped>", "€", "日"]


def noise(rng):
    return "".join(rng.choice(ALPHABET) for _ in range(rng.randrange(0, 60)))


def disturb(rng, text):
    chars = list(text)
    for _ in range(rng.randrange(0, 6)):
        if chars:
            chars[rng.randrange(len(chars))] = rng.choice(ALPHABET)
    return "".join(chars)


def main():
    rng = random.Random(1)
    pairs = list(SENTENCES)
    for _ in range(40):
        reference = noise(rng)
        pairs.append((disturb(rng, reference), reference))
    tokenizer = Tokenizer13a()
    hypotheses = [h for h, _ in pairs]
    references = [r for _, r in pairs]
    second = [disturb(rng, r) for r in references]

    def corpus(lowercase, refs):
        bleu = BLEU(lowercase=lowercase)
        score = bleu.corpus_score(hypotheses, refs)
        chrf = CHRF(lowercase=lowercase)
        chrf_score = chrf.corpus_score(hypotheses, refs)
        smoothed = CHRF(lowercase=lowercase, eps_smoothing=True)
        return {
            "lowercase": lowercase, "num_references": len(refs), "bleu": score.score,
            "bleu_text": str(score), "bleu_signature": str(bleu.get_signature()),
            "chrf": chrf_score.score, "chrf_signature": str(chrf.get_signature()),
            "chrf_eps": smoothed.corpus_score(hypotheses, refs).score,
        }

    json.dump({
        "sacrebleu": sacrebleu.__version__,
        "segments": [{
            "hypothesis": h, "reference": r, "second_reference": s,
            "tokens": tokenizer(h.rstrip()),
            "bleu": sacrebleu.sentence_bleu(h, [r]).score,
            "bleu_lc": sacrebleu.sentence_bleu(h, [r], lowercase=True).score,
            "chrf": sacrebleu.sentence_chrf(h, [r]).score,
            "chrf_lc": CHRF(lowercase=True).sentence_score(h, [r]).score,
        } for (h, r), s in zip(pairs, second)],
        "corpus": [corpus(lc, refs) for lc in (False, True)
                   for refs in ([references], [references, second])],
    }, sys.stdout, indent=1, ensure_ascii=True)
    print()


main()
