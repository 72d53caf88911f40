"""What is known of backends by their names; standard library only, for the control plane as well."""

from __future__ import annotations

#: Backends that hand the case to one of NVIDIA's own libraries: how fast they are is little of the
#: FlashInfer version's doing.
_LIBRARIES = {"cublas": "cuBLAS", "cublaslt": "cuBLAS", "cudnn": "cuDNN"}
#: what torch hands to cuBLAS on a GPU
_TORCH = {"torch.mm", "torch._scaled_mm", "torch.nn.functional.scaled_mm"}


def library_of(backend: str) -> str | None:
    """ "cuBLAS" or "cuDNN" where that is what computes, by the last word of the backend's name; else None."""
    if backend in _TORCH:
        return "cuBLAS"
    return _LIBRARIES.get(backend.rpartition(".")[2])
