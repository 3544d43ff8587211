"""Repositories made by the git of the machine, the same on every machine.

Nothing of the user counts: no configuration, no templates, no signing, no line endings, no dates.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .refusals import UseError

AUTHOR, EMAIL = "tirstep", "tirstep@localhost"
EPOCH, MINUTE = 946684800, 60  # 2000-01-01 in UTC: the date of step 0
MARK = "tirstep.export"
# Files of the user's that git finds without any configuration: $XDG_CONFIG_HOME/git/attributes.
_WITHOUT_FILES = tuple(
    word
    for name in ("attributesFile", "excludesFile", "hooksPath")
    for word in ("-c", f"core.{name}={os.devnull}")
)


def require_git() -> str:
    """Where git is; raises `UseError` where it is missing."""
    found = shutil.which("git")
    if found is None:
        raise UseError("there is no git here, which tirstep export needs; install it")
    return found


@dataclass(frozen=True)
class Repository:
    """A git repository in a folder."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> Repository:
        """A new one in a folder that is not there yet, marked as ours."""
        folder.mkdir()
        repository = cls(folder)
        repository.call("init", "--quiet", "--template=", "--initial-branch=main")
        repository.call("config", MARK, "1")
        repository.call("config", "core.autocrlf", "false")
        return repository

    def is_ours(self) -> bool:
        """Whether `create` made it."""
        config = self.folder / ".git" / "config"
        if not config.is_file():
            return False
        done = self._run("config", "--file", str(config.absolute()), "--get", MARK)
        return done.returncode == 0 and done.stdout.strip() == "1"

    def commit(self, files: Mapping[str, str], message: str, number: int) -> None:
        """Make these the files of the repository, and commit them, even if none changed."""
        for path in self.folder.iterdir():
            if path.name != ".git" and path.name not in files:
                path.unlink()
        for name, text in files.items():
            (self.folder / name).write_bytes(text.encode())
        self.call("add", "--all", "--force")
        date = f"{EPOCH + number * MINUTE} +0000"
        options = ("--quiet", "--allow-empty", "--no-verify", "--cleanup=verbatim")
        self.call("commit", *options, "--file=-", text=message, date=date)

    def head(self) -> str:
        """The hash of the last commit."""
        return self.call("rev-parse", "HEAD").strip()

    def call(self, *arguments: str, text: str = "", date: str | None = None) -> str:
        """What git prints; raises `UseError` with its complaint where it fails."""
        done = self._run(*arguments, text=text, date=date)
        if done.returncode:
            complaint = done.stderr.strip().splitlines() or ["no reason given"]
            raise UseError(f"git {arguments[0]} failed in {self.folder}: {complaint[-1]}")
        return done.stdout

    def _run(
        self, *arguments: str, text: str = "", date: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [require_git(), *_WITHOUT_FILES, *arguments],
            cwd=self.folder,
            input=text,
            capture_output=True,
            encoding="utf-8",
            env=_environment(date),
        )


def _environment(date: str | None) -> dict[str, str]:
    """The machine's environment without git's variables and the user's configuration."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    dates = {} if date is None else {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    return {
        **kept,
        **dates,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_DEFAULT_HASH": "sha1",
        "GIT_AUTHOR_NAME": AUTHOR,
        "GIT_AUTHOR_EMAIL": EMAIL,
        "GIT_COMMITTER_NAME": AUTHOR,
        "GIT_COMMITTER_EMAIL": EMAIL,
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
