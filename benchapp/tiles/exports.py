"""The whole matrix of a selection as CSV and JSON, in pieces: however many cells, little memory."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence

from django.http import StreamingHttpResponse

from benchapp.catalog.models import Release
from benchapp.tiles.queries import (
    MOST_ROWS,
    Selection,
    changes_in,
    columns_of,
    fate_of,
    tiles_of,
    variant_of,
    verdicts_of,
)

Plain = str | int | bool | None
#: Exports leave in pieces of about this size.
PIECE_CHARACTERS = 64 * 1024


def flat(
    selection: Selection,
    every_release: Sequence[Release],
    surveyed_versions: set[str],
    *,
    only_changes: bool = False,
) -> Iterator[dict[str, Plain]]:
    """One row a cell, for CSV and JSON: sizes in bytes, tiles in elements.

    All variants and releases, of which MOST_ROWS variants are held at a time.
    """
    columns = columns_of(every_release, surveyed_versions)
    of_selection = dataclasses.asdict(selection)
    tiles = tiles_of(selection).iterator(chunk_size=MOST_ROWS)
    while block := list(itertools.islice(tiles, MOST_ROWS)):
        verdicts = verdicts_of(block, every_release)
        for tile in block:
            found = [verdicts.get((tile.pk, column.version)) for column in columns]
            variants = [variant_of(tile, verdict) for verdict in found]
            fates = list(map(fate_of, variants, found, columns))
            if only_changes and not changes_in(fates, columns):
                continue
            of_tile = {
                **of_selection,
                "tile_id": tile.pk,
                "m": tile.m,
                "n": tile.n,
                "k": tile.k,
                "fusion": tile.fusion,
                "swap_ab": tile.swap_ab,
                "variant": f"{tile.cluster} {tile.schedule}".strip(),
            }
            for column, variant, fate in zip(columns, variants, fates, strict=True):
                yield {
                    **of_tile,
                    "flashinfer": column.version,
                    "cutlass": column.cutlass,
                    "fate": fate.value,
                    "stage": variant.stage,
                    "failed_stage": variant.failed_stage,
                    "reason": variant.reason,
                    "tier": variant.tier,
                    "stages": variant.stages,
                    "need_bytes": variant.need_bytes,
                    "limit_bytes": variant.limit_bytes,
                    "margin_bytes": variant.margin_bytes,
                }


def as_csv(selection: Selection, cells: Iterable[dict[str, Plain]]) -> StreamingHttpResponse:
    response = StreamingHttpResponse(_csv_parts(cells), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="tiles-{selection.arch}.csv"'
    return response


def _csv_parts(cells: Iterable[dict[str, Plain]]) -> Iterator[str]:
    piece = io.StringIO()
    writer = csv.writer(piece, lineterminator="\n")
    for number, cell in enumerate(cells):
        if number == 0:
            writer.writerow(cell)
        writer.writerow([_plain(value) for value in cell.values()])
        if piece.tell() > PIECE_CHARACTERS:
            yield piece.getvalue()
            piece.seek(0)
            piece.truncate()
    yield piece.getvalue()


def as_json(selection: Selection, cells: Iterable[dict[str, Plain]]) -> StreamingHttpResponse:
    return StreamingHttpResponse(_json_parts(selection, cells), content_type="application/json")


def _json_parts(selection: Selection, cells: Iterable[dict[str, Plain]]) -> Iterator[str]:
    yield f'{{"selection": {json.dumps(dataclasses.asdict(selection))}, "cells": ['
    piece = ""
    for number, cell in enumerate(cells):
        piece += (",\n" if number else "") + json.dumps(cell)
        if len(piece) > PIECE_CHARACTERS:
            yield piece
            piece = ""
    yield f"{piece}]}}\n"


def _plain(value: Plain) -> Plain:
    """Names come from documents: a leading sign would make a spreadsheet compute them."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t")) else value
