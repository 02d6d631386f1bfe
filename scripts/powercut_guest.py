"""QEMU guests: their disks, the initial file system, one boot and how it ends.

powercut.py, nvme_guest.py and numa_guest.py decide what passes. Guests run under software
emulation, which behaves alike on every host and is slow enough that cuts fall into the middle of
operations.
"""

import glob
import gzip
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

FS_BYTES = 384 << 20
LEDGER_BYTES = 1 << 20
BLOCK_BYTES = 4096
QEMU = 'qemu-system-x86_64'
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GUEST_DIR = os.path.join(ROOT, 'build', 'guest')


def skip(why):
    print(f'skipped: {why}')
    sys.exit(77)


def check_machine(programs=(), built=()):
    """Ends the program where its guests cannot run.

    Every guest needs QEMU, mkfs.ext4, a kernel and build/guest/init. `programs` are further ones of
    this machine, `built` further files of this project.
    """
    # mkfs lies here, outside the PATH of ordinary users.
    os.environ['PATH'] += ':/usr/sbin:/sbin'
    for program in (QEMU, 'mkfs.ext4', *programs):
        if shutil.which(program) is None:
            skip(f'{program} is missing')
    fetched = subprocess.run([os.path.join(ROOT, 'scripts', 'guest_kernel.sh')],
                             stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                             check=False)
    if fetched.returncode != 0:
        skip(fetched.stderr.strip().replace('\n', '; '))
    for name in ('build/guest/init', *built):
        if not os.path.exists(os.path.join(ROOT, name)):
            print(f'{name} was not built\n0 passed, 1 failed')
            sys.exit(1)


def make_work_dir(prefix):
    """A directory of this process in build/guest, which the caller removes.

    Removes the directories with this prefix that killed programs have left. From now on SIGTERM
    raises SystemExit, so that the caller's `finally` runs.
    """
    for name in os.listdir(GUEST_DIR):
        pid = name.removeprefix(f'{prefix}_')
        if pid != name and not os.path.exists(f'/proc/{pid}'):
            shutil.rmtree(os.path.join(GUEST_DIR, name), ignore_errors=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    work_dir = os.path.join(GUEST_DIR, f'{prefix}_{os.getpid()}')
    os.makedirs(work_dir)
    return work_dir


def copy_image(source, target):
    subprocess.run(['cp', '--reflink=auto', '--sparse=always', source, target], check=True)


def make_image(path, fs_bytes=FS_BYTES):
    """A disk with an empty ext4 and, behind it, the sectors of the ledger."""
    with open(path, 'wb') as image:
        image.truncate(fs_bytes + LEDGER_BYTES)
    # mkfs initialises everything, so that the guest's kernel writes nothing by itself. The journal
    # is small, so it wraps around often.
    subprocess.run(
        ['mkfs.ext4', '-q', '-F', '-b', str(BLOCK_BYTES), '-m', '0', '-J', 'size=4', '-N', '4096',
         '-E', 'lazy_itable_init=0,lazy_journal_init=0,nodiscard', path,
         str(fs_bytes // BLOCK_BYTES)], check=True)


def make_initramfs(init_program, path, modules=(), files=None):
    """A cpio archive ("newc") with the program as /init and modules of the kernel in /modules.

    `files` has further ones: what each is called in the guest, and where it lies here.
    """
    def read(source):
        with open(source, 'rb') as file:
            return file.read()

    def entry(name, mode, data):
        name = name.encode() + b'\0'
        fields = [1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0]
        header = b'070701' + b''.join(b'%08x' % field for field in fields)
        block = header + name
        block += bytes(-len(block) % 4) + data
        return block + bytes(-len(block) % 4)

    content = {'init': init_program, **{name.lstrip('/'): source
                                        for name, source in (files or {}).items()}}
    content.update({f'modules/{os.path.basename(module)}': module for module in modules})
    folders = set()
    for name in content:
        while name := os.path.dirname(name):
            folders.add(name)
    with gzip.open(path, 'wb', compresslevel=1) as archive:
        # A folder before what lies in it.
        for folder in sorted(folders):
            archive.write(entry(folder, 0o040755, b''))
        for name, source in content.items():
            archive.write(entry(name, 0o100755, read(source)))
        archive.write(entry('TRAILER!!!', 0, b''))


def disk_arguments(image, serial, write_log=None):
    """QEMU's arguments for one NVMe disk; `write_log` gets all that is written to it."""
    disk = [f'driver=file,node-name={serial},filename={image},cache.no-flush=on']
    top = serial
    if write_log:
        # The files need no flush of the host's disk, but the log driver must see the guest's
        # flushes. So the cache mode is set for each file and not for the whole drive.
        with open(write_log, 'wb'):
            pass
        disk += [f'driver=file,node-name={serial}_writes,filename={write_log},cache.no-flush=on',
                 f'driver=blklogwrites,node-name={serial}_logged,file={serial},'
                 f'log={serial}_writes,log-sector-size=512']
        top = f'{serial}_logged'
    arguments = []
    for node in disk:
        arguments += ['-blockdev', node]
    # With Intel's name the kernel sends no Write Zeroes, which QEMU before 9 logs wrongly.
    return arguments + ['-device',
                        f'nvme,serial={serial},drive={top},write-cache=on,use-intel-id=on']


class Guest:
    """One boot. A thread of its own collects the serial lines."""

    def __init__(self, kernel, initramfs, disks, arguments, machine=('-m', '384', '-smp', '2')):
        # On a busy host the check of the timer's interrupt fails, and the kernel panics.
        append = ['console=ttyS0', 'quiet', 'loglevel=2', 'panic=-1', 'no_timer_check',
                  'random.trust_cpu=on']
        append += [f'pc_{name}={value}' for name, value in arguments.items()]
        command = [QEMU, '-accel', 'tcg', '-cpu', 'max', '-M', 'pc', *machine,
                   '-nodefaults', '-display', 'none', '-monitor', 'none', '-serial', 'stdio',
                   '-no-reboot', '-kernel', kernel, '-initrd', initramfs,
                   '-append', ' '.join(append), *disks]
        self.lines = []
        self.silent = False  # it will say no more
        self._changed = threading.Condition()
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for raw in self._process.stdout:
            with self._changed:
                self.lines.append(raw.decode('utf-8', 'replace').strip())
                self._changed.notify_all()
        with self._changed:
            self.silent = True
            self._changed.notify_all()

    def wait_for(self, prefixes, seconds):
        """The first line that begins with one of these; None when the guest ended or hangs."""
        seconds_left = self._countdown(seconds)
        seen = 0
        with self._changed:
            while True:
                for line in self.lines[seen:]:
                    if line.startswith(tuple(prefixes)):
                        return line
                seen = len(self.lines)
                left = seconds_left()
                if self.silent or left <= 0:
                    return None
                self._changed.wait(left)

    def wait_exit(self, seconds):
        """Waits for the end of the guest. False when it had to be killed."""
        seconds_left = self._countdown(seconds)
        while (left := seconds_left()) > 0:
            try:
                self._process.wait(left)
                self._reader.join()
                return True
            except subprocess.TimeoutExpired:
                pass
        self.kill()
        return False

    def _countdown(self, seconds):
        """Gives what is left of `seconds`. While the guest waits for a CPU of a busy host, the
        count stands still."""
        began, kept_before = time.monotonic(), self._kept_waiting_seconds()
        return lambda: (seconds - (time.monotonic() - began)
                        + (self._kept_waiting_seconds() - kept_before))

    def _kept_waiting_seconds(self):
        """For how long QEMU's threads were ready to run and none of the host's CPUs was free: that
        of the thread that waited longest."""
        longest_ns = 0
        for path in glob.glob(f'/proc/{self._process.pid}/task/*/schedstat'):
            try:
                with open(path, encoding='ascii') as file:
                    longest_ns = max(longest_ns, int(file.read().split()[1]))
            except OSError:  # the thread has ended
                pass
        return longest_ns / 1e9

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def stop_at_once(self):
        """Stops the guest at once; QEMU completes the requests that it has."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait_exit(30)

    def running(self):
        return self._process.poll() is None


def remove(path):
    if os.path.exists(path):
        os.remove(path)
