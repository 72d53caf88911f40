"""How the GPUs of a gang are joined, as the driver and torch tell it."""

from __future__ import annotations

import contextlib
from typing import Any

#: of NVML: as many as any GPU has
_MOST_LINKS = 36


def properties(torch: Any, uuid: str | None, gpus: int) -> dict[str, str | int | float]:
    """gpus, and of more than one `peer_access` ("all", "none" or "some" of the pairs reach one another's
    memory) and `link` ("NVLink, 18 links", "PCIe"; left out where NVML does not tell)."""
    found: dict[str, str | int | float] = {"gpus": gpus}
    if gpus < 2:
        return found
    pairs = [(one, other) for one in range(gpus) for other in range(gpus) if one != other]
    reach = [bool(torch.cuda.can_device_access_peer(one, other)) for one, other in pairs]
    found["peer_access"] = "all" if all(reach) else "some" if any(reach) else "none"
    links = nvlinks(uuid)
    if links is not None:
        found["link"] = f"NVLink, {links} links" if links else "PCIe"
    return found


def nvlinks(uuid: str | None) -> int | None:
    """Active NVLinks of a GPU; None where NVML is not at hand."""
    if uuid is None:
        return None
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except Exception:  # NVML's binding raises its own types, which exist only where it imports
        return None
    active = 0
    for link in range(_MOST_LINKS):
        # a GPU without the link raises, whatever its number
        with contextlib.suppress(pynvml.NVMLError):
            active += bool(pynvml.nvmlDeviceGetNvLinkState(handle, link))
    return active
