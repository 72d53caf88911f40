"""FlashInfer's autotuner cache: which tactic it chose for which shapes.

A JSON object: `_metadata`, and `"('op', 'Runner', shapes[, extras])": ["Runner", tactic, …]`. A tactic is a
number or, for other operations, a nested list; -1 means not tuned. Keys that begin with `_` are bookkeeping.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from benchapp.ingest.importers import autotuner_keys, metadata, strict_json
from benchapp.ingest.importers.base import (
    Claims,
    Imported,
    Importer,
    ImportFault,
    TacticLookup,
    file_name,
    named,
    plural,
    printable,
    read_file,
    sha256,
)
from benchapp.ingest.importers.decoding import OLDER, Decoder, finding
from benchapp.ingest.importers.tactics import OPERATIONS, RUNNER, Tactic
from workers.bench.document import Finding

LIMIT = 64 * 1024 * 1024
CHOSEN_FOR = 300

#: One variant: (tactic, input types, output type, whether that is assumed).
_Variant = tuple[Tactic, str, str, bool]
#: One place it was chosen at: (GEMM, id, shapes, key).
_Choice = tuple[int, int, autotuner_keys.Shapes, str]


def read(path: Path, claims: Claims, lookup: TacticLookup) -> Imported:
    """Every choice of a CUTLASS fused MoE tactic as a finding that the variant ran. Raises ImportFault."""
    body, moment = read_file(path, LIMIT)
    content = strict_json.loads(body)
    about = metadata.of(content, claims)
    choices: dict[_Variant, list[_Choice]] = defaultdict(list)
    others: Counter[str] = Counter()
    left: Counter[str] = Counter()
    decoder = Decoder(lookup, about.version, about.arch, claims)
    for text, value in content.items():
        if text.startswith("_"):
            continue
        operation = autotuner_keys.operation_of(text)
        if operation is None or not isinstance(value, list) or len(value) < 2:
            left["of unknown form"] += 1
        elif operation[0] not in OPERATIONS or operation[1] != RUNNER:
            others[operation[0]] += 1
        else:
            _choice(text, OPERATIONS[operation[0]], value[1], decoder, choices, left)
    if not choices:
        raise ImportFault(
            " ".join(["holds no choice of a fused MoE tactic.", *_notes(others, left)]).rstrip(".")
        )
    return Imported(
        arch=about.arch,
        stack=about.stack,
        findings=tuple(
            _finding(variant, made, file_name(path), about.gpu) for variant, made in choices.items()
        ),
        notes=_notes(others, left),
        digest=sha256(body),
        moment=moment,
    )


def _choice(
    text: str,
    gemm: int,
    tactic: Any,
    decoder: Decoder,
    choices: dict[_Variant, list[_Choice]],
    left: Counter[str],
) -> None:
    """Adds one entry to `choices`, or to `left` where it says nothing."""
    key = autotuner_keys.parse(text)
    if type(tactic) is not int:
        left["whose tactic is no number"] += 1
    elif tactic == -1:
        left["not tuned (-1)"] += 1
    elif key is None:
        left["of unknown form"] += 1
    elif not key.fused_finalize:
        left["tuned without fused finalize, where ids mean other variants"] += 1
    else:
        inputs = key.inputs or decoder.claims.inputs
        if inputs is None:
            left["whose key does not tell the input types (--inputs names them)"] += 1
        elif not decoder.lists(inputs):
            left[f"of {inputs}, which the survey of this version does not list"] += 1
        else:
            decoded = decoder.decode(tactic, inputs, gemm, f"entry {printable(text, 160)}")
            if decoded is None:
                left[OLDER] += 1
                return
            output, assumed = decoder.output(key.output)
            choices[decoded[1], inputs, output, assumed].append((gemm, tactic, key.shapes, text))


def _finding(variant: _Variant, made: list[_Choice], name: str, gpu: str | None) -> Finding:
    tactic, inputs, output, assumed = variant
    ids = sorted({(gemm, number) for gemm, number, _, _ in made})
    detail = [
        f"{name}: chosen by the autotuner as {named([f'GEMM{gemm} tactic {number}' for gemm, number in ids])}"
        f" for {plural(len(made), 'shape')}{f' on {printable(gpu, 80)}' if gpu else ''}.",
        f"First key: {printable(made[0][3])}",
    ]
    if assumed:
        detail.append(f"The file names no output type; {output} is assumed.")
    words = "\n".join(detail)
    return finding(tactic, inputs, output, "ran", chosen_for=_shapes(made), detail=words)


def _shapes(made: list[_Choice]) -> str:
    """ "GEMM1 at 1, 2, 4 tokens (hidden 7,168, 256 experts, FC1 512 wide)", as much as there is room for."""
    tokens: dict[tuple[int, int, int, int], set[int]] = defaultdict(set)
    for gemm, _, shapes, _ in made:
        tokens[gemm, shapes.hidden, shapes.experts, shapes.fc1].add(shapes.tokens)
    parts = [
        f"GEMM{gemm} at {', '.join(map(str, sorted(counts)))} token{'s' if counts != {1} else ''}"
        f" (hidden {hidden:,}, {experts:,} experts, FC1 {fc1:,} wide)"
        for (gemm, hidden, experts, fc1), counts in sorted(tokens.items())
    ]
    return printable("; ".join(parts), CHOSEN_FOR)


def _notes(others: Counter[str], left: Counter[str]) -> tuple[str, ...]:
    notes = [f"{plural(count, 'entry', 'entries')} {why}: not stored." for why, count in left.most_common()]
    if others:
        names = named([printable(name, 80) for name, _ in others.most_common()])
        notes.append(
            f"{plural(others.total(), 'entry', 'entries')} of other operations ({names}): not stored,"
            " only the CUTLASS fused MoE is decoded."
        )
    return tuple(notes)


IMPORTER = Importer(
    name="flashinfer-autotuner",
    about="FlashInfer autotuner cache (JSON): the fused MoE tactics it chose, as variants that ran",
    producer="flashinfer autotuner cache",
    read=read,
)
