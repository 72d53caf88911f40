// CUTLASS's builders in miniature, for the explorer: stages by its rule of thumb, two asserts that configurations
// can break. Both builders hold; N is each configuration's own, K is shared by all of the same K.
#pragma once
#include <cute/tensor.hpp>
#include <cutlass/numeric_types.h>

namespace cute {
using _1 = Int<1>;
template <class T> constexpr int sizeof_bits_v = 16;
template <> constexpr int sizeof_bits_v<cutlass::float_e2m1_t> = 4;
template <> constexpr int sizeof_bits_v<cutlass::float_e4m3_t> = 8;
}  // namespace cute

namespace cutlass {
template <class T> struct nv_float4_t { using DataType = T; using Scale = float_ue4m3_t; };
template <class T> struct mx_float4_t { using DataType = T; using Scale = float_ue8m0_t; };
template <class T> struct mx_float8_t { using DataType = T; using Scale = float_ue8m0_t; };
namespace layout { struct RowMajor {}; struct ColumnMajor {}; }
namespace arch {
struct Sm120 { static constexpr int kMinComputeCapability = 120; };
struct OpClassBlockScaledTensorOp {};
}
namespace gemm {
struct KernelTmaWarpSpecializedCooperative {};
struct KernelTmaWarpSpecializedPingpong {};
struct KernelPtrArrayTmaWarpSpecializedCooperative {};
struct KernelPtrArrayTmaWarpSpecializedPingpong {};
template <class> struct GroupProblemShape {};
namespace collective {
struct KernelScheduleAuto {};
template <int> struct StageCountAutoCarveout {};

template <int K> struct Box { static_assert(K <= 256, "The box is too long."); };

template <class Arch, class Op, class A, class LayoutA, int AlignA, class B, class LayoutB, int AlignB, class Acc,
          class Tile, class Cluster, class Carveout, class Schedule>
struct CollectiveBuilder;
template <class Arch, class Op, class A, class LayoutA, int AlignA, class B, class LayoutB, int AlignB, class Acc,
          class Tile, class Cluster, int Carveout, class Schedule>
struct CollectiveBuilder<Arch, Op, A, LayoutA, AlignA, B, LayoutB, AlignB, Acc, Tile, Cluster,
                         StageCountAutoCarveout<Carveout>, Schedule> {
  static constexpr int M = cute::size<0>(Tile{}), N = cute::size<1>(Tile{}), K = cute::size<2>(Tile{});
  static_assert(N % 32 == 0, "N must be a multiple of 32.");
  struct CollectiveOp {
    using ElementA = typename A::DataType;
    using ElementB = typename B::DataType;
    using ElementSF = typename A::Scale;
    using TileShape = Tile;
    struct DispatchPolicy {
      static constexpr int Stages = (101376 - Carveout) / ((M + N) * K / 2);
      using ClusterShape = Cluster;
    };
    struct TensorStorage { char bytes[DispatchPolicy::Stages * (M + N) * K / 2]; };
    struct Params { int box[sizeof(Box<K>)]; };
  };
};
}  // namespace collective
namespace kernel {
template <class Problem, class Mainloop, class Epilogue, class Scheduler>
struct GemmUniversal {
  using CollectiveMainloop = Mainloop;
  using CollectiveEpilogue = Epilogue;
  using ArchTag = arch::Sm120;
  using TileShape = typename Mainloop::TileShape;
  struct Params { typename Mainloop::Params mainloop; };
  struct alignas(1024) SharedStorage {
    typename Mainloop::TensorStorage mainloop;
    typename Epilogue::TensorStorage epilogue;
  };
  static constexpr int SharedStorageSize = sizeof(SharedStorage);
  static constexpr int MaxThreadsPerBlock = 384;
  static constexpr int MinBlocksPerMultiprocessor = 1;
  __device__ void operator()(Params const& params) { asm volatile("// %0" ::"r"(params.mainloop.box[0])); }
};
}  // namespace kernel
}  // namespace gemm

namespace epilogue {
struct PtrArrayTmaWarpSpecializedCooperative {};
struct PtrArrayTmaWarpSpecializedPingpong {};
namespace collective {
struct EpilogueTileAuto {};
struct EpilogueScheduleAuto {};
struct Operation { static constexpr bool IsAuxOutSupported = false; };
template <class> struct Stride { using type = cute::Shape<long, cute::Int<1>, cute::Int<0>>; };
template <> struct Stride<layout::ColumnMajor> { using type = cute::Shape<cute::Int<1>, long, cute::Int<0>>; };

template <class Arch, class Op, class Tile, class Cluster, class EpilogueTile, class Acc, class Compute, class C,
          class LayoutC, int AlignC, class D, class LayoutD, int AlignD, class Schedule>
struct CollectiveBuilder {
  struct CollectiveOp {
    using ElementD = D;
    using ThreadEpilogueOp = Operation;
    using StrideD = typename Stride<std::remove_pointer_t<LayoutD>>::type;
    struct DispatchPolicy {};
    struct TensorStorage { char bytes[std::is_void_v<C> ? 4096 : 8192]; };
    using SharedStorage = TensorStorage;
  };
};
}  // namespace collective
}  // namespace epilogue
}  // namespace cutlass
