"""The environment of the load generator, and which secret of a host a run may have."""

from __future__ import annotations

import types
from typing import Any

import pytest

from workers import environments
from workers.commands import endpoint_key


def test_the_load_generator_has_a_recipe_of_its_own():
    assert environments.requirements({"aiperf": "0.13.0"}) == ["aiperf==0.13.0"]
    assert environments.base_versions({"aiperf": "0.13.0"}) is None
    with pytest.raises(environments.RecipeError, match="expected alone"):
        environments.requirements({"aiperf": "0.13.0", "torch": "2.13.0"})


@pytest.mark.parametrize(
    "endpoint",
    [
        None, "x", {}, {"api_key_env": ""}, {"api_key_env": "DATABASE_URL"},
        {"api_key_env": ["TILEWATCH_KEY_A"]}, {"api_key_env": "TILEWATCH_KEY_A\n"},
        {"api_key_env": "TILEWATCH_KEY_UNSET"},
    ],
)  # fmt: skip
def test_a_run_gets_no_other_secret_than_a_key_made_for_it(monkeypatch, endpoint):
    monkeypatch.setenv("DATABASE_URL", "postgres://secret")
    monkeypatch.setenv("TILEWATCH_KEY_A", "sesame")
    other: Any = types.SimpleNamespace(params={"endpoint": endpoint})
    assert endpoint_key(other) == {}
    named: Any = types.SimpleNamespace(params={"endpoint": {"api_key_env": "TILEWATCH_KEY_A"}})
    assert endpoint_key(named) == {"TILEWATCH_KEY_A": "sesame"}
