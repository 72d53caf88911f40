"""The version of Tilewatch that the workers of this host run."""

from __future__ import annotations

#: as in pyproject.toml
VERSION = "0.1.0"
