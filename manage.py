#!/usr/bin/env python3
"""Django's command line. Outside a deployment the `local` settings apply."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings.local")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"Tilewatch cannot start: {error}")


if __name__ == "__main__":
    main()
