"""Real git repositories for tests: no settings of the person who runs them, branches written as file contents."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from txtdb.merge.git_setup import install

PERSON = {"NAME": "Tester", "EMAIL": "tester@example.org", "DATE": "2026-01-01T12:00:00Z"}


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


def environment(home: Path) -> dict[str, str]:
    """The programs of this interpreter first; git without global settings."""
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in PERSON.items()}
    return {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "true",
        **who,
    }


@dataclass(frozen=True)
class Repository:
    """A working tree. Files are given by their path below it; None takes one away."""

    path: Path

    def run(self, *command: str, code: int | None = 0) -> Done:
        """Run a program here; an unexpected exit code fails the test. None takes any."""
        done = subprocess.run(command, cwd=self.path, env=environment(self.path), capture_output=True, check=False)
        result = Done(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert code is None or result.code == code, f"{command}: {result}"
        return result

    def git(self, *arguments: str, code: int | None = 0) -> Done:
        return self.run("git", *arguments, code=code)

    def txtdb(self, *arguments: str, code: int | None = 0) -> Done:
        return self.run("txtdb", *arguments, code=code)

    def write(self, files: Mapping[str, str | None]) -> None:
        for name, text in files.items():
            path = self.path / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text.encode())

    def read(self, name: str) -> str:
        return (self.path / name).read_bytes().decode()

    def commit(self, files: Mapping[str, str | None], message: str = "change") -> str:
        """Write and commit; the commit's name comes back."""
        self.write(files)
        self.git("add", "-A")
        self.git("commit", "-qm", message)
        return self.git("rev-parse", "HEAD").out.strip()

    def branch(self, name: str, files: Mapping[str, str | None], start: str = "main") -> str:
        """A branch with one commit; main is checked out afterwards."""
        self.git("checkout", "-qb", name, start)
        commit = self.commit(files, name)
        self.git("checkout", "-q", "main")
        return commit


def make_repository(path: Path, files: Mapping[str, str | None], drivers: bool = True) -> Repository:
    """A repository with one commit on main, with or without the drivers installed."""
    path.mkdir(parents=True)
    repository = Repository(path)
    repository.git("init", "-q", "-b", "main")
    if drivers:
        install(path)
    repository.commit(files, "base")
    return repository
