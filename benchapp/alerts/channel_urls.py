"""Addresses below `alerts/channels/`."""

from __future__ import annotations

from django.urls import path

from benchapp.alerts import channel_views as views

app_name = "channels"
urlpatterns = [
    path("", views.index, name="index"),
    path("new/<slug:kind>", views.new, name="new"),
    path("<int:channel_id>/", views.detail, name="detail"),
    path("<int:channel_id>/edit", views.edit, name="edit"),
    path("<int:channel_id>/switch", views.switch, name="switch"),
    path("<int:channel_id>/delete", views.delete, name="delete"),
    path("<int:channel_id>/test", views.test, name="test"),
    path("<int:channel_id>/tested", views.tested, name="tested"),
    path("<int:channel_id>/dead", views.dead, name="dead"),
    path("<int:channel_id>/routes/new", views.route_new, name="route_new"),
    path("<int:channel_id>/routes/<int:route_id>/edit", views.route_edit, name="route_edit"),
    path("<int:channel_id>/routes/<int:route_id>/delete", views.route_delete, name="route_delete"),
]
