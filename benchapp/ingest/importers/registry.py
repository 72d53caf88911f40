"""The formats, by name. A new one is a module with an IMPORTER and a line here."""

from __future__ import annotations

from benchapp.ingest.importers import (
    aiconfigurator,
    cutlass_profiler,
    flashinfer_autotuner,
    flashinfer_blocklist,
    flashinfer_cache,
    flashinfer_log,
)
from benchapp.ingest.importers.base import Importer, TableImporter

IMPORTERS: dict[str, Importer | TableImporter] = {
    module.IMPORTER.name: module.IMPORTER
    for module in (
        flashinfer_cache,
        flashinfer_autotuner,
        flashinfer_blocklist,
        flashinfer_log,
        cutlass_profiler,
        aiconfigurator,
    )
}
