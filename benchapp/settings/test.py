"""Settings of the test suite; its fixtures point DATABASES and the broker at servers of their own."""

import os
import tempfile

# Each of several test processes has a folder of its own, which the programs that it starts share.
_process = os.environ.get("PYTEST_XDIST_WORKER", "alone")
if os.environ.get("TILEWATCH_TEST_PROCESS") != _process:
    os.environ["TILEWATCH_TEST_PROCESS"] = _process
    os.environ["TILEWATCH_HOME"] = tempfile.mkdtemp(prefix="tilewatch-test-")
    os.environ["TILEWATCH_LEASES"] = os.environ["TILEWATCH_HOME"] + "/leases"

from benchapp.settings.local import *  # noqa: E402

SECRET_KEY = "test"
ALLOWED_HOSTS = ["*"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEEP_SURVEYS = False
