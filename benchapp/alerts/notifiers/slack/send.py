from __future__ import annotations

import json

from benchapp.alerts.notifiers import http
from benchapp.alerts.notifiers.base import Config, Message, secret
from benchapp.alerts.notifiers.deadline import Deadline
from benchapp.alerts.notifiers.slack.render import payload


def where(config: Config) -> str:
    return f"the URL in {config['url_variable']}"


def send(config: Config, message: Message, deadline: Deadline) -> str:
    url = secret(config["url_variable"])
    body = json.dumps(payload(message), ensure_ascii=False).encode()
    # the URL is the secret: no part of it is said, not even its host
    parts = http.parse(url)
    parts_of_it = (url, parts.path, parts.query, parts.hostname or "", *parts.path.split("/"))
    http.post(url, body, {}, deadline, shown="The webhook's server", secrets=parts_of_it)
    return ""
