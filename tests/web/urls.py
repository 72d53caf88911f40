"""The product's addresses, and pages that break."""

from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import OperationalError
from django.urls import include, path


def breaks(request):
    raise RuntimeError("secret detail")


def database_away(request):
    raise OperationalError("connection to server at 10.0.0.1 failed")


def forbidden(request):
    raise PermissionDenied


def suspicious(request):
    raise SuspiciousOperation


handler500 = "benchapp.web.views.server_error"
urlpatterns = [
    path("breaks", breaks),
    path("database-away", database_away),
    path("forbidden", forbidden),
    path("suspicious", suspicious),
    path("", include("benchapp.urls")),
]
