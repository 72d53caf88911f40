"""The whole matrix of a selection as CSV and JSON, in pieces: however many cells, little memory."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from django.http import HttpResponse, StreamingHttpResponse

from benchapp.catalog.models import Release
from benchapp.runs.tables import Plain, safe_cell
from benchapp.tiles.cells import fate_of
from benchapp.tiles.families import package
from benchapp.tiles.fates import Fate, Variant
from benchapp.tiles.keys import Key
from benchapp.tiles.listings import Listed, listings_of
from benchapp.tiles.matrix import changes_in
from benchapp.tiles.models import Evidence, Tile
from benchapp.tiles.queries import (
    EVERYTHING,
    MOST_ROWS,
    Column,
    Narrow,
    Selection,
    columns_of,
    tiles_of,
    variant_of,
    verdicts_of,
)
from benchapp.web.filters import FilterForm

COLUMNS = (
    "arch", "family", "inputs", "output",
    "tile_id", "m", "n", "k", "cluster", "fusion", "swap_ab", "schedule", "flashinfer", "cutlass",
    "fate", "stage", "failed_stage", "reason", "source", "tier", "stages",
    "need_bytes", "limit_bytes", "margin_bytes", "spill_store_bytes", "chosen", "predicted_stages",
    "predicted_bytes", "candidate", "dispatched", "instantiated", "gemm1_tactics", "gemm2_tactics",
)  # fmt: skip
#: Exports leave in pieces of about this size.
PIECE_CHARACTERS = 64 * 1024


def flat(
    selection: Selection,
    every_release: Sequence[Release],
    surveyed_versions: set[str],
    *,
    narrow: Narrow = EVERYTHING,
    only_changes: bool = False,
) -> Iterator[dict[str, Plain]]:
    """One row a cell, for CSV and JSON: sizes in bytes, tiles in elements.

    All variants and releases, of which MOST_ROWS variants are held at a time.
    """
    columns = columns_of(every_release, surveyed_versions)
    listings = listings_of(selection.arch, selection.family, selection.inputs, every_release)
    tiles = tiles_of(selection, narrow).iterator(chunk_size=MOST_ROWS)
    while block := list(itertools.islice(tiles, MOST_ROWS)):
        verdicts = verdicts_of(block, every_release)
        predicted = _predicted(block, every_release)
        for tile in block:
            found = [verdicts.get((tile.pk, column.version)) for column in columns]
            variants = [variant_of(tile, verdict) for verdict in found]
            items = [listings.get(column.version, {}).get(Key.of(tile)) for column in columns]
            fates = list(map(fate_of, variants, found, columns, items))
            if only_changes and not changes_in(fates, columns):
                continue
            of_tile = _of_tile(selection, tile)
            for column, variant, item, fate in zip(columns, variants, items, fates, strict=True):
                yield {
                    **of_tile,
                    **_of_column(column, selection),
                    **_of_variant(variant, fate),
                    **_of_prediction(predicted.get((tile.pk, column.version))),
                    **_of_listing(item),
                }


def _of_tile(selection: Selection, tile: Tile) -> dict[str, Plain]:
    return {
        **dataclasses.asdict(selection),
        "tile_id": tile.pk,
        "m": tile.m,
        "n": tile.n,
        "k": tile.k,
        "cluster": tile.cluster,
        "fusion": tile.fusion,
        "swap_ab": tile.swap_ab,
        "schedule": tile.schedule,
    }


def _of_column(column: Column, selection: Selection) -> dict[str, Plain]:
    if package(selection.family) == "cutlass":
        return {"flashinfer": "", "cutlass": column.version}
    return {"flashinfer": column.version, "cutlass": column.cutlass}


def _of_variant(variant: Variant, fate: Fate) -> dict[str, Plain]:
    return {
        "fate": fate.value,
        "stage": variant.stage,
        "failed_stage": variant.failed_stage,
        "reason": variant.reason,
        "source": variant.source,
        "tier": variant.tier,
        "stages": variant.stages,
        "need_bytes": variant.need_bytes,
        "limit_bytes": variant.limit_bytes,
        "margin_bytes": variant.margin_bytes,
        "spill_store_bytes": variant.spill_store_bytes,
        "chosen": variant.chosen,
    }


def _predicted(
    tiles: Sequence[Tile], every_release: Sequence[Release]
) -> Mapping[tuple[int, str], tuple[int | None, int | None]]:
    """(stages, bytes) that CUTLASS's own arithmetic promises, by tile and version; the newest counts."""
    version_of = {release.pk: release.version for release in every_release}
    evidence = Evidence.objects.filter(tile__in=tiles, release__in=version_of, predicted_bytes__isnull=False)
    rows = evidence.order_by("found_at", "pk").values_list(
        "tile_id", "release_id", "predicted_stages", "predicted_bytes"
    )
    return {(tile, version_of[release]): (stages, bytes_) for tile, release, stages, bytes_ in rows}


def _of_prediction(predicted: tuple[int | None, int | None] | None) -> dict[str, Plain]:
    stages, bytes_ = predicted or (None, None)
    return {"predicted_stages": stages, "predicted_bytes": bytes_}


def _of_listing(item: Listed | None) -> dict[str, Plain]:
    if item is None:
        return dict.fromkeys(("candidate", "dispatched", "instantiated", "gemm1_tactics", "gemm2_tactics"))
    return {
        "candidate": item.candidate,
        "dispatched": item.dispatched,
        "instantiated": item.instantiated,
        "gemm1_tactics": " ".join(map(str, item.gemm1)),
        "gemm2_tactics": " ".join(map(str, item.gemm2)),
    }


def refused(form: FilterForm) -> HttpResponse | None:
    """A page may fall back to a default and say so. A table must not: 404, with the sentence."""
    if not form.faults:
        return None
    return HttpResponse(f"{form.faults[0]}\n", status=404, content_type="text/plain; charset=utf-8")


def as_csv(name: str, columns: Sequence[str], rows: Iterable[Mapping[str, Plain]]) -> StreamingHttpResponse:
    """A file `name`.csv; its first line names the columns, whether there are rows or not."""
    response = StreamingHttpResponse(_csv_parts(columns, rows), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return response


def _csv_parts(columns: Sequence[str], rows: Iterable[Mapping[str, Plain]]) -> Iterator[str]:
    piece = io.StringIO()
    writer = csv.DictWriter(piece, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: safe_cell(value) for name, value in row.items()})
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
