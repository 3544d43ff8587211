"""``tirstep report --watch``: makes the page again when a file changes, and reloads it.

Each page is made by a process of its own, which imports the files as they are then. The file on
disk stays as without --watch; a page on disk cannot learn that it changed, so it is served on this
machine, too, with a script that waits for the next one.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tirstep.files import show_path, write_file

FILES_VARIABLE = "TIRSTEP_OWN_FILES"
"""The environment variable that names where a page's process leaves the files that it imported."""
POLL_SECONDS = 0.5
"""Between two looks at the files."""
TOLD = 0.25
"""Seconds after which a page that waits is told the number of the newest one."""
HOSTS = ("127.0.0.1", "localhost")
MADE = (0, 1)  # a page is there; other codes are of wrong use, or of a process that was ended
POLICY = "default-src 'none';"
RELOAD = """<script>
let shown = null;
new EventSource("changes").addEventListener("message", (event) => {
  if (shown === null) shown = event.data;
  else if (shown !== event.data) location.reload();
});
</script>
</body>"""
Stamps = Mapping[Path, int]


class PageServer(ThreadingHTTPServer):
    """Serves one page on this machine, and tells who waits at ``/changes`` of a new one, which has
    another number.
    """

    daemon_threads = True

    def __init__(self, page: Path) -> None:
        super().__init__((HOSTS[0], 0), _PageHandler)
        self.page = page
        self.number = 0

    @property
    def address(self) -> str:
        """Where a browser finds the page."""
        return f"http://{HOSTS[0]}:{self.server_address[1]}/"


class _PageHandler(BaseHTTPRequestHandler):
    server: PageServer

    def do_GET(self) -> None:
        # Another site's name that leads here is not to read the page.
        if self.headers.get("Host", "").rpartition(":")[0] not in HOSTS:
            self.send_error(403)
        elif self.path == "/changes":
            self._send_changes()
        elif self.path == "/" and self.server.page.is_file():
            page = self.server.page.read_text(encoding="utf-8")
            self._send_head("text/html; charset=utf-8")
            self.wfile.write(make_reloading(page).encode())
        else:
            self.send_error(404)

    def _send_changes(self) -> None:
        self._send_head("text/event-stream")
        with contextlib.suppress(OSError):  # the browser has gone
            while True:
                self.wfile.write(f"data: {self.server.number}\n\n".encode())
                self.wfile.flush()
                time.sleep(TOLD)

    def _send_head(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is said of single requests."""


def make_reloading(page: str) -> str:
    """The page as it is served: it may wait for the next one, which the page on disk may not."""
    page = page.replace(POLICY, f"{POLICY} connect-src 'self';", 1)
    head, end, rest = page.rpartition("</body>")
    return f"{head}{RELOAD}{rest}" if end else page


def watch_report(arguments: Sequence[str], output: Path, say: Callable[[str], None]) -> int:
    """Make the page, serve it, and make it again when a file that it is made of changes, until
    Ctrl-C: those that were imported for it, and what `arguments` name.

    `arguments` are those of ``tirstep report`` without --watch. The exit code is that of the last
    page; that of the first at once where it cannot be made.
    """
    began = time.time_ns()
    code, files = _make(arguments)
    if code not in MADE:
        return code
    with PageServer(output) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        say(f"{server.address}  changes are watched; Ctrl-C ends")
        try:
            files |= list_named_files(arguments)
            stamps = read_stamps(files, began)
            while True:
                time.sleep(POLL_SECONDS)
                now = read_stamps(files)
                if now == stamps:
                    continue
                say(tell_changes(now, stamps))
                began = time.time_ns()
                code, imported = _make(arguments)
                files |= imported
                if code not in MADE:  # perhaps because of a file that is imported since
                    files |= {each for file in files for each in file.parent.glob("*.py")}
                stamps = {**now, **read_stamps(files - set(now), began)}
                server.number += 1
        except KeyboardInterrupt:
            say("")
        finally:
            server.shutdown()
    return code


def _make(arguments: Sequence[str]) -> tuple[int, set[Path]]:
    """The exit code, and the files that were imported."""
    with tempfile.TemporaryDirectory(prefix="tirstep-") as folder:
        left = Path(folder, "files.txt")
        environment = {**os.environ, FILES_VARIABLE: str(left)}
        command = [sys.executable, "-m", "tirstep", "report", *arguments]
        done = subprocess.run(command, env=environment)
        names = os.fsdecode(left.read_bytes()).splitlines() if left.is_file() else ()
        return done.returncode, set(map(Path, names))


def leave_files(imported: Sequence[Iterable[Path]]) -> None:
    """Say what a page depends on, where ``--watch`` asks for it."""
    if place := os.environ.get(FILES_VARIABLE):
        files = {file for each in imported for file in each}
        write_file(Path(place), os.fsencode("".join(f"{file}\n" for file in sorted(files))))


def list_named_files(arguments: Iterable[str]) -> set[Path]:
    """The files that arguments name; a database is a folder of JSON."""
    found: set[Path] = set()
    for argument in arguments:
        place = Path(argument.partition(":")[0])
        found.update(place.glob("*.json") if place.is_dir() else [place])
    return {Path(os.path.abspath(it)) for it in found if it.suffix in (".py", ".json")}


def tell_changes(now: Stamps, before: Stamps) -> str:
    """The files that changed, were made or are gone."""
    found = {path for path in {*now, *before} if now.get(path) != before.get(path)}
    return f"{', '.join(sorted(map(show_path, found)))} changed"


def read_stamps(files: Iterable[Path], began: int | None = None) -> Stamps:
    """When each file was changed last; one that is just being written anew has none.

    One that was changed since a page was `began` may not be in it as it is: it has none, either.
    """
    stamps = {}
    for path in files:
        try:
            changed = path.stat().st_mtime_ns
        except OSError:
            changed = 0
        stamps[path] = 0 if began is not None and changed > began else changed
    return stamps
