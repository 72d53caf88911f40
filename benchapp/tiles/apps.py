from django.apps import AppConfig


class TilesConfig(AppConfig):
    name = "benchapp.tiles"
