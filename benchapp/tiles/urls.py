from django.urls import path

from benchapp.tiles import views

app_name = "tiles"
urlpatterns = [
    path("", views.index, name="index"),
    path("survey/", views.survey, name="survey"),
    path("log/<int:log_id>/", views.log, name="log"),
    path("<int:tile_id>/<str:version>/", views.evidence, name="evidence"),
]
