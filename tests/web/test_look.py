"""The style sheets keep their promises: readable contrast in both themes, roles only, no inline style."""

import re
from itertools import product
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CSS = ROOT / "benchapp/web/static/css"
TOKENS = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", (CSS / "tokens.css").read_text()
    )
}
TEXT_ON = [
    *product(["ink", "ink-2", "ink-3", "accent"], ["paper", "surface", "sunk"]),
    ("accent-ink", "accent"),
    *[(name, f"{name}-bg") for name in (
        "survived", "failed", "incorrect", "uncertain", "unsupported", "improved", "regressed", "running"
    )],
    ("surface", "failed"), ("surface", "incorrect"), ("ink-2", "unsupported-bg"),
]  # fmt: skip


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("ink", "ground"), TEXT_ON)
@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_has_a_contrast_of_at_least_4_5(ink, ground, theme):
    low, high = sorted([luminance(TOKENS[ink][theme]), luminance(TOKENS[ground][theme])])
    assert (high + 0.05) / (low + 0.05) >= 4.5


@pytest.mark.parametrize("line", [f"line-{n}" for n in range(1, 7)])
@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_lines_of_a_chart_have_a_contrast_of_at_least_3(line, theme):
    low, high = sorted([luminance(TOKENS[line][theme]), luminance(TOKENS["surface"][theme])])
    assert (high + 0.05) / (low + 0.05) >= 3


@pytest.mark.parametrize("name", ["base.css", "components.css"])
def test_components_use_roles_only(name):
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[;\s,)])|rgb\(|hsl\(", (CSS / name).read_text()) == []


def test_every_role_that_is_used_exists():
    defined = set(re.findall(r"(--[\w-]+):", (CSS / "tokens.css").read_text()))
    used = {name for path in CSS.glob("*.css") for name in re.findall(r"var\((--[\w-]+)", path.read_text())}
    assert used - defined == set()


@pytest.mark.parametrize("path", sorted((ROOT / "templates").rglob("*.html")), ids=lambda p: p.name)
def test_no_template_needs_what_the_policy_forbids(path):
    text = path.read_text()
    assert not re.search(r"\sstyle=|\son\w+=|hx-on|<style|javascript:", text)
    assert all("src=" in tag or "application/json" in tag for tag in re.findall(r"<script[^>]*>", text))
