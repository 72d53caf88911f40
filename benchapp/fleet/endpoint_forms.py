"""What people type in of endpoints, checked by the rules of the bench."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from benchapp.fleet import endpoints
from benchapp.fleet.models import Endpoint
from benchapp.people.models import User
from benchapp.runs.requests import clean_version
from workers.bench.cases.serving import MAX_CONCURRENCY, MAX_TOKENS
from workers.bench.document import BenchError
from workers.bench.serving import endpoint as rules
from workers.bench.serving import plan

MAX_LEVELS = 12
MAX_ROUNDS = 100


def _text(**attrs: str) -> forms.TextInput:
    return forms.TextInput({"autocomplete": "off", "spellcheck": "false", **attrs})


class EndpointForm(forms.Form):
    """A server that may be measured. `endpoint` is the one edited: its name stays."""

    name = forms.CharField(
        max_length=60, widget=_text(placeholder="pro6000-a"), help_text="Results go by it, so it stays."
    )
    url = forms.CharField(
        label="Address",
        max_length=rules.MAX_URL,
        widget=_text(placeholder="http://gpu-7.lan:8000", inputmode="url"),
        help_text="Requests go to …/v1/chat/completions below it.",
    )
    model = forms.CharField(
        label="Served model",
        max_length=120,
        widget=_text(placeholder="openai/gpt-oss-120b"),
        help_text="As the server lists it under /v1/models.",
    )
    hardware = forms.CharField(
        max_length=rules.MAX_HARDWARE,
        widget=_text(placeholder="8 × RTX PRO 6000"),
        help_text="What serves it. Nothing checks this.",
    )
    gpus = forms.IntegerField(label="GPUs", required=False, min_value=1, max_value=rules.MAX_GPUS)
    stack = forms.CharField(
        label="Versions",
        required=False,
        max_length=4000,
        widget=forms.Textarea(
            {"rows": "4", "spellcheck": "false", "placeholder": "vllm 0.11.0\nflashinfer 0.6.3"}
        ),
        help_text="One a line, name and version. What the server itself tells goes before them.",
    )
    api_key_env = forms.CharField(
        label="Variable with its API key",
        required=False,
        max_length=80,
        widget=_text(placeholder="TILEWATCH_KEY_PRO6000"),
        help_text="Set on the hosts whose workers measure; never the key itself. Empty: it wants none.",
    )

    def __init__(self, data: Any = None, *, endpoint: Endpoint | None = None) -> None:
        initial = None
        if endpoint is not None:
            lines = "\n".join(f"{name} {version}" for name, version in endpoint.stack.items())
            initial = {**endpoints.as_told(endpoint), "stack": lines}
        super().__init__(data, initial=initial)
        self.endpoint = endpoint
        if endpoint is not None:
            self.fields["name"].disabled = True

    def clean_name(self) -> str:
        return self._matching("name", rules.NAME, "lower-case letters, digits, . _ or -, such as pro6000-a")

    def clean_model(self) -> str:
        return self._matching("model", rules.MODEL, "a name such as openai/gpt-oss-120b")

    def clean_hardware(self) -> str:
        hardware = str(self.cleaned_data["hardware"])
        if not hardware.isprintable():
            raise ValidationError("Expected one line of text, such as 8 × RTX PRO 6000.")
        return hardware

    def clean_api_key_env(self) -> str:
        if not self.cleaned_data["api_key_env"]:
            return ""
        # the text is not said again: it may be the key itself
        return self._matching(
            "api_key_env",
            rules.KEY_VARIABLE,
            "a name that begins with TILEWATCH_KEY_, of capitals, digits and _",
        )

    def _matching(self, name: str, pattern: re.Pattern[str], expected: str) -> str:
        value = str(self.cleaned_data[name])
        if pattern.fullmatch(value) is None:
            raise ValidationError(f"Expected {expected}.")
        return value

    def clean_url(self) -> str:
        try:
            return rules.base_url(self.cleaned_data["url"])
        except rules.AddressError as error:
            raise ValidationError(str(error)) from None

    def clean_stack(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in self.cleaned_data["stack"].splitlines():
            if not (words := re.split(r"[\s=:]+", line.strip())) or words == [""]:
                continue
            if len(words) != 2:
                raise ValidationError(
                    f"{line.strip()[:60]!r}: expected a name and a version, such as vllm 0.11.0."
                )
            if words[0] in found:
                raise ValidationError(f"{words[0]} stands there twice.")
            found[words[0]] = words[1]
        try:
            return rules.stack_of(found)
        except BenchError as error:
            raise ValidationError(error.sentence) from None

    def save(self, user: User) -> tuple[Endpoint, bool]:
        """Of a valid form: (endpoint, whether anything changed). Raises ValidationError."""
        if self.endpoint is not None:
            return self.endpoint, endpoints.edit(self.endpoint, self.cleaned_data, user)
        return endpoints.add(self.cleaned_data["name"], self.cleaned_data, user), True


class MeasureForm(forms.Form):
    """The load that an endpoint is measured under."""

    concurrency = forms.CharField(
        label="Requests at a time",
        max_length=120,
        initial="1, 4, 16, 64",
        widget=_text(),
        help_text=f"One case each: up to {MAX_LEVELS} numbers, with commas between them.",
    )
    input = forms.IntegerField(
        label="Tokens in a prompt, about", min_value=1, max_value=MAX_TOKENS, initial=1024
    )
    output = forms.IntegerField(label="Tokens asked for", min_value=2, max_value=MAX_TOKENS, initial=256)
    rounds = forms.IntegerField(
        label="Rounds of requests",
        min_value=1,
        max_value=MAX_ROUNDS,
        initial=8,
        help_text="8 rounds of 16 at a time are 128 requests, after 16 that warm up and do not count.",
    )
    case_timeout_s = forms.IntegerField(
        label="Longest time of one case, seconds",
        min_value=60,
        max_value=7200,
        initial=600,
        help_text="A third of it is the longest that one request may take.",
    )
    aiperf = forms.CharField(label="AIPerf", max_length=40, initial=endpoints.AIPERF, widget=_text())
    host = forms.ChoiceField(label="From", required=False)

    def __init__(self, endpoint: Endpoint, data: Any = None) -> None:
        super().__init__(data)
        self.endpoint = endpoint
        host = self.fields["host"]
        assert isinstance(host, forms.ChoiceField)
        host.choices = [
            ("", "any host's CPUs"),
            *((each.key, f"CPUs of {each.host}") for each in endpoints.hosts()),
        ]
        host.error_messages["invalid_choice"] = "This host was not heard of lately: choose another, or any."

    def clean_concurrency(self) -> tuple[int, ...]:
        words = [word.strip() for word in self.cleaned_data["concurrency"].split(",")]
        if not all(re.fullmatch(r"[0-9]{1,5}", word) and 1 <= int(word) <= MAX_CONCURRENCY for word in words):
            raise ValidationError(f"Expected numbers from 1 to {MAX_CONCURRENCY:,} with commas between them.")
        levels = tuple(dict.fromkeys(int(word) for word in words))
        if len(levels) > MAX_LEVELS:
            raise ValidationError(f"{len(levels)} numbers: expected at most {MAX_LEVELS}.")
        return levels

    def clean_aiperf(self) -> str:
        return clean_version(self.cleaned_data["aiperf"])

    def clean(self) -> dict[str, Any]:
        if not self.errors:
            try:
                for case in self.load().cases(self.endpoint.model):
                    plan.check(case)
            except BenchError as error:
                raise ValidationError(error.sentence) from None
        return self.cleaned_data

    def load(self) -> endpoints.Load:
        """Of a form whose fields are valid."""
        said = self.cleaned_data
        return endpoints.Load(
            concurrencies=said["concurrency"],
            **{
                name: said[name] for name in ("input", "output", "rounds", "case_timeout_s", "aiperf", "host")
            },
        )
