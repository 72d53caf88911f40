"""The local web server: one process with threads; it serves one person or a small team."""

from pathlib import Path
from typing import Any

from benchapp.local.exec_child import die_with_parent

worker_class = "gthread"
workers = 1
threads = 8
timeout = 120
graceful_timeout = 3
#: The address of a page holds all that is chosen on it, also a list of many cases.
limit_request_line = 8190
#: Gunicorn would listen for commands on a socket in the home folder.
control_socket_disable = True
if Path("/dev/shm").is_dir():  # noqa: S108 - heartbeats belong in memory, and the name is not guessed by others
    worker_tmp_dir = "/dev/shm"  # noqa: S108


def post_fork(_arbiter: Any, _worker: Any) -> None:
    die_with_parent()
