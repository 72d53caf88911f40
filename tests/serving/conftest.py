"""The worker and the control worker of tests/workers."""

from tests.workers.conftest import control as control
from tests.workers.conftest import start as start
