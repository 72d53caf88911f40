"""Parquet of strangers, within bounds, as columns of known types without a missing value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from benchapp.ingest.importers.base import ImportFault, named, printable

Type = Literal["text", "whole", "number"]
#: As many as a document may hold measurements.
MAX_ROWS = 500_000
#: Of all columns, by the file's own account.
MAX_UNPACKED_BYTES = 512 * 1024 * 1024
MAX_TEXT = 200
#: Rows that are Python objects at one time.
BATCH = 20_000

WORDS = {"text": "text", "whole": "whole numbers", "number": "numbers"}
_BROKEN = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, MemoryError, NotImplementedError)


def read(body: bytes, columns: Mapping[str, Type]) -> tuple[Any, list[str]]:
    """The columns as a pyarrow table, texts as strings, and the names of those that were not asked for.

    Raises ImportFault where one is missing or of another type, or where the file is too large or broken.
    """
    texts = [name for name, wanted in columns.items() if wanted == "text"]
    try:
        file = pq.ParquetFile(pa.BufferReader(body), read_dictionary=texts)
        schema, about = file.schema_arrow, file.metadata
    except _BROKEN:
        raise ImportFault("is no parquet file, or not a whole one") from None
    missing = [name for name in columns if schema.names.count(name) != 1]
    if missing:
        raise ImportFault(f"expected one column each of {named(missing)}")
    for name, wanted in columns.items():
        if not _is(wanted, schema.field(name).type):
            found = printable(str(schema.field(name).type), 80)
            raise ImportFault(f"column {name}: expected {WORDS[wanted]}, found {found}")
    if about.num_rows > MAX_ROWS:
        raise ImportFault(f"holds {about.num_rows:,} rows; a table may have {MAX_ROWS:,}")
    if not about.num_rows:
        raise ImportFault("holds no rows")
    if _unpacked(about) > MAX_UNPACKED_BYTES:
        raise ImportFault(f"unpacks to more than {MAX_UNPACKED_BYTES:,} bytes, the most that is read")
    try:
        table = file.read(columns=list(columns), use_threads=False)
        if table.num_rows != about.num_rows:
            raise ImportFault("is no parquet file, or not a whole one")
        table.validate(full=True)  # texts that are no UTF-8 among them
    except _BROKEN:
        raise ImportFault("is no parquet file, or not a whole one") from None
    table = pa.table({name: _plain(name, table[name], columns[name]) for name in columns})
    return table, [name for name in schema.names if name not in columns]


def _is(wanted: Type, found: Any) -> bool:
    if pa.types.is_dictionary(found):
        found = found.value_type
    if wanted == "text":
        return bool(pa.types.is_string(found) or pa.types.is_large_string(found))
    if wanted == "whole":
        return bool(pa.types.is_integer(found))
    return bool(pa.types.is_integer(found) or pa.types.is_floating(found))


def _unpacked(about: Any) -> int:
    """Its row groups are asked, and not their columns: pyarrow ends the process where these are broken."""
    return sum(about.row_group(number).total_byte_size for number in range(about.num_row_groups))


def _plain(name: str, column: Any, wanted: Type) -> Any:
    """One type for each kind of column. A long text is never spread over the rows that share it."""
    if wanted == "text":
        for chunk in column.chunks:
            texts = chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk
            for text in texts.to_pylist():
                if len(text or "") > MAX_TEXT:
                    raise ImportFault(f"column {name}: a text is longer than {MAX_TEXT} characters")
                if "\0" in (text or ""):
                    raise ImportFault(f"column {name}: a text holds a NUL character")
    try:
        return column.cast({"text": pa.string(), "whole": pa.int64(), "number": pa.float64()}[wanted])
    except _BROKEN:
        raise ImportFault(f"column {name}: holds what are no {WORDS[wanted]} of 64 bits") from None


def only(table: Any, column: str) -> str:
    """The text that every row of a column holds. Raises ImportFault where they differ or one is missing."""
    found = table[column].unique().to_pylist()
    if len(found) != 1 or not found[0]:
        shown = named([printable(str(text or "nothing"), 80) for text in found])
        raise ImportFault(f"column {column}: expected one value in all rows, found {shown}")
    return str(found[0])


def grouped(table: Any, keys: Sequence[str], of: str) -> Iterator[list[tuple[tuple[Any, ...], list[Any]]]]:
    """Batches of (key, all that rows of this key hold in column `of`, in their order), by first appearance.

    A missing value is None.
    """
    groups = table.group_by(list(keys), use_threads=False).aggregate([(of, "list")])
    for start in range(0, groups.num_rows, BATCH):
        part = groups.slice(start, BATCH).to_pydict()
        yield list(zip(zip(*(part[key] for key in keys), strict=True), part[f"{of}_list"], strict=True))
