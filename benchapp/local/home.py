"""The folder that holds everything an installation writes, and the secrets in it."""

from dataclasses import dataclass
from pathlib import Path

from benchapp.local.child import LocalError
from benchapp.settings.secret import lasting_secret


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
        """The secret of that name, generated when first asked for. Raises LocalError, OSError."""
        try:
            return lasting_secret(self.secrets / name)
        except ValueError as error:
            raise LocalError(str(error)) from None
