"""The init of a sandbox: starts the kernel and carries its sockets over stdin and stdout.

Run inside as `python -S -E guest.py ORDERS.json`; standard library only, one thread, poll (an
epoll set hangs after a restore). It owns no socket outside the sandbox, so that the whole can be
saved at any time; before a save it finishes the frame it writes and waits in a blocking read.
The host imports the framing from here.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import sys

#: kind, stream, bytes that follow
HEADER = struct.Struct("!BII")
#: Bytes that one side may send on a stream before the other has said that it took them.
WINDOW = 1 << 20
#: So many are told to have been taken at once: a frame for each message would wake the other side.
ENOUGH = WINDOW // 4
#: Most bytes in one frame.
PIECE = 1 << 16

# Frames. Streams are numbered by who opens them: the host even, the guest odd.
OPEN = 1  # payload: what to connect to: a unix socket's name, "tcp:8888", or "proxy"
DATA = 2
CLOSE = 3  # no more data in this direction and none wanted
TAKEN = 4  # payload: 4 bytes, how many bytes of data were taken
PAUSE = 5  # host: finish, answer PAUSED, wait
PAUSED = 6
RESUME = 7  # payload b"reset": the host is another process, its streams are gone
SIGNAL = 8  # payload: 1 byte, for the kernel
STARTED = 9  # payload: the kernel's pid inside
EXITED = 10  # payload: 4 bytes signed, its status as subprocess has it
OUTPUT = 11  # payload: what the kernel wrote to stdout or stderr
END = 12  # host: end everything
EOF = 13  # host: the client sends no more, and still reads


def frame(kind: int, stream: int = 0, payload: bytes = b"") -> bytes:
    """One frame as bytes."""
    return HEADER.pack(kind, stream, len(payload)) + payload


class Frames:
    """Frames out of a stream of bytes, however it is cut."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """More bytes."""
        self._data += data

    def take(self) -> tuple[int, int, bytes] | None:
        """The next whole frame (kind, stream, payload), or None."""
        if len(self._data) < HEADER.size:
            return None
        kind, stream, nbytes = HEADER.unpack_from(self._data)
        end = HEADER.size + nbytes
        if len(self._data) < end:
            return None
        payload = bytes(self._data[HEADER.size : end])
        del self._data[:end]
        return kind, stream, payload


class Stream:
    """One unix socket inside, and its stream on the wire."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.waiting = bytearray()  # from the host, not yet written to the socket
        self.credit = WINDOW  # bytes that we may still send to the host
        self.taken = 0  # bytes that went into the socket, and were not told yet
        self.ending = False  # the client has sent all it will


class Guest:
    """The loop of the init."""

    def __init__(self, orders: dict) -> None:  # type: ignore[type-arg]
        self.orders = orders
        self.frames = Frames()
        self.streams: dict[int, Stream] = {}
        self.kernel = 0
        self.output = -1
        self.listening: socket.socket | None = None
        self.next_stream = 1
        self.status: int | None = None

    def run(self) -> int:
        """Until the host says END or goes away."""
        wake, woken = os.pipe()
        for fd in (wake, woken):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        self.prepare()
        self.start_kernel()
        self.listen()
        while True:
            poll = select.poll()
            poll.register(0, select.POLLIN)
            poll.register(wake, select.POLLIN)
            if self.output >= 0:
                poll.register(self.output, select.POLLIN)
            if self.listening is not None:
                poll.register(self.listening, select.POLLIN)
            by_fd = {}
            for number, stream in self.streams.items():
                events = select.POLLIN if stream.credit > 0 else 0
                if stream.waiting:
                    events |= select.POLLOUT
                if not events:  # else a socket that was hung up would wake us again and again
                    continue
                poll.register(stream.sock, events)
                by_fd[stream.sock.fileno()] = number
            for fd, events in poll.poll():
                if fd == 0:
                    if not self.from_host():
                        return 0
                elif fd == wake:
                    self.reap(wake)
                elif fd == self.output:
                    self.from_kernel_output()
                elif self.listening is not None and fd == self.listening.fileno():
                    self.accept()
                elif by_fd.get(fd) in self.streams:
                    self.serve(by_fd[fd], events)

    def prepare(self) -> None:
        """The folder of the sockets, and links to what lies elsewhere outside: all on tmpfs."""
        os.makedirs(self.orders["sockets"], mode=0o700, exist_ok=True)
        for inside, outside in self.orders.get("links", {}).items():
            os.makedirs(os.path.dirname(inside), exist_ok=True)
            os.symlink(outside, inside)
        if self.orders.get("file_tools") and not self.lists_files():
            self.orders["env"]["PATH"] = self.orders["file_tools"]

    def lists_files(self) -> bool:
        """Whether `ls` works: an old gVisor refuses what it asks."""
        null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
        try:
            env = self.orders["env"]
            pid = os.posix_spawnp("ls", ["ls", "-d", "/"], env, file_actions=null)
        except OSError:
            return True
        return os.waitpid(pid, 0)[1] == 0

    # ---- the kernel ----

    def start_kernel(self) -> None:
        """Fork and exec the kernel, its output on a pipe of ours."""
        self.output, writing = os.pipe()
        os.set_inheritable(writing, True)
        self.kernel = os.fork()
        if not self.kernel:
            try:
                os.setsid()
                null = os.open(os.devnull, os.O_RDONLY)
                os.dup2(null, 0)
                os.dup2(writing, 1)
                os.dup2(writing, 2)
                signal.set_wakeup_fd(-1)
                for number in (signal.SIGCHLD, signal.SIGPIPE):
                    signal.signal(number, signal.SIG_DFL)
                os.chdir(self.orders["cwd"])
                command = self.orders["command"]
                os.execvpe(command[0], command, self.orders["env"])
            except BaseException as error:
                os.write(2, f"the kernel could not be started: {error}\n".encode())
            finally:
                os._exit(127)
        os.close(writing)
        self.say(STARTED, 0, str(self.kernel).encode())

    def reap(self, wake: int) -> None:
        """Every process that ended: the kernel's end is told, orphans are ours to bury."""
        with contextlib.suppress(BlockingIOError):
            while os.read(wake, 4096):
                pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self.kernel:
                self.from_kernel_output()
                self.status = os.waitstatus_to_exitcode(status)
                self.say(EXITED, 0, struct.pack("!i", self.status))

    def deliver(self, signum: int) -> None:
        """To the kernel's process group. An interrupt goes to the kernel's main thread: any other
        may be chosen else, and then a main thread that sleeps does not wake up for it."""
        if signum != signal.SIGINT or not interrupt_main_thread(self.kernel):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.kernel, signum)
            return
        for name in os.listdir("/proc"):
            with contextlib.suppress(ValueError, OSError):  # not a process, or none any more
                if int(name) != self.kernel and os.getpgid(int(name)) == self.kernel:
                    os.kill(int(name), signum)

    def from_kernel_output(self) -> None:
        """What the kernel printed past IPython."""
        if self.output < 0:
            return
        poll = select.poll()
        poll.register(self.output, select.POLLIN)
        while poll.poll(0):
            data = os.read(self.output, PIECE)
            if not data:
                os.close(self.output)
                self.output = -1
                return
            self.say(OUTPUT, 0, data)

    # ---- the host ----

    def say(self, kind: int, stream: int = 0, payload: bytes = b"") -> None:
        """Write one frame, whole."""
        data = memoryview(frame(kind, stream, payload))
        while data:
            data = data[os.write(1, data) :]

    def from_host(self) -> bool:
        """Serve what the host sent; False when it has gone or wants the end."""
        data = os.read(0, 1 << 18)
        if not data:
            return False
        self.frames.feed(data)
        while (got := self.frames.take()) is not None:
            kind, stream, payload = got
            if kind == OPEN:
                self.open(stream, payload.decode())
            elif kind == DATA and stream in self.streams:
                self.streams[stream].waiting += payload
                self.serve(stream, select.POLLOUT)
            elif kind == EOF and stream in self.streams:
                self.streams[stream].ending = True
                self.serve(stream, select.POLLOUT)
            elif kind == TAKEN and stream in self.streams:
                self.streams[stream].credit += int.from_bytes(payload, "big")
            elif kind == CLOSE and stream in self.streams:
                self.streams.pop(stream).sock.close()
            elif kind == SIGNAL and self.status is None:
                self.deliver(payload[0])
            elif kind == END:
                return False
            elif kind == PAUSE:
                self.wait_for_resume()
        return True

    def wait_for_resume(self) -> None:
        """Be still: the last bytes out are PAUSED, and a blocking read is all that goes on."""
        self.say(PAUSED)
        answer = b""
        while len(answer) < HEADER.size:
            answer += os.read(0, HEADER.size - len(answer)) or os._exit(0)
        kind, _, nbytes = HEADER.unpack(answer)
        payload = b""
        while len(payload) < nbytes:
            payload += os.read(0, nbytes - len(payload)) or os._exit(0)
        if kind == RESUME and payload == b"reset":
            for stream in self.streams.values():
                stream.sock.close()
            self.streams.clear()
        elif kind != RESUME:
            self.frames.feed(answer + payload)
        self.say(STARTED, 0, str(self.kernel).encode())

    # ---- streams ----

    def open(self, number: int, what: str) -> None:
        """Connect to a socket inside for a client of the host's."""
        to_port = what.startswith("tcp:")
        sock = socket.socket(socket.AF_INET if to_port else socket.AF_UNIX)
        try:
            if to_port:
                sock.connect(("127.0.0.1", int(what[4:])))
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            else:
                sock.connect(f"{self.orders['sockets']}/{what}")
        except OSError:
            sock.close()
            self.say(CLOSE, number)
            return
        sock.setblocking(False)
        self.streams[number] = Stream(sock)

    def listen(self) -> None:
        """A TCP port inside for the kernel's way out, if it has one."""
        if not self.orders.get("proxy_port"):
            return
        self.listening = socket.socket()
        self.listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listening.bind(("127.0.0.1", self.orders["proxy_port"]))
        self.listening.listen(64)
        self.listening.setblocking(False)

    def accept(self) -> None:
        """A program inside wants out."""
        assert self.listening is not None
        try:
            sock, _ = self.listening.accept()
        except OSError:
            return
        sock.setblocking(False)
        self.streams[self.next_stream] = Stream(sock)
        self.say(OPEN, self.next_stream, b"proxy")
        self.next_stream += 2

    def serve(self, number: int, events: int) -> None:
        """Move bytes between one socket and its stream."""
        stream = self.streams[number]
        try:
            if stream.waiting and events & (select.POLLOUT | select.POLLERR | select.POLLHUP):
                sent = stream.sock.send(stream.waiting[: 1 << 18])
                del stream.waiting[:sent]
                stream.taken += sent
                if stream.taken >= ENOUGH:
                    self.say(TAKEN, number, stream.taken.to_bytes(4, "big"))
                    stream.taken = 0
            if stream.ending and not stream.waiting:
                stream.ending = False
                stream.sock.shutdown(socket.SHUT_WR)
            if events & (select.POLLIN | select.POLLHUP | select.POLLERR) and stream.credit > 0:
                data = stream.sock.recv(min(PIECE, stream.credit))
                if not data:
                    raise ConnectionResetError
                stream.credit -= len(data)
                self.say(DATA, number, data)
        except BlockingIOError:
            return
        except OSError:
            stream.sock.close()
            del self.streams[number]
            self.say(CLOSE, number)


def interrupt_main_thread(pid: int) -> bool:
    """Send SIGINT to the main thread of a process; False if that is not known how, or failed."""
    number = {"x86_64": 234, "aarch64": 131}.get(os.uname().machine)  # tgkill
    if number is None:
        return False
    try:
        import ctypes  # only now: most sandboxes never need it

        return bool(ctypes.CDLL(None).syscall(number, pid, pid, int(signal.SIGINT)) == 0)
    except Exception:  # no ctypes in this Python, say
        return False


def main() -> None:
    """Read the orders and serve."""
    with open(sys.argv[1], encoding="utf-8") as file:
        orders = json.load(file)
    guest = Guest(orders)
    try:
        guest.run()
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(guest.kernel, signal.SIGKILL)


if __name__ == "__main__":
    main()
