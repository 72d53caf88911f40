"""The docs say what the code does: names, numbers, links, examples and commands are compared with it."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import importlib
import importlib.util
import json
import re
from functools import reduce
from pathlib import Path
from typing import Any, get_args

import pytest
from django.apps import apps
from django.core.management import get_commands
from django.db import connection

from benchapp.ingest import schema
from benchapp.people.models import Role
from benchapp.runs import requests
from benchapp.runs.actions import PRIORITIES
from benchapp.runs.models import Document, Job, Run, State
from benchapp.runs.states import MOVES
from benchapp.tiles.fates import GLYPHS, Fate
from benchapp.tiles.models import Stage
from workers.bench import document as doc
from workers.bench.cli import COMMANDS

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
PAGES = [REPOSITORY / "README.md", *sorted(DOCS.glob("*.md"))]
SCREENSHOT = "docs/screenshot.png"

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def text_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next one of its level or a higher one."""
    level, _, _ = heading.partition(" ")
    found = re.search(rf"^{re.escape(heading)}$(.*?)(?=^#{{1,{len(level)}}} |\Z)", text, re.M | re.S)
    assert found, f"no heading {heading!r}"
    return found[1]


def rows(text: str) -> list[list[str]]:
    """The cells of every table's rows, heads left out."""
    found = []
    for table in re.findall(r"(?:^\|.*\n?)+", text, re.M):
        _head, _rule, *body = table.strip().splitlines()
        found += [[cell.strip() for cell in line.strip("|").split("|")] for line in body]
    return found


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def resolve(path: str) -> Any:
    """What a dotted path names: a module, or something in one."""
    module, _, name = path.rpartition(".")
    if path == "benchapp.settings.production":  # wants a team's variables, and need not be loaded to exist
        return importlib.util.find_spec(path)
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        assert module, f"there is no {path}"
        return getattr(resolve(module), name)


@each_page
def test_links_lead_somewhere(page):
    for target in re.findall(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.is_relative_to(REPOSITORY) and there.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(there), f"{page.name}: {target}"


def test_the_index_lists_every_page():
    listed = set(re.findall(r"\(([\w-]+\.md)\)", text_of("README.md")))
    assert listed == {page.name for page in DOCS.glob("*.md")} - {"README.md"}


def test_the_screenshot_is_shown_and_there():
    assert f"![Tile survivorship]({SCREENSHOT})" in (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert (REPOSITORY / SCREENSHOT).read_bytes().startswith(b"\x89PNG")


@each_page
def test_files_that_are_named_exist(page):
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:benchapp|workers|docs|tests|bench|templates|docker)/[\w./-]*)`", text)
    missing = [name for name in named if not (REPOSITORY / name).exists()]
    assert not missing


@each_page
def test_names_of_the_code_resolve(page):
    for path in re.findall(
        r"`((?:benchapp|workers)\.[\w.]+[\w])(?:\(\))?`", page.read_text(encoding="utf-8")
    ):
        resolve(path)
    for module, name in re.findall(r"from ([\w.]+) import (\w+);", page.read_text(encoding="utf-8")):
        resolve(f"{module}.{name}")


@each_page
def test_nothing_of_one_machine_is_told(page):
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"/work\b|\.\./shared|/tmp/|/home/\w|/Users/", text)


@each_page
def test_commands_exist(page):
    text = page.read_text(encoding="utf-8")
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.M))
    shown = re.findall(r"(?:^|`)make ([a-z]+)", text, re.M)
    assert set(shown) <= targets
    assert set(re.findall(r"manage\.py ([a-z]\w+)", text)) <= set(get_commands())
    assert set(re.findall(r"workers\.bench ([a-z]+)", text)) <= set(COMMANDS)


def test_the_readme_names_what_debian_lacks():
    from benchapp.local.preflight import APT_LINE

    assert f"\n{APT_LINE}\n" in (REPOSITORY / "README.md").read_text(encoding="utf-8")


@pytest.mark.django_db
def test_every_table_is_described():
    """Partitions are named by their rule, not one by one."""
    text = text_of("schema.md")
    tables = {re.sub(r"_(\d{4}_\d{2}|default)$", "", name) for name in connection.introspection.table_names()}
    assert {table for table in tables if f"`{table}`" not in text} == set()


OWN = [model for model in apps.get_models() if model.__module__.startswith("benchapp.")]


@pytest.mark.parametrize("model", OWN, ids=lambda model: model._meta.db_table)
def test_every_field_and_index_is_described(model):
    said = section(text_of("schema.md"), f"### `{model._meta.db_table}`")
    inherited = {field.name for field in model._meta.local_fields if model.__name__ == "User"} - {"role"}
    for field in model._meta.local_fields:
        if field.name not in inherited | {"pk"}:
            assert re.search(rf"`{field.name}`", said), field.name
    for index in (*model._meta.indexes, *model._meta.constraints):
        if not index.name.endswith("_idx"):  # a name that Django made up
            assert f"`{index.name}`" in said
    for field in model._meta.local_fields:
        for value, _ in field.choices or ():
            assert value in said or value in text_of("glossary.md"), f"{field.name}: {value}"


def test_schema_describes_no_table_that_is_gone():
    described = set(re.findall(r"^### `(\w+)`$", text_of("schema.md"), re.M))
    assert described == {model._meta.db_table for model in OWN}


def test_words_of_the_glossary_are_words_of_the_code():
    words = rows(section(text_of("glossary.md"), "## Words"))
    assert len(words) > 30
    for word, meaning, where in words:
        assert word and meaning
        resolve(where.strip("`"))


VALUES = {
    "stage": Stage.values,
    "reason": get_args(doc.Reason),
    "tier": get_args(doc.Tier),
    "outcome": get_args(doc.Outcome),
    "flag": (*get_args(doc.Flag), "impossible"),
    "timer": get_args(doc.Timer),
    "L2 policy": get_args(doc.L2Policy),
    "run": State.values,
    "document": Document.State.values,
    "origin": Document.Origin.values,
    "source": Job.Source.values,
    "role": Role.values,
    "fate": [fate.value for fate in Fate],
    "command": list(COMMANDS),
}


@pytest.mark.parametrize("kind", VALUES)
def test_every_value_is_in_the_glossary(kind):
    text = text_of("glossary.md") + text_of("document.md")
    assert [value for value in VALUES[kind] if not re.search(rf"\b{value}\b", text)] == []


def test_glyphs_are_those_of_the_matrix():
    glyphs = {row[0]: row[1] for row in rows(section(text_of("glossary.md"), "## Glyphs"))}
    for fate, glyph in GLYPHS.items():
        assert fate.value in glyphs[glyph or "(hatched)"]


def test_moves_of_a_run_are_those_of_the_code():
    table = rows(section(text_of("architecture.md"), "## The way of a run"))
    told = {(origin, to) for froms, to, _ in table if to in State.values for origin in froms.split(", ")}
    assert told == {(str(origin.value), str(to.value)) for origin, all_to in MOVES.items() for to in all_to}


def test_priorities_are_those_of_the_code():
    told = {row[2] for row in rows(section(text_of("architecture.md"), "### Kinds and priorities"))}
    background = (requests.SWEEP_PRIORITY, requests.EXPLORE_PRIORITY, requests.DEEP_PRIORITY)
    asked = {str(priority) for priority in PRIORITIES.values()}
    assert told == {*asked, *(f"−{-priority}" for priority in background)}


SECONDS = {"min": 60, "h": 3600}


def test_numbers_are_those_of_the_code():
    numbers = rows(section(text_of("architecture.md"), "## Numbers"))
    assert len(numbers) > 15
    for value, meaning, where in numbers:
        number, _, unit = value.partition(" ")
        told = float(number.replace(",", "")) * SECONDS.get(unit, 1)
        constant = resolve(where.strip("`"))
        if isinstance(constant, dt.timedelta):
            constant = constant.total_seconds()
        assert told == constant, f"{meaning}: {value} is {constant}"


def test_periods_of_beat_are_told(settings):
    periods = {name: entry["schedule"] for name, entry in settings.CELERY_BEAT_SCHEDULE.items()}
    every_half_minute = dict.fromkeys(["sweep", "reports", "schedules", "deliveries"], 30)
    assert periods == every_half_minute | {
        "detection": 60, "confirming": 60, "kinds": 600, "releases": 3600, "partitions": 6 * 3600,
    }  # fmt: skip
    text = text_of("architecture.md")
    assert "every 30 s by beat" in text and "partitions every 6 h" in text


def test_rooms_are_those_of_the_repository():
    table = rows(section(text_of("architecture.md"), "## Rooms"))
    told = {row[0].strip("`/") for row in table}
    there = {f"benchapp/{folder.name}" for folder in (REPOSITORY / "benchapp").iterdir() if folder.is_dir()}
    assert there - {"benchapp/settings", "benchapp/__pycache__"} <= told


MODELS: dict[str, type[schema.Strict]] = {
    "## Document": schema.Document,
    "## Target": schema.Target,
    "## Measurement": schema.Measurement,
    "## Comparison": schema.Comparison,
    "## Finding": schema.Finding,
}


@pytest.mark.parametrize("heading", MODELS)
def test_every_field_of_a_document_is_told(heading):
    cells = [row[0] for row in rows(section(text_of("document.md"), heading))]
    told = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert told == set(MODELS[heading].model_fields)


@pytest.mark.parametrize("model", [schema.Statistics, schema.Correctness, schema.Readings])
def test_fields_within_a_measurement_are_told(model):
    said = re.search(rf"^\*\*{model.__name__}:\*\*(.*)$", text_of("document.md"), re.M)
    assert said
    assert set(re.findall(r"`(\w+)`", said[1])) == set(model.model_fields)


EXAMPLES = {
    example["kind"]: example
    for example in map(json.loads, re.findall(r"```json\n(.*?)```", text_of("document.md"), re.S))
}


@pytest.mark.parametrize("kind", ["tiles", "gemm"])
def test_the_examples_are_accepted(kind):
    parsed = schema.parse(json.dumps(EXAMPLES[kind]).encode())
    assert parsed.kind == kind
    for item in parsed.measurements:
        assert item.flops == 2 * 16 * 1024 * 1024
        assert item.bytes == 2 * (16 * 1024 + 1024 * 1024 + 16 * 1024)


FAULTY: list[tuple[list[str | int], Any]] = [
    (["schema_version"], 2),
    (["measurements", 0, "samples", 1], -0.0004),
    (["measurements", 0, "statistics", "q1"], 0.0005),
    (["measurements", 0, "correctness"], None),
    (["measurements", 0, "measured_at"], "2014-12-31T00:00:00Z"),
    (["target", "colour"], "green"),
    (["stack"], {}),
]


def faults() -> list[str]:
    said = []
    for path, value in FAULTY:
        content = copy.deepcopy(EXAMPLES["gemm"])
        reduce(lambda place, step: place[step], path[:-1], content)[path[-1]] = value
        with pytest.raises(schema.Fault) as fault:
            schema.parse(json.dumps(content).encode())
        said.append(str(fault.value))
    return said


def test_faults_read_as_shown():
    block = re.findall(r"```\n(.*?)\n```", section(text_of("document.md"), "## Faults"), re.S)[-1]
    assert block.splitlines() == faults()


def test_recipes_of_the_docs_are_fields():
    """`Run.kind` and a document's `kind` are one list, but for builds, whose documents are of kind modules.
    The explorer's are of kind tiles too, a bisect's of kind confirm."""
    kinds = set(get_args(schema.Document.model_fields["kind"].annotation))
    assert kinds == set(COMMANDS) - {"explore", "bisect"}
    assert kinds - {"modules"} == set(Run.Kind.values) - {Run.Kind.BUILD}
    assert {field.name for field in dataclasses.fields(doc.Document)} == set(schema.Document.model_fields)
