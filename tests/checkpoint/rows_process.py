"""What a checkpoint must bring back: files, locks, and what belongs to the process."""

ROWS = {
    "open_files": {
        "setup": "for n in ('r', 'a', 'w', 'wb'): open(n + '.txt', 'w').write('line1\\nline2\\nline3\\n')\n"
        "r = open('r.txt'); r.readline()\na = open('a.txt', 'a'); a.write('more\\n')\nw = open('w.txt', 'w'); w.write('new\\n')\n"
        "wb = open('wb.txt', 'w+b'); wb.write(b'12345'); wb.seek(2)\ndone = open('r.txt'); done.close()\nraw = open('r.txt', 'rb', buffering=0); raw.read(3)",
        "check": "assert open('w.txt').read() == 'new\\n' and open('a.txt').read().endswith('more\\n') and open('wb.txt').read() == '12345'\n"
        "assert r.readline() == 'line2\\n' and r.mode == 'r' and a.mode == 'a' and w.mode == 'w' and done.closed and raw.read(3) == b'e1\\n'\n"
        "w.write('x'); w.flush(); assert open('w.txt').read() == 'new\\nx'\na.write('z'); a.flush(); assert open('a.txt').read().endswith('more\\nz')\n"
        "assert wb.read() == b'345'",
    },
    "a_file_in_a_for_loop": {
        "setup": "open('it.txt', 'w').write('a\\nb\\nc\\n')\nf = open('it.txt')\nfor line in f: break",
        "check": "assert next(f) == 'b\\n'",
    },
    "a_deleted_file": {
        "setup": "import os\nf = open('gone.txt', 'w+'); f.write('x'); f.flush(); os.unlink('gone.txt')\nok = 1",
        "check": "assert ok == 1",
        "lost": ["f"],
    },
    "locks_and_queues": {
        "setup": "import threading, queue, collections\nl = threading.Lock()\nheld = threading.Lock(); held.acquire()\nr = threading.RLock(); r.acquire(); r.acquire()\n"
        "e = threading.Event(); e.set()\nq = queue.Queue(); q.put(1); q.put([2])\ns = threading.Semaphore(3); s.acquire()\nc = threading.Condition()\nloc = threading.local(); loc.x = 5",
        "check": "assert not l.locked() and held.locked() and e.is_set() and q.get() == 1 and q.get() == [2] and q.empty()\n"
        "r.release(); r.release()\nassert s.acquire(blocking=False) and s.acquire(blocking=False) and not s.acquire(blocking=False)\n"
        "with c: c.notify_all()",
        "lost": ["loc"],
    },
    "what_runs_is_lost_and_named": {
        "setup": "import threading, subprocess, socket, concurrent.futures, sys\nstop = threading.Event()\nt = threading.Thread(target=stop.wait, daemon=True); t.start()\n"
        "p = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\nsk = socket.socket()\npool = concurrent.futures.ThreadPoolExecutor(2)\n"
        "done = pool.submit(pow, 2, 5); done.result()\nrunning = pool.submit(stop.wait)\nok = [1]\nimport atexit; atexit.register(p.kill); atexit.register(stop.set)",
        "check": "assert ok == [1] and done.result() == 32 and pool.submit(pow, 2, 3).result() == 8\n"
        "reasons = {l['name']: l['reason'] for l in report.lost}\nassert 'thread' in reasons['t'] and 'child process' in reasons['p'] and 'connection' in reasons['sk']\npool.shutdown()",
        "lost": ["t", "p", "sk", "running"],
    },
    "random_numbers_go_on": {
        "setup": "import random, numpy as np\nrandom.seed(1); np.random.seed(2); random.random(); np.random.rand()\n"
        "st, nst = random.getstate(), np.random.get_state()\nwant = (random.random(), np.random.rand())\nrandom.setstate(st); np.random.set_state(nst)",
        "check": "import random, numpy as np\nassert (random.random(), np.random.rand()) == want",
    },
    "folder_paths_environment": {
        "setup": "import os, sys\nos.makedirs('sub', exist_ok=True); os.chdir('sub'); sys.path.insert(0, '/extra'); os.environ['MINE'] = 'yes'\n"
        "os.environ['HF_TOKEN'] = 'hush'; os.environ.pop('HOME2', None)\nimport warnings; warnings.filterwarnings('ignore', message='boo')",
        "check": "import os, sys, warnings\nassert os.path.basename(os.getcwd()) == 'sub' and sys.path[0] == '/extra' and os.environ['MINE'] == 'yes'\n"
        "assert 'HF_TOKEN' not in os.environ and warnings.filters[0][1].pattern == 'boo'\nos.chdir('..')",
    },
}
