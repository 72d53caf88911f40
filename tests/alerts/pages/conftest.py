from __future__ import annotations

import pytest
from django.test import Client

from benchapp.people.models import Role
from tests.alerts.pages import made


@pytest.fixture
def ann(db):
    return made.person()


@pytest.fixture
def as_(db):
    """`as_(user)`: a client signed in as that person."""

    def sign_in(user):
        client = Client()
        client.force_login(user)
        return client

    return sign_in


@pytest.fixture
def operator(ann, as_):
    return as_(ann)


@pytest.fixture
def viewer(as_):
    return as_(made.person("vic", Role.VIEWER))
