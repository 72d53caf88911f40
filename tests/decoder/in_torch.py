"""What the tests of this folder ask of torch, in a Python that has it: JSON lines in, JSON lines out."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

import torch

from tests.asked_in_torch import answer
from tests.decoder.rank import PROMPT, made, run, script, tokens_of
from workers.bench import model_work
from workers.bench.decoder import invariants, marks
from workers.bench.decoder.kernels import TorchKernels
from workers.bench.decoder.reference import Reference, rotated
from workers.bench.decoder.router import Counts, TorchChoice, choose
from workers.bench.decoder.weights import Source
from workers.bench.models import model, models
from workers.bench.operators.base import UnsupportedError


def cosines(got: Any, wanted: Any) -> list[float]:
    return torch.nn.functional.cosine_similarity(got, wanted, dim=-1).flatten().tolist()


def against_reference(name: str) -> dict[str, Any]:
    """A prompt and five steps, each fed what the one before chose."""
    decoder = made(name)
    tokens = tokens_of(name, 0, 3)[:, :PROMPT]
    decoder.prefill(tokens)
    logits = [decoder.last_logits]
    for _ in range(5):
        tokens = torch.cat((tokens, logits[-1].argmax(-1, keepdim=True)), 1)
        chosen = decoder.step()
        logits.append(decoder.last_logits)
        assert chosen.tolist() == logits[-1].argmax(-1).tolist()
    source = Source(torch, decoder.layout, 0, "cpu", decoder.seed)
    wanted = Reference(torch, decoder.layout, source).logits(tokens)[:, PROMPT - 1 :]
    got = torch.stack(logits, 1)
    best = wanted.topk(2, -1).values
    clear = best[..., 0] - best[..., 1] > 0.1
    return {
        "cosines": cosines(got, wanted),
        "clear": int(clear.sum()),
        "greedy": bool((got.argmax(-1) == wanted.argmax(-1))[clear].all()),
        "bytes": [decoder.weight_bytes, model_work.weight_bytes(decoder.layout)],
        "kv_bytes": [decoder.kv_bytes, model_work.kv_bytes(decoder.layout, 3, PROMPT + 5)],
    }


def checked(name: str) -> dict[str, Any]:
    found = invariants.check(torch, made(name))
    return {"holds": invariants.holds(found), **dataclasses.asdict(found)}


def checked_broken(name: str, fault: str) -> dict[str, Any]:
    """The invariants of a decoder with a fault in its steps alone."""
    decoder: Any = made(name)
    cache, kernels = decoder._cache, decoder._kernels
    prepare, rope, through = cache.prepare, kernels.rope_, decoder._through
    if fault == "overwrites the last token":
        cache.prepare = lambda positions: prepare(positions - 1)
    elif fault == "turns by the next position":
        kernels.rope_ = lambda q, k, positions: rope(q, k, positions + (not cache.prefilling))
    elif fault == "leaves out a layer":
        decoder._through = lambda tokens, positions, layers=None: through(
            tokens, positions, layers if cache.prefilling else 2
        )
    found = invariants.check(torch, decoder)
    return {"holds": invariants.holds(found), "cosine": found.cosine}


def stepping(name: str) -> dict[str, Any]:
    decoder = made(name)
    decoder.begin(3, 10)
    begun = decoder.context
    chosen = [decoder.step().tolist() for _ in range(4)]
    decoder.begin(2, 10)
    smaller = decoder.step().tolist()
    hit, rows = decoder.experts_hit(), decoder.routing()
    refusals = []
    for ask in (lambda: decoder.capture(), lambda: decoder.begin(4, 10), lambda: decoder.begin(2, 999)):
        try:
            ask()
        except (UnsupportedError, ValueError) as error:
            refusals.append(str(error))
    try:
        while True:
            decoder.step()
    except ValueError as error:
        refusals.append(str(error))
    return {
        "name": decoder.name,
        "context": [begun, decoder.context],
        "chosen": chosen,
        "smaller": smaller,
        "hit": hit,
        "rows": rows,
        "refusals": refusals,
        "left_out": decoder.left_out,
    }


def refused(attention: str) -> str:
    try:
        made("tiny-gqa", attention=attention)
    except UnsupportedError as error:
        return str(error)
    return ""


def counted(name: str) -> dict[str, Any]:
    of = model(name)
    counts = Counts(torch, 2, of.experts, "cpu")
    route = TorchChoice(torch, of, counts)
    logits = torch.randn(5, of.experts)
    ids, weights = route(logits, 1, torch.tensor([1], dtype=torch.int32))
    route(logits, 1, torch.tensor([2], dtype=torch.int32))
    route(logits, 1, torch.tensor([2], dtype=torch.int32))
    return {
        "ids": ids.tolist(),
        "sums": weights.sum(-1).tolist(),
        "rows": counts.rows.tolist(),
        "touched": counts.touched.tolist(),
    }


def grouped_choice(logits: list[float]) -> list[list[float]]:
    """DeepSeek-V3's: which experts, and their weights."""
    of = dataclasses.replace(
        model("DeepSeek-V3"), experts=len(logits), groups=4, top_groups=2, top_k=3, routed_scaling=1.0
    )
    ids, weights = choose(torch, of, torch.tensor([logits]))
    return [ids[0].tolist(), weights[0].tolist()]


def rotation(name: str) -> float:
    """Largest difference between rotating in place and by complex numbers."""
    of = model(name)
    width = of.head_dim or of.mla.qk_rope_head_dim
    x = torch.randn(7, 3, width)
    wanted = rotated(torch, of, x.transpose(0, 1)[None])[0].transpose(0, 1)
    q, k = x.clone(), x.clone()
    TorchKernels(torch, of).rope_(q, k, torch.arange(7, dtype=torch.int32))
    return float(torch.stack(((q - wanted).abs(), (k - wanted).abs())).max())


def marked() -> list[list[str]]:
    """Names of the ranges of one step, unmarked and marked."""
    decoder = made("tiny-mla")
    decoder.begin(2, 4)
    opened: list[str] = []
    real, torch.profiler.record_function = torch.profiler.record_function, lambda name: Range(opened, name)
    found = []
    for on in (False, True):
        marks.trace(on)
        decoder.step()
        found.append(sorted(set(opened)))
    marks.trace(False)
    torch.profiler.record_function = real
    return found


class Range(contextlib.AbstractContextManager[None]):
    """What torch's would be, kept without a profiler: starting one takes seconds."""

    def __init__(self, opened: list[str], name: str) -> None:
        self._opened, self._name = opened, name

    def __enter__(self) -> None:
        self._opened.append(self._name)

    def __exit__(self, *_: object) -> None:
        return None


def slices() -> list[str]:
    """Models whose shapes no power of two up to 8 can split, in the words of the refusal."""
    words = []
    for of in models():
        for tp in (2, 4, 8):
            try:
                Source(torch, model_work.Layout(of, 1, tp=tp), tp - 1, "cpu", 0)
            except UnsupportedError as error:
                words.append(str(error))
    return words


def gang(names: list[str], sizes: list[list[int]]) -> list[dict[str, Any]]:
    """Two ranks over gloo, as [tp, ep] each, against one rank with all sequences."""
    fork = multiprocessing.get_context("fork")  # torch has no threads yet, and takes seconds to import
    with tempfile.TemporaryDirectory() as folder:
        ranks = [fork.Process(target=run, args=(Path(folder), names, sizes, rank)) for rank in range(2)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join(120)
        assert [rank.exitcode for rank in ranks] == [0, 0]
        found = []
        for name in names:
            alone = script(made(name, batch=4), tokens_of(name, 0, 4))
            for tp, ep in sizes:
                results = [torch.load(Path(folder) / f"{name}.{tp}x{ep}.{rank}") for rank in range(2)]
                wanted = [alone["logits"]] * 2 if tp == 2 else alone["logits"].chunk(2, 1)
                found.append(
                    {
                        "cosines": [cosines(m["logits"], w) for m, w in zip(results, wanted, strict=True)],
                        "greedy": [made["greedy"] for made in results],
                        "hit": [each["hit"] for each in (*results, alone)],
                        "rows": [each["rows"] for each in (*results, alone)],
                        "bytes": [each["bytes"] for each in (*results, alone)],
                    }
                )
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    answer(globals(), lambda: torch.manual_seed(1))
