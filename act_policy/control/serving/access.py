"""Access to a policy server: its address, keys, TLS and limits."""

import base64
import binascii
import hmac
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from act_policy.errors import UserError, check_whole_number


@dataclass(frozen=True)
class ServerConfig:
    """Address, access and limits of a policy server.

    host, port: to listen on; port 0 takes a free one. The default host is this machine alone.
    certificate, private_key: PEM files; with them the server speaks TLS (wss:// and https://).
    api_key: what clients send as `Authorization: Api-Key ...`; a browser asks for it as a password.
    largest_message: bytes of one observation.
    most_clients: connected at once; each may have one message in work and one waiting.
    largest_batch: observations computed together.
    stall_seconds: a client that is silent on the network for twice as long is disconnected; the
        policy is reported as unhealthy when it computes for longer.
    names: further names of this machine under which browsers may ask for it.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    certificate: str | None = None
    private_key: str | None = None
    api_key: str | None = None
    largest_message: int = 32_000_000
    most_clients: int = 32
    largest_batch: int = 8
    stall_seconds: float = 10.0
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if check_whole_number("port", self.port, 0) > 65535:
            raise UserError(f"port={self.port}: expected at most 65535")
        for name in ("largest_message", "most_clients", "largest_batch"):
            check_whole_number(name, getattr(self, name), 1)
        if not 0 < self.stall_seconds < float("inf"):
            raise UserError(f"stall_seconds={self.stall_seconds}: expected a positive number")
        if (self.certificate is None) != (self.private_key is None):
            raise UserError("TLS needs both: give certificate=FILE.pem and private_key=FILE.pem")
        if self.api_key is not None and not self.api_key.strip():
            raise UserError("the API key is empty; leave it out, or give one")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def ssl_context(self) -> ssl.SSLContext | None:
        """Make the TLS context; None where the server does not encrypt.

        Raises:
            UserError: certificate and key cannot be read or do not fit each other.
        """
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.private_key)
        except (OSError, ssl.SSLError) as error:
            raise UserError(
                f"certificate={self.certificate}, private_key={self.private_key}: {error}; "
                "expected two PEM files that belong together"
            ) from None
        return context

    def warnings(self) -> list[str]:
        """Warnings about the server's reach for the person who starts it."""
        if self.is_local:
            return []
        warnings = []
        if self.certificate is None:
            content = (
                "images and actions" if self.api_key is None else "images, actions and the key"
            )
            warnings.append(
                f"Without TLS {content} travel in the clear: give certificate and private_key, "
                "or bind to 127.0.0.1 and use an SSH tunnel."
            )
        if self.api_key is None:
            warnings.append(
                f"Anybody who reaches {self.host} can ask this policy: give api_key_file."
            )
        return warnings


def is_allowed(authorization: str | None, api_key: str | None) -> bool:
    """Whether an `Authorization` header carries the key: `Api-Key KEY`, or Basic's password."""
    if api_key is None:
        return True
    kind, _, value = (authorization or "").partition(" ")
    if kind.lower() == "basic":
        try:
            value = base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return False
    elif kind.lower() != "api-key":
        return False
    # Constant in time, so that the key cannot be guessed letter by letter.
    sent, expected = (
        text.strip().encode(errors="surrogateescape")  # a header may hold any bytes
        for text in (value, api_key)
    )
    return hmac.compare_digest(sent, expected)


def read_key(file: str | None) -> str | None:
    """Read the API key from a file, since everybody on a machine can see its command lines."""
    if file is None:
        return None
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"api_key_file={file} cannot be read: {error}") from None
