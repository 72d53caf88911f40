"""An OpenAI-compatible endpoint: its address, and what a person states of it. Standard library only: the
control plane checks by the same rules."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from workers.bench.document import BenchError

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
#: As the server knows it; the same as of a case.
MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/\-]{0,119}")
#: Of a variable that holds an API key. Only these are ever sent: no other secret of a host can be named.
KEY_VARIABLE = re.compile(r"TILEWATCH_KEY_[A-Z0-9_]{1,60}")
COMPONENT = re.compile(r"[A-Za-z0-9_.:+\-]{1,40}")
VERSION = re.compile(r"[A-Za-z0-9_.:+\-]{1,60}")
MAX_COMPONENTS, MAX_HARDWARE, MAX_GPUS, MAX_URL = 40, 120, 65_536, 300
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
# a last part of digits would be read as an address, in one of the old spellings
_HOST = re.compile(rf"(?:{_LABEL}\.)*(?!\d+\.?$|0[xX])[A-Za-z0-9](?:[A-Za-z0-9_-]{{0,61}}[A-Za-z0-9])?\.?")
_PATH = re.compile(r"(?:/[A-Za-z0-9._~\-]+)*")
#: Where clouds tell a machine its secrets, beside the link-local addresses.
_METADATA = frozenset(map(ipaddress.ip_address, ("100.100.100.200", "fd00:ec2::254", "168.63.129.16")))
_METADATA_NAMES = ("metadata", "metadata.google.internal", "instance-data")


class AddressError(ValueError):
    """Why an address is not taken, in one sentence."""


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoint:
    """`url` is its base: requests go to `url`/v1/chat/completions. `stack` and `hardware` are what a person
    states, `key_variable` the name of the environment variable with its API key, "" where it wants none."""

    name: str
    url: str
    model: str
    hardware: str
    gpus: int | None = None
    stack: Mapping[str, str] = dataclasses.field(default_factory=dict)
    key_variable: str = ""


def base_url(text: str) -> str:
    """The base of an address, without a closing /v1. Raises AddressError."""
    expected = "expected http:// or https://, a host, and maybe a port and a path"
    text = text.strip()
    if len(text) > MAX_URL:
        raise AddressError(f"It has {len(text):,} characters: expected at most {MAX_URL}.")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise AddressError(f"It is no address that can be asked: {expected}.") from None
    if parts.scheme not in ("http", "https"):
        raise AddressError(f"Its scheme is {parts.scheme[:20] or 'missing'}: {expected}.")
    if "@" in parts.netloc:
        raise AddressError("It holds a name or a password: an API key is named by its environment variable.")
    if parts.query or parts.fragment or text.endswith(("?", "#")):
        raise AddressError(f"It goes on after the path: {expected}.")
    if port == 0:
        raise AddressError("Its port is 0: expected 1 to 65,535.")
    host = parts.hostname or ""
    check_host(host)
    path = parts.path.rstrip("/").removesuffix("/v1")
    if _PATH.fullmatch(path) is None:
        raise AddressError(
            "Its path holds other characters than letters, digits, and . _ ~ - between slashes."
        )
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{'' if port is None else f':{port}'}{path}"


def check_host(host: str) -> None:
    """Raises AddressError of a host that is no name and no address, or an address that is never measured."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        if len(host) > 253 or _HOST.fullmatch(host) is None:
            raise AddressError(
                f"{host[:60]!r} is no name of a host: expected one such as gpu-7.lan."
            ) from None
        if host.rstrip(".").lower() in _METADATA_NAMES:
            raise AddressError(f"{host} is where a cloud tells a machine its secrets.") from None
        return
    check_address(address)


def check_address(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """Raises AddressError of link-local, metadata, multicast and unspecified addresses."""
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        address = mapped
    if address.is_loopback:
        return
    if address.is_link_local or address in _METADATA:
        raise AddressError(f"{address} is a link-local address or one where a cloud tells secrets.")
    if address.is_multicast or address.is_unspecified or address.is_reserved:
        raise AddressError(f"{address} is no address of one server.")


def from_file(path: Path) -> Endpoint:
    """The endpoint of a JSON file: name, url, model, hardware, and maybe gpus, stack, api_key_env.

    Raises BenchError that names the field.
    """
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BenchError("bad_endpoint", f"Endpoint file {path}: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise BenchError("bad_endpoint", f"Endpoint file {path} is not JSON: {error}.") from error
    return from_json(told)


def from_json(told: Any) -> Endpoint:
    """Raises BenchError that names the field and what was expected."""
    if not isinstance(told, Mapping):
        raise _fault("endpoint", "an object with name, url, model and hardware")
    unknown = told.keys() - {"name", "url", "model", "hardware", "gpus", "stack", "api_key_env"}
    if unknown:
        raise BenchError("bad_endpoint", f"endpoint: unknown field {str(min(unknown, key=str))[:40]!r}.")
    try:
        url = base_url(_text(told, "url"))
    except AddressError as error:
        raise BenchError("bad_endpoint", f"endpoint.url: {error}") from None
    hardware = _text(told, "hardware")
    if not 1 <= len(hardware) <= MAX_HARDWARE or not hardware.isprintable():
        raise _fault("hardware", f"1 to {MAX_HARDWARE} characters, such as 8 × RTX PRO 6000")
    gpus = told.get("gpus")
    if gpus is not None and (type(gpus) is not int or not 1 <= gpus <= MAX_GPUS):
        raise _fault("gpus", f"a whole number from 1 to {MAX_GPUS:,}, or null")
    key = told.get("api_key_env") or ""
    if key and not (isinstance(key, str) and KEY_VARIABLE.fullmatch(key)):
        raise _fault("api_key_env", "the name of a variable, TILEWATCH_KEY_ and capitals, digits or _")
    return Endpoint(
        name=_word(told, "name", NAME, "lower-case letters, digits, . _ or -, such as pro6000-a"),
        url=url,
        model=_word(told, "model", MODEL, "the name of a served model, such as openai/gpt-oss-20b"),
        hardware=hardware,
        gpus=gpus,
        stack=stack_of(told.get("stack", {})),
        key_variable=key,
    )


def stack_of(told: Any) -> dict[str, str]:
    """Versions that a person states: component → version. Raises BenchError."""
    if not isinstance(told, Mapping) or len(told) > MAX_COMPONENTS:
        raise _fault("stack", f"an object of at most {MAX_COMPONENTS} versions")
    for name, version in told.items():
        if not isinstance(name, str) or COMPONENT.fullmatch(name) is None:
            raise _fault("stack", f"names such as vllm, and no {str(name)[:40]!r}")
        if not isinstance(version, str) or VERSION.fullmatch(version) is None:
            raise _fault(f"stack.{name}", "a version such as 0.11.0")
    return dict(told)


def _text(told: Mapping[str, Any], name: str) -> str:
    value = told.get(name)
    if not isinstance(value, str):
        raise _fault(name, "a text")
    return value


def _word(told: Mapping[str, Any], name: str, pattern: re.Pattern[str], expected: str) -> str:
    value = _text(told, name)
    if pattern.fullmatch(value) is None:
        raise _fault(name, expected)
    return value


def _fault(name: str, expected: str) -> BenchError:
    where = name if name == "endpoint" else f"endpoint.{name}"
    return BenchError("bad_endpoint", f"{where}: expected {expected}.")
