# What people type. `make run` on a fresh clone is all that is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# Test processes; 1 where DATABASE_URL or REDIS_URL name servers that they would share.
JOBS ?= $(if $(DATABASE_URL)$(REDIS_URL),1,2)

.PHONY: setup run test check bench

setup: $(VENV)/.installed
	@:

run: setup
	@exec $(BIN)/python manage.py up $(ARGS)

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest --numprocesses=$(JOBS) --dist=loadfile $(ARGS)

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run
	TILEWATCH_SECRET_KEY=$$($(BIN)/python -c 'import secrets; print(secrets.token_urlsafe(50))') \
	TILEWATCH_ALLOWED_HOSTS=tilewatch.example DATABASE_URL=postgres://localhost/none REDIS_URL=redis://localhost/0 \
	DJANGO_SETTINGS_MODULE=benchapp.settings.production \
	$(BIN)/python manage.py check --deploy --fail-level WARNING

bench: setup
	$(BIN)/python -m bench $(ARGS)

# Without these stamps pip would be asked at every start.
$(VENV)/.installed: requirements.txt
	@$(PYTHON) benchapp/local/preflight.py
	@echo "Installing Tilewatch into $(VENV) (about a minute, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@
