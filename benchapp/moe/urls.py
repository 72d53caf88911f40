from django.urls import path

from benchapp.moe import collectives_views, serving_views, views

app_name = "moe"
urlpatterns = [
    path("moe/", views.index, name="index"),
    path("moe/serving/", serving_views.serving, name="serving"),
    path("moe/collectives/", collectives_views.collectives, name="collectives"),
]
