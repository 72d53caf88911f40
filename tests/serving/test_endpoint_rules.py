"""Which addresses may be measured, and what is read from an endpoint's file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.bench.document import BenchError
from workers.bench.serving import endpoint as rules

FINE = {"name": "box", "url": "http://127.0.0.1:8000", "model": "a/b", "hardware": "1 × H200"}


@pytest.mark.parametrize(
    ("typed", "base"),
    [
        ("http://gpu-7.lan:8000", "http://gpu-7.lan:8000"),
        ("https://gpu-7.lan/v1/", "https://gpu-7.lan"),
        (" http://10.0.0.7:30000/serve/v1 ", "http://10.0.0.7:30000/serve"),
        ("http://[fd12::7]:8000/", "http://[fd12::7]:8000"),
        ("http://localhost:8000/v1", "http://localhost:8000"),
    ],
)
def test_addresses_are_taken_as_their_base(typed, base):
    assert rules.base_url(typed) == base


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("gpu-7:8000", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("http://ada:secret@gpu-7", "password"),
        ("http://169.254.169.254/latest", "link-local"),
        ("http://[::ffff:169.254.169.254]/", "link-local"),
        ("http://[fe80::1]/", "link-local"),
        ("http://[fd00:ec2::254]/", "secrets"),
        ("http://metadata.google.internal/", "secrets"),
        ("http://2852039166/", "no name of a host"),
        ("http://0xA9FEA9FE/", "no name of a host"),
        ("http://169.254.43518/", "no name of a host"),
        ("http://0.0.0.0:8000", "no address of one server"),
        ("http://224.0.0.1", "no address of one server"),
        ("http://gpu-7:0", "port"),
        ("http://gpu-7:99999", "no address"),
        ("http://gpu-7/v1?key=1", "after the path"),
        ("http://gpu-7/#a", "after the path"),
        ("http://gpu-7/${HOME}", "path"),
        ("http://gpu-7/{{ x }}", "path"),
        ("http://", "no name of a host"),
        ("http://" + "a" * 400, "characters"),
    ],
)
def test_other_addresses_are_refused_in_a_sentence(typed, said):
    with pytest.raises(rules.AddressError, match=said) as refused:
        rules.base_url(typed)
    assert "secret@" not in str(refused.value)


@given(st.text(max_size=80) | st.text("htps:/@[]0123456789.x", max_size=30).map("http://".__add__))
def test_whatever_is_typed_becomes_a_base_or_a_sentence(typed):
    try:
        base = rules.base_url(typed)
    except rules.AddressError as refused:
        assert str(refused).endswith(".")
    else:
        assert rules.base_url(base) == base
        assert "$" not in base
        assert "@" not in base


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"url": 7}, "endpoint.url"),
        ({"name": "Box 1"}, "endpoint.name"),
        ({"model": "${HOME}"}, "endpoint.model"),
        ({"hardware": ""}, "endpoint.hardware"),
        ({"gpus": 0}, "endpoint.gpus"),
        ({"gpus": True}, "endpoint.gpus"),
        ({"stack": {"vllm": 1}}, "endpoint.stack.vllm"),
        ({"stack": ["vllm"]}, "endpoint.stack"),
        ({"api_key_env": "DATABASE_URL"}, "endpoint.api_key_env"),
        ({"api_key": "sesame"}, "unknown field 'api_key'"),
    ],
)
def test_a_wrong_field_is_named(changed, said):
    with pytest.raises(BenchError, match=said):
        rules.from_json(FINE | changed)


def test_a_file_is_read_whole_or_refused(tmp_path: Path):
    path = tmp_path / "endpoint.json"
    path.write_text(json.dumps(FINE | {"gpus": None, "stack": {"vllm": "0.11.0"}, "api_key_env": ""}))
    assert rules.from_file(path).stack == {"vllm": "0.11.0"}
    for content in ("", "[]", "{", "[" * 100_000):
        path.write_text(content)
        with pytest.raises(BenchError, match="ndpoint"):
            rules.from_file(path)
    with pytest.raises(BenchError, match="No such file"):
        rules.from_file(tmp_path / "none.json")


def test_a_server_of_the_same_host_has_any_of_its_addresses():
    for host in ("127.0.0.1", "::1", "localhost"):
        rules.check_host(host)
