"""Who may allow a server, what is refused, and the run that is asked for."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from benchapp.fleet import endpoints
from benchapp.fleet.models import Endpoint
from benchapp.people.models import AuditEntry, User
from benchapp.runs.models import Run, State

pytestmark = pytest.mark.django_db
FORM = {
    "name": "pro6000-a", "url": "http://gpu-7.lan:8000/v1", "model": "openai/gpt-oss-120b", "gpus": "8",
    "hardware": "8 × RTX PRO 6000", "stack": "vllm 0.11.0\nflashinfer==0.6.3\n",
    "api_key_env": "TILEWATCH_KEY_A",
}  # fmt: skip
LOAD = {
    "concurrency": "1, 8,8", "input": "1024", "output": "256", "rounds": "4", "case_timeout_s": "600",
    "aiperf": "0.13.0", "host": "",
}  # fmt: skip


def client_of(role: str) -> Client:
    client = Client()
    client.force_login(User.objects.create_user(f"a-{role}", role=role))
    return client


@pytest.fixture
def admin() -> Client:
    return client_of("admin")


@pytest.fixture
def endpoint(admin: Client) -> Endpoint:
    admin.post("/fleet/endpoints/new", FORM)
    return Endpoint.objects.get()


def text(response) -> str:
    return response.content.decode()


def test_an_admin_allows_a_server_and_the_list_shows_it(client, endpoint):
    assert endpoint.url == "http://gpu-7.lan:8000"
    assert endpoint.stack == {"vllm": "0.11.0", "flashinfer": "0.6.3"}
    entry = AuditEntry.objects.get(action="add_endpoint")
    assert (entry.actor, entry.subject) == ("a-admin", "pro6000-a")
    page = text(client.get("/fleet/endpoints/"))
    for said in (
        "1 server may be measured",
        "pro6000-a",
        "8 × RTX PRO 6000",
        "vllm 0.11.0",
        "TILEWATCH_KEY_A",
    ):
        assert said in page
    assert "Measure pro6000-a" not in page


def test_without_endpoints_the_page_says_who_adds_them(client):
    page = text(client.get("/fleet/endpoints/"))
    assert "No server may be measured yet." in page
    assert "an admin has put on this list" in page


@pytest.mark.parametrize("path", ["new", "{}/edit", "{}/disable", "{}/enable"])
def test_only_an_admin_changes_the_list(endpoint, path):
    response = client_of("operator").post(f"/fleet/endpoints/{path.format(endpoint.pk)}", FORM)
    assert response.status_code == 403
    assert AuditEntry.objects.filter(subject=endpoint.name).count() == 1


def test_only_an_operator_measures(endpoint):
    assert client_of("viewer").post(f"/fleet/endpoints/{endpoint.pk}/measure", LOAD).status_code == 403
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"url": "http://ada:pw@gpu-7"}, "It holds a name or a password"),
        ({"url": "http://169.254.169.254/"}, "link-local address"),
        ({"url": "ftp://gpu-7"}, "expected http:// or https://"),
        ({"api_key_env": "sk-12345"}, "a name that begins with TILEWATCH_KEY_"),
        ({"api_key_env": "DATABASE_URL"}, "a name that begins with TILEWATCH_KEY_"),
        ({"model": "two words"}, "a name such as openai/gpt-oss-120b"),
        ({"name": "PRO 6000"}, "lower-case letters"),
        ({"stack": "vllm"}, "expected a name and a version"),
        ({"stack": "vllm 1\nvllm 2"}, "stands there twice"),
        ({"stack": "vllm one!"}, "a version such as 0.11.0"),
        ({"gpus": "0"}, "greater than or equal to 1"),
        ({"hardware": ""}, "required"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(admin, changed, said):
    response = admin.post("/fleet/endpoints/new", FORM | changed)
    assert response.status_code == 422
    assert said in text(response)
    assert not Endpoint.objects.exists()


def test_a_name_is_given_once_and_stays(admin, endpoint):
    assert "There is an endpoint called pro6000-a already." in text(admin.post("/fleet/endpoints/new", FORM))
    path = f"/fleet/endpoints/{endpoint.pk}/edit"
    assert "flashinfer 0.6.3" in text(admin.get(path))
    admin.post(path, FORM | {"name": "another", "gpus": "", "stack": ""})
    endpoint.refresh_from_db()
    assert (endpoint.name, endpoint.gpus, endpoint.stack) == ("pro6000-a", None, {})
    entry = AuditEntry.objects.get(action="edit_endpoint")
    assert entry.detail == {"gpus": None, "stack": {}}
    admin.post(path, FORM | {"gpus": "", "stack": ""})
    assert AuditEntry.objects.filter(action="edit_endpoint").count() == 1


def test_a_disabled_server_is_measured_no_more(admin, endpoint):
    admin.post(f"/fleet/endpoints/{endpoint.pk}/disable")
    admin.post(f"/fleet/endpoints/{endpoint.pk}/disable")
    refused = admin.post(f"/fleet/endpoints/{endpoint.pk}/measure", LOAD)
    assert refused.status_code == 422
    assert "pro6000-a is disabled" in text(refused)
    assert not Run.objects.exists()
    admin.post(f"/fleet/endpoints/{endpoint.pk}/enable")
    assert admin.post(f"/fleet/endpoints/{endpoint.pk}/measure", LOAD).status_code == 302
    actions = AuditEntry.objects.filter(subject="pro6000-a").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["add_endpoint", "disable_endpoint", "enable_endpoint"]


def test_measuring_asks_for_one_run_of_the_whole_sweep(admin, endpoint):
    response = admin.post(f"/fleet/endpoints/{endpoint.pk}/measure", LOAD)
    run = Run.objects.select_related("recipe", "job").get()
    assert response.headers["Location"] == f"/runs/{run.pk}/"
    assert (run.kind, run.queue, run.recipe.versions) == ("serving", "cpu", {"aiperf": "0.13.0"})
    assert run.environment
    assert run.time_limit_s == 2 * 600 + endpoints.SPARE_S
    case = {"kind": "serving", "model": "openai/gpt-oss-120b", "input": 1024, "output": 256}
    assert run.params["cases"] == [
        case | {"concurrency": 1, "requests": 4},
        case | {"concurrency": 8, "requests": 32},
    ]
    assert run.params["endpoint"]["api_key_env"] == "TILEWATCH_KEY_A"
    assert "concurrency 1, 8" in run.job.title
    admin.post(f"/fleet/endpoints/{endpoint.pk}/measure", LOAD)
    assert Run.objects.count() == 1
    assert f"run {run.pk}" in text(admin.get("/fleet/endpoints/"))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"concurrency": "1,,2"}, "numbers from 1 to 4,096"),
        ({"concurrency": "0"}, "numbers from 1 to 4,096"),
        ({"concurrency": "9999999"}, "numbers from 1 to 4,096"),
        ({"concurrency": ",".join(map(str, range(1, 14)))}, "expected at most 12"),
        ({"output": "1"}, "greater than or equal to 2"),
        ({"concurrency": "4096", "input": "100000"}, "tokens together: expected at most 20,000,000"),
        ({"concurrency": "4096", "rounds": "100", "input": "1", "output": "2"}, "requests: expected"),
        ({"aiperf": "newest"}, "is not a version"),
        ({"host": "nowhere"}, "was not heard of lately"),
        ({"case_timeout_s": "1"}, "greater than or equal to 60"),
    ],
)
def test_a_load_out_of_bounds_is_refused(admin, endpoint, changed, said):
    response = admin.post(f"/fleet/endpoints/{endpoint.pk}/measure", LOAD | changed)
    assert response.status_code == 422
    assert said in text(response)
    assert not Run.objects.exists()


def test_an_endpoint_that_is_not_there_is_not_found(admin):
    assert admin.get("/fleet/endpoints/7/measure").status_code == 404
    assert admin.get("/fleet/endpoints/7/edit").status_code == 404


def test_a_silent_host_is_not_asked(admin, endpoint):
    load = endpoints.Load((1,), 8, 8, 1, 60, host="k3jd82ks")
    with pytest.raises(ValidationError, match="not heard of lately"):
        endpoints.measure(endpoint, load, User.objects.get())


@pytest.mark.parametrize("closing", ["switch", "edit"])
def test_a_closed_server_is_asked_no_more_by_runs_that_wait(admin, endpoint, closing):
    client_of("operator").post(f"/fleet/endpoints/{endpoint.pk}/measure", LOAD)
    run = Run.objects.get()
    user = User.objects.get(username="a-admin")
    if closing == "switch":
        endpoints.switch(endpoint, user, enabled=False)
    else:
        fields = {name: getattr(endpoint, name) for name in endpoints.FIELDS}
        endpoints.edit(endpoint, fields | {"url": "http://gpu-8.lan:8000"}, user)
    run.refresh_from_db()
    assert run.state == State.CANCELLED
