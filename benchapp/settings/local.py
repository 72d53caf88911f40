"""`manage.py` on one machine: servers of the environment, else the embedded ones that `manage.py up` runs."""

import json
import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from benchapp.settings.base import *
from benchapp.settings.base import HOME, broker, database
from benchapp.settings.secret import lasting_secret


def _secret_key(path: Path) -> str:
    try:
        return lasting_secret(path)
    except ValueError as error:
        raise ImproperlyConfigured(str(error)) from None
    except OSError as error:
        raise ImproperlyConfigured(f"TILEWATCH_HOME: {HOME} cannot be used ({error})") from None


def _server_urls() -> dict[str, str]:
    """URLs that a running `manage.py up` left for commands beside it (mode 0600); none where damaged."""
    try:
        found = json.loads((HOME / "run" / "servers.json").read_bytes())
    except (OSError, ValueError):
        return {}
    known = isinstance(found, dict) and all(isinstance(url, str) for url in found.values())
    return found if known else {}


SECRET_KEY = _secret_key(HOME / "secrets" / "django")
ALLOWED_HOSTS = os.environ.get("TILEWATCH_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]").split(",")

_urls = _server_urls()
# The fallbacks name nothing that listens: `manage.py up` says what is missing when no server is there.
DATABASES = {
    "default": database(
        os.environ.get("DATABASE_URL")
        or _urls.get("database_url")
        or "postgres://tilewatch@localhost:1/tilewatch"
    )
}
CELERY_BROKER_URL = broker(os.environ.get("REDIS_URL") or _urls.get("redis_url") or "redis://localhost:1/0")

# Served from their sources: no collectstatic before the first page.
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False
# nothing is collected here
STATIC_ROOT = None  # type: ignore[assignment]
