"""Whether this worker was asked to stop: known to its pool process, which inherits the event."""

from __future__ import annotations

import multiprocessing

stopping = multiprocessing.Event()
