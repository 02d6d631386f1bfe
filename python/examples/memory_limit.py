"""A memory cgroup for child processes, whose page cache counts too."""
import contextlib
import multiprocessing
import os
import pathlib
import signal
import sys
import time
import traceback

from long_work import ENDING_SIGNALS

CGROUPS = pathlib.Path("/sys/fs/cgroup")


class MemoryLimit:
    """A cgroup below that of this process, of version 2 or 1, whichever limits memory here.

    `why_not` is empty if there is one, and otherwise gives the reason. Swapping is closed, because
    a limit that swapping gets around would be none.
    """

    def __init__(self, limit_bytes):
        self.limit_bytes, self.why_not, self._path = limit_bytes, "", None
        try:
            self._make()
        except OSError as error:
            self.why_not = f"{error.filename or CGROUPS}: {error.strerror}"
            self.remove()

    def _make(self):
        own = {}
        for line in pathlib.Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            number, controllers, path = line.split(":", 2)
            own[controllers if number != "0" else "unified"] = path.lstrip("/")
        name = f"limit.{os.getpid()}"
        if "memory" in own:
            self._path = CGROUPS / "memory" / own["memory"] / name
            self._path.mkdir()
            self._write("memory.limit_in_bytes", self.limit_bytes)
            try:
                # Of memory and swap together.
                self._write("memory.memsw.limit_in_bytes", self.limit_bytes)
            except OSError:
                # A kernel that does not count swap. It swaps out nothing of this cgroup then.
                self._write("memory.swappiness", 0)
        else:
            self._path = self._parent(CGROUPS / own.get("unified", "")) / name
            self._path.mkdir()
            self._write("memory.max", self.limit_bytes)
            # A kernel without swap has no such file.
            with contextlib.suppress(FileNotFoundError):
                self._write("memory.swap.max", 0)

    @staticmethod
    def _parent(own):
        """The nearest cgroup of version 2, upwards, that gives its children the controller. A cgroup
        that has processes itself cannot give it."""
        above = own
        while above != CGROUPS.parent:
            control = above / "cgroup.subtree_control"
            if "memory" in control.read_text(encoding="utf-8").split():
                return above
            with contextlib.suppress(OSError):
                control.write_text("+memory", encoding="utf-8")
                return above
            above = above.parent
        raise PermissionError(1, "gives no memory controller to cgroups below it", str(own))

    def _write(self, name, value):
        (self._path / name).write_text(str(value), encoding="utf-8")

    def run(self, function, *arguments):
        """function(*arguments) in a forked child under the limit; its result."""
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        # Python forgets an exception that a signal's handler raises while it forks.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
        child = context.Process(target=self._run_child, args=(sender, before, function, arguments))
        try:
            child.start()
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            raise
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            sender.close()
            result = receiver.recv()
        except EOFError:
            result = None
        except BaseException:
            # The cgroup can be removed only after its last process has ended.
            child.kill()
            child.join()
            raise
        child.join()
        if result is None:
            raise RuntimeError(f"the process under the limit ended with code {child.exitcode}")
        return result

    def _run_child(self, sender, signals, function, arguments):
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, signals)
            if not self.why_not:
                self._write("cgroup.procs", os.getpid())
            sender.send(function(*arguments))
        except Exception:
            traceback.print_exc()
            raise
        except KeyboardInterrupt:
            # The parent gets the same signal of the terminal, and ends with it.
            os._exit(130)

    def remove(self):
        """Removes the cgroup; says so when the system refuses."""
        if self._path is None or not self._path.exists():
            return
        # The system may still be taking apart a process that has ended.
        for _ in range(50):
            try:
                self._path.rmdir()
                return
            except OSError as error:
                reason = error.strerror
                time.sleep(0.02)
        print(f"the cgroup {self._path} could not be removed: {reason}", file=sys.stderr)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()
