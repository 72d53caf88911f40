"""Addresses of the room, from the root: hosts and GPUs below `fleet/`."""

from __future__ import annotations

from django.urls import path

from benchapp.fleet import views

app_name = "fleet"
urlpatterns = [
    path("fleet/", views.index, name="index"),
]
