"""Addresses below `alerts/`."""

from __future__ import annotations

from django.urls import path

from benchapp.alerts import views

app_name = "alerts"
urlpatterns = [
    path("", views.index, name="index"),
    path("bulk", views.bulk, name="bulk"),
    path("of-run/<int:run_id>", views.of_run, name="of_run"),
    path("of-case", views.of_case, name="of_case"),
    path("<int:alert_id>/", views.detail, name="detail"),
    path("<int:alert_id>/upstream.md", views.upstream_markdown, name="upstream"),
    path("<int:alert_id>/changes.<str:form>", views.changes, name="changes"),
    path("<int:alert_id>/<slug:name>", views.act, name="act"),
]
