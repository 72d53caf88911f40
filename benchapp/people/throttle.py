"""Slowing down whoever guesses passwords: a name is locked for an address after too many tries."""

from __future__ import annotations

import math
from datetime import timedelta
from ipaddress import IPv6Address, ip_address, ip_network

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from benchapp.people import audit
from benchapp.people.models import LoginAttempt

#: So many tries within the window may fail.
ATTEMPTS = 5
WINDOW = timedelta(minutes=10)


class LockedOutError(Exception):
    """Too many tries for this name from this address; the text is the same whether the name exists or not."""


def address_of(request: HttpRequest) -> str:
    """Where a request comes from: IPv4, the /64 network of an IPv6, or "" where nobody knows.

    Behind N = TRUSTED_PROXIES proxies that is the N-th entry of X-Forwarded-For from the right; what stands
    left of it anybody may have written.
    """
    proxies: int = settings.TRUSTED_PROXIES
    hops = request.headers.get("X-Forwarded-For", "").split(",")
    text = hops[-proxies] if 0 < proxies <= len(hops) else request.META.get("REMOTE_ADDR", "")
    try:
        address = ip_address(text.strip())
    except ValueError:
        return ""
    if isinstance(address, IPv6Address):
        # One household holds 2^64 of these addresses.
        return str(address.ipv4_mapped or ip_network((address, 64), strict=False).network_address)
    return str(address)


def count_try(name: str, address: str) -> None:
    """Count one more try, before its password is looked at. Raises LockedOutError.

    The try is committed before the tries are counted, so of any number that arrive at once no more than
    ATTEMPTS get past here.
    """
    now = timezone.now()
    LoginAttempt.objects.filter(at__lt=now - WINDOW).delete()
    attempt = LoginAttempt.objects.create(name=_key(name), address=address)
    times = list(_tries(name, address).order_by("at").values_list("at", flat=True))
    if len(times) > ATTEMPTS:
        attempt.delete()
        minutes = max(1, math.ceil((times[0] + WINDOW - now) / timedelta(minutes=1)))
        unit = "minute" if minutes == 1 else "minutes"
        raise LockedOutError(
            f"Too many tries for this name from your address. Try again in {minutes} {unit}."
        )


def note_failure(name: str, address: str) -> None:
    """After a wrong password: write down a lock that it brought about."""
    if _tries(name, address).count() >= ATTEMPTS:
        audit.record(None, "login.lock", name, address=address)


def forget_tries(name: str, address: str) -> None:
    """After the right password: start counting anew."""
    _tries(name, address).delete()


def _tries(name: str, address: str) -> QuerySet[LoginAttempt]:
    return LoginAttempt.objects.filter(name=_key(name), address=address)


def _key(name: str) -> str:
    return name.casefold()[:150]
