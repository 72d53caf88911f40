"""Settings of a short soak: its installation looks for lost workers within seconds instead of minutes."""

from benchapp.settings.local import *  # noqa: F403
from benchapp.settings.local import CELERY_BEAT_SCHEDULE

HEARTBEAT_TIMEOUT_S = 6
CELERY_BEAT_SCHEDULE["sweep"]["schedule"] = 3.0
