// One block-scaled GEMM of SM120, put together by CUTLASS's CollectiveBuilders from the axes that are explored.
//
// A, B: element with its scales; C: void or the output's element; the layouts are those of NVFP4 and MX
// kernels (A along K, B along K); D runs along M where A and B are swapped. Cluster 1x1x1, which is all
// SM120 has. Stages are CUTLASS's automatic choice.
#pragma once

#include <cutlass/cutlass.h>
#include <cute/tensor.hpp>
#include <cutlass/gemm/dispatch_policy.hpp>
#include <cutlass/gemm/group_array_problem_shape.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/device_kernel.h>
#include <type_traits>

namespace explored {

using Nvfp4 = cutlass::nv_float4_t<cutlass::float_e2m1_t>;
using Mxfp8 = cutlass::mx_float8_t<cutlass::float_e4m3_t>;
using Mxfp4 = cutlass::mx_float4_t<cutlass::float_e2m1_t>;
using Bf16 = cutlass::bfloat16_t;

// An FP4 operand beside an FP8 one is unpacked to bytes by TMA, which takes 128 elements at a time.
template <class Operand, class Other>
constexpr int kAlignment =
    std::is_same_v<typename Operand::DataType, typename Other::DataType> || !std::is_same_v<Operand, Mxfp4>
        ? 128 / cute::sizeof_bits_v<typename Operand::DataType>
        : 128;

struct Auto {};
struct Cooperative {};
struct Pingpong {};

template <class Schedule, bool Grouped>
struct Schedules {
  using Mainloop = cutlass::gemm::collective::KernelScheduleAuto;
  using Epilogue = cutlass::epilogue::collective::EpilogueScheduleAuto;
};
template <>
struct Schedules<Cooperative, false> {
  using Mainloop = cutlass::gemm::KernelTmaWarpSpecializedCooperative;
  using Epilogue = cutlass::epilogue::collective::EpilogueScheduleAuto;
};
template <>
struct Schedules<Pingpong, false> {
  using Mainloop = cutlass::gemm::KernelTmaWarpSpecializedPingpong;
  using Epilogue = cutlass::epilogue::collective::EpilogueScheduleAuto;
};
template <>
struct Schedules<Cooperative, true> {
  using Mainloop = cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperative;
  using Epilogue = cutlass::epilogue::PtrArrayTmaWarpSpecializedCooperative;
};
template <>
struct Schedules<Pingpong, true> {
  using Mainloop = cutlass::gemm::KernelPtrArrayTmaWarpSpecializedPingpong;
  using Epilogue = cutlass::epilogue::PtrArrayTmaWarpSpecializedPingpong;
};

template <bool Grouped, class A, class B, class C, bool ColumnMajorD, class Schedule, int M, int N, int K>
struct Gemm {
  template <class Layout>
  using Tag = std::conditional_t<Grouped, Layout*, Layout>;
  using Tile = cute::Shape<cute::Int<M>, cute::Int<N>, cute::Int<K>>;
  using Cluster = cute::Shape<cute::_1, cute::_1, cute::_1>;
  using LayoutD = Tag<std::conditional_t<ColumnMajorD, cutlass::layout::ColumnMajor, cutlass::layout::RowMajor>>;
  static constexpr int kAlignmentD = 128 / cute::sizeof_bits_v<Bf16>;

  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm120, cutlass::arch::OpClassBlockScaledTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, C, LayoutD, kAlignmentD, Bf16, LayoutD,
      kAlignmentD, typename Schedules<Schedule, Grouped>::Epilogue>::CollectiveOp;

  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm120, cutlass::arch::OpClassBlockScaledTensorOp, A, Tag<cutlass::layout::RowMajor>,
      kAlignment<A, B>, B, Tag<cutlass::layout::ColumnMajor>, kAlignment<B, A>, float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(typename Epilogue::SharedStorage))>,
      typename Schedules<Schedule, Grouped>::Mainloop>::CollectiveOp;

  using Problem = std::conditional_t<Grouped, cutlass::gemm::GroupProblemShape<cute::Shape<int, int, int>>,
                                     cute::Shape<int, int, int, int>>;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<Problem, Mainloop, Epilogue, void>;
};

}  // namespace explored
