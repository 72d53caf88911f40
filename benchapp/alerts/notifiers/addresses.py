"""Which servers may be written to: public ones, and of all others those that the installation lists.

A name is resolved once, every address of it is checked, and the connection goes to a checked address itself:
a name that answers otherwise the second time gains nothing.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import socket
from typing import TypeAlias

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from benchapp.alerts.notifiers.base import Failure
from benchapp.alerts.notifiers.deadline import Deadline
from workers.bench.serving.endpoint import AddressError, check_host

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Of one name, tried one after the other.
MAX_ADDRESSES = 4
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")
#: Public by registry, yet no server of the internet: 6to4 relays, documentation, Azure's own services.
_NEVER = tuple(
    map(ipaddress.ip_network, ("192.88.99.0/24", "168.63.129.16/32", "2001::/23", "3fff::/20", "100::/64"))
)
_METADATA = tuple(
    map(ipaddress.ip_network, ("169.254.0.0/16", "fe80::/10", "100.100.100.200/32", "168.63.129.16/32",
                               "fd00:ec2::254/128"))
)  # fmt: skip


def embedded(address: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 one leads to: mapped, compatible, NAT64, 6to4 and Teredo."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.sixtofour is not None:
        return address.sixtofour
    return address.teredo[1] if address.teredo is not None else None


def is_public(address: Address) -> bool:
    """Whether it is one host of the internet, and leads to no other kind of host."""
    inner = embedded(address)
    if inner is not None and not is_public(inner):
        return False
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None or address in _NAT64:
            return True
        if address not in _GLOBAL_V6:
            return False
    if address.is_multicast or address.is_reserved or any(_in(address, each) for each in _NEVER):
        return False
    return address.is_global


def is_metadata(address: Address) -> bool:
    """Whether a cloud may tell a machine its secrets there: link-local, and a few others."""
    inner = embedded(address)
    return any(_in(each, network) for each in (address, inner) if each for network in _METADATA)


def _in(address: Address, network: Network) -> bool:
    return address.version == network.version and address in network


@dataclasses.dataclass(frozen=True, slots=True)
class Allowed:
    """What an installation lists in TILEWATCH_PRIVATE_WEBHOOKS: names with or without a port, networks."""

    hosts: frozenset[tuple[str, int | None]] = frozenset()
    networks: tuple[Network, ...] = ()

    def names(self, host: str, port: int) -> bool:
        name = host.rstrip(".").lower()
        return (name, None) in self.hosts or (name, port) in self.hosts

    def holds(self, address: Address) -> bool:
        inner = embedded(address)
        return any(_in(each, network) for each in (address, inner) if each for network in self.networks)

    def permits(self, host: str, port: int, address: Address) -> bool:
        """A listed name may lead to any private address but those of metadata; these want their network."""
        if self.holds(address):
            return True
        return self.names(host, port) and not is_metadata(address)


def parse_allowed(text: str) -> Allowed:
    """Raises ImproperlyConfigured that names the entry."""
    hosts: set[tuple[str, int | None]] = set()
    networks: list[Network] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        try:
            networks.append(ipaddress.ip_network(entry))
            continue
        except ValueError:
            pass
        found = re.fullmatch(r"\[?([^\[\]/\s]+?)\]?(?::([0-9]{1,5}))?", entry)
        port = int(found[2]) if found and found[2] else None
        try:
            if found is None or (port is not None and not 1 <= port <= 65_535):
                raise AddressError
            if ":" not in found[1] and not re.fullmatch(r"[0-9.]+", found[1]):
                check_host(found[1])
            else:
                ipaddress.ip_address(found[1])
        except ValueError:
            raise ImproperlyConfigured(
                f"TILEWATCH_PRIVATE_WEBHOOKS: {entry!r} is neither a host such as chat.lan:8065 nor a "
                "network such as 10.0.5.0/24"
            ) from None
        hosts.add((found[1].rstrip(".").lower(), port))
    return Allowed(frozenset(hosts), tuple(networks))


def allowed() -> Allowed:
    return parse_allowed(settings.PRIVATE_WEBHOOKS)


def check_literal(host: str, port: int) -> None:
    """Refuse early, in a form, what will be refused when it is sent: a host that is no host, or a forbidden
    address. A name is only looked up when something is sent. Raises Failure."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        try:
            check_host(host)
        except AddressError as error:
            raise Failure(str(error), permanent=True) from None
        return
    _check(address, host, port, allowed(), host)


def _check(address: Address, host: str, port: int, list_: Allowed, shown: str) -> None:
    if is_public(address) or list_.permits(host, port, address):
        return
    leads = "is" if shown == str(address) else f"leads to {address},"
    raise Failure(
        f"{shown} {leads} no public address, and TILEWATCH_PRIVATE_WEBHOOKS does not list it.", permanent=True
    )


def resolve(host: str, port: int, *, encrypted: bool, shown: str) -> list[str]:
    """Addresses that may be connected to. Raises Failure, also where a name leads to one that may not.

    What is not `encrypted` goes to listed servers alone. `shown` stands for the host in sentences.
    """
    try:
        list_ = allowed()
    except ImproperlyConfigured as error:
        raise Failure(f"{error}.") from None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise Failure(f"{shown} is not known: its name leads to no address.") from None
    addresses = list(dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found))
    for text in addresses:
        address = ipaddress.ip_address(text)
        _check(address, host, port, list_, shown)
        if not encrypted and not list_.permits(host, port, address):
            raise Failure(
                f"TILEWATCH_PRIVATE_WEBHOOKS does not list {shown}, and without TLS only listed servers are "
                "written to.",
                permanent=True,
            )
    return addresses[:MAX_ADDRESSES]


def connect(host: str, port: int, deadline: Deadline, *, encrypted: bool, shown: str) -> socket.socket:
    """A connection to a checked address of `host`. Raises Failure, TimeoutError."""
    addresses = resolve(host, port, encrypted=encrypted, shown=shown)
    for at, address in enumerate(addresses, start=1):
        try:
            share = deadline.left() / (len(addresses) - at + 1)
            sock = socket.create_connection((address, port), timeout=share)
        except OSError as error:
            if at < len(addresses):
                continue
            if isinstance(error, TimeoutError):
                raise TimeoutError from None
            raise Failure(f"{shown} takes no connection: {error.strerror or type(error).__name__}.") from None
        sock.settimeout(deadline.left())
        return sock
    raise Failure(f"{shown} is not known: its name leads to no address.")
