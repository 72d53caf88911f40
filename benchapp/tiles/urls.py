from django.urls import path, register_converter
from django.urls.converters import StringConverter

from benchapp.catalog import versions
from benchapp.tiles import history_views, views


class VersionConverter(StringConverter):
    regex = versions.PATTERN


register_converter(VersionConverter, "version")

app_name = "tiles"
urlpatterns = [
    path("", views.index, name="index"),
    path("survey/", views.survey, name="survey"),
    path("diff/", history_views.difference, name="diff"),
    path("tactics/", history_views.tactic_ids, name="tactics"),
    path("sizes/", history_views.size_trend, name="sizes"),
    path("untried/", history_views.worth_trying, name="untried"),
    path("at/<int:m>x<int:n>x<int:k>/<version:version>/", views.at, name="at"),
    path("log/<int:log_id>/", views.log, name="log"),
    path("<int:tile_id>/<version:version>/", views.evidence, name="evidence"),
]
