"""A headless Chromium, driven through a pair of pipes by messages of the DevTools protocol."""
import base64
import collections
import contextlib
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import zlib

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         "--hide-scrollbars", "--disable-background-networking", "--disable-component-update",
         "--disable-extensions", "--remote-debugging-pipe")


def program():
    """The path of the browser, or nothing where none is installed."""
    return next((path for name in NAMES for path in [shutil.which(name)] if path), None)


CONSOLE_COMPLAINTS = ("error", "warning", "assert")
START_S = 30  # in which a browser starts


class BrowserFailed(Exception):
    """The reason, and the end of the browser's log where it has one."""


def started():
    """(the browser, None), or (None, why there is none). A program of that name may be a stub that
    only tells how to install the browser."""
    if program() is None:
        return None, "chromium is missing; scripts/setup.sh browser installs it"
    try:
        return Chromium(), None
    except (BrowserFailed, OSError) as error:
        return None, "chromium does not start: " + " | ".join(str(error).split("\n"))


def pixels_of(png):
    """Yields (red, green, blue) of each pixel of a PNG of 8 bits a channel without interlacing."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    size = {2: 3, 6: 4}[kind]  # bytes of a pixel, without and with opacity
    assert depth == 8 and png[28] == 0
    data, at = b"", 8
    while at < len(png):
        length, name = struct.unpack(">I4s", png[at:at + 8])
        if name == b"IDAT":
            data += png[at + 8:at + 8 + length]
        at += 12 + length
    lines = memoryview(zlib.decompress(data))
    before = bytearray(width * size)
    for y in range(height):
        line = lines[y * (width * size + 1):(y + 1) * (width * size + 1)]
        before = unfiltered(line[0], bytearray(line[1:]), before, size)
        for x in range(0, width * size, size):
            yield before[x], before[x + 1], before[x + 2]


def unfiltered(kind, line, above, size):
    """A line of a PNG, whose bytes are differences to neighbours that the kind of filter names."""
    for x in range(len(line)):
        left = line[x - size] if x >= size else 0
        corner = above[x - size] if x >= size else 0
        if kind == 1:
            near = left
        elif kind == 2:
            near = above[x]
        elif kind == 3:
            near = (left + above[x]) // 2
        elif kind == 4:
            guess = left + above[x] - corner
            near = min((left, above[x], corner), key=lambda byte: abs(guess - byte))
        else:
            near = 0
        line[x] = (line[x] + near) & 255
    return line


class Chromium:
    """One browser with one page. Its complaints on the console are in `complaints`."""

    def __init__(self, timeout_s=300):
        self.timeout_s = START_S
        self.folder = tempfile.mkdtemp(prefix="report-chromium-")
        self.log = open(os.path.join(self.folder, "log"), "w+b")
        self.last_id = 0
        self.unread = b""
        self.complaints = []
        self.events = []
        to_browser, self.writer = os.pipe()
        self.reader, from_browser = os.pipe()

        def take_pipes():
            # The browser reads descriptor 3 and writes descriptor 4.
            ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (to_browser, from_browser)]
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = self.session = None
        try:
            self.process = subprocess.Popen(
                [program(), *FLAGS, f"--user-data-dir={self.folder}/profile", "about:blank"],
                stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, pass_fds=(3, 4),
                preexec_fn=take_pipes, start_new_session=True)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(to_browser)
            os.close(from_browser)
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target,
                                     flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise
        self.timeout_s = timeout_s

    def close(self):
        os.close(self.writer)
        os.close(self.reader)
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            # A stub is a script, whose children may still run.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.log.close()
        # The browser's last process may still write its profile.
        shutil.rmtree(self.folder, ignore_errors=True)

    def why(self, what):
        self.log.seek(0)
        end = self.log.read()[-2000:].decode(errors="replace")
        return BrowserFailed(f"{what}; the end of the browser's log:\n{end}")

    def message(self, deadline):
        """The next message of the browser."""
        while b"\0" not in self.unread:
            left_s = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self.reader], [], [], left_s)
            if not ready:
                raise self.why(f"no answer within {self.timeout_s} s")
            chunk = os.read(self.reader, 1 << 20)
            if not chunk:
                raise self.why("the browser ended")
            self.unread += chunk
        text, self.unread = self.unread.split(b"\0", 1)
        return json.loads(text)

    def note(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in CONSOLE_COMPLAINTS:
            self.complaints.append(" ".join(str(a.get("value")) for a in params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"]["text"])
        elif method:
            self.events.append(method)

    def call(self, method, **parameters):
        self.last_id += 1
        request = {"id": self.last_id, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        try:
            os.write(self.writer, json.dumps(request).encode() + b"\0")
        except BrokenPipeError:
            raise self.why("the browser ended") from None
        deadline = time.monotonic() + self.timeout_s
        while True:
            message = self.message(deadline)
            if message.get("id") != self.last_id:
                self.note(message)
            elif "error" in message:
                raise self.why(f"{method}: {message['error'].get('message')}")
            else:
                return message["result"]

    def open(self, path, width, height, dark):
        """Shows a file in a window of this size, in light or dark."""
        self.complaints.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        answer = self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        if answer.get("errorText"):
            raise self.why(f"{path}: {answer['errorText']}")
        deadline = time.monotonic() + self.timeout_s
        while "Page.loadEventFired" not in self.events:
            self.note(self.message(deadline))

    def evaluate(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise self.why(f"the script failed: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def picture(self, **clip):
        """The whole page as PNG, or a part of it: x, y, width, height."""
        part = {"clip": {**clip, "scale": 1}} if clip else {}
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=True, **part)
        return base64.b64decode(answer["data"])

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(self.picture())

    def colours(self, **clip):
        """{(red, green, blue): pixels} of a part of the page as it is painted."""
        return dict(collections.Counter(pixels_of(self.picture(**clip))))
