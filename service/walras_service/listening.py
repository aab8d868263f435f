"""Effects: sockets that listen, by IPv4 or IPv6."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack

EVERYWHERE = "::"
"""Address to listen on all addresses of a machine, of IPv4 and IPv6, whichever it has."""

_NO_IPV6 = {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}


def listening_socket(host: str, port: int, backlog: int = 128) -> socket.socket:
    """Return a socket that listens on an address; on `EVERYWHERE` by IPv4 too, or alone.

    Args:
        host: Address or name.
        port: Port; 0 for any free port.
        backlog: Most connections that wait to be accepted.

    Raises:
        OSError: The address cannot be used.
        OverflowError: The port is none.
    """
    if host != EVERYWHERE:
        return _listening(host, port, backlog)
    if socket.has_dualstack_ipv6():
        try:
            return _listening(host, port, backlog)
        except OSError as error:  # the machine has no IPv6, though its kernel may know it
            if error.errno not in _NO_IPV6:
                raise
    return _listening("0.0.0.0", port, backlog)  # noqa: S104 - as the caller asked


def _listening(host: str, port: int, backlog: int) -> socket.socket:
    with ExitStack() as stack:
        ipv6 = ":" in host
        made = stack.enter_context(socket.socket(socket.AF_INET6 if ipv6 else socket.AF_INET))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if ipv6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, host != EVERYWHERE)
        made.bind((host, port))
        made.listen(backlog)
        stack.pop_all()
        return made


def written(host: str, port: int) -> str:
    """Return an address and port as in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
