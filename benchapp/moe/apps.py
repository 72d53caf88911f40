from django.apps import AppConfig


class MoeConfig(AppConfig):
    name = "benchapp.moe"
