"""Every room's addresses."""

from django.urls import include, path

urlpatterns = [
    path("", include("benchapp.web.urls")),
    path("", include("benchapp.people.urls")),
    path("tiles/", include("benchapp.tiles.urls")),
    path("trends/", include("benchapp.trends.urls")),
    path("runs/", include("benchapp.runs.urls")),
]
