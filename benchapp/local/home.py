"""The folder that holds everything an installation writes, and the secrets in it."""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Home:
    """Layout of `var/` (or TILEWATCH_HOME)."""

    root: Path

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def secrets(self) -> Path:
        return self.root / "secrets"

    @property
    def logs(self) -> Path:
        return self.root / "log"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def lock(self) -> Path:
        return self.run / "up.lock"

    @property
    def status(self) -> Path:
        """Process and URL of the running supervisor, for people and programs; holds no secret."""
        return self.run / "up.json"

    @property
    def server_urls(self) -> Path:
        """URLs with passwords (mode 0600), from which commands beside the supervisor find its servers."""
        return self.run / "servers.json"

    def make(self) -> None:
        """Make the folders. Raises OSError naming the one that cannot be made."""
        for folder in (self.root, self.logs, self.run):
            folder.mkdir(parents=True, exist_ok=True)
        self.secrets.mkdir(exist_ok=True)
        self.secrets.chmod(0o700)

    def secret(self, name: str) -> str:
        """The secret of that name, generated when first asked for."""
        path = self.secrets / name
        try:
            return path.read_text()
        except FileNotFoundError:
            write_private(path, secrets.token_urlsafe(32))
            return path.read_text()


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(path)
