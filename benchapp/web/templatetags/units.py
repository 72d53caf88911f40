"""Numbers with their units, as pages show them."""

from django import template

register = template.Library()
