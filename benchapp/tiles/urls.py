from django.urls import URLPattern

app_name = "tiles"
urlpatterns: list[URLPattern] = []
