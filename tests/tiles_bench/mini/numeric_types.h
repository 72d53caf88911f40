#pragma once
namespace cutlass {
struct float_e2m1_t {};
struct float_e4m3_t {};
struct half_t {};
struct bfloat16_t {};
struct float_ue4m3_t {};
struct float_ue8m0_t {};
}  // namespace cutlass
