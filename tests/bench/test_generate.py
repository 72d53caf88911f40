"""Generated documents: the same for the same seed, accepted by the schema, never to be taken for measured."""

from __future__ import annotations

import itertools

import pytest

from bench.generate import NAME, STACKS, gemms
from bench.generate_surveys import VARIANTS, VERSIONS, surveys
from benchapp.ingest import schema


def documents(seed: int) -> list[str]:
    return [document.dumps() for document in itertools.chain(gemms(900, seed), surveys(seed, VERSIONS[:3]))]


def test_a_seed_gives_the_same_bytes_and_another_seed_gives_others():
    once = documents(1)
    assert documents(1) == once
    assert all(one != other for one, other in zip(once[:2], documents(2)[:2], strict=True))


def test_every_document_passes_the_schema():
    for document in documents(3):
        schema.parse(document.encode())


@pytest.mark.parametrize("count", [1, 832, 833, 5_000])
def test_exactly_as_many_measurements_as_asked_for(count: int):
    assert sum(len(document.measurements) for document in gemms(count, 1)) == count


def test_versions_months_devices_and_troubles_all_occur():
    found = list(gemms(40_000, 1))
    assert {(d.stack["torch"], d.stack["flashinfer"]) for d in found} == set(STACKS)
    assert len({d.started_at[:7] for d in found}) > 12
    assert len({d.target.uuid for d in found}) == 3
    outcomes = {item.outcome for d in found for item in d.measurements}
    assert outcomes == {"ok", "unverified", "incorrect", "launch_failed", "timeout", "oom"}


def test_a_survey_has_sixty_variants_in_forty_versions():
    found = list(surveys(1))
    assert (len(VARIANTS), len(found)) == (60, 40)
    variants = {(f.tile, f.fusion, f.swap_ab) for d in found for f in d.evidence}
    assert variants == set(VARIANTS)
    reasons = {f.reason for d in found for f in d.evidence}
    assert reasons == {None, "no_dispatch", "compile_error", "smem_overflow"}


def test_all_that_a_page_could_show_of_them_says_generated():
    for document in itertools.chain(gemms(900, 1), surveys(1, VERSIONS[:2])):
        assert NAME in document.command
        assert document.target.arch == NAME
        if document.kind == "gemm":
            assert "Generated GPU" in str(document.target.model)
            assert str(document.target.host).startswith(f"{NAME}-")
        assert all(NAME in version for version in document.stack.values())
