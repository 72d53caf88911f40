"""Every room's addresses."""

from django.urls import include, path

handler500 = "benchapp.web.views.server_error"
urlpatterns = [
    path("", include("benchapp.web.urls")),
    path("", include("benchapp.people.urls")),
    path("tiles/", include("benchapp.tiles.urls")),
    path("", include("benchapp.trends.urls")),
    path("", include("benchapp.moe.urls")),
    path("alerts/channels/", include("benchapp.alerts.channel_urls")),
    path("alerts/", include("benchapp.alerts.urls")),
    path("runs/", include("benchapp.runs.urls")),
    path("", include("benchapp.fleet.urls")),
]
