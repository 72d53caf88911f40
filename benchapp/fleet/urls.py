"""Addresses of the room, from the root: hosts and GPUs below `fleet/`."""

from __future__ import annotations

from django.urls import path

from benchapp.fleet import (
    backfill_views,
    endpoint_views,
    release_views,
    schedule_views,
    trigger_views,
    views,
)

app_name = "fleet"
urlpatterns = [
    path("trigger/", trigger_views.trigger, name="trigger"),
    path("trigger/ask", trigger_views.ask, name="ask"),
    path("fleet/", views.index, name="index"),
    path("fleet/now", views.now, name="now"),
    path("fleet/maintenance/", views.maintenance_page, name="maintenance"),
    path("fleet/maintenance/add", views.take_out, name="take_out"),
    path("fleet/maintenance/<int:maintenance_id>/lift", views.lift, name="lift"),
    path("fleet/hosts/<slug:key>/collect", views.collect, name="collect"),
    path("fleet/hosts/<slug:key>/forget", views.forget, name="forget"),
    path("fleet/schedules/", schedule_views.index, name="schedules"),
    path("fleet/schedules/new", schedule_views.new, name="schedule_new"),
    path("fleet/schedules/<int:schedule_id>/", schedule_views.detail, name="schedule"),
    path("fleet/schedules/<int:schedule_id>/edit", schedule_views.edit, name="schedule_edit"),
    path("fleet/schedules/<int:schedule_id>/run", schedule_views.run_now, name="schedule_run"),
    path("fleet/schedules/<int:schedule_id>/pause", schedule_views.pause, name="schedule_pause"),
    path("fleet/schedules/<int:schedule_id>/resume", schedule_views.resume, name="schedule_resume"),
    path("fleet/schedules/<int:schedule_id>/delete", schedule_views.delete, name="schedule_delete"),
    path("fleet/backfill/", backfill_views.page, name="backfill"),
    path("fleet/backfill/fill", backfill_views.fill, name="backfill_fill"),
    path("fleet/endpoints/", endpoint_views.index, name="endpoints"),
    path("fleet/endpoints/new", endpoint_views.new, name="endpoint_new"),
    path("fleet/endpoints/<int:endpoint_id>/edit", endpoint_views.edit, name="endpoint_edit"),
    path("fleet/endpoints/<int:endpoint_id>/measure", endpoint_views.measure, name="endpoint_measure"),
    path("fleet/endpoints/<int:endpoint_id>/disable", endpoint_views.disable, name="endpoint_disable"),
    path("fleet/endpoints/<int:endpoint_id>/enable", endpoint_views.enable, name="endpoint_enable"),
    path("fleet/releases/", release_views.watch, name="releases"),
    path("fleet/candidates/", release_views.listed, name="candidates"),
    path("fleet/candidates/add", release_views.add, name="candidate_add"),
    path("fleet/candidates/<int:candidate_id>/survey", release_views.survey, name="candidate_survey"),
]
