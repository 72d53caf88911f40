"""No message goes to a private address unless the installation lists it, however the address is written."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.alerts.notifiers import addresses
from benchapp.alerts.notifiers.addresses import is_public, parse_allowed
from benchapp.alerts.notifiers.base import Failure
from benchapp.alerts.notifiers.deadline import Deadline

PRIVATE_V4 = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/29", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4",
    "240.0.0.0/4",
)  # fmt: skip
PRIVATE_V6 = (
    "::/128", "::1/128", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "2001:db8::/32", "100::/64",
    "64:ff9b:1::/48", "3fff::/20", "5f00::/16",
)  # fmt: skip


def some_of(networks: tuple[str, ...]) -> st.SearchStrategy[int]:
    def within(text: str) -> st.SearchStrategy[int]:
        network = ipaddress.ip_network(text)
        return st.integers(int(network.network_address), int(network.broadcast_address))

    return st.one_of([within(each) for each in networks])


#: An IPv4 address as a number → the IPv6 addresses that lead to it.
WRAPPED = {
    "mapped": lambda v4: (0xFFFF << 32) | v4,
    "NAT64": lambda v4: (0x64FF9B << 96) | v4,
    "6to4": lambda v4: (0x2002 << 112) | (v4 << 80) | 1,
    "Teredo": lambda v4: (0x20010000 << 96) | (0x08080808 << 64) | (v4 ^ 0xFFFFFFFF),
}


@settings(max_examples=60)
@given(some_of(PRIVATE_V4))
def test_no_private_ipv4_is_public_however_it_is_wrapped(number):
    assert not is_public(ipaddress.IPv4Address(number))
    for wrap in WRAPPED.values():
        assert not is_public(ipaddress.IPv6Address(wrap(number)))
    assert not is_public(ipaddress.IPv6Address(number))  # the compatible form, long out of use


@given(some_of(PRIVATE_V6))
def test_no_private_ipv6_is_public(number):
    assert not is_public(ipaddress.IPv6Address(number))


@pytest.mark.parametrize("text", ["168.63.129.16", "100.100.100.200", "fd00:ec2::254", "169.254.169.254"])
def test_where_clouds_tell_secrets_is_not_public(text):
    address = ipaddress.ip_address(text)
    assert not is_public(address) and addresses.is_metadata(address)


@pytest.mark.parametrize(
    "text", ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_servers_of_the_internet_are_public(text):
    assert is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize(
    ("host", "port", "address", "permitted"),
    [
        ("chat.lan", 443, "10.1.2.3", True),
        ("CHAT.lan.", 8065, "fd00::7", True),
        ("relay.lan", 25, "10.1.2.3", True),
        ("relay.lan", 26, "10.1.2.3", False),
        ("other.lan", 443, "10.9.0.7", True),
        ("other.lan", 443, "::ffff:10.9.0.7", True),
        ("other.lan", 443, "10.8.0.7", False),
        ("chat.lan", 443, "169.254.169.254", False),
        ("chat.lan", 443, "::ffff:169.254.169.254", False),
        ("192.168.7.7", 80, "192.168.7.7", True),
        ("192.168.7.7", 81, "192.168.7.7", False),
    ],
)
def test_what_an_installation_lists(host, port, address, permitted):
    listed = parse_allowed("chat.lan, relay.lan:25,10.9.0.0/16,192.168.7.7:80")
    assert listed.permits(host, port, ipaddress.ip_address(address)) is permitted


@pytest.mark.parametrize(
    "text", ["10.0.0.0/33", "chat.lan:0", "chat.lan:99999", "http://chat.lan", "a b", "*"]
)
def test_a_faulty_list_names_the_entry(text):
    with pytest.raises(ImproperlyConfigured, match="TILEWATCH_PRIVATE_WEBHOOKS") as fault:
        parse_allowed(f"good.lan,{text}")
    assert text in str(fault.value)


@given(st.text(max_size=40))
def test_any_list_is_read_or_refused(text):
    try:
        parse_allowed(text)
    except ImproperlyConfigured as fault:
        assert "TILEWATCH_PRIVATE_WEBHOOKS" in str(fault)


def test_a_name_that_leads_to_loopback_is_refused(settings):
    settings.PRIVATE_WEBHOOKS = ""
    with pytest.raises(Failure, match=r"localhost leads to .*, no public address") as refused:
        addresses.resolve("localhost", 443, encrypted=True, shown="localhost")
    assert refused.value.permanent


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "127.1", "[::ffff:7f00:1]", "0177.0.0.1"])
def test_old_spellings_of_loopback_are_refused(settings, host):
    settings.PRIVATE_WEBHOOKS = ""
    with pytest.raises(Failure):
        addresses.resolve(host.strip("[]"), 443, encrypted=True, shown=host)


def test_one_private_address_among_public_ones_refuses_all(settings, monkeypatch):
    settings.PRIVATE_WEBHOOKS = ""
    _answers(monkeypatch, ["93.184.216.34", "10.0.0.1"])
    with pytest.raises(Failure, match=r"leads to 10\.0\.0\.1"):
        addresses.resolve("rebind.example.org", 443, encrypted=True, shown="rebind.example.org")


def test_the_connection_goes_to_the_checked_address(settings, monkeypatch):
    """The name is looked up once: what it answers afterwards is of no use."""
    settings.PRIVATE_WEBHOOKS = "127.0.0.0/8"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        asked = _answers(monkeypatch, ["127.0.0.1"])
        sock = addresses.connect("flips.example.org", port, Deadline(5), encrypted=True, shown="it")
        with sock:
            assert sock.getpeername() == ("127.0.0.1", port)
    assert asked.count("flips.example.org") == 1


def _answers(monkeypatch: pytest.MonkeyPatch, found: list[str]) -> list[str]:
    """Have names lead to these addresses; the list that comes back holds what was asked for."""
    real, asked = socket.getaddrinfo, []

    def answer(host, port, *args, **options):
        asked.append(host)
        if not host.endswith(".example.org"):
            return real(host, port, *args, **options)
        return [each for address in found for each in real(address, port, type=socket.SOCK_STREAM)]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return asked


def test_without_tls_only_listed_servers_are_written_to(settings, monkeypatch):
    settings.PRIVATE_WEBHOOKS = "10.0.0.0/8"
    _answers(monkeypatch, ["93.184.216.34"])
    with pytest.raises(Failure, match="without TLS only listed servers"):
        addresses.resolve("www.example.org", 80, encrypted=False, shown="www.example.org")
    assert addresses.resolve("www.example.org", 443, encrypted=True, shown="it") == ["93.184.216.34"]
    assert addresses.resolve("10.0.0.1", 80, encrypted=False, shown="it") == ["10.0.0.1"]
