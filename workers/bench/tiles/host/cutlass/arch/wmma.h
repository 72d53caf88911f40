// Stands in for CUTLASS's warp matrix wrappers, which need nvcc's own nvcuda::wmma. Nothing that
// chooses or dispatches a tactic uses them.
#pragma once
