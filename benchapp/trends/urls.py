from django.urls import path

from benchapp.trends import compare_views, views

app_name = "trends"
urlpatterns = [
    path("trends/", views.index, name="index"),
    path("compare/", compare_views.compare, name="compare"),
]
