"""What every deployment shares. `local`, `production` and `test` add where the servers and secrets are."""

import os
from pathlib import Path
from typing import Any

import dj_database_url
import psycopg
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from psycopg.conninfo import conninfo_to_dict

REPOSITORY = Path(__file__).resolve().parents[2]
#: Everything Tilewatch writes on this machine: data, logs, caches, environments, spool.
HOME = Path(os.environ.get("TILEWATCH_HOME") or REPOSITORY / "var").resolve()

DEBUG = False
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "csp",
    "benchapp.people",
    "benchapp.catalog",
    "benchapp.runs",
    "benchapp.tiles",
    "benchapp.trends",
    "benchapp.moe",
    "benchapp.alerts",
    "benchapp.fleet",
    "benchapp.ingest",
    "benchapp.web",
    "benchapp.local",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "benchapp.people.middleware.TokenMiddleware",
    "benchapp.people.middleware.ReadingMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "benchapp.urls"
WSGI_APPLICATION = "benchapp.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [REPOSITORY / "templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
            "builtins": ["benchapp.web.templatetags.units"],
        },
    }
]


def _whole_number(variable: str) -> int:
    text = os.environ.get(variable) or "0"
    if not (text.isascii() and text.isdecimal() and len(text) < 4):
        raise ImproperlyConfigured(f"{variable}: expected a whole number from 0 to 999, got {text!r}")
    return int(text)


def database(url: str) -> dict[str, Any]:
    """Django's DATABASES entry for a postgres:// URL. Raises ImproperlyConfigured for any other."""
    try:
        if not url.startswith(("postgres://", "postgresql://")):
            raise ValueError
        conninfo_to_dict(url)
        settings = dict(dj_database_url.parse(url, conn_max_age=60, conn_health_checks=True))
    except (ValueError, psycopg.Error):
        raise ImproperlyConfigured(
            "DATABASE_URL: expected postgres://user:password@host:port/name, with spaces and signs of the "
            "password written as %20 and the like"
        ) from None
    options = settings.setdefault("OPTIONS", {})
    options.setdefault("connect_timeout", 5)  # type: ignore[attr-defined]
    return settings


def broker(url: str) -> str:
    """The broker's URL; over TLS its server must prove who it is. Celery alone would take anybody."""
    if not url.startswith("rediss://") or "ssl_cert_reqs=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}ssl_cert_reqs=required"


DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "people.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/"
#: May somebody without an account read the pages? Writing always needs a role.
ANONYMOUS_READING = os.environ.get("TILEWATCH_ANONYMOUS_READING", "1") == "1"
#: Is a tile survey followed by full compiles of what fits, in the background?
DEEP_SURVEYS = os.environ.get("TILEWATCH_DEEP_SURVEYS", "1") == "1"
#: The suite that GPUs measure a new FlashInfer release with: a name for all of them, "" for none, None for
#: what `benchapp.fleet.releases` chooses by architecture.
RELEASE_SUITE = os.environ.get("TILEWATCH_RELEASE_SUITE")
#: The same of whole models, on GPUs that hold them: a name, "" for none, None for what
#: `benchapp.fleet.releases` chooses.
RELEASE_MODEL_SUITE = os.environ.get("TILEWATCH_RELEASE_MODEL_SUITE")
#: Where people open this installation, for links in messages: https://bench.example.org. "": messages name
#: the page without its host.
PUBLIC_URL = os.environ.get("TILEWATCH_URL", "").rstrip("/")
#: Servers that alerts may be sent to although their address is private, or without TLS: hosts with or without
#: a port, and networks, separated by commas.
PRIVATE_WEBHOOKS = os.environ.get("TILEWATCH_PRIVATE_WEBHOOKS", "")
#: Proxies in front of the web server whose X-Forwarded-For is believed, nearest first.
TRUSTED_PROXIES = _whole_number("TILEWATCH_PROXIES")

LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATIC_ROOT = REPOSITORY / "staticfiles"
STATICFILES_DIRS = [REPOSITORY / "benchapp" / "web" / "static"]
STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024

#: A run whose heart has not beaten for so long is taken up again, at most MAX_ATTEMPTS times in all.
HEARTBEAT_TIMEOUT_S = 60
MAX_ATTEMPTS = 3
#: Largest document accepted, in bytes.
DOCUMENT_LIMIT_BYTES = 32 * 1024 * 1024

# The broker carries hints only ("there is work"); Postgres decides. So tasks ack early and keep no result.
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_DEFAULT_QUEUE = "control"
CELERY_TASK_CREATE_MISSING_QUEUES = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_timeout": 5,
    "socket_connect_timeout": 5,
    # a hint is not worth waiting for: whoever sends one while the broker is away goes on at once
    "max_retries": 1,
    "interval_start": 0,
}
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULE = {
    "sweep": {"task": "runs.sweep", "schedule": 30.0, "options": {"expires": 30}},
    "reports": {"task": "fleet.take_reports", "schedule": 30.0, "options": {"expires": 30}},
    "schedules": {"task": "fleet.tick", "schedule": 30.0, "options": {"expires": 30}},
    "releases": {"task": "fleet.watch_releases", "schedule": 3600.0, "options": {"expires": 600}},
    "detection": {"task": "alerts.look", "schedule": 60.0, "options": {"expires": 60}},
    "confirming": {"task": "alerts.confirm", "schedule": 60.0, "options": {"expires": 60}},
    "deliveries": {"task": "alerts.tell", "schedule": 30.0, "options": {"expires": 30}},
    "kinds": {"task": "alerts.sweep_kinds", "schedule": 600.0, "options": {"expires": 600}},
    "partitions": {"task": "ingest.make_partitions", "schedule": 6 * 3600.0, "options": {"expires": 600}},
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "INFO"},
}
