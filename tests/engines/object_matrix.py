"""What lives in a process and no checkpoint of variables can write: (before a freeze, after it).

Each entry is two cells of one kernel; the second asserts that what the first made goes on. `HERE`
is a folder outside, `TMP` one of the sandbox's own. Objects whose names begin with `_` are helpers.
"""

# ruff: noqa: E501

from __future__ import annotations

PREPARE = """
import array, asyncio, collections, concurrent.futures, contextvars, ctypes, fcntl, functools, gc
import io, itertools, logging, mmap, multiprocessing, os, queue, random, select, selectors, signal
import socket, sqlite3, struct, subprocess, sys, tempfile, threading, time, weakref
from multiprocessing import shared_memory
HERE, TMP = {here!r}, '/tmp'
_libc = ctypes.CDLL(None, use_errno=True)
def _soon(what, seconds=10.0):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, 'not in time'
        time.sleep(0.01)
    return True
"""

#: name -> (before, after)
SURVIVES: dict[str, tuple[str, str]] = {
    "the process": (
        "pid, address, thing = os.getpid(), id(PREPARED := object()), PREPARED; ppid = os.getppid()",
        "assert os.getpid() == pid and id(PREPARED) == address and thing is PREPARED\n"
        "assert os.getppid() == ppid",
    ),
    "cwd, umask, environment, limits": (
        "os.chdir(HERE); os.umask(0o027); os.environ['MINE'] = 'set'\n"
        "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
        "assert os.getcwd() == HERE and os.umask(0o022) == 0o027 and os.environ['MINE'] == 'set'\n"
        "assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)",
    ),
    "generators and coroutines": (
        "def _count():\n"
        "    try:\n"
        "        yield from range(100)\n"
        "    finally: closed.append(1)\n"
        "closed = []; numbers = _count(); next(numbers)\n"
        "async def _co():\n"
        "    await asyncio.sleep(0); return 'done'\n"
        "half = _co(); half.send(None)\n"
        "async def _ag():\n"
        "    for i in range(9): yield i\n"
        "agen = _ag(); assert await agen.__anext__() == 0\n"
        "zipped = zip(itertools.count(), iter('abc')); next(zipped)",
        "assert next(numbers) == 1; numbers.close(); assert closed == [1]\n"
        "try: half.send(None)\n"
        "except StopIteration as e: assert e.value == 'done'\n"
        "assert await agen.__anext__() == 1 and next(zipped) == (1, 'b')",
    ),
    "threads: one that ticks stood still": (
        "ticks = []\n"
        "def _tick():\n"
        "    while True: ticks.append(time.time()); time.sleep(0.02)\n"
        "threading.Thread(target=_tick, daemon=True).start(); _soon(lambda: len(ticks) > 2)",
        "_n = len(ticks); _soon(lambda: len(ticks) > _n + 2)\n"
        "gaps = [b - a for a, b in zip(ticks, ticks[1:])]; assert max(gaps) > SLEPT * 0.9, max(gaps)",
    ),
    "threads: waiting for an event, a lock, a queue, a condition, a barrier, a join": (
        "event, lock, q, cond = threading.Event(), threading.Lock(), queue.Queue(), threading.Condition()\n"
        "barrier = threading.Barrier(2); lock.acquire(); woke = []\n"
        "def _w(name, f): threading.Thread(target=lambda: (f(), woke.append(name)), daemon=True).start()\n"
        "_w('event', event.wait); _w('lock', lock.acquire); _w('queue', q.get)\n"
        "def _wc():\n"
        "    with cond: cond.wait()\n"
        "_w('condition', _wc); _w('barrier', barrier.wait); _w('timed', lambda: event.wait(3600))\n"
        "napping = threading.Thread(target=time.sleep, args=(0.3,)); napping.start(); time.sleep(0.05)",
        "assert woke == []; event.set(); lock.release(); q.put(1); barrier.wait(5)\n"
        "with cond: cond.notify()\n"
        "_soon(lambda: sorted(woke) == ['barrier', 'condition', 'event', 'lock', 'queue', 'timed'])\n"
        "napping.join(5); assert not napping.is_alive()",
    ),
    "thread pools and timers": (
        "pool = concurrent.futures.ThreadPoolExecutor(2); gate = threading.Event()\n"
        "def _work(i): gate.wait(); return i * i\n"
        "futures = [pool.submit(_work, i) for i in range(5)]\n"
        "rang = []; timer = threading.Timer(0.3, rang.append, (1,)); timer.start()\n"
        "local = threading.local(); local.x = 5; var = contextvars.ContextVar('v'); var.set(7)",
        "gate.set(); assert [f.result(5) for f in futures] == [0, 1, 4, 9, 16]\n"
        "_soon(lambda: rang == [1]); assert local.x == 5 and var.get() == 7",
    ),
    "an event loop in a thread": (
        "loop = asyncio.new_event_loop()\n"
        "threading.Thread(target=loop.run_forever, daemon=True).start()\n"
        "called, turns = [], []\n"
        "loop.call_soon_threadsafe(lambda: loop.call_later(0.3, called.append, 1))\n"
        "async def _turn():\n"
        "    while True: turns.append(1); await asyncio.sleep(0.02)\n"
        "task = asyncio.run_coroutine_threadsafe(_turn(), loop); _soon(lambda: turns)",
        "_n = len(turns); _soon(lambda: called == [1] and len(turns) > _n + 2)\n"
        "async def _add(a, b): await asyncio.sleep(0.01); return a + b\n"
        "assert asyncio.run_coroutine_threadsafe(_add(1, 2), loop).result(5) == 3\n"
        "task.cancel(); loop.call_soon_threadsafe(loop.stop)",
    ),
    "tasks in the kernel's own loop": (
        "beats = []; wanted = asyncio.get_running_loop().create_future()\n"
        "async def _beat():\n"
        "    while True: beats.append(1); await asyncio.sleep(0.02)\n"
        "beating = asyncio.create_task(_beat()); await asyncio.sleep(0.1)\n"
        "async def _await(): return await wanted\n"
        "waiting = asyncio.create_task(_await()); await asyncio.sleep(0)",
        "_n = len(beats); await asyncio.sleep(0.2); assert len(beats) > _n\n"
        "wanted.set_result('here'); assert await waiting == 'here'; beating.cancel()",
    ),
    "socket pairs, with bytes under way": (
        "left, right = socket.socketpair(); left.send(b'under way'); left.settimeout(5)\n"
        "stream = left.makefile('rb'); _d1, _d2 = socket.socketpair(type=socket.SOCK_DGRAM)\n"
        "_d1.send(b'a'); _d1.send(b'bc')",
        "assert right.recv(9) == b'under way'; right.send(b'back\\n'); assert stream.readline() == b'back\\n'\n"
        "assert left.gettimeout() == 5 and (_d2.recv(9), _d2.recv(9)) == (b'a', b'bc')",
    ),
    "unix servers, by path and by abstract name": (
        "server = socket.socket(socket.AF_UNIX); server.bind(TMP + '/mine.sock'); server.listen()\n"
        "client = socket.socket(socket.AF_UNIX); client.connect(TMP + '/mine.sock'); client.send(b'hello')\n"
        "hidden = socket.socket(socket.AF_UNIX); hidden.bind('\\0mine'); hidden.listen()",
        "accepted, _ = server.accept(); assert accepted.recv(5) == b'hello'\n"
        "_c = socket.socket(socket.AF_UNIX); _c.connect(TMP + '/mine.sock'); _c.close()\n"
        "_h = socket.socket(socket.AF_UNIX); _h.connect('\\0mine'); _h.close()",
    ),
    "TCP and UDP inside, that no event loop watches": (
        "listening = socket.create_server(('127.0.0.1', 0)); tcp = socket.create_connection(listening.getsockname())\n"
        "served, _ = listening.accept(); served.send(b'sent before')\n"
        "udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(('127.0.0.1', 0))",
        "assert tcp.recv(11) == b'sent before'; tcp.send(b'after'); assert served.recv(5) == b'after'\n"
        "_t = socket.create_connection(listening.getsockname()); _t.close()\n"
        "_u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); _u.sendto(b'x', udp.getsockname())\n"
        "assert udp.recv(1) == b'x'",
    ),
    "pipes, named pipes, terminals": (
        "r, w = os.pipe(); os.write(w, b'in the pipe'); os.mkfifo(TMP + '/fifo')\n"
        "fifo = os.open(TMP + '/fifo', os.O_RDWR); os.write(fifo, b'named')\n"
        "master, slave = os.openpty(); os.write(slave, b'tty\\n')",
        "assert os.read(r, 20) == b'in the pipe' and os.read(fifo, 9) == b'named'\n"
        "assert os.read(master, 9) == b'tty\\r\\n' and os.isatty(slave)",
    ),
    "poll, epoll, eventfd, timerfd, pidfd": (
        "_er, _ew = os.pipe(); epoll = select.epoll(); epoll.register(_er, select.EPOLLIN)\n"
        "sel = selectors.DefaultSelector(); sel.register(_er, selectors.EVENT_READ, 'mine')\n"
        "poll = select.poll(); poll.register(_er, select.POLLIN)\n"
        "efd = os.eventfd(5); epoll.register(efd, select.EPOLLIN)\n"
        "tfd = _libc.timerfd_create(1, 0o4000)\n"
        "_spec = struct.pack('qqqq', 0, 0, 0, 300_000_000); assert _libc.timerfd_settime(tfd, 0, _spec, None) == 0",
        "assert epoll.poll(0) == [(efd, select.EPOLLIN)] and os.eventfd_read(efd) == 5\n"
        "os.write(_ew, b'x'); assert epoll.poll(1) == [(_er, select.EPOLLIN)]\n"
        "assert [k.data for k, _ in sel.select(1)] == ['mine'] and poll.poll(1) == [(_er, select.POLLIN)]\n"
        "assert select.select([tfd], [], [], 5)[0] and struct.unpack('Q', os.read(tfd, 8))[0] == 1",
    ),
    "child processes": (
        "cat = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)\n"
        "napper = subprocess.Popen(['sh', '-c', 'sleep 0.3; exit 7'])\n"
        "ended = subprocess.Popen(['sh', '-c', 'exit 3']); time.sleep(0.1)\n"
        "session = subprocess.Popen(['sleep', '1000'], start_new_session=True)",
        "cat.stdin.write('echo\\n'); cat.stdin.flush(); assert cat.stdout.readline() == 'echo\\n'\n"
        "assert napper.wait(10) == 7 and ended.wait(5) == 3\n"
        "assert os.getsid(session.pid) == session.pid; session.kill(); session.wait(5)\n"
        "cat.kill(); assert cat.wait(5) == -9",
    ),
    "multiprocessing: a pool, an executor, a queue, a shared value": (
        "mp = multiprocessing.get_context('fork')\n"
        "value, mq, done = mp.Value('i', 5), mp.Queue(), mp.Event()\n"
        "def _child():\n"
        "    done.wait(); value.value += 1; mq.put(('from', os.getpid()))\n"
        "def _slow(x): time.sleep(0.1); return x * x\n"
        "worker = mp.Process(target=_child, daemon=True); worker.start(); workers = mp.Pool(2)\n"
        "asked = workers.map_async(_slow, range(6), chunksize=1)\n"
        "executor = concurrent.futures.ProcessPoolExecutor(1, mp_context=mp); executor.submit(abs, -1).result(10)",
        "assert asked.get(20) == [0, 1, 4, 9, 16, 25]; done.set()\n"
        "assert mq.get(timeout=10) == ('from', worker.pid); worker.join(5); assert value.value == 6\n"
        "assert executor.submit(abs, -5).result(10) == 5\n"
        "workers.terminate(); workers.join(); executor.shutdown()",
    ),
    "open files outside: position, appending, unflushed text": (
        "open(HERE + '/read.txt', 'w').write('0123456789' * 10)\n"
        "reading = open(HERE + '/read.txt'); assert reading.read(12) == '012345678901'\n"
        "binary = open(HERE + '/read.txt', 'r+b'); binary.seek(50)\n"
        "writing = open(HERE + '/written.txt', 'w'); writing.write('not flushed')\n"
        "fcntl.flock(binary, fcntl.LOCK_EX)\n"
        "handler = logging.FileHandler(HERE + '/my.log'); logging.getLogger('mine').addHandler(handler)\n"
        "logging.getLogger('mine').warning('before')",
        "assert reading.read(3) == '234' and binary.tell() == 50 and binary.read(2) == b'01'\n"
        "writing.write(' then'); writing.close(); assert open(HERE + '/written.txt').read() == 'not flushed then'\n"
        "_other = open(HERE + '/read.txt', 'rb')\n"
        "try: fcntl.flock(_other, fcntl.LOCK_EX | fcntl.LOCK_NB); assert False, 'the lock is gone'\n"
        "except BlockingIOError: pass\n"
        "logging.getLogger('mine').warning('after'); assert open(HERE + '/my.log').read() == 'before\\nafter\\n'",
    ),
    "files of the sandbox's own, also deleted ones": (
        "temporary = tempfile.TemporaryFile('w+'); temporary.write('kept'); temporary.flush()\n"
        "named = tempfile.NamedTemporaryFile('w+'); named.write('by name'); named.flush()\n"
        "gone = open(TMP + '/gone', 'w+'); gone.write('no name'); gone.flush(); os.unlink(TMP + '/gone')\n"
        "folder = tempfile.TemporaryDirectory(); open(folder.name + '/f', 'w').write('in it')\n"
        "memfd = os.memfd_create('mine'); os.write(memfd, b'memory')",
        "temporary.seek(0); assert temporary.read() == 'kept'; assert open(named.name).read() == 'by name'\n"
        "gone.seek(0); assert gone.read() == 'no name'; assert open(folder.name + '/f').read() == 'in it'\n"
        "folder.cleanup(); assert os.pread(memfd, 9, 0) == b'memory'",
    ),
    "memory maps, private and shared, of files and of none": (
        "open(HERE + '/map.bin', 'wb').write(bytes(range(256)) * 64)\n"
        "_mf = open(HERE + '/map.bin', 'r+b'); shared_map = mmap.mmap(_mf.fileno(), 0)\n"
        "private_map = mmap.mmap(_mf.fileno(), 0, access=mmap.ACCESS_COPY); private_map[:4] = b'mine'\n"
        "none = mmap.mmap(-1, 8192); none[:4] = b'anon'\n"
        "both = mmap.mmap(-1, 4096, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)\n"
        "if not (_kid := os.fork()):\n"
        "    while both[:4] != b'ping': time.sleep(0.01)\n"
        "    both[4:8] = b'pong'; os._exit(0)",
        "assert private_map[:4] == b'mine' and none[:4] == b'anon' and shared_map[:4] == bytes(range(4))\n"
        "shared_map[:4] = b'else'; assert open(HERE + '/map.bin', 'rb').read(4) == b'else'\n"
        "both[:4] = b'ping'; assert os.waitpid(_kid, 0)[1] == 0 and both[4:8] == b'pong'",
    ),
    "shared memory": (
        "shm = shared_memory.SharedMemory(create=True, size=4096); shm.buf[:4] = b'shm!'",
        "_again = shared_memory.SharedMemory(shm.name); assert bytes(_again.buf[:4]) == b'shm!'\n"
        "_again.close(); shm.close(); shm.unlink()",
    ),
    "databases, in a file and in memory, in a transaction": (
        "db = sqlite3.connect(HERE + '/data.db'); db.execute('create table t (x)'); db.commit()\n"
        "db.execute('insert into t values (1)')\n"
        "mem = sqlite3.connect(':memory:'); mem.execute('create table t (x)')\n"
        "mem.executemany('insert into t values (?)', [(i,) for i in range(9)])\n"
        "cursor = mem.execute('select x from t order by x'); cursor.fetchone()",
        "assert cursor.fetchone() == (1,); db.execute('insert into t values (2)'); db.commit()\n"
        "_db = sqlite3.connect(HERE + '/data.db'); assert _db.execute('select sum(x) from t').fetchone() == (3,)\n"
        "_db.close(); db.close()",
    ),
    "signals: handlers, masks, interval timers": (
        "got = []; _before = signal.signal(signal.SIGUSR1, lambda *a: got.append('usr1'))\n"
        "signal.signal(signal.SIGALRM, lambda *a: got.append('alarm')); signal.setitimer(signal.ITIMER_REAL, 0.3)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]); signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)",
        "_soon(lambda: 'alarm' in got); os.kill(os.getpid(), signal.SIGUSR1); _soon(lambda: 'usr1' in got)\n"
        "assert signal.SIGUSR2 in signal.sigpending(); signal.signal(signal.SIGUSR2, lambda *a: got.append('usr2'))\n"
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2]); _soon(lambda: 'usr2' in got)",
    ),
    "clocks: both jump by the pause, processor time does not": (
        "clock = (time.time(), time.monotonic(), time.perf_counter(), time.process_time())",
        "now = (time.time(), time.monotonic(), time.perf_counter(), time.process_time())\n"
        "passed = [b - a for a, b in zip(clock, now)]\n"
        "assert all(p > SLEPT * 0.9 for p in passed[:3]), passed\n"
        "assert abs(passed[0] - passed[1]) < 1.0 and abs(time.time() - NOW) < 20, (passed, time.time() - NOW)",
    ),
    "random numbers go on; the system's are new": (
        "random.seed(7); random.random(); _state = random.getstate(); _expected = random.random()\n"
        "random.setstate(_state); generator = random.Random(5)",
        "assert random.random() == _expected and generator.random() == random.Random(5).random()\n"
        "assert len({os.urandom(8) for _ in range(9)}) == 9",
    ),
    "weak references, finalizers, caches, counters": (
        "class _Thing: pass\n"
        "strong = _Thing(); weak = weakref.ref(strong); finalized = []\n"
        "weakref.finalize(strong, finalized.append, 1)\n"
        "@functools.lru_cache\n"
        "def _cached(x): computed.append(x); return x\n"
        "computed = []; _cached(5); counter = itertools.count(3); next(counter)\n"
        "buffer = ctypes.create_string_buffer(b'c memory'); where = ctypes.addressof(buffer)",
        "assert weak() is strong; del strong; gc.collect(); assert weak() is None and finalized == [1]\n"
        "assert _cached(5) == 5 and computed == [5] and next(counter) == 4\n"
        "assert ctypes.addressof(buffer) == where and ctypes.string_at(where) == b'c memory'",
    ),
}
