"""The first process of a stand-in's pod: a way to the API server, then the pod's own command.

`python -S -E pod_main.py PORT HOST:PORT COMMAND...`: connections to 127.0.0.1:PORT inside are
carried to HOST:PORT by the sandbox's proxy, as a node's network would carry them; bytes alone, the
TLS is the client's. Standard library only; the carrier is a process of its own, adopted by init.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading

#: Where the proxy of the sandbox listens (bundle.PROXY_PORT).
PROXY = ("127.0.0.1", 3128)


def carry(port: int, target: str) -> None:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(64)
    while True:
        client, _ = listening.accept()
        threading.Thread(target=connect, args=(client, target), daemon=True).start()


def connect(client: socket.socket, target: str) -> None:
    """Through the proxy. A client whose target is away is hung up on, as by a dead node."""
    server = socket.socket()
    try:
        server.connect(PROXY)
        server.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            more = server.recv(1)  # not a byte of what comes after it
            if not more:
                return
            head += more
        if b" 200 " not in head.split(b"\r\n")[0]:
            return
        back = threading.Thread(target=copy, args=(server, client), daemon=True)
        back.start()
        copy(client, server)
        back.join()
    except OSError:
        pass
    finally:
        client.close()
        server.close()


def copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)  # both ends: the other direction is over, too


def main() -> None:
    port, target, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if not os.fork():
        if not os.fork():
            carry(port, target)
        os._exit(0)
    os.wait()
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
