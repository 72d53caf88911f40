"""Pages of channels: who may see and change what, and what they show."""

from __future__ import annotations

import pytest
from django.utils import timezone

from benchapp.alerts import deliveries, sending
from benchapp.alerts.models import Channel, Delivery
from benchapp.people.models import AuditEntry, Role
from tests.alerts.notifiers.servers import Answer

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("secrets", "private")]
WEBHOOK = {
    "name": "hooks", "url": "https://hooks.example.org/tilewatch",
    "secret_variable": "TILEWATCH_NOTIFY_HOOK",
}  # fmt: skip
EMAIL = {
    "name": "GPU team", "host": "smtp.example.org", "port": "587", "security": "starttls",
    "sender": "tilewatch@example.org", "recipients": "ann@example.org", "user": "tilewatch",
    "password_variable": "TILEWATCH_NOTIFY_SMTP",
}  # fmt: skip
SLACK = {"name": "chat", "url_variable": "TILEWATCH_NOTIFY_SLACK"}


def words(answer) -> str:
    return " ".join(answer.content.decode().split())


def test_reading_needs_an_operator_and_changing_an_admin(sign_in, make_channel):
    channel = make_channel("hooks")
    viewer, operator = sign_in(Role.VIEWER), sign_in(Role.OPERATOR)
    home = f"/alerts/channels/{channel.pk}/"
    assert viewer.get("/alerts/channels/").status_code == 403
    for path in ("/alerts/channels/", home, f"{home}tested"):
        assert operator.get(path).status_code == 200
    for path in ("edit", "switch", "delete", "routes/new", f"routes/{channel.routes.get().pk}/delete"):
        assert operator.post(f"{home}{path}").status_code == 403
    assert operator.post("/alerts/channels/new/webhook", WEBHOOK).status_code == 403
    assert "New signed webhook" not in words(operator.get("/alerts/channels/"))


@pytest.mark.parametrize(("kind", "fields"), [("webhook", WEBHOOK), ("email", EMAIL), ("slack", SLACK)])
def test_an_admin_adds_a_channel_of_each_kind(sign_in, kind, fields):
    admin = sign_in(Role.ADMIN)
    assert admin.get(f"/alerts/channels/new/{kind}").status_code == 200
    answer = admin.post(f"/alerts/channels/new/{kind}", fields, follow=True)
    channel = Channel.objects.get()
    assert answer.redirect_chain == [(f"/alerts/channels/{channel.pk}/", 302)]
    assert "What got worse" in words(answer)
    assert AuditEntry.objects.get().action == "add_channel"
    edit = admin.get(f"/alerts/channels/{channel.pk}/edit")
    assert fields["name"] in words(edit)
    answer = admin.post(f"/alerts/channels/{channel.pk}/edit", {**fields, "name": "renamed"}, follow=True)
    channel.refresh_from_db()
    assert channel.name == "renamed" and "renamed is changed" in words(answer)
    assert AuditEntry.objects.first().detail["was"] == fields["name"]


@pytest.mark.parametrize(
    ("kind", "fields", "says"),
    [
        ("webhook", {**WEBHOOK, "url": "https://169.254.169.254/latest"}, "no public address"),
        (
            "webhook",
            {**WEBHOOK, "secret_variable": "hunter2hunter2hunter2"},
            "Expected the name of a variable",
        ),
        ("slack", {"name": "chat", "url_variable": "https://hooks.slack.com/T/B/x"}, "name of a variable"),
        ("webhook", {**WEBHOOK, "name": ""}, "required"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field_and_no_secret_with_it(sign_in, kind, fields, says, settings):
    settings.PRIVATE_WEBHOOKS = ""
    answer = sign_in(Role.ADMIN).post(f"/alerts/channels/new/{kind}", fields)
    assert answer.status_code == 422 and says in words(answer)
    assert not Channel.objects.exists()


def test_a_name_is_taken_once(sign_in, make_channel):
    make_channel("hooks")
    answer = sign_in(Role.ADMIN).post("/alerts/channels/new/webhook", WEBHOOK)
    assert answer.status_code == 422 and "There is a channel called hooks already." in words(answer)


def test_what_is_typed_in_is_shown_as_text(sign_in):
    admin = sign_in(Role.ADMIN)
    admin.post("/alerts/channels/new/webhook", {**WEBHOOK, "name": "<script>alert(1)</script>"})
    for path in ("/alerts/channels/", f"/alerts/channels/{Channel.objects.get().pk}/"):
        assert "<script>alert" not in words(admin.get(path))


def test_a_test_goes_the_way_of_every_message_and_its_end_is_shown(sign_in, make_channel, hook):
    channel = make_channel("hooks", hook)
    operator = sign_in(Role.OPERATOR)
    home = f"/alerts/channels/{channel.pk}/"
    operator.post(f"{home}test")
    assert "on its way" in words(operator.get(f"{home}tested")) and "hx-get" in words(operator.get(home))
    sending.deliver()
    shown = words(operator.get(f"{home}tested"))
    assert "taken" in shown and "hx-get" not in shown
    hook.answers = [Answer(404, body=b"<b>no hook</b>")]
    operator.post(f"{home}test")
    sending.deliver()
    assert "127.0.0.1 answered 404: &lt;b&gt;no hook" in words(operator.get(f"{home}tested"))
    assert list(AuditEntry.objects.values_list("action", flat=True)) == ["test_channel"] * 2


def test_dead_letters_are_shown_and_tried_again(sign_in, make_channel, make_alert, hook):
    channel = make_channel("hooks", hook)
    hook.answers = [Answer(400, body=b"bad"), Answer(400, body=b"bad"), Answer()]
    for key in ("a", "b"):
        deliveries.decide(make_alert(key).pk)
    sending.deliver()
    operator = sign_in(Role.OPERATOR)
    home = f"/alerts/channels/{channel.pk}/"
    assert "2 messages were given up" in words(operator.get("/alerts/channels/"))
    page = words(operator.get(home))
    assert "127.0.0.1 answered 400: bad" in page and "a is slower" in page
    first = channel.deliveries.order_by("pk")[0]
    operator.post(f"{home}dead", {"act": "again", "delivery": first.pk})
    sending.deliver()
    first.refresh_from_db()
    assert first.state == "sent"
    answer = operator.post(f"{home}dead", {"act": "forget"}, follow=True)
    assert "1 message is forgotten" in words(answer) and "Try all again" not in words(answer)
    answer = operator.post(f"{home}dead", {"act": "again", "delivery": first.pk}, follow=True)
    assert "no longer among those" in words(answer)
    assert operator.post(f"{home}dead", {"act": "again", "delivery": "1x"}).status_code == 404


def test_a_failing_channel_says_so_first(sign_in, make_channel, make_alert, hook):
    channel = make_channel("hooks", hook)
    hook.answers = [Answer(503, body=b"closed for today")]
    deliveries.decide(make_alert().pk)
    sending.deliver()
    operator = sign_in(Role.OPERATOR)
    page = words(operator.get("/alerts/channels/"))
    assert "1 channel fails" in page and "closed for today" in page and "1 failure in a row" in page
    assert "The last 1 attempt failed" in words(operator.get(f"/alerts/channels/{channel.pk}/"))


def test_routes_are_added_changed_and_removed(sign_in, make_channel, make_alert):
    channel = make_channel("hooks")
    make_alert()
    admin = sign_in(Role.ADMIN)
    home = f"/alerts/channels/{channel.pk}/"
    form = words(admin.get(f"{home}routes/new"))
    assert "NVIDIA H200" in form and "survivors vanished" in form
    fields = {"kinds": ["build", "stack"], "gpu_models": ["NVIDIA H200"], "least_cost": "0.05"}
    page = words(admin.post(f"{home}routes/new", fields, follow=True))
    assert "What got worse: build cost moved, moved with a version; on NVIDIA H200; cost 0.05 or more" in page
    route = channel.routes.order_by("-pk")[0]
    admin.post(f"{home}routes/{route.pk}/edit", {"improvements": "on"})
    route.refresh_from_db()
    assert (route.kinds, route.gpu_models, route.least_cost, route.improvements) == ([], [], 0, True)
    for each in channel.routes.all():
        answer = admin.post(f"{home}routes/{each.pk}/delete", follow=True)
    assert "has no route left, so it gets no alert" in words(answer)
    assert admin.post(f"{home}routes/{route.pk}/delete").status_code == 404


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"kinds": ["nonsense"]}, "nonsense is not one of the available choices"),
        ({"gpu_models": ["A GPU nobody has"]}, "not one of the available choices"),
        ({"least_cost": "-1"}, "greater than or equal to 0"),
        ({"least_cost": "nan"}, "Enter a number"),
        ({"owner": "999"}, "not one of the available choices"),
    ],
)
def test_a_route_of_nothing_known_is_refused(sign_in, make_channel, fields, says):
    channel = make_channel("hooks")
    answer = sign_in(Role.ADMIN).post(f"/alerts/channels/{channel.pk}/routes/new", fields)
    assert answer.status_code == 422 and says in words(answer)
    assert channel.routes.count() == 1


def test_a_channel_is_deleted_after_asking(sign_in, make_channel, make_alert):
    channel = make_channel("hooks")
    deliveries.decide(make_alert().pk)
    admin = sign_in(Role.ADMIN)
    assert "Delete it" in words(admin.get(f"/alerts/channels/{channel.pk}/delete"))
    assert Channel.objects.exists()
    admin.post(f"/alerts/channels/{channel.pk}/delete")
    assert not Channel.objects.exists() and not Delivery.objects.exists()
    assert AuditEntry.objects.get().action == "delete_channel"


def test_disabling_says_what_becomes_of_what_waits(sign_in, make_channel, make_alert):
    channel = make_channel("hooks")
    deliveries.decide(make_alert().pk)
    admin = sign_in(Role.ADMIN)
    page = words(admin.post(f"/alerts/channels/{channel.pk}/switch", {"enabled": "0"}, follow=True))
    assert "gets nothing any more; what waited is dropped" in page
    assert "Not sent: the channel was disabled." in page
    page = words(admin.post(f"/alerts/channels/{channel.pk}/test", follow=True))
    assert "is disabled: enable it to test it" in page
    admin.post(f"/alerts/channels/{channel.pk}/switch", {"enabled": "1"})
    assert Channel.objects.get().enabled


@pytest.mark.parametrize("path", ["999/", "999/edit", "999/routes/new", "new/pigeon"])
def test_what_is_not_there_is_said_to_be_so(sign_in, path):
    assert sign_in(Role.ADMIN).get(f"/alerts/channels/{path}").status_code == 404


def test_many_messages_are_one_page(sign_in, make_channel, make_alert, django_assert_max_num_queries):
    channel = make_channel("hooks")
    alert = make_alert()
    Delivery.objects.bulk_create(
        Delivery(channel=channel, alert=alert, purpose="updated", state=state, sent_at=timezone.now())
        for state in ("dead", "sent")
        for _ in range(500)
    )
    operator = sign_in(Role.OPERATOR)
    with django_assert_max_num_queries(15):
        page = words(operator.get(f"/alerts/channels/{channel.pk}/"))
    assert "the newest 50 of 500" in page and page.count("<tr>") < 110
