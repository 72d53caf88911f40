"""`manage.py` on one machine: servers of the environment, else the embedded ones that `manage.py up` runs."""

import json
import os
import secrets as random
from pathlib import Path

from benchapp.settings.base import *
from benchapp.settings.base import HOME, database


def _secret_key(path: Path) -> str:
    """The key of this installation, made at first use and readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(handle, "w") as out:
        key = random.token_urlsafe(50)
        out.write(key)
    return key


def _server_urls() -> dict[str, str]:
    """URLs that a running `manage.py up` left for commands beside it (mode 0600)."""
    path = HOME / "run" / "servers.json"
    return json.loads(path.read_text()) if path.exists() else {}


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
CELERY_BROKER_URL = os.environ.get("REDIS_URL") or _urls.get("redis_url") or "redis://localhost:1/0"

# Served from their sources: no collectstatic before the first page.
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False
# nothing is collected here
STATIC_ROOT = None  # type: ignore[assignment]
