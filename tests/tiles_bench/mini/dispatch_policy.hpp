#pragma once
namespace cutlass::epilogue {
struct Sm100NoSmem {};
struct Sm100PtrArrayNoSmem {};
}  // namespace cutlass::epilogue
