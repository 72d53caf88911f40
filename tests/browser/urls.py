"""The product's addresses, and a page with one chart."""

from django.http import HttpRequest, HttpResponse
from django.template import engines
from django.urls import include, path

PAGE = """{% extends "base.html" %}{% load static %}
{% block title %}Chart{% endblock %}{% block heading %}Chart{% endblock %}
{% block scripts %}
<script src="{% static 'vendor/chart.umd.min.js' %}" defer></script>
<script src="{% static 'vendor/chartjs-plugin-annotation.min.js' %}" defer></script>
<script src="{% static 'vendor/chartjs-adapter-date-fns.bundle.min.js' %}" defer></script>
<script src="{% static 'js/charts.js' %}" defer></script>
{% endblock %}
{% block content %}
{{ spec|json_script:"rates" }}
<figure data-chart="rates">
  <div class="chart"><canvas role="img" aria-label="Rates"></canvas></div>
  <div class="scroll" data-chart-table hidden><table><tr><td>4.5 TFLOP/s</td></tr></table></div>
  <button class="btn" type="button" data-chart-toggle aria-pressed="false">Table</button>
</figure>
{% endblock %}"""

SPEC = {
    "type": "line",
    "x": {"title": "Taken", "type": "time"},
    "y": {"title": "Rate", "unit": "TFLOP/s"},
    "series": [
        {
            "label": "bf16 </script><b>",
            "points": [
                {"x": "2026-11-01T00:00:00Z", "y": 4.0, "low": 3.8, "high": 4.4, "href": "/runs/"},
                {"x": "2026-11-02T00:00:00Z", "y": None},
                {"x": "2026-11-03T00:00:00Z", "y": 5.0, "note": "torch 2.13.0"},
            ],
        }
    ],
    "lines": [{"axis": "y", "value": 6.0, "label": "roofline 6 TFLOP/s", "role": "failed"}],
}


def chart(request: HttpRequest) -> HttpResponse:
    return HttpResponse(engines["django"].from_string(PAGE).render({"spec": SPEC}, request))


urlpatterns = [path("chart", chart), path("", include("benchapp.urls"))]
