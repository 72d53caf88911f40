from django.urls import path

from benchapp.trends import views

app_name = "trends"
urlpatterns = [path("", views.index, name="index")]
