"""Settings of the test suite; its fixtures point DATABASES and the broker at servers of their own."""

import os
import tempfile

os.environ.setdefault("TILEWATCH_HOME", tempfile.mkdtemp(prefix="tilewatch-test-"))

from benchapp.settings.local import *

SECRET_KEY = "test"
ALLOWED_HOSTS = ["*"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEEP_SURVEYS = False
