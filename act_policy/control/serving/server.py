"""A policy behind a websocket, in openpi's protocol: an observation in, a chunk of actions out.

    server -> client   metadata, as soon as the connection is open
    client -> server   observation, and a number `request` if the client wants it back   repeated
    server -> client   {"actions": (k, a), "policy_timing", "server_timing"}            repeated
    server -> client   on an error: its reason as text, then close with 1011

A client that moves an arm says so in the address, `ws://host:port/?arm=left`. While it is
connected, a second client of the same arm is refused (409). Clients without an arm (an evaluation,
a viewer) may be many. There is no state between two requests: chunks are executed, blended and
limited by the client.

`GET /healthz` answers 200, or 503 when the policy has been silent for too long; `GET /` is the
status page.

Source: openpi, src/openpi/serving/websocket_policy_server.py.
"""

import asyncio
import logging
import time
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from act_policy.control.chunks.policy import ChunkPolicy, prefix_length
from act_policy.control.page.browser_access import SECURITY_HEADERS, is_own_host, is_own_origin
from act_policy.control.policies.observation_keys import ObservationKeys
from act_policy.control.policies.wire import REQUEST_KEY, WireError, pack, unpack
from act_policy.control.serving.access import ServerConfig, is_allowed
from act_policy.control.serving.batching import BatchingPredictor
from act_policy.control.serving.status import Client, ServerStatus
from act_policy.control.serving.status_page import status_page
from act_policy.errors import UserError
from act_policy.images.jpeg import JPEG_START
from act_policy.types import Observation

_log = logging.getLogger(__name__)
# Failed handshakes and lost clients are on the status page; the log keeps what is ours.
_websockets_log = logging.getLogger(f"{__name__}.websockets")
_websockets_log.setLevel(logging.CRITICAL)

LONGEST_ARM_NAME = 60
STOP_SECONDS = 1.0
"""From the stop to its end, for clients to say goodbye."""

# Bytes of a message that the event loop decodes itself: decoding takes a few milliseconds at most,
# less than handing it to a thread and back.
READ_AT_ONCE = 250_000


class PolicyServer:
    """Serve one policy to many clients; one client's mistake does not affect the others.

    Args:
        policy: predicts chunks; a batch at a time where `config.largest_batch` is above 1.
        identity: which weights these are: {"name", "file", "sha256"}; clients pin the last.

    Raises:
        UserError: the keys do not fit the schema, or an observation would not fit a message.
    """

    def __init__(
        self,
        policy: ChunkPolicy,
        identity: dict[str, str],
        keys: ObservationKeys | None = None,
        config: ServerConfig | None = None,
    ):
        self.config = config or ServerConfig()
        self.policy = policy
        self.status = ServerStatus()
        self._keys = (keys or ObservationKeys()).for_schema(policy.schema)
        self._predictor = BatchingPredictor(policy, self.config.largest_batch)
        self._decoders = ThreadPoolExecutor(2, "decode")
        self._drawing = ThreadPoolExecutor(1, "status page")
        self.metadata: dict[str, Any] = {
            "schema": policy.schema.to_dict(),
            "chunk_length": policy.chunk_length,
            "fps": policy.schema.rate,
            "cameras": list(policy.schema.camera_names),
            "action_names": list(policy.schema.action_names),
            "policy": dict(identity),
            "observation_keys": self._keys.to_dict(),
            # the ranges of the demonstrations, by which a robot's loop judges poses and commands
            "statistics": policy.statistics.to_dict() if policy.statistics is not None else {},
            "demonstration_seeds": list(policy.demonstration_seeds),
            "execution": policy.execution.to_dict(),
            "prefix_length": prefix_length(policy),
            "accepts": [REQUEST_KEY, "jpeg"],
        }
        pixels = sum(3 * camera.height * camera.width for camera in policy.schema.cameras)
        if pixels > self.config.largest_message:
            raise UserError(
                f"a message may have {self.config.largest_message} bytes, but the policy's "
                f"images alone take {pixels}; raise largest_message_mb"
            )

    @property
    def is_computing(self) -> bool:
        """Whether the policy computes a batch."""
        return self._predictor.busy_seconds() > 0

    async def run(self, stop: asyncio.Event, on_ready: Callable[[int], None]) -> None:
        """Serve until `stop` is set; on_ready is called with the port once clients can connect.

        Raises:
            UserError: the address cannot be listened on.
        """
        config = self.config
        try:
            server = await serve(
                self._handle,
                config.host,
                config.port,
                ssl=config.ssl_context(),
                process_request=self._respond,
                process_response=_secure,
                origins=[None],  # no scripts of web pages in a browser on this machine
                compression=None,  # openpi has none, and a small message cannot unfold to a big one
                max_size=config.largest_message,
                max_queue=1,
                ping_interval=config.stall_seconds,
                ping_timeout=config.stall_seconds,
                open_timeout=config.stall_seconds,
                close_timeout=1.0,
                server_header=None,
                logger=_websockets_log,
            )
        except OSError as error:
            raise UserError(
                f"cannot listen on {config.host}:{config.port}: {error.strerror or error}"
            ) from None
        predicting = asyncio.create_task(self._predictor.run())
        stopping = asyncio.create_task(stop.wait())
        try:
            on_ready(next(iter(server.sockets)).getsockname()[1])
            await asyncio.wait({stopping, predicting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            predicting.cancel()  # first, so that no client waits for a policy that hangs
            await asyncio.wait({predicting})
            server.close()
            with suppress(TimeoutError):  # who does not answer the closing is cut off
                async with asyncio.timeout(STOP_SECONDS):
                    await server.wait_closed()
            for threads in (self._decoders, self._drawing):
                threads.shutdown(wait=False, cancel_futures=True)
        if not predicting.cancelled():
            predicting.result()  # raises what ended it

    async def _respond(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer plain HTTP and refuse clients without access; None opens the websocket."""
        path = request.path.partition("?")[0]
        if path == "/healthz":
            return self._health(connection)
        if (refused := self._foreign(request)) is not None:
            self.status.event("refused", _address(connection), refused)
            return connection.respond(HTTPStatus.FORBIDDEN, refused + "\n")
        if not is_allowed(request.headers.get("Authorization"), self.config.api_key):
            self.status.event("refused", _address(connection), "no valid API key")
            response = connection.respond(HTTPStatus.UNAUTHORIZED, "an API key is needed\n")
            response.headers["WWW-Authenticate"] = 'Basic realm="policy server"'
            return response
        if request.headers.get("Upgrade", "").lower() == "websocket":
            if (refusal := self._refusal(_arm(request))) is None:
                return None
            status, reason = refusal
            self.status.event("refused", _address(connection), reason)
            return connection.respond(status, reason + "\n")
        if path != "/":
            return connection.respond(HTTPStatus.NOT_FOUND, "there are / and /healthz\n")
        return await self._page(connection)

    def _foreign(self, request: Request) -> str | None:
        """Why a request may be the work of a stranger's web page; None if it is not.

        Programs say what they like; a browser sends an `Origin` with every websocket (`serve`
        refuses those) and the page's true host with everything.
        """
        hosts, origins = (request.headers.get_all(name) for name in ("Host", "Origin"))
        host = hosts[0] if len(hosts) == 1 else None
        websocket = request.headers.get("Upgrade", "").lower() == "websocket"
        if not is_own_host(host, self.config.names) and (self.config.is_local or not websocket):
            return (
                f"this server is not called {host!s:.80}; use its IP address, or start it with "
                "names=[NAME]"
            )
        if not websocket and not all(is_own_origin(origin, host) for origin in origins):
            return f"pages of {origins[0]:.80} may not read this server"
        return None

    def _health(self, connection: ServerConnection) -> Response:
        if (busy := self._predictor.busy_seconds()) > self.config.stall_seconds:
            reason = f"the policy has not answered for {busy:.0f} s\n"
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, reason)
        return connection.respond(HTTPStatus.OK, "OK\n")

    async def _page(self, connection: ServerConnection) -> Response:
        """The status page, drawn in another thread: no client waits for it."""
        try:
            page = await asyncio.get_running_loop().run_in_executor(
                self._drawing,
                status_page,
                self.status.snapshot(),
                self.policy.schema,
                self.metadata,
                self.config.warnings(),
            )
        except Exception:
            _log.exception("the status page failed")
            reason = "the status page failed; see the log\n"
            return connection.respond(HTTPStatus.INTERNAL_SERVER_ERROR, reason)
        response = connection.respond(HTTPStatus.OK, page)
        del response.headers["Content-Type"]
        response.headers["Content-Type"] = "text/html; charset=utf-8"
        return response

    def _refusal(self, arm: str) -> tuple[HTTPStatus, str] | None:
        """Why a client of this arm cannot be let in; None if it can."""
        if len(self.status.clients) >= (most := self.config.most_clients):
            reason = f"{most} clients are connected, which is the limit"
            return HTTPStatus.SERVICE_UNAVAILABLE, reason
        if len(arm) > LONGEST_ARM_NAME or (arm and not _fold(arm)):
            reason = f"an arm's name has 1 to {LONGEST_ARM_NAME} characters that are not blank"
            return HTTPStatus.BAD_REQUEST, reason
        same = (c for c in self.status.clients if arm and _fold(c.arm) == _fold(arm))
        if other := next(same, None):
            return (
                HTTPStatus.CONFLICT,
                f"arm {arm} is controlled by {other.address}; it is free again once that client "
                f"disconnects, or has been silent for {2 * self.config.stall_seconds:g} s",
            )
        return None

    async def _handle(self, connection: ServerConnection) -> None:
        """One client, from its first word to its last."""
        assert connection.request is not None
        client = Client(_address(connection), _arm(connection.request))
        if (refusal := self._refusal(client.arm)) is not None:  # taken since the handshake began
            await connection.close(1008, refusal[1].encode()[:120].decode(errors="ignore"))
            return
        self.status.clients.append(client)
        try:
            await self._send(connection, pack(self.metadata))
            await self._answer_requests(connection, client)
        except ConnectionClosed as closed:
            if closed.rcvd is None or closed.rcvd.code not in (1000, 1001):
                self.status.event("lost", str(client), f"the connection was lost: {closed}")
        except _ClientStallsError:
            self.status.event("lost", str(client), "the client does not read what it asked for")
            connection.transport.abort()
        except Exception as error:
            reason = _reason(error)
            self.status.event("error", str(client), reason)
            try:
                await self._send(connection, reason)
                await connection.close(1011, "The reason is in the previous frame.")
            except (ConnectionClosed, _ClientStallsError):
                connection.transport.abort()
        finally:
            self.status.clients.remove(client)

    async def _answer_requests(self, connection: ServerConnection, client: Client) -> None:
        loop = asyncio.get_running_loop()
        timing: dict[str, float] = {}
        while True:
            message = await connection.recv()
            began = time.perf_counter()
            if isinstance(message, str):
                raise WireError("a text message; an observation is binary, in msgpack")
            if len(message) <= READ_AT_ONCE and JPEG_START not in message:
                observation, request = self._read(message)
            else:
                reading = loop.run_in_executor(self._decoders, self._read, message)
                observation, request = await reading
            prediction = await self._predictor.predict(observation)
            timing["infer_ms"] = 1e3 * (time.perf_counter() - began)
            answer = {
                "actions": prediction.chunk,
                "policy_timing": {"infer_ms": 1e3 * prediction.seconds},
                "server_timing": timing,
                **request,
            }
            await self._send(connection, pack(answer))
            total = time.perf_counter() - began
            timing["prev_total_ms"] = 1e3 * total
            self.status.answer(client, observation, prediction.chunk, total)

    def _read(self, message: bytes) -> tuple[Observation[Any], dict[str, Any]]:
        """Decode and check one request; its number, if it has one, is returned for the answer."""
        plain = unpack(message)
        request = {}
        if isinstance(plain, dict) and REQUEST_KEY in plain:
            number = plain.pop(REQUEST_KEY)
            if type(number) is not int:
                raise WireError(f"{REQUEST_KEY}: {type(number).__name__}, expected a whole number")
            request = {REQUEST_KEY: number}
        known = prefix_length(self.policy)
        return self._keys.to_observation(plain, self.policy.schema, known), request

    async def _send(self, connection: ServerConnection, message: str | bytes) -> None:
        try:
            async with asyncio.timeout(self.config.stall_seconds):
                await connection.send(message)
        except TimeoutError:
            raise _ClientStallsError from None


class _ClientStallsError(Exception):
    """The client does not read."""


def _reason(error: Exception) -> str:
    """The message for a client: its own mistakes in full, of ours only the kind."""
    if isinstance(error, UserError | WireError):
        return str(error)
    _log.error("a request failed", exc_info=error)
    return f"the policy failed ({type(error).__name__}); the server's log says more"


def _secure(connection: ServerConnection, request: Request, response: Response) -> None:
    """Add the headers that keep pages of others away from an answer."""
    for name, value in SECURITY_HEADERS.items():
        response.headers[name] = value


def _arm(request: Request) -> str:
    """Return the name of the arm that the client moves; "" if it names none, or only blanks."""
    query = parse_qs(request.path.partition("?")[2], keep_blank_values=True)
    return query["arm"][0] or " " if "arm" in query else ""


def _fold(arm: str) -> str:
    """The same for all spellings of an arm's name that differ in case and blanks."""
    return "".join(unicodedata.normalize("NFKC", arm).casefold().split())


def _address(connection: ServerConnection) -> str:
    address = connection.remote_address
    return f"{address[0]}:{address[1]}" if address else "unknown"
