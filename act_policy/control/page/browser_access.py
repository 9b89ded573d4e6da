"""Keep web pages of others away: the names under which a page answers, and its headers.

A page of a stranger can make its own name point to this machine (DNS rebinding); the browser then
lets its scripts read whatever answers here. The request still names the stranger's host, so only
addresses and this machine's own names are answered.
"""

import ipaddress
import socket
from collections.abc import Iterable

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every answer to a browser: no scripts, no frames of others, nothing kept."""


def is_own_host(header: str | None, names: Iterable[str] = ()) -> bool:
    """Whether a request's `Host` is an IP address, a name of this machine, or one of `names`.

    A name that a stranger chose is none of them, and a stranger cannot choose an address.
    """
    host = _name_of(header or "")
    try:
        ipaddress.ip_address(host)
        return True
    except ValueError:
        machine = socket.gethostname().lower()
        own = {"localhost", machine, f"{machine}.local", *(name.lower() for name in names)}
        return host in own


def is_own_origin(header: str | None, host: str | None) -> bool:
    """Whether a request comes from a page of this very host, or from no page at all."""
    return header is None or header.partition("://")[2].lower() == (host or "").lower()


def _name_of(host: str) -> str:
    """`NAME`, `NAME:PORT`, `[IPv6]` or `[IPv6]:PORT` without brackets and port, in lower case."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".").lower()
