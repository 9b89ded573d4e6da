"""A policy that runs on another machine, as if it ran here."""

import asyncio
import ssl
import threading
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from act_policy.control.chunks.policy import check_chunk
from act_policy.control.policies.observation_keys import ObservationKeys
from act_policy.control.policies.scheme import hint_at_scheme
from act_policy.control.policies.wire import REQUEST_KEY, WireError, pack, unpack
from act_policy.errors import UserError, check_choice
from act_policy.execution import Execution
from act_policy.images.resize import fit_images
from act_policy.statistics import Statistics
from act_policy.types import Observation, Schema, check_prefix_length

ResultT = TypeVar("ResultT")

LONGEST_ANSWER = 32_000_000
ENCODINGS = ("raw", "jpeg")


class RemotePolicyError(UserError):
    """The policy server is gone or silent, refuses, or is not the same as before."""


class RemotePolicy:
    """Ask a policy server for chunks; a ChunkPolicy like the policy itself.

    It connects at once. After any failure of the server or the network the connection is closed,
    and every further call raises until `connect` is called: a robot holds then, and its operator
    decides. It never reconnects by itself, because the policy that answers then might be another
    one.

    Args:
        url: `ws://host:port` or `wss://host:port`.
        arm: name of the arm that this client moves; the server lets only one client move it.
        api_key: sent as `Authorization: Api-Key ...`.
        sha256: of the served file of weights that must answer (a bundle's config.json says its
            own); None takes those of the first connection, and holds later ones to them.
        timeout: seconds that a prediction, or the connection, may take.
        certificate: PEM file of the server's certificate, where no public authority signed it.
        encode: "raw" sends images as they are, "jpeg" a fraction of the bytes at an error; also in
            the address, `ws://host:port/?encode=jpeg`.

    Raises:
        RemotePolicyError: there is no policy server, or not the right one.
    """

    def __init__(
        self,
        url: str,
        arm: str = "",
        api_key: str | None = None,
        sha256: str | None = None,
        timeout: float = 2.0,
        certificate: str | None = None,
        encode: str = "raw",
    ):
        if not url.startswith(("ws://", "wss://")):
            raise UserError(f"url={url}: expected ws://host:port or wss://host:port")
        if not 0 < timeout < float("inf"):
            raise UserError(f"timeout={timeout}: expected a positive number of seconds")
        in_url = parse_qs(urlsplit(url).query).get("encode", [encode])[0]
        check_choice("encode", in_url, ENCODINGS)
        self._jpeg = in_url == "jpeg"
        self.url = url
        self.timeout = timeout
        self.sha256 = sha256
        joint = "&" if urlsplit(url).query else "/?"
        self._address = f"{url.rstrip('/')}{joint}arm={quote(arm, safe='')}" if arm else url
        self._api_key = api_key
        self._ssl = _trust(certificate) if url.startswith("wss://") else None
        self._connection: ClientConnection | None = None
        self._failure = "not connected"
        self._requests = 0
        self.metadata: dict[str, Any] = {}  # empty before the first connection
        self.schema: Schema  # connect sets it
        self._keys = ObservationKeys()
        # The event loop has its own thread: pings are answered while the robot is busy, and every
        # wait, also for a full network buffer, has an end.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self.connect()
        except BaseException:
            self.close()
            raise

    def connect(self) -> None:
        """Connect, or connect again after a failure, to the same policy as before.

        Raises:
            RemotePolicyError: there is no server, it refuses, or serves another policy.
        """
        self._drop("replaced by a new connection")
        try:
            metadata = self._run(self._connect(), "did not answer")
        except RemotePolicyError as error:
            if isinstance(error.__context__, InvalidStatus):  # it speaks as it is spoken to
                raise
            if not (hint := hint_at_scheme(self.url, min(self.timeout, 0.5))):
                raise
            raise RemotePolicyError(f"{error}; {hint}") from None
        self._read_metadata(metadata)

    def predict_chunk(
        self, observation: Observation[np.ndarray] | Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Return the next k actions (k, a) of one observation, in the schema's units.

        Images may have the size of the cameras' original frames: they are cropped and scaled here,
        as in training.

        Raises:
            UserError: the observation is not what the schema says; nothing was sent.
            RemotePolicyError: no answer within the timeout, or the server refused it.
        """
        if isinstance(observation, Mapping):
            observation = Observation.from_keys(observation)
        observation = self.schema.check(fit_images(observation, self.schema))
        if np.ndim(observation.state) != 1:
            raise UserError("a policy server takes one observation at a time, found a batch")
        check_prefix_length(observation, self.prefix_length)
        if self._connection is None:
            raise RemotePolicyError(
                f"policy server {self.url}: {self._failure}; call connect() to go on"
            )
        message = self._keys.to_message(observation, self.schema, self._jpeg)
        accepts = self.metadata.get("accepts", ())  # of a server that says nothing: raw images
        if self._jpeg and "jpeg" not in accepts:
            raise UserError(f"policy server {self.url} takes no JPEG; leave encode out")
        if numbered := REQUEST_KEY in accepts:
            self._requests += 1
            message[REQUEST_KEY] = self._requests
        reply = self._run(self._exchange(self._connection, pack(message)), "gave no chunk")
        if not isinstance(reply, dict):
            reply = {}
        if numbered and reply.get(REQUEST_KEY) != self._requests:
            raise self._fail(
                f"answered request {reply.get(REQUEST_KEY)} when asked request {self._requests}"
            )
        chunk = reply.get("actions")
        try:
            return check_chunk(chunk, self)
        except UserError as error:
            raise self._fail(str(error)) from None

    def close(self) -> None:
        """Disconnect; the arm is free for another client at once."""
        if self._loop.is_closed():
            return
        self._drop("closed", politely=True)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> "RemotePolicy":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def _connect(self) -> Any:
        """Open the connection; return the metadata that the server begins with."""
        loop = asyncio.get_running_loop()
        until = loop.time() + (self.timeout / 2 if self.metadata else 0)
        headers = {"Authorization": f"Api-Key {self._api_key}"} if self._api_key else None
        while True:
            try:
                self._connection = await connect(
                    self._address,
                    ssl=self._ssl,
                    additional_headers=headers,
                    compression=None,
                    max_size=LONGEST_ANSWER,
                    proxy=None,
                    open_timeout=None,
                    ping_interval=None,  # each prediction has its own deadline
                    close_timeout=self.timeout,
                )
                return _decode(await self._connection.recv())
            except InvalidStatus as refused:
                # Our own former connection may hold the arm until the server sees that it is gone.
                if refused.response.status_code != HTTPStatus.CONFLICT or loop.time() > until:
                    raise
            await asyncio.sleep(0.05)

    async def _exchange(self, connection: ClientConnection, message: bytes) -> Any:
        await connection.send(message)
        return _decode(await connection.recv())

    def _run(self, work: Coroutine[Any, Any, ResultT], silence: str) -> ResultT:
        """Run it in the event loop's thread within the timeout; failures are RemotePolicyErrors."""

        async def within() -> ResultT:
            async with asyncio.timeout(self.timeout):
                return await work

        try:
            return asyncio.run_coroutine_threadsafe(within(), self._loop).result()
        except TimeoutError:
            raise self._fail(f"{silence} within {self.timeout:g} s") from None
        except InvalidStatus as error:
            body = (error.response.body or b"").decode(errors="replace").strip()
            raise self._fail(
                f"refused the connection: {body or error.response.status_code}"
            ) from None
        except _RefusedError as refused:
            raise self._fail(f"says: {refused}") from None
        except (WebSocketException, OSError, WireError) as error:
            raise self._fail(str(error) or type(error).__name__) from None
        except BaseException:
            self._drop("interrupted")  # an answer that comes later must not pass for the next one
            raise

    def _fail(self, reason: str) -> RemotePolicyError:
        """Drop the connection at once and make the error that says why."""
        self._drop(reason)
        return RemotePolicyError(f"policy server {self.url}: {reason}")

    def _drop(self, why: str, politely: bool = False) -> None:
        """End the connection; only `politely` waits for a closing handshake with the server."""
        connection, self._connection = self._connection, None
        self._failure = why
        if connection is None:
            return

        async def end() -> None:
            with suppress(TimeoutError):  # it is dropped all the same
                async with asyncio.timeout(self.timeout):
                    if politely:
                        await connection.close()
                    connection.transport.abort()
                    await connection.wait_closed()

        asyncio.run_coroutine_threadsafe(end(), self._loop).result()

    def _read_metadata(self, metadata: Any) -> None:
        """Read the description of the server's policy; it must be the same as before."""
        try:
            schema = Schema.from_dict(metadata["schema"])
            keys = ObservationKeys.from_dict(metadata["observation_keys"]).for_schema(schema)
            chunk_length = int(metadata["chunk_length"])
            sha256 = str(metadata["policy"]["sha256"])
            plain = metadata.get("statistics")
            statistics = Statistics.from_dict(plain) if plain else None
            demonstration_seeds: tuple[int, ...] = tuple(metadata.get("demonstration_seeds", ()))
            execution = Execution.from_dict(metadata.get("execution"))
            prefix_length = int(metadata.get("prefix_length", 0))
        except (KeyError, TypeError, ValueError, AttributeError, UserError) as error:
            raise self._fail(
                "its metadata is not that of scripts/serve_policy.py "
                f"({type(error).__name__}: {error})"
            ) from None
        if self.sha256 is not None and sha256 != self.sha256:
            raise self._fail(
                f"serves other weights (sha256 {sha256:.12}...) than "
                f"expected ({self.sha256:.12}...); serve the right checkpoint, or make a new "
                "RemotePolicy if this one is meant"
            )
        if self.metadata and (differences := self.schema.differences(schema)):
            raise self._fail(f"has another schema than before: {'; '.join(differences)}")
        self.metadata, self.sha256 = metadata, sha256
        self.schema, self._keys, self.chunk_length = schema, keys, chunk_length
        self.statistics, self.demonstration_seeds = statistics, demonstration_seeds
        self.execution, self.prefix_length = execution, prefix_length


class _RefusedError(Exception):
    """The server's own words, from a text frame."""


def _decode(message: str | bytes) -> Any:
    if isinstance(message, str):
        raise _RefusedError(message[:2000])
    return unpack(message)


def _trust(certificate: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=certificate)
    except (OSError, ssl.SSLError) as error:
        raise UserError(f"certificate={certificate}: {error}; expected a PEM file") from None
