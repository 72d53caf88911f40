"""A team's deployment behind TLS: everything that differs between sites comes from the environment."""

import os

from django.core.exceptions import ImproperlyConfigured

from benchapp.settings.base import *
from benchapp.settings.base import broker, database


def _required(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise ImproperlyConfigured(f"{name} is not set; docs/deployment.md says what it must hold")
    return value


SECRET_KEY = _required("TILEWATCH_SECRET_KEY")
ALLOWED_HOSTS = _required("TILEWATCH_ALLOWED_HOSTS").split(",")
CSRF_TRUSTED_ORIGINS = [f"https://{host}" for host in ALLOWED_HOSTS]
DATABASES = {"default": database(_required("DATABASE_URL"))}
CELERY_BROKER_URL = broker(_required("REDIS_URL"))

STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
SECURE_SSL_REDIRECT = True
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_HSTS_SECONDS = 365 * 24 * 3600
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
