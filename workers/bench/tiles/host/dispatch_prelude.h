// The first part of the program that lists a version's tactics: built by g++, run without a GPU. The
// version's own dispatch header, heuristic and runner members follow it, then tactics.h.
//
// Headers are the version's own. Its launcher alone is ours: where the real one would launch a kernel, this
// one writes down which kernel it was asked for.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

// Built-ins of device code that the headers name in functions nobody calls here.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
int __float_as_int(float);
float __int_as_float(int);
void __syncthreads();

#include <array>
#include <cstdio>
#include <exception>
#include <mutex>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include <cute/tensor.hpp>
#include <cutlass/epilogue/dispatch_policy.hpp>

#include "tensorrt_llm/common/cudaUtils.h"
#include "tensorrt_llm/common/logger.h"
#include "tensorrt_llm/kernels/cutlass_kernels/cutlass_heuristic.h"
#include "tensorrt_llm/kernels/cutlass_kernels/cutlass_type_conversion.h"
#include "tensorrt_llm/kernels/cutlass_kernels/include/moe_gemm_kernels.h"
#include "tensorrt_llm/kernels/cutlass_kernels/moe_gemm/launchers/moe_gemm_tma_ws_launcher.h"
#include "tensorrt_llm/kernels/cutlass_kernels/moe_gemm/moe_tma_warp_specialized_traits.h"

namespace tilewatch {

// The launcher that the dispatch reached: its template arguments, tile in elements.
struct Reached {
  bool any = false;
  int arch, m, n, k, cluster_m, cluster_n, cluster_k;
  char const* schedule;
  int fusion;
  bool mx, dynamic, swap;
};
inline Reached reached;

template <class Schedule>
constexpr char const* schedule_name() {
  if constexpr (std::is_void_v<Schedule>) return "auto";
  else if constexpr (std::is_same_v<Schedule, cutlass::epilogue::PtrArrayNoSmemWarpSpecialized>)
    return "nosmem";
  else return "tma";
}

template <class Arch, class Tile, class Cluster, class Schedule>
void write_down(int fusion, bool mx, bool dynamic, bool swap) {
  reached = {true,
             Arch::kMinComputeCapability,
             int(cute::size<0>(Tile{})),
             int(cute::size<1>(Tile{})),
             int(cute::size<2>(Tile{})),
             int(cute::size<0>(Cluster{})),
             int(cute::size<1>(Cluster{})),
             int(cute::size<2>(Cluster{})),
             schedule_name<Schedule>(),
             fusion,
             mx,
             dynamic,
             swap};
}

}  // namespace tilewatch

#ifdef TILEWATCH_ONE_LIST

namespace tensorrt_llm::kernels::cutlass_kernels {

template <typename Arch, typename T, typename WeightType, typename OutputType, typename EpilogueTag,
          TmaWarpSpecializedGroupedGemmInput::EpilogueFusion FUSION, typename TileShape,
          typename ClusterShape, bool IsMXFPX, bool BIAS>
void tma_warp_specialized_generic_moe_gemm_kernelLauncher(TmaWarpSpecializedGroupedGemmInput, int, int,
                                                          cudaStream_t, int*, size_t*) {
  tilewatch::write_down<Arch, TileShape, ClusterShape, void>(int(FUSION), IsMXFPX, false, true);
}

}  // namespace tensorrt_llm::kernels::cutlass_kernels

#else

namespace tensorrt_llm::kernels::cutlass_kernels_oss {

template <typename Arch, typename T, typename WeightType, typename OutputType, typename EpilogueSchedule,
          typename EpilogueTag, TmaWarpSpecializedGroupedGemmInput::EpilogueFusion FUSION,
          typename TileShape, typename ClusterShape, bool IsMXFPX, bool DYNAMIC_CGA, bool BIAS, bool SwapAB>
void tma_warp_specialized_generic_moe_gemm_kernelLauncher(TmaWarpSpecializedGroupedGemmInput, int, int,
                                                          cudaStream_t, int*, size_t*,
                                                          cute::Shape<int32_t, int32_t, cute::_1>,
                                                          cute::Shape<int32_t, int32_t, cute::_1>) {
  tilewatch::write_down<Arch, TileShape, ClusterShape, EpilogueSchedule>(int(FUSION), IsMXFPX, DYNAMIC_CGA,
                                                                         SwapAB);
}

}  // namespace tensorrt_llm::kernels::cutlass_kernels_oss

#endif
