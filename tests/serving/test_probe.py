"""What a server tells of itself, and what becomes of one that cannot be measured. Real sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.serving.server import Behaviour, Server
from workers.bench.cases.serving import Serving
from workers.bench.serving import measure, plan, probe
from workers.bench.serving.endpoint import Endpoint


def at(url: str, model: str = "tiny", **stack: str) -> Endpoint:
    return Endpoint("box", url, model, "1 × H200", 1, stack)


@pytest.mark.parametrize(
    ("owner", "engine"), [("vllm", "vllm"), ("tensorrt_llm", "tensorrt-llm"), ("me", "server")]
)
def test_the_version_that_a_server_tells_goes_before_what_was_stated(owner, engine):
    with Server(Behaviour(owner=owner)) as server:
        endpoint = at(server.url, **{engine: "0.9.0", "flashinfer": "0.6.3"})
        told = probe.ask(endpoint, "")
    stack, notes = probe.joined(endpoint, told)
    assert stack == {engine: "0.11.0", "flashinfer": "0.6.3"}
    assert f"{engine} 0.9.0 was stated, and the server says 0.11.0." in notes


def test_without_a_version_the_stack_is_what_a_person_states():
    with Server(Behaviour(version=None)) as server:
        told = probe.ask(at(server.url), "")
        assert server.paths == ["/v1/models", *probe.PLACES]
    assert told.stack == {}
    assert told.notes == ("The server tells no version.",)


def refused(endpoint: Endpoint, key: str = "") -> probe.UnfitError:
    with pytest.raises(probe.UnfitError) as found:
        probe.ask(endpoint, key)
    return found.value


def test_a_server_that_refuses_or_leads_elsewhere_is_not_measured():
    with Server(Behaviour(key="sesame", redirect="http://169.254.169.254/")) as server:
        assert "wants a key" in refused(at(server.url)).sentence
        assert "refuses the key" in refused(at(server.url), "wrong").sentence
        assert "leads elsewhere" in refused(at(server.url), "sesame").sentence
        server.behaviour.redirect = ""
        said = refused(at(server.url, "another"), "sesame").sentence
        assert said.endswith("serves no model another; it serves tiny.")
        assert not server.requests


def test_a_server_that_is_down_is_told_so():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    found = refused(at(f"http://127.0.0.1:{port}"))
    assert found.outcome == "init_failed"
    assert "cannot be reached" in found.sentence
    assert "is not known here" in refused(at("http://nowhere.invalid")).sentence


@contextlib.contextmanager
def saying(answer: bytes, again: bytes = b"") -> Iterator[str]:
    """A server that says these very bytes, and then `again` for as long as somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        over = threading.Event()

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    peer = listener.accept()[0]
                    with peer, contextlib.suppress(OSError):
                        peer.recv(65536)
                        peer.sendall(answer)
                        while again and not over.wait(0.02):
                            peer.sendall(again)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        over.set()
        listener.shutdown(socket.SHUT_RDWR)


def test_garbage_tells_nothing_and_ends_nothing():
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    for body in (b"", b"{]", b"[" * 100_000, b'{"data": [{"id": 7}, null]}', b'{"data": 7}'):
        with saying(head + body) as url, contextlib.suppress(probe.UnfitError):
            assert probe.ask(at(url), "").stack == {}
    with saying(b"\x00\xff\r\n\r\n") as url:
        assert "cannot be reached" in refused(at(url)).sentence


def test_a_server_that_drips_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(probe, "WHOLE_S", 0.5)
    with saying(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n") as url:
        found = refused(at(url))
    assert found.outcome == "timeout" or "cannot be reached" in found.sentence


def test_what_cannot_be_measured_is_a_measurement_without_a_time(tmp_path):
    endpoint = at("http://127.0.0.1:9")
    cases = [Serving("tiny", n, 8, 4, n) for n in (1, 2)]
    sweep = measure.Sweep(
        endpoint, "sesame", plan.Times.of(60), None, tmp_path,
        stack_by="stated", backend=None, draw=lambda bits: 1,
    )  # fmt: skip
    unfit = probe.UnfitError("init_failed", "It says that sesame is wrong.")
    found = sweep.measure(cases, unfit, lambda case, measured, settled: None)
    assert [each.outcome for each in found] == ["init_failed"] * 2
    assert {each.error for each in found} == {"It says that [api key] is wrong."}
    assert all(each.statistics is None and each.serving is None for each in found)
