from django.urls import path, register_converter
from django.urls.converters import StringConverter

from benchapp.catalog import versions
from benchapp.tiles import views


class VersionConverter(StringConverter):
    regex = versions.PATTERN


register_converter(VersionConverter, "version")

app_name = "tiles"
urlpatterns = [
    path("", views.index, name="index"),
    path("survey/", views.survey, name="survey"),
    path("log/<int:log_id>/", views.log, name="log"),
    path("<int:tile_id>/<version:version>/", views.evidence, name="evidence"),
]
