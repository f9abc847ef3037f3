"""What the kernel keeps of a file, and mappings beside writes: calls that no safe interface of Rust has.

direct.py WHAT PATH [OTHER]
"""
import ctypes, errno, mmap, os, sys, tempfile, threading, time

CACHESTAT = 451
MIB = 1 << 20
libc = ctypes.CDLL(None, use_errno=True)


def pages(fd):
    """Pages of an open file that the kernel keeps (Linux 6.5)."""
    every, found = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
    if libc.syscall(CACHESTAT, fd, every, found, 0) != 0:
        sys.exit("skipped: no cachestat: error %d" % ctypes.get_errno())
    return found[0]


def mapped(fd, length):
    """A shared mapping; older kernels than 6.6 have none of such files."""
    try:
        return mmap.mmap(fd, length)
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise
        sys.exit("skipped: this kernel maps no such file")


def kept(path, _):
    """Pages after reads and writes, and after a new descriptor has read it all."""
    with open(path, "w+b", buffering=0) as file:
        data = os.urandom(MIB)
        assert file.write(data) == MIB
        assert os.pread(file.fileno(), MIB, 0) == data
        with open(path, "rb", buffering=0) as other:
            assert other.read(MIB) == data
            print(pages(file.fileno()), pages(other.fileno()))


def sent(path, to):
    """`sendfile` from and to a file."""
    data = os.urandom(MIB + 7)
    with open(path, "w+b", buffering=0) as source, open(to, "w+b", buffering=0) as target:
        source.write(data)
        left = len(data)
        while left:
            left -= os.sendfile(target.fileno(), source.fileno(), None, left) if source.seek(len(data) - left) >= 0 else 0
        assert os.pread(target.fileno(), len(data), 0) == data
        # What was sent is as new as the file.
        source.seek(0)
        os.pwrite(source.fileno(), b"new", 4096)
        os.sendfile(target.fileno(), source.fileno(), 0, len(data))
        target.seek(0)
    print("sent")


def memory_group():
    """A group of processes whose memory the kernel counts, and the line that counts what is kept of files."""
    for root, word in ("/sys/fs/cgroup/memory", "cache"), ("/sys/fs/cgroup", "file"):
        if os.path.exists(root + "/memory.stat") or os.path.exists(root + "/cgroup.controllers"):
            try:
                group = tempfile.mkdtemp(prefix="strongroom-", dir=root)
                if os.path.exists(group + "/memory.stat"):
                    return group, word
                os.rmdir(group)
            except OSError:
                continue
    sys.exit("skipped: no control group of memory")


def closed(path, _):
    """Memory of a mapped file, before and after it is closed."""
    length = 32 * MIB
    group, word = memory_group()
    with open("/proc/self/cgroup") as lines:
        of_memory = [line.strip().split(":", 2) for line in lines]
    home = next(place for _, names, place in of_memory if names in ("memory", ""))
    root = os.path.dirname(group)

    def kept_mib():
        with open(group + "/memory.stat") as lines:
            return next(int(line.split()[1]) for line in lines if line.split()[0] == word) // MIB

    with open(path, "wb", buffering=0) as file:
        for _ in range(length // MIB):
            file.write(os.urandom(MIB))
    with open(group + "/cgroup.procs", "w") as procs:
        procs.write(str(os.getpid()))
    try:
        file = open(path, "r+b", buffering=0)
        view = mapped(file.fileno(), length)
        for at in range(0, length, 4096):
            view[at + 100] = 1
        assert kept_mib() > length // MIB // 2, kept_mib()
        view.close()
        file.close()
        deadline = time.monotonic() + 60
        while kept_mib() > 4 and time.monotonic() < deadline:
            os.sched_yield()
        print("kept" if kept_mib() > 4 else "dropped")
    finally:
        with open(root + home + "/cgroup.procs", "w") as procs:
            procs.write(str(os.getpid()))
        os.rmdir(group)
    with open(path, "rb", buffering=0) as file:
        assert all(os.pread(file.fileno(), 1, at + 100) == b"\1" for at in range(0, length, 4096))


def beside(path, _):
    """Two threads store through a mapping, and two write, to bytes of their own in the same pages."""
    slots, rounds, width = 4096, 60000, 8
    with open(path, "w+b", buffering=0) as file:
        fd = file.fileno()
        os.truncate(fd, slots * width)
        view = mapped(fd, slots * width)
        last = [0] * slots

        def work(which):
            store = which % 2 == 0
            mine = range(which, slots, 4)
            for number in range(1, rounds + 1):
                slot = mine[(number * 7919 + which) % len(mine)]
                value = number.to_bytes(width, "little")
                if store:
                    view[slot * width : (slot + 1) * width] = value
                    if number % 64 == 0:
                        view.flush((slot * width) & ~4095, 4096)
                else:
                    assert os.pwrite(fd, value, slot * width) == width
                    assert view[slot * width : (slot + 1) * width] == value, (slot, number)
                last[slot] = number

        threads = [threading.Thread(target=work, args=(which,)) for which in range(4)]
        failures = []
        threading.excepthook = lambda args: failures.append(args.exc_value)
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not failures, failures
        wanted = b"".join(number.to_bytes(width, "little") for number in last)
        assert view[:] == wanted, "the mapping"
        assert os.pread(fd, len(wanted), 0) == wanted, "the file"
        view.close()
    with open(path, "rb", buffering=0) as file:
        assert file.read() == wanted, "the file, opened again"
    print("all there")


def dirtied(path, _):
    """Begins to write a file, and stores to every second page of it when a line comes."""
    with open(path, "w+b", buffering=0) as file:
        os.truncate(file.fileno(), MIB)
        view = mapped(file.fileno(), MIB)
        print("mapped", flush=True)
        threading.Thread(target=os.pwrite, args=(file.fileno(), bytes(MIB), 0), daemon=True).start()
        sys.stdin.readline()
        for at in range(100, MIB, 8192):
            view[at] = 1
        print("stored", flush=True)
        sys.stdin.readline()
        os._exit(0)


{"dirtied": dirtied, "kept": kept, "sent": sent, "closed": closed, "beside": beside}[sys.argv[1]](sys.argv[2], sys.argv[3])
