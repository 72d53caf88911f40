"""Addresses of the room, from the root: hosts and GPUs below `fleet/`."""

from __future__ import annotations

from django.urls import path

from benchapp.fleet import trigger_views, views

app_name = "fleet"
urlpatterns = [
    path("trigger/", trigger_views.trigger, name="trigger"),
    path("trigger/ask", trigger_views.ask, name="ask"),
    path("fleet/", views.index, name="index"),
    path("fleet/now", views.now, name="now"),
    path("fleet/maintenance/", views.maintenance_page, name="maintenance"),
    path("fleet/maintenance/add", views.take_out, name="take_out"),
    path("fleet/maintenance/<int:maintenance_id>/lift", views.lift, name="lift"),
    path("fleet/hosts/<str:key>/collect", views.collect, name="collect"),
    path("fleet/hosts/<str:key>/forget", views.forget, name="forget"),
]
