"""Find out that only one side speaks TLS, from whose words nobody could guess it."""

import socket
import ssl
from urllib.parse import urlsplit


def hint_at_scheme(url: str, seconds: float) -> str:
    """What to try where a connection failed because only one side speaks TLS; else "".

    Args:
        url: ws:// or wss://, to which no connection could be made.
        seconds: that looking may take.
    """
    parts = urlsplit(url)
    secure = parts.scheme == "wss"
    address = parts.hostname or "", parts.port or (443 if secure else 80)
    try:
        with socket.create_connection(address, seconds) as plain:
            plain.settimeout(seconds)
            if secure:
                plain.sendall(f"GET /healthz HTTP/1.1\r\nHost: {parts.hostname}\r\n\r\n".encode())
                if plain.recv(5) == b"HTTP/":
                    return "it does not speak TLS: try ws://"
                return ""
            anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # only to see whether it speaks TLS
            anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
            with anybody.wrap_socket(plain):
                return "it speaks TLS: try wss://"
    except (OSError, ValueError):
        return ""
