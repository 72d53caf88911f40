"""TLS to both servers, as DATABASE_URL and REDIS_URL ask for it: who is not proven is not spoken to.

The servers are real; what ends TLS stands in front of them, as those in the wheels are built without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from django.conf import settings
from django.db import OperationalError, connection
from kombu.connection import Connection
from kombu.exceptions import OperationalError as BrokerError

from benchapp.local.external import postgres_complaint, redis_complaint
from benchapp.settings.base import broker, database
from tests.conftest import Servers
from tests.deployment import tls

BAD = ("another authority", "expired", "another name", "no TLS")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    tls.need_openssl()
    folder = tmp_path_factory.mktemp("certificates")
    ours, other = tls.Authority(folder, "ours").make(), tls.Authority(folder, "other").make()
    return {
        "ca": ours.certificate,
        "good": ours.sign("127.0.0.1"),
        "another authority": other.sign("127.0.0.1"),
        "expired": ours.sign("127.0.0.1", days=-1),
        "another name": ours.sign("db.example.org"),
    }


def moved(url: str, port: int, scheme: str, query: str) -> str:
    parts = urlsplit(url)
    return parts._replace(
        scheme=scheme, netloc=f"{parts.netloc.rsplit(':', 1)[0]}:{port}", query=query
    ).geturl()


@pytest.fixture
def at_postgres(servers: Servers, certificates: dict[str, Path], request) -> Iterator[str]:
    """A DATABASE_URL that asks for a proof, of a server with the certificate that the parameter names."""
    query = f"sslmode=verify-full&sslrootcert={certificates['ca']}"
    port = urlsplit(servers.database_url).port
    assert port
    if request.param == "no TLS":
        yield moved(servers.database_url, port, "postgresql", query)
        return
    with tls.in_front_of(port, certificates[request.param], postgres=True) as front:
        yield moved(servers.database_url, front, "postgresql", query)


@pytest.fixture
def at_valkey(servers: Servers, certificates: dict[str, Path], request) -> Iterator[str]:
    query = f"ssl_ca_certs={certificates['ca']}"
    port = urlsplit(servers.redis_url).port
    assert port
    if request.param == "no TLS":
        yield moved(servers.redis_url, port, "rediss", query)
        return
    with tls.in_front_of(port, certificates[request.param], postgres=False) as front:
        yield moved(servers.redis_url, front, "rediss", query)


def hints_of(url: str) -> Connection:
    """A connection as Celery makes it from the settings, only less patient."""
    options = settings.CELERY_BROKER_TRANSPORT_OPTIONS | {"socket_timeout": 2}
    return Connection(broker(url), transport_options=options)


def secret_of(url: str) -> str:
    return str(urlsplit(url).password)


@pytest.mark.django_db
@pytest.mark.parametrize("at_postgres", ["good"], indirect=True)
def test_django_speaks_tls_to_postgres(at_postgres: str):
    server = database(at_postgres)
    with psycopg.connect(at_postgres) as direct:
        assert direct.pgconn.ssl_in_use
    other = connection.copy()
    other.settings_dict = {**connection.settings_dict, **server}
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT 1")
        assert other.connection.pgconn.ssl_in_use
    finally:
        other.close()
    assert postgres_complaint(at_postgres) == ""


@pytest.mark.django_db
@pytest.mark.parametrize("at_postgres", BAD, indirect=True)
def test_a_postgres_that_is_not_proven_is_refused_without_showing_the_password(at_postgres: str):
    other = connection.copy()
    other.settings_dict = {**connection.settings_dict, **database(at_postgres)}
    with pytest.raises(OperationalError, match=r"certificate|SSL") as refusal:
        other.ensure_connection()
    assert secret_of(at_postgres) not in str(refusal.value)
    complaint = postgres_complaint(at_postgres)
    assert complaint.startswith("Postgres at 127.0.0.1")
    assert secret_of(at_postgres) not in complaint


@pytest.mark.parametrize("at_valkey", ["good"], indirect=True)
def test_a_hint_travels_over_tls(at_valkey: str):
    with hints_of(at_valkey) as hints:
        queue = hints.SimpleQueue("tls-test")
        queue.put({"there is": "work"})
        assert queue.get(timeout=10).payload == {"there is": "work"}
        queue.close()
    assert redis_complaint(at_valkey) == ""


@pytest.mark.parametrize("at_valkey", BAD, indirect=True)
def test_a_broker_that_is_not_proven_is_refused_without_showing_the_password(at_valkey: str):
    with (
        hints_of(at_valkey) as hints,
        pytest.raises(BrokerError) as refusal,
    ):
        hints.SimpleQueue("tls-test").put({})
    assert secret_of(at_valkey) not in str(refusal.value)
    complaint = redis_complaint(at_valkey)
    assert complaint.startswith("Redis at 127.0.0.1")
    assert secret_of(at_valkey) not in complaint


@pytest.mark.parametrize("at_valkey", ["another authority"], indirect=True)
def test_rediss_alone_asks_for_a_proof_too(at_valkey: str):
    """Celery by itself would take any certificate where the URL names no option of TLS."""
    bare = urlsplit(at_valkey)._replace(query="").geturl()
    with (
        hints_of(bare) as hints,
        pytest.raises(BrokerError, match="certificate"),
    ):
        hints.SimpleQueue("tls-test").put({})


@pytest.mark.parametrize("at_postgres", ["good"], indirect=True)
def test_a_server_with_tls_alone_refuses_a_plain_connection(at_postgres: str):
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(urlsplit(at_postgres)._replace(query="sslmode=disable&connect_timeout=5").geturl())


@pytest.mark.parametrize("at_valkey", ["good"], indirect=True)
def test_a_broker_with_tls_alone_refuses_a_plain_connection(at_valkey: str):
    plain = urlsplit(at_valkey)._replace(scheme="redis", query="").geturl()
    with (
        hints_of(plain) as hints,
        pytest.raises(BrokerError),
    ):
        hints.SimpleQueue("tls-test").put({})
