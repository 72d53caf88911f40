from django.urls import path

from benchapp.web import views

app_name = "web"
urlpatterns = [
    path("", views.overview, name="overview"),
    path("now", views.now, name="now"),
    path("findings", views.findings, name="findings"),
    path("healthz", views.healthz, name="healthz"),
]
