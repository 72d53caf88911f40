from django.apps import AppConfig


class LocalConfig(AppConfig):
    name = "benchapp.local"
