"""Whole models, servers and collectives have pages of their own: here they are no choice and no stack."""

from __future__ import annotations

import pytest

from benchapp.trends import compare_sides
from benchapp.trends.models import Offer
from tests.moe.loads import EIGHT, GANG, VLLM, decode, exchange, load, store

STACK = {"torch": "2.11.0+cu130", "nccl": "2.28.9", "flashinfer": "0.6.3"}


@pytest.mark.django_db(transaction=True)
def test_trends_and_compare_leave_models_servers_and_collectives_to_their_pages(client):
    model = store("moe", decode(64, 0.018), exchange(64, 2e-5), target=GANG, stack=STACK)
    store("serving", load(8), target=EIGHT, stack=VLLM)
    assert not Offer.objects.exists()
    assert compare_sides.held() == []
    for address in ("/trends/", "/trends/?kind=decode", f"/trends/?view=coverage&target={model.target_id}"):
        page = client.get(address)
        assert page.status_code == 200 and "Qwen3-30B-A3B" not in page.content.decode()
    assert client.get("/compare/").status_code == 200


@pytest.mark.django_db(transaction=True)
def test_compare_offers_no_kind_that_is_elsewhere(client):
    store("moe", decode(64, 0.018), exchange(64, 2e-5), target=GANG, stack=STACK)
    page = client.get("/compare/").content.decode()
    assert "all_reduce" not in page and "decode" not in page
