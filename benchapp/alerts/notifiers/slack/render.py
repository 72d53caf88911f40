from __future__ import annotations

import re
from typing import Any

from benchapp.alerts.notifiers.base import Message
from benchapp.alerts.notifiers.words import one_line, where_to_read

#: Slack cuts longer texts.
MAX_TEXT = 3000


def escape(text: str) -> str:
    """What Slack would read as a mention or a link, https://api.slack.com/reference/surfaces/formatting."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def payload(message: Message) -> dict[str, Any]:
    lines = [f"*{escape(one_line(message.title))}*", escape(message.sentence)]
    lines += [f"• {escape(name)}: {escape(one_line(value, 400))}" for name, value in message.facts]
    text = "\n".join(filter(None, lines))
    if len(text) > MAX_TEXT:
        text = re.sub(r"&[a-z]{0,3}$", "", text[: MAX_TEXT - 1]) + "…"  # no half of an &amp;
    page = f"<{message.link}|Open it in Tilewatch>" if message.link else escape(where_to_read(message))
    return {"text": f"{text}\n{page}"}
