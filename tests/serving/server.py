"""A streaming server of known timing: it waits on its own schedule, so that a client can be checked."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import threading
from collections.abc import Mapping
from typing import Any, Literal

Fault = Literal["", "500", "garbage", "cut", "broken", "short", "no_usage", "silent", "in_one", "told_error"]
PROMPT_TOKENS = 100


@dataclasses.dataclass
class Behaviour:
    """First token `ttft_s` after a request, each later one `itl_s` after the last; `faults` by the number of
    the request, from 0. It tells `version` where there is one, and wants `key`."""

    ttft_s: float = 0.1
    itl_s: float = 0.02
    faults: Mapping[int, Fault] = dataclasses.field(default_factory=dict)
    version: str | None = "0.11.0"
    owner: str = "vllm"
    key: str | None = None
    redirect: str = ""


@dataclasses.dataclass
class Server:
    """Listens on a port of its own of 127.0.0.1, in a thread, from `__enter__` to `__exit__`."""

    behaviour: Behaviour
    requests: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    paths: list[str] = dataclasses.field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Server:
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()

        async def serve() -> None:
            server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
            async with server:
                await server.serve_forever()

        def work() -> None:
            self._task = self._loop.create_task(serve())
            with contextlib.suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._task)

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()
        assert ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(10)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *headers = head.decode("latin-1").split("\r\n")
                told = {name.lower(): value for name, _, value in (each.partition(": ") for each in headers)}
                body = await reader.readexactly(int(told.get("content-length", "0")))
                await self._answer(writer, line.split()[1], told, body)
        writer.close()

    async def _answer(
        self, writer: asyncio.StreamWriter, path: str, headers: dict[str, str], body: bytes
    ) -> None:
        how = self.behaviour
        self.paths.append(path)
        if how.key is not None and headers.get("authorization") != f"Bearer {how.key}":
            said = f"the key {headers.get('authorization', 'that is missing')} is wrong"
            return await _json(writer, {"error": said}, "401 Unauthorized")
        if how.redirect:
            return await _json(writer, {}, "307 Temporary Redirect", f"Location: {how.redirect}\r\n")
        match path:
            case "/v1/models":
                await _json(writer, {"data": [{"id": "tiny", "object": "model", "owned_by": how.owner}]})
            case "/version" if how.version is not None:
                await _json(writer, {"version": how.version})
            case "/v1/chat/completions":
                asked = json.loads(body)
                number = len(self.requests)
                self.requests.append(asked)
                await self._stream(writer, asked, how.faults.get(number, ""))
            case _:
                await _json(writer, {"error": "not found"}, "404 Not Found")

    async def _stream(self, writer: asyncio.StreamWriter, asked: dict[str, Any], fault: Fault) -> None:
        how, loop = self.behaviour, asyncio.get_running_loop()
        if fault == "500":
            return await _json(writer, {"error": "out of memory"}, "500 Internal Server Error")
        begun = loop.time()
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head.encode())
        if fault == "silent":
            await asyncio.sleep(3600)
        asked_for: int = asked["max_tokens"]
        tokens = asked_for // 2 if fault in ("cut", "broken", "short", "told_error") else asked_for
        for number in range(tokens):
            await asyncio.sleep(begun + how.ttft_s + number * how.itl_s - loop.time())
            if fault != "in_one":
                _event(writer, b"{]" if fault == "garbage" else _chunk(delta={"content": f" w{number}"}))
                await writer.drain()
        if fault == "broken":
            writer.transport.abort()
            return None
        if fault == "told_error":
            _event(writer, json.dumps({"error": {"message": "the engine died", "code": 500}}).encode())
        elif fault not in ("cut", "garbage"):
            last = {"content": " w" * tokens} if fault == "in_one" else {}
            _event(writer, _chunk(delta=last, finish_reason="stop" if fault == "short" else "length"))
            if fault != "no_usage":
                told = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": tokens}
                _event(writer, _chunk(usage=told | {"total_tokens": PROMPT_TOKENS + tokens}))
            _event(writer, b"[DONE]")
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def _chunk(usage: dict[str, int] | None = None, **choice: Any) -> bytes:
    choices = [] if usage else [{"index": 0, "finish_reason": None, **choice}]
    return json.dumps(
        {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "tiny",
            "choices": choices,
            "usage": usage,
        }
    ).encode()


def _event(writer: asyncio.StreamWriter, data: bytes) -> None:
    text = b"data: " + data + b"\n\n"
    writer.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")


async def _json(writer: asyncio.StreamWriter, told: Any, status: str = "200 OK", more: str = "") -> None:
    body = json.dumps(told).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    writer.write((head + more).encode() + b"\r\n" + body)
    await writer.drain()
