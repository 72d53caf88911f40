import pytest

from tests.asked_in_torch import asking


@pytest.fixture(scope="session")
def experts_say(torch_python):
    """Asks a function of `in_torch.py`, in one child process that has torch."""
    with asking(torch_python, "tests.experts.in_torch") as ask:
        yield ask
