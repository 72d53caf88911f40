from __future__ import annotations

import email.utils
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from html import escape

from benchapp.alerts.notifiers.base import Config, Message
from benchapp.alerts.notifiers.words import one_line, plain, where_to_read


def mail(config: Config, message: Message) -> EmailMessage:
    """The letter. The same message has the same Message-ID at each try; later ones of an alert answer its
    first one, and have its subject."""
    domain = config["sender"].rpartition("@")[2]
    first = f"<{message.thread}@{domain}>"
    letter = EmailMessage(policy=SMTP)
    letter["From"] = Address("Tilewatch", addr_spec=config["sender"])
    letter["To"] = ", ".join(config["recipients"])
    subject = one_line(message.title)
    letter["Subject"] = subject if message.begins_thread else f"Re: {subject}"
    letter["Date"] = email.utils.localtime()
    if message.begins_thread:
        letter["Message-ID"] = first
    else:
        letter["Message-ID"] = f"<{message.key}@{domain}>"
        letter["In-Reply-To"] = first
        letter["References"] = first
    letter["Auto-Submitted"] = "auto-generated"
    letter["X-Auto-Response-Suppress"] = "All"
    letter.set_content(plain(message))
    letter.add_alternative(_html(message), subtype="html")
    return letter


def _html(message: Message) -> str:
    facts = "".join(
        f'<tr><th align="left" valign="top">{escape(name)}</th><td>{escape(value)}</td></tr>'
        for name, value in message.facts
    )
    page = (
        f'<a href="{escape(message.link)}">Open it in Tilewatch</a>'
        if message.link
        else escape(where_to_read(message))
    )
    table = f'<table cellpadding="4">{facts}</table>' if facts else ""
    return (
        f"<!doctype html><html><body><h3>{escape(message.title)}</h3><p>{escape(message.sentence)}</p>"
        f"{table}<p>{page}</p></body></html>\n"
    )
