"""Where benchmarks run: servers of their own in a folder that is gone afterwards, and the data in them."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import django
from django.core.management import call_command

from benchapp.local.servers import EmbeddedPostgres, EmbeddedValkey

if TYPE_CHECKING:
    from bench.fill import Filled

SEED = 1


class Stand:
    """`real_home` is the installation's own folder, which is only looked into for caches."""

    def __init__(
        self,
        home: Path,
        real_home: Path,
        postgres: EmbeddedPostgres,
        valkey: EmbeddedValkey,
        *,
        quick: bool,
        seed: int,
    ) -> None:
        self.home = home
        self.real_home = real_home
        self.postgres, self.valkey = postgres, valkey
        self.quick = quick
        self.seed = seed

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    @functools.cached_property
    def filled(self) -> Filled:
        """Measurements and surveys, taken in by whoever asks first: what that took."""
        from bench.fill import take_in
        from bench.generate import gemms
        from bench.generate_surveys import surveys

        take_in(surveys(self.seed))
        return take_in(gemms(self.size(100_000, 5_000), self.seed))


@contextlib.contextmanager
def stand(*, quick: bool, seed: int = SEED) -> Iterator[Stand]:
    """Embedded servers with a migrated database, and Django set up on them."""
    real_home = Path(os.environ.get("TILEWATCH_HOME", "var")).resolve()
    with (
        tempfile.TemporaryDirectory(prefix="tilewatch-bench-") as folder,
        EmbeddedPostgres(Path(folder)) as postgres,
        EmbeddedValkey(Path(folder)) as valkey,
    ):
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "benchapp.settings.local",
            "TILEWATCH_HOME": folder,
            postgres.variable: postgres.url,
            valkey.variable: valkey.url,
        }
        django.setup()
        logging.getLogger().setLevel(logging.ERROR)
        call_command("migrate", verbosity=0, skip_checks=True)
        try:
            yield Stand(Path(folder), real_home, postgres, valkey, quick=quick, seed=seed)
        finally:
            from django.db import connection

            connection.close()
