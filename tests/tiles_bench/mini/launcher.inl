// A launcher in miniature: the same macro and the same kernel interface, sizes by a rule of thumb.
// 2 stages of MxK and NxK bytes, an epilogue of 4 KiB (8 KiB for FINALIZE), 64 B of pipelines, aligned
// to 1,024 B. N must be a multiple of 32; tiles with M = 64 are left out by the launcher itself. Bodies want K
// to be a multiple of 128, which their types do not tell.
#pragma once
#include <cute/tensor.hpp>
#include <cutlass/device_kernel.h>
#include <cutlass/numeric_types.h>

namespace tensorrt_llm::kernels::cutlass_kernels_oss {
struct SafeFP4 { using Element = cutlass::float_e2m1_t; };
struct __nv_fp8_e4m3 { using Element = cutlass::float_e4m3_t; };
struct Half { using Element = cutlass::half_t; };
struct BFloat { using Element = cutlass::bfloat16_t; };
enum class Fusion { NONE, FINALIZE };

template <class Scattered>
struct FinalizeOperation {
  static constexpr bool IsAuxOutSupported = true;
  using ElementAux = Scattered;
};
struct PlainOperation { static constexpr bool IsAuxOutSupported = false; };

template <class T, class W, class Out, Fusion FUSION, int M, int N, int K, int CM, int CN, int CK, bool MX, bool SWAP>
struct MiniKernel {
  static_assert(N % 32 == 0, "N must be a multiple of 32");
  struct Params { int unused; };
  struct ArchTag { static constexpr int kMinComputeCapability = 120; };
  static constexpr int MaxThreadsPerBlock = 384;
  static constexpr int MinBlocksPerMultiprocessor = 1;
  using TileShape = cute::Shape<cute::Int<M>, cute::Int<N>, cute::Int<K>>;

  struct CollectiveMainloop {
    using Activation = typename T::Element;
    using Weight = typename W::Element;
    using ElementA = std::conditional_t<SWAP, Weight, Activation>;
    using ElementB = std::conditional_t<SWAP, Activation, Weight>;
    using ElementSF = std::conditional_t<MX, cutlass::float_ue8m0_t, cutlass::float_ue4m3_t>;
    struct DispatchPolicy {
      static constexpr int Stages = 2;
      using ClusterShape = cute::Shape<cute::Int<CM>, cute::Int<CN>, cute::Int<CK>>;
    };
    struct TensorStorage {
      char smem_A[2 * M * K];
      char smem_B[2 * N * K];
      char smem_SFA[2 * M];
      char smem_SFB[2 * N];
    };
  };

  struct CollectiveEpilogue {
    struct DispatchPolicy {};
    static constexpr bool finalize = FUSION == Fusion::FINALIZE;
    using ElementD = std::conditional_t<finalize, void, typename Out::Element>;
    using ThreadEpilogueOp =
        std::conditional_t<finalize, FinalizeOperation<typename Out::Element>, PlainOperation>;
    using StrideD = std::conditional_t<SWAP, cute::Shape<cute::Int<1>, long, cute::Int<0>>*,
                                       cute::Shape<long, cute::Int<1>, cute::Int<0>>*>;
    struct TensorStorage { char bytes[finalize ? 8192 : 4096]; };
    struct SharedStorage { TensorStorage tensors; };
  };

  struct alignas(1024) SharedStorage {
    typename CollectiveMainloop::TensorStorage mainloop;
    typename CollectiveEpilogue::TensorStorage epilogue;
    char pipelines[64];
  };
  static constexpr int SharedStorageSize = sizeof(SharedStorage);

  __device__ void operator()(Params const&) {
    static_assert(K % 128 == 0, "K must be a multiple of 128");
  }
};

template <class Kernel, int M>
void launch() {
  if constexpr (M != 64) cutlass::device_kernel<Kernel><<<1, 1>>>(typename Kernel::Params{});
}
}  // namespace tensorrt_llm::kernels::cutlass_kernels_oss

#define half Half
#define __nv_bfloat16 BFloat
#define INSTANTIATE_TMA_WARP_SPECIALIZED_MOE_GEMM(ArchTag_, T_, W_, Out_, Schedule_, Tag_, FUSION_, M_, N_, \
                                                  K_, CM_, CN_, CK_, MX_, DYNAMIC_, BIAS_, SWAP_)           \
  template void launch<MiniKernel<T_, W_, Out_, Fusion::FUSION_, M_, N_, K_, CM_, CN_, CK_, MX_, SWAP_>, M_>()
