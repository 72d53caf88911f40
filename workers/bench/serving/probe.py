"""What a server tells of itself: whether it serves the model, and its versions. Few bytes, bounded time, and
never another address than the endpoint's own."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import ipaddress
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from workers.bench.document import Outcome
from workers.bench.serving.endpoint import VERSION, AddressError, Endpoint, check_address

TIMEOUT_S, WHOLE_S = 5.0, 20.0
MOST_BYTES = 1_000_000
#: How each engine calls itself in the list of models.
ENGINES = {"vllm": "vllm", "sglang": "sglang", "tensorrt_llm": "tensorrt-llm"}
#: Where engines tell their version: vLLM and TensorRT-LLM, SGLang, and SGLang from 0.5.6 on.
PLACES = ("/version", "/get_server_info", "/server_info")
_MODELS_SHOWN = 5


class UnfitError(Exception):
    """An endpoint that cannot be measured: the outcome of its cases, and why in a sentence."""

    def __init__(self, outcome: Outcome, sentence: str) -> None:
        super().__init__(sentence)
        self.outcome = outcome
        self.sentence = sentence


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """Versions that the server told, and what a reader should know."""

    stack: Mapping[str, str]
    notes: tuple[str, ...] = ()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def ask(endpoint: Endpoint, key: str) -> Told:
    """Raises UnfitError where it is down, refuses, leads elsewhere, or serves no such model."""
    answers: list[Told | Exception] = []

    def work() -> None:
        try:
            answers.append(_ask(endpoint, key))
        except Exception as error:  # told below, in the caller's thread
            answers.append(error)

    # a server may send a byte now and then without end: its thread is left behind
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(WHOLE_S)
    if not answers:
        raise UnfitError("timeout", f"{endpoint.url} did not list its models within {WHOLE_S:g} s.")
    if isinstance(answers[0], Exception):
        raise answers[0]
    return answers[0]


def _ask(endpoint: Endpoint, key: str) -> Told:
    _check_addresses(endpoint)
    deadline = time.monotonic() + WHOLE_S
    status, body = _get(endpoint, "/v1/models", key, deadline)
    if 300 <= status < 400:
        raise UnfitError(
            "init_failed",
            f"{endpoint.url}/v1/models leads elsewhere (HTTP {status}): name that address itself.",
        )
    if status in (401, 403):
        said = "refuses the key" if key else "wants a key"
        raise UnfitError("init_failed", f"{endpoint.url} {said} (HTTP {status} for /v1/models).")
    models = _models(body) if status == 200 else None
    if models is None:
        return Told({}, (f"{endpoint.url}/v1/models lists no models (HTTP {status}).",))
    if endpoint.model not in models:
        shown = ", ".join(sorted(models)[:_MODELS_SHOWN]) or "none"
        raise UnfitError(
            "init_failed", f"{endpoint.url} serves no model {endpoint.model}; it serves {shown}."
        )
    engine = ENGINES.get(models[endpoint.model], "server")
    for place in PLACES:
        status, body = _get(endpoint, place, key, deadline)
        version = _version(body) if status == 200 else None
        if version is not None:
            return Told({engine: version})
    return Told({}, ("The server tells no version.",))


def _check_addresses(endpoint: Endpoint) -> None:
    """A name may lead to an address that nobody would have allowed."""
    parts = urlsplit(endpoint.url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        raise UnfitError("init_failed", f"The host {host} of {endpoint.name} is not known here.") from None
    for text in found:
        try:
            check_address(ipaddress.ip_address(str(text).partition("%")[0]))
        except AddressError as error:
            raise UnfitError(
                "init_failed", f"{host} leads to an address that is not measured: {error}"
            ) from None


def _get(endpoint: Endpoint, place: str, key: str, deadline: float) -> tuple[int, bytes]:
    """(status, the first MOST_BYTES). Raises UnfitError where no answer comes."""
    headers = {"Accept": "application/json", "User-Agent": "tilewatch"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    # base_url() let http and https through, and nothing else
    request = urllib.request.Request(endpoint.url + place, headers=headers)  # noqa: S310
    # no proxy: AIPerf asks none either
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            body = b""
            while len(body) < MOST_BYTES and time.monotonic() < deadline:
                piece = answer.read1(65536)
                if not piece:
                    break
                body += piece
            return int(answer.status), body
    except urllib.error.HTTPError as error:
        with contextlib.closing(error):
            return error.code, b""
    except (TimeoutError, urllib.error.URLError, OSError, http.client.HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, TimeoutError):
            raise UnfitError("timeout", f"{endpoint.url} did not answer within {TIMEOUT_S:g} s.") from None
        raise UnfitError("init_failed", f"{endpoint.url} cannot be reached: {str(reason)[:200]}.") from None


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _models(body: bytes) -> dict[str, str] | None:
    """Name → who owns it; None of what is no list of models."""
    told = _json(body)
    listed = told.get("data") if isinstance(told, Mapping) else None
    if not isinstance(listed, list):
        return None
    return {
        each["id"]: str(each.get("owned_by", ""))
        for each in listed
        if isinstance(each, Mapping) and isinstance(each.get("id"), str)
    }


def _version(body: bytes) -> str | None:
    told = _json(body)
    version = told.get("version") if isinstance(told, Mapping) else None
    return version if isinstance(version, str) and VERSION.fullmatch(version) else None


def joined(endpoint: Endpoint, told: Told) -> tuple[dict[str, str], tuple[str, ...]]:
    """(stack, notes): what the server told goes before what a person stated."""
    notes = list(told.notes)
    for name, version in told.stack.items():
        stated = endpoint.stack.get(name, version)
        if stated != version:
            notes.append(f"{name} {stated} was stated, and the server says {version}.")
    rest = sorted(endpoint.stack.keys() - told.stack.keys())
    if told.stack and rest:
        notes.append(f"Stated by a person, not told by the server: {', '.join(rest)}."[:500])
    return {**endpoint.stack, **told.stack}, tuple(notes)
