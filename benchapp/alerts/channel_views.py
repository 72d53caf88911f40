"""Pages of channels: where alerts are told, to whom which, and what did not arrive."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchapp.alerts import channel_actions as actions
from benchapp.alerts import channel_queries as queries
from benchapp.alerts.channel_forms import NameForm, RouteForm, settings_form
from benchapp.alerts.models import Channel, Route
from benchapp.alerts.notifiers.registry import NOTIFIERS, notifier
from benchapp.people.models import Role
from benchapp.people.permissions import acting, may, needs


@require_safe
@needs(Role.OPERATOR)
def index(request: HttpRequest) -> HttpResponse:
    rows = queries.rows()
    context = {
        "rows": rows,
        "dead": sum(row.dead for row in rows),
        "failing": sum(row.failing and row.channel.enabled for row in rows),
        "kinds": Channel.Kind.choices,
        "may_edit": may(request, Role.ADMIN),
    }
    return render(request, "alerts/channels.html", context)


def _channel(channel_id: int) -> Channel:
    found = Channel.objects.select_related("added_by").filter(pk=channel_id).first()
    if found is None:
        raise Http404(f"There is no channel {channel_id}.")
    return found


def _route(channel: Channel, route_id: int) -> Route:
    found = channel.routes.filter(pk=route_id).first()
    if found is None:
        raise Http404(f"The channel {channel} has no route {route_id}.")
    return found


@require_safe
@needs(Role.OPERATOR)
def detail(request: HttpRequest, channel_id: int) -> HttpResponse:
    channel = _channel(channel_id)
    dead, dead_count = queries.dead_of(channel)
    context = {
        "channel": channel,
        "where": notifier(channel.kind).where(channel.config),
        "settings": _told(channel),
        "routes": queries.routes_of(channel),
        "test": queries.newest_test(channel),
        "dead": dead,
        "dead_count": dead_count,
        "recent": queries.recent(channel),
        "may_edit": may(request, Role.ADMIN),
    }
    return render(request, "alerts/channels_detail.html", context)


def _told(channel: Channel) -> list[tuple[str, Any]]:
    """(label, value) of each setting that is set. Of secrets these are the names of their variables."""
    form = settings_form(channel.kind, channel=channel)
    said: list[tuple[str, Any]] = []
    for field in form:
        value = channel.config.get(field.name)
        if value in ("", None, False):
            continue
        names = dict(getattr(field.field, "choices", ()))
        shown = ", ".join(value) if isinstance(value, list) else "yes" if value is True else value
        said.append((str(field.label), names.get(shown, shown)))
    return said


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Role.ADMIN)
def new(request: HttpRequest, kind: str) -> HttpResponseBase:
    if kind not in NOTIFIERS:
        raise Http404(f"There is no notifier {kind[:20]}: {', '.join(NOTIFIERS)} are there.")
    return _form(request, kind, None)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Role.ADMIN)
def edit(request: HttpRequest, channel_id: int) -> HttpResponseBase:
    channel = _channel(channel_id)
    return _form(request, channel.kind, channel)


def _form(request: HttpRequest, kind: str, channel: Channel | None) -> HttpResponseBase:
    data = request.POST if request.method == "POST" else None
    name = NameForm(data, initial={"name": channel.name} if channel else None)
    settings = settings_form(kind, data, channel)
    if name.is_valid() & settings.is_valid():
        try:
            return _save(request, kind, channel, name.cleaned_data["name"], settings.config())
        except ValidationError as error:
            name.add_error(None, error)
    context = {
        "name": name,
        "form": settings,
        "channel": channel,
        "kind": Channel.Kind(kind).label,
    }
    return render(request, "alerts/channels_form.html", context, status=422 if data is not None else 200)


def _save(
    request: HttpRequest, kind: str, channel: Channel | None, name: str, config: dict[str, Any]
) -> HttpResponseBase:
    user = acting(request)
    if channel is None:
        channel = actions.add(kind, name, config, user)
        messages.success(request, f"{name} gets every alert about something worse, from now on.")
    else:
        changed = actions.edit(channel, name, config, user)
        messages.success(request, f"{name} {'is changed' if changed else 'stays as it was'}.")
    return redirect("channels:detail", channel.pk)


@require_POST
@needs(Role.ADMIN)
def switch(request: HttpRequest, channel_id: int) -> HttpResponse:
    channel = _channel(channel_id)
    enabled = request.POST.get("enabled") == "1"
    if actions.switch(channel, acting(request), enabled=enabled):
        said = "gets alerts again" if enabled else "gets nothing any more; what waited is dropped"
        messages.success(request, f"{channel} {said}.")
    return redirect("channels:detail", channel.pk)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Role.ADMIN)
def delete(request: HttpRequest, channel_id: int) -> HttpResponseBase:
    channel = _channel(channel_id)
    if request.method == "POST":
        actions.delete(channel, acting(request))
        messages.success(request, f"{channel} is deleted, with its routes and messages.")
        return redirect("channels:index")
    return render(request, "alerts/channels_delete.html", {"channel": channel})


@require_POST
@needs(Role.OPERATOR)
def test(request: HttpRequest, channel_id: int) -> HttpResponse:
    channel = _channel(channel_id)
    if channel.enabled:
        actions.test(channel, acting(request))
    else:
        messages.error(request, f"{channel} is disabled: enable it to test it.")
    return redirect(f"{reverse('channels:detail', args=[channel.pk])}#test")


@require_safe
@needs(Role.OPERATOR)
def tested(request: HttpRequest, channel_id: int) -> HttpResponse:
    """How the newest test is; polled until it is over."""
    channel = _channel(channel_id)
    context = {"channel": channel, "test": queries.newest_test(channel)}
    return render(request, "alerts/channels_test.html", context)


@require_POST
@needs(Role.OPERATOR)
def dead(request: HttpRequest, channel_id: int) -> HttpResponse:
    """Try one message that was given up again, or forget it; without a number, all of them."""
    channel = _channel(channel_id)
    number = request.POST.get("delivery", "")
    delivery_id = int(number) if number.isascii() and number.isdecimal() and len(number) < 19 else None
    if number and delivery_id is None:
        raise Http404(f"There is no message {number[:20]}.")
    if request.POST.get("act") == "forget":
        count, said = actions.forget(channel, acting(request), delivery_id), "forgotten"
    elif channel.enabled:
        count, said = actions.try_again(channel, acting(request), delivery_id), "tried again now"
    else:
        messages.error(request, f"{channel} is disabled: enable it to send through it.")
        return redirect("channels:detail", channel.pk)
    if count:
        messages.success(request, f"{count:,} message{'s are' if count > 1 else ' is'} {said}.")
    else:
        messages.info(request, "Meanwhile it is no longer among those that were given up.")
    return redirect("channels:detail", channel.pk)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Role.ADMIN)
def route_new(request: HttpRequest, channel_id: int) -> HttpResponseBase:
    return _route_form(request, _channel(channel_id), None)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Role.ADMIN)
def route_edit(request: HttpRequest, channel_id: int, route_id: int) -> HttpResponseBase:
    channel = _channel(channel_id)
    return _route_form(request, channel, _route(channel, route_id))


def _route_form(request: HttpRequest, channel: Channel, route: Route | None) -> HttpResponseBase:
    form = RouteForm(request.POST if request.method == "POST" else None, route=route)
    if form.is_valid():
        actions.set_route(channel, route, form.cleaned_data, acting(request))
        messages.success(request, f"The route of {channel} is {'changed' if route else 'added'}.")
        return redirect("channels:detail", channel.pk)
    context = {"form": form, "channel": channel, "route": route}
    return render(request, "alerts/channels_route.html", context, status=422 if form.is_bound else 200)


@require_POST
@needs(Role.ADMIN)
def route_delete(request: HttpRequest, channel_id: int, route_id: int) -> HttpResponse:
    channel = _channel(channel_id)
    actions.delete_route(_route(channel, route_id), acting(request))
    if not channel.routes.exists():
        messages.warning(request, f"{channel} has no route left, so it gets no alert.")
    return redirect("channels:detail", channel.pk)
