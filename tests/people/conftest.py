"""People of each role, and clients signed in as them."""

from collections.abc import Callable

import pytest
from django.test import Client

from benchapp.people.models import Role, User

PASSWORD = "correct horse battery"

MakeUser = Callable[..., User]
SignedIn = Callable[[User], Client]


@pytest.fixture
def make_user(db: None) -> MakeUser:
    """`make_user("ann", Role.ADMIN)`: somebody who can log in with `password`."""

    def make(name: str, role: Role = Role.VIEWER) -> User:
        return User.objects.create_user(name, password=PASSWORD, role=role)

    return make


@pytest.fixture
def password() -> str:
    return PASSWORD


@pytest.fixture
def signed_in() -> SignedIn:
    def sign_in(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return sign_in
